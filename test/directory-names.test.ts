import t, { type Test } from 'tap'
import { OpenFileCache } from '../lib/open-file-cache'
import { codeOf, deliver, deliverAll, engineTest, fetched, nothingIsLeft, opened, refusal, statsOf, use, type Engine } from './fixtures/engine'
import { everyWay } from './fixtures/every-way'
import { fakeWorld, settled, type FakeFileSystem } from './fixtures/fake-world'
import type { LookupPolicy, OpenFileCacheOptions } from '../types/open-file-cache'

const BELOW = { spelledBelow: '/srv' }

/** A tree whose changes are long ago, on a file system that keeps the times of directories. */
function build ({ clock, fs }: Pick<Engine, 'clock' | 'fs'>): void {
  fs.keepsTimes = true
  for (const directory of ['/srv', '/srv/sub', '/srv/sub/deep', '/out']) fs.mkdir(directory)
  for (const file of ['/srv/a', '/srv/sub/b', '/srv/sub/deep/c', '/out/x']) fs.write(file, file)
  clock.jump(10_000)
}

function namesTest (
  t: Test, name: string, options: OpenFileCacheOptions, body: (t: Test, engine: Engine) => Promise<void>
): void {
  engineTest(t, name, { ...BELOW, ...options }, (t, engine) => {
    build(engine)
    return body(t, engine)
  })
}

let lastName = 0

/** A path that is not there and was not asked for before. */
function unknownIn (directory: string): string {
  return `${directory === '/' ? '' : directory}/unknown-${++lastName}`
}

/** Looks up that many names that are not there; resolves when everything that this starts is over. */
async function miss (cache: OpenFileCache, directory: string, times = 1, policy?: LookupPolicy): Promise<void> {
  for (let i = 0; i < times; i++) {
    const errno = await refusal(cache, unknownIn(directory), policy)
    if (errno !== 'ENOENT') throw new Error(`${errno} in ${directory}`)
    await settled()
  }
}

function callsOf ({ calls }: FakeFileSystem): number {
  return Object.values(calls).reduce((sum, count) => sum + count, 0)
}

/** How many calls something makes, by name. */
async function made (fs: FakeFileSystem, act: () => unknown): Promise<Record<string, number>> {
  const before = { ...fs.calls }
  await act()
  await settled()
  return Object.fromEntries(Object.entries(fs.calls).map(([name, count]) => [name, count - (before[name as keyof typeof before] ?? 0)] as const)
    .filter(([, count]) => count > 0))
}

const READ = { stat: 2, keepsDirectoryTimes: 1, names: 1 }

t.test('a directory in which misses repeat', async (t) => {
  namesTest(t, 'is read once, at the third; from then on nothing is asked, and nothing stays', {}, async (t, { cache, fs }) => {
    t.strictSame(await made(fs, () => miss(cache, '/srv', 2)), { open: 2 })
    t.match(cache.stats(), { directories: 0, names: 0 })
    t.strictSame(await made(fs, () => miss(cache, '/srv')), { open: 1, ...READ })
    t.match(cache.stats(), { directories: 1, names: 2, negativeEntries: 3, directoryHits: 0, misses: 3 })
    const calls = callsOf(fs)
    await miss(cache, '/srv', 100)
    for (let i = 0; i < 100; i++) t.strictSame(cache.lookup(unknownIn('/srv')), { kind: 'negative', errno: 'ENOENT' })
    t.equal(cache.lease(unknownIn('/srv')), undefined)
    t.equal(callsOf(fs), calls)
    t.match(cache.stats(), { directories: 1, names: 2, negativeEntries: 3, directoryHits: 200, misses: 3, negativeHits: 0, hits: 0 })
  })

  namesTest(t, 'answers for all below what it does not have', {}, async (t, { cache, fs }) => {
    await miss(cache, '/srv', 3)
    t.strictSame(await made(fs, async () => {
      for (const path of ['/srv/none/a', '/srv/none/a/b/c', '/srv/none/', '/srv/none/..', '/srv/none//a']) {
        t.equal(await refusal(cache, path), 'ENOENT', path)
      }
      t.strictSame(await cache.list('/srv/none'), { kind: 'negative', errno: 'ENOENT' })
    }), {})
  })

  namesTest(t, 'goes the ordinary way for each name that it has, whatever it is', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.special('/srv/fifo')
    fs.link('/srv/dangling', '/none')
    fs.write('/srv/locked', '')
    fs.chmod('/srv/locked', false)
    clock.jump(10_000)
    await miss(cache, '/srv', 3)
    t.match(cache.stats(), { directories: 1, names: 5 })
    for (const [path, errno] of [
      ['/srv/a', undefined], ['/srv/sub', undefined], ['/srv/sub/b', undefined], ['/srv/fifo', 'ENOENT'], ['/srv/dangling', 'ENOENT'],
      ['/srv/locked', 'EACCES'], ['/srv/a/b', 'ENOTDIR'], ['/srv/sub/none', 'ENOENT'], ['/srv/dangling/x', 'ENOENT']
    ] as const) {
      t.equal(cache.lookup(path), undefined, path)
      t.equal((await made(fs, async () => t.equal(await refusal(cache, path), errno, path)))['open'], 1)
    }
    t.equal(cache.stats().directoryHits, 0)
  })

  namesTest(t, 'goes the ordinary way for what no directory lists', {}, async (t, { cache, fs }) => {
    await miss(cache, '/srv', 3)
    await miss(cache, '/srv/sub', 3)
    t.equal(cache.stats().directories, 2)
    t.equal(await fetched(cache, '/srv//a'), '/srv/a')
    t.equal((await opened(cache, '/srv/sub/')).kind, 'directory')
    t.equal((await opened(cache, '/srv/sub/.')).kind, 'directory')
    t.equal((await opened(cache, '/srv/./sub')).kind, 'directory')
    // This file system has none, the real ones have.
    t.equal((await made(fs, () => refusal(cache, '/srv/sub/..')))['open'], 1)
  })

  namesTest(t, 'a file that is known goes the ordinary way, and its entry with it', { minUses: 1, valid: 1000, errors: 1000 }, async (t, { cache, clock, fs }) => {
    await use(cache, '/srv/a')
    fs.unlink('/srv/a')
    clock.jump(10_000)
    await miss(cache, '/srv', 3)
    t.match(cache.stats(), { directories: 1, entries: 1, openFiles: 1 })
    t.equal(cache.lookup('/srv/a'), undefined)
    t.equal(await refusal(cache, '/srv/a'), 'ENOENT')
    t.match(await statsOf(cache), { entries: 0, openFiles: 0, directoryHits: 0 })
  })

  namesTest(t, 'is the last on the way that is there', {}, async (t, { cache, fs }) => {
    await miss(cache, '/srv/sub', 3)
    t.strictSame(await made(fs, () => miss(cache, '/srv/sub')), {})
    t.strictSame(await made(fs, () => miss(cache, '/srv')), { open: 1, ...READ }, 'of those above the misses count, too')
    t.match(cache.stats(), { directories: 2, names: 4 })
    t.strictSame(await made(fs, () => miss(cache, '/srv/sub/deep', 2)), { open: 2 })
    t.strictSame(await made(fs, () => miss(cache, '/srv/sub/deep')), { open: 1, ...READ }, 'and of those below')
    t.match(cache.stats(), { directories: 3, names: 5 })
  })

  namesTest(t, 'is found above one that is not there', {}, async (t, { cache, fs }) => {
    await miss(cache, '/srv/sub/none/none', 2)
    t.strictSame(await made(fs, () => miss(cache, '/srv/sub/none/none')), { open: 1, stat: 1 }, 'no such directory')
    t.strictSame(await made(fs, () => miss(cache, '/srv/sub/none/none')), { open: 1, stat: 1 }, 'nor such one')
    t.strictSame(await made(fs, () => miss(cache, '/srv/sub/none/none')), { open: 1, ...READ })
    t.match(cache.stats(), { directories: 1, names: 2 })
    t.strictSame(await made(fs, () => miss(cache, '/srv/sub/none/none', 50)), {})
    t.strictSame(await made(fs, () => miss(cache, '/srv/sub', 50)), {})
  })

  namesTest(t, 'is found by names in different directories that are not there', {}, async (t, { cache, fs }) => {
    for (let i = 0; i < 3; i++) await miss(cache, `/srv/none-${i}`)
    t.match(cache.stats(), { directories: 1, names: 2 })
    t.strictSame(await made(fs, () => miss(cache, '/srv/none-9', 50)), {})
  })

  for (const [below, directory] of [['/', '/'], ['/srv/', '/srv'], ['/srv', '/srv/sub'], ['/', '/srv/sub/deep']] as const) {
    namesTest(t, `${directory}, when names are spelled below ${below}`, { spelledBelow: below }, async (t, { cache, fs }) => {
      await miss(cache, directory, 3)
      t.equal(cache.stats().directories, 1)
      t.strictSame(await made(fs, () => miss(cache, directory, 9)), {})
      cache.invalidate(unknownIn(directory))
      t.equal(cache.stats().directories, 0)
    })
  }

  namesTest(t, 'is none above the one below which names are spelled', { spelledBelow: '/srv/sub' }, async (t, { cache, fs }) => {
    t.strictSame(await made(fs, () => miss(cache, '/srv', 9)), { open: 9 })
    t.strictSame(await made(fs, () => miss(cache, '/srv/sub', 9)), { open: 3, ...READ })
  })

  namesTest(t, 'is one of the first sixteen on the way', {}, async (t, { cache, fs, clock }) => {
    let directory = '/srv'
    for (let depth = 2; depth <= 17; depth++) {
      directory += `/d${depth}`
      fs.mkdir(directory)
    }
    clock.jump(10_000)
    await miss(cache, directory, 9)
    t.equal(cache.stats().directories, 1)
    t.equal(cache.stats().directoryHits, 0, 'the seventeenth is not')
    t.strictSame(await made(fs, () => miss(cache, directory.slice(0, directory.lastIndexOf('/')))), {}, 'the sixteenth is')
    t.equal(await refusal(cache, `/srv${'/x'.repeat(2000)}`), 'ENOENT')
  })

  namesTest(t, 'is read once, however many miss at a time', {}, async (t, { cache, fs }) => {
    t.strictSame(await made(fs, () => Promise.all(Array.from({ length: 100 }, () => refusal(cache, unknownIn('/srv'))))), { open: 100, ...READ })
    t.equal(cache.stats().directories, 1)
  })

  namesTest(t, 'waits while another is read', {}, async (t, { cache, fs }) => {
    const out = cache.policy({ spelledBelow: '/out' })
    await miss(cache, '/srv', 2)
    await miss(cache, '/out', 2, out)
    fs.isManual = true
    const answers = [refusal(cache, unknownIn('/srv')), refusal(cache, unknownIn('/out'), out)]
    await settled()
    for (const open of [...fs.pending]) open.deliver()
    t.strictSame(await Promise.all(answers), ['ENOENT', 'ENOENT'])
    t.strictSame(fs.pending.map(({ name, argument }) => [name, argument]), [['stat', '/srv/.']])
    await deliverAll(fs)
    fs.isManual = false
    t.equal(cache.stats().directories, 1)
    await miss(cache, '/out', 1, out)
    t.equal(cache.stats().directories, 2)
  })
})

t.test('for how long', async (t) => {
  namesTest(t, 'one look at the directory holds for `errors`, and then the next', {}, async (t, { cache, clock, fs }) => {
    await miss(cache, '/srv', 3)
    for (let period = 0; period < 5; period++) {
      await clock.advance(999)
      t.strictSame(await made(fs, () => miss(cache, '/srv', 20)), {})
      t.ok(cache.lookup(unknownIn('/srv')))
      await clock.advance(1)
      t.equal(cache.lookup(unknownIn('/srv')), undefined)
      t.strictSame(await made(fs, () => miss(cache, '/srv', 20)), { stat: 1 })
      t.ok(cache.lookup(unknownIn('/srv')))
    }
    t.strictSame(await made(fs, () => clock.advance(20_000)), {}, 'on demand only')
  })

  namesTest(t, 'each by its own `errors`', {}, async (t, { cache, clock, fs }) => {
    await miss(cache, '/srv', 3)
    const brief = cache.policy({ errors: 10 })
    await clock.advance(500)
    t.strictSame(await made(fs, () => miss(cache, '/srv', 9, cache.policy({ errors: '5s' }))), {})
    t.strictSame(await made(fs, () => miss(cache, '/srv', 9, brief)), { stat: 1 })
    await clock.advance(999)
    t.strictSame(await made(fs, () => miss(cache, '/srv', 9)), {}, 'whoever asked for the look')
  })

  namesTest(t, 'a look is shared by all who ask meanwhile', {}, async (t, { cache, clock, fs }) => {
    await miss(cache, '/srv', 3)
    await clock.advance(1000)
    t.strictSame(await made(fs, async () => {
      const answers = await Promise.all(Array.from({ length: 100 }, () => refusal(cache, unknownIn('/srv'))))
      t.ok(answers.every((errno) => errno === 'ENOENT'))
    }), { stat: 1 })
    t.equal(cache.stats().directoryHits, 100)
  })

  namesTest(t, 'a look that takes longer than `errors` is enough for who waits for it', {}, async (t, { cache, clock, fs }) => {
    await miss(cache, '/srv', 3)
    await clock.advance(1000)
    fs.isManual = true
    const answer = refusal(cache, unknownIn('/srv'))
    await settled()
    clock.jump(999)
    const later = refusal(cache, unknownIn('/srv'))
    clock.jump(1)
    const tooLate = refusal(cache, unknownIn('/srv'))
    clock.jump(5000)
    await deliver(fs, 'stat')
    t.equal(await answer, 'ENOENT')
    t.equal(await later, 'ENOENT')
    t.equal(cache.stats().directoryHits, 2)
    t.strictSame(fs.pending.map(({ name }) => name), ['open'], 'but not for who came too late')
    await deliverAll(fs)
    t.equal(await tooLate, 'ENOENT')
  })

  namesTest(t, 'a new file is never hidden longer than `errors`', {}, async (t, { cache, clock, fs }) => {
    await miss(cache, '/srv', 3)
    await clock.advance(400)
    fs.write('/srv/new', 'new')
    t.ok(cache.lookup('/srv/new'))
    await clock.advance(599)
    t.equal(await refusal(cache, '/srv/new'), 'ENOENT')
    await clock.advance(1)
    t.equal(await fetched(cache, '/srv/new'), 'new')
    t.equal(cache.stats().directories, 0)
  })

  namesTest(t, 'a file created during the look is seen by the next', {}, async (t, { cache, clock, fs }) => {
    await miss(cache, '/srv', 3)
    await clock.advance(1000)
    fs.isManual = true
    const answer = refusal(cache, '/srv/new')
    await settled()
    fs.pending[0]?.perform()
    fs.write('/srv/new', 'new')
    await deliver(fs, 'stat')
    t.equal(await answer, 'ENOENT', 'it was not there when the look was')
    fs.isManual = false
    await clock.advance(1000)
    t.equal(await fetched(cache, '/srv/new'), 'new')
  })

  namesTest(t, 'of the read, too: from when its last look was issued', {}, async (t, { cache, clock, fs }) => {
    await miss(cache, '/srv', 2)
    fs.isManual = true
    const answer = refusal(cache, unknownIn('/srv'))
    for (const name of ['open', 'stat', 'keepsDirectoryTimes', 'names']) await deliver(fs, name)
    t.equal(await answer, 'ENOENT')
    fs.pending[0]?.perform()
    fs.write('/srv/new', 'new')
    await clock.advance(1000)
    await deliver(fs, 'stat')
    fs.isManual = false
    t.equal(cache.stats().directories, 1)
    t.equal(cache.lookup('/srv/new'), undefined)
    t.equal(await fetched(cache, '/srv/new'), 'new')
  })

  namesTest(t, 'Infinity is for ever, and invalidate() ends it', { errors: Infinity, inactive: Infinity }, async (t, { cache, clock, fs }) => {
    await miss(cache, '/srv', 3)
    fs.write('/srv/new', 'new')
    await clock.advance(1e9)
    t.equal(await refusal(cache, '/srv/new'), 'ENOENT')
    cache.invalidate('/srv/new')
    t.equal(await fetched(cache, '/srv/new'), 'new')
  })
})

t.test('what the look notices', async (t) => {
  const rows: Array<[name: string, change: (fs: FakeFileSystem) => void, errno?: string]> = [
    ['a new file', (fs) => fs.write('/srv/site/new', '')],
    ['a rename of the directory', (fs) => fs.rename('/srv/site', '/srv/other'), 'ENOENT'],
    ['a rename over it', (fs) => {
      fs.rename('/srv/next', '/srv/site')
    }],
    ['a rename of one above', (fs) => {
      fs.rename('/srv', '/old')
      fs.rename('/old/all', '/srv')
    }],
    ['its removal', (fs) => fs.unlink('/srv/site'), 'ENOENT'],
    ['its removal and re-creation', (fs) => {
      fs.unlink('/srv/site')
      fs.mkdir('/srv/site')
      fs.write('/srv/site/new', '')
    }],
    ['a file in its place', (fs) => {
      fs.unlink('/srv/site')
      fs.write('/srv/site', '')
    }, 'ENOTDIR'],
    ['a link in its place', (fs) => fs.link('/srv/site', '/srv/next')],
    ['that it may not be searched', (fs) => fs.chmodSearch('/srv/site', false), 'EACCES'],
    ['that one above may not be searched', (fs) => fs.chmodSearch('/srv', false), 'EACCES']
  ]
  for (const [name, change, errno] of rows) {
    namesTest(t, name, {}, async (t, { cache, clock, fs }) => {
      fs.reusesInodes = true
      fs.mkdir('/srv/site')
      fs.mkdir('/srv/next')
      fs.write('/srv/next/new', '')
      fs.mkdir('/srv/all')
      fs.mkdir('/srv/all/site')
      fs.write('/srv/all/site/new', '')
      clock.jump(10_000)
      await miss(cache, '/srv/site', 3)
      t.match(cache.stats(), { directories: 1 })
      change(fs)
      t.equal(await refusal(cache, '/srv/site/new'), 'ENOENT')
      await clock.advance(1000)
      t.equal(await refusal(cache, '/srv/site/new'), errno)
      t.match(cache.stats(), { directories: 0, names: 0, directoryHits: 1 })
    })
  }

  namesTest(t, 'the swap of a link on the way', { spelledBelow: '/current' }, async (t, { cache, clock, fs }) => {
    fs.mkdir('/srv/1')
    fs.mkdir('/srv/2')
    fs.write('/srv/2/new', 'new')
    fs.link('/current', '/srv/1')
    clock.jump(10_000)
    await miss(cache, '/current', 3)
    fs.link('/current', '/srv/2')
    t.equal(await refusal(cache, '/current/new'), 'ENOENT')
    await clock.advance(1000)
    t.equal(await fetched(cache, '/current/new'), 'new')
    await miss(cache, '/current')
    t.match(cache.stats(), { directories: 1, names: 1 }, 'the new one is read at the next miss')
  })

  namesTest(t, 'that a directory is gone which the one above is known to have', {}, async (t, { cache, clock, fs }) => {
    fs.mkdir('/srv/site')
    clock.jump(10_000)
    await miss(cache, '/srv', 3)
    await miss(cache, '/srv/site', 3)
    t.equal(cache.stats().directories, 2)
    fs.unlink('/srv/site')
    clock.jump(10_000)
    await miss(cache, '/srv/site', 3)
    t.equal(cache.stats().directories, 1, 'the one above is read again')
    t.strictSame(await made(fs, () => miss(cache, '/srv/site', 50)), {})
    t.strictSame(await made(fs, () => miss(cache, '/srv/site/x/y', 50)), {})
  })

  namesTest(t, 'nothing where a name stands for nothing', {}, async (t, { cache, clock, fs }) => {
    fs.link('/srv/dangling', '/none')
    clock.jump(10_000)
    await miss(cache, '/srv', 3)
    await clock.advance(500)
    t.strictSame(await made(fs, () => miss(cache, '/srv/dangling', 9)), { open: 9, stat: 2 }, 'one look at it, one at the one above')
    t.strictSame(await made(fs, () => miss(cache, '/srv', 9)), {})
  })
})

t.test('only when its times are settled', async (t) => {
  namesTest(t, 'two seconds after its last change, not before', {}, async (t, { cache, clock, fs }) => {
    fs.tickNs = 2_000_000_000n
    fs.write('/srv/b', '')
    const changed = Number(fs.resolve('/srv').ctimeNs / 1_000_000n) - clock.wallOffset
    clock.jump(changed + 1999 - clock.now())
    t.strictSame(await made(fs, () => miss(cache, '/srv', 9)), { open: 9, stat: 1 })
    clock.jump(1999)
    t.strictSame(await made(fs, () => miss(cache, '/srv', 9)), { open: 9 }, 'left alone meanwhile')
    clock.jump(1)
    t.strictSame(await made(fs, () => miss(cache, '/srv', 9)), { open: 1, ...READ })
  })

  namesTest(t, 'both its times', {}, async (t, { cache, clock, fs }) => {
    fs.utimes('/srv', fs.clockNs() - 1_000_000_000_000n)
    await miss(cache, '/srv', 9)
    t.equal(cache.stats().directories, 0, 'ctime')
    fs.utimes('/srv', fs.clockNs() + 1_000_000_000_000n)
    clock.jump(100_000)
    await miss(cache, '/srv', 9)
    t.equal(cache.stats().directories, 0, 'mtime')
    clock.jump(1_000_000)
    await miss(cache, '/srv', 9)
    t.equal(cache.stats().directories, 1)
  })
})

t.test('races', async (t) => {
  const CHANGES: Record<string, (engine: Engine) => void> = {
    create: ({ fs }) => fs.write('/srv/site/new', 'new'),
    'create in the other': ({ fs }) => fs.write('/out/other/new', 'new'),
    swap: ({ fs }) => fs.link('/srv/site', '/out/other'),
    'swap back': ({ fs }) => fs.link('/srv/site', '/out/site'),
    'swap for one that may not be searched': ({ fs }) => fs.link('/srv/site', '/out/closed'),
    lock: ({ fs }) => fs.chmodSearch('/out/site', false),
    wait: ({ clock }) => clock.jump(5000)
  }

  /** Runs a read of `/srv/site`, a link, and what else happens between its calls; then asks for what was created. */
  async function raced (t: Test, happen: (engine: Engine, point: number) => void, finish: (engine: Engine) => Promise<void>): Promise<void> {
    const { clock, fileSystem: fs } = fakeWorld()
    const cache = new OpenFileCache({ ...BELOW, inactive: Infinity }, { clock, fileSystem: fs })
    const engine = { cache, clock, fs }
    build(engine)
    for (const directory of ['/out/site', '/out/other', '/out/closed']) fs.mkdir(directory)
    fs.write('/out/site/one', '')
    fs.write('/out/other/other', '')
    fs.chmodSearch('/out/closed', false)
    fs.link('/srv/site', '/out/site')
    clock.jump(10_000)
    await miss(cache, '/srv/site', 2)
    fs.isManual = true
    const answer = refusal(cache, unknownIn('/srv/site'))
    await deliver(fs, 'open')
    if (await answer !== 'ENOENT') t.fail()
    for (let point = 0; ; point++) {
      happen(engine, point)
      await settled()
      if (fs.pending.length === 0) break
      fs.pending[0]?.deliver()
      await settled()
    }
    fs.isManual = false
    await finish(engine)
    await cache.close()
    if (clock.timers + fs.pending.length + cache.stats().directories > 0) t.fail('something is left')
  }

  t.test('whatever happens during the read, in whatever order: no name is hidden longer than `errors`', async (t) => {
    let kept = 0
    let hidden = 0
    const names = Object.keys(CHANGES)
    const ways = await everyWay(async (choose) => {
      const log: string[] = []
      let left = 2
      await raced(t, (engine, point) => {
        while (left > 0) {
          const choice = choose(names.length + 1)
          if (choice === names.length) break
          left--
          log.push(`${point} ${names[choice]}`)
          CHANGES[names[choice] as string]?.(engine)
        }
      }, async ({ cache, clock, fs }) => {
        kept += cache.stats().directories
        const asked = async (): Promise<void> => {
          for (const name of ['new', 'one', 'other', 'none']) {
            const path = `/srv/site/${name}`
            let truth
            try {
              fs.resolve(path)
            } catch (error) {
              truth = (error as NodeJS.ErrnoException).code
            }
            const answer = await refusal(cache, path)
            if (answer !== truth) t.fail(`${path} is ${truth}, not ${answer}: ${log.join(', ')}`)
          }
        }
        const isThere = (): boolean => fs.resolve('/srv/site').children.has('new')
        if (cache.stats().directories > 0 && isThere() && cache.lookup('/srv/site/new') !== undefined) hidden++
        await clock.advance(1000)
        await asked()
        await clock.advance(10_000)
        await asked()
      })
    })
    t.ok(ways > 500, `${ways} ways`)
    t.ok(kept > ways / 50, `${kept} times names were kept`)
    t.ok(hidden > 0, `${hidden} times they were out of date within \`errors\``)
  })

  for (const [name, forget, isKept] of [
    ['the path', (cache: OpenFileCache) => cache.invalidate('/srv/site/new'), false],
    ['the directory', (cache: OpenFileCache) => cache.invalidate('/srv/site'), false],
    ['all below one above', (cache: OpenFileCache) => cache.invalidate({ under: '/srv' }), false],
    ['all below one in it', (cache: OpenFileCache) => cache.invalidate({ under: '/srv/site/x' }), false],
    ['everything below /', (cache: OpenFileCache) => cache.invalidate({ under: '/' }), false],
    ['everything', (cache: OpenFileCache) => cache.clear(), false],
    ['another path', (cache: OpenFileCache) => cache.invalidate('/srv/sit'), true],
    ['all below another', (cache: OpenFileCache) => cache.invalidate({ under: '/srv/site2' }), true]
  ] as const) {
    t.test(`invalidated while it is read: ${name}`, async (t) => {
      for (let when = 0; when <= 3; when++) {
        await raced(t, ({ cache }, point) => { if (point === when) forget(cache) }, async ({ cache }) => {
          t.equal(cache.stats().directories, isKept ? 1 : 0, `before call ${when}`)
        })
      }
    })
  }

  t.test('closed while it is read', async (t) => {
    for (let when = 0; when <= 3; when++) {
      let isClosed = false
      await raced(t, ({ cache, fs }, point) => {
        if (point < when) return
        if (point === when) cache.close().then(() => { isClosed = true }, t.fail)
        else if (fs.pending.length > 0) t.equal(isClosed, false)
      }, async ({ cache, fs }) => {
        t.equal(isClosed, true)
        t.equal(cache.stats().directories, 0)
        t.strictSame(await made(fs, () => miss(cache, '/srv/site', 5)), { open: 5 }, 'and never read again')
      })
    }
  })

  namesTest(t, 'invalidated while it is looked at: who waits asks the disk, and what the look found is not kept', {}, async (t, { cache, clock, fs }) => {
    await miss(cache, '/srv', 3)
    await clock.advance(1000)
    fs.isManual = true
    const answer = refusal(cache, '/srv/new')
    await settled()
    fs.pending[0]?.perform()
    fs.write('/srv/new', '')
    cache.invalidate('/srv/new')
    await deliverAll(fs)
    t.equal(await answer, undefined)
    t.equal(cache.stats().directories, 0)
  })

  namesTest(t, 'invalidated while it is looked at, and read again before the look shows a change', {}, async (t, { cache, clock, fs }) => {
    await miss(cache, '/srv', 3)
    await clock.advance(1000)
    fs.write('/srv/new', '')
    fs.isManual = true
    const answer = refusal(cache, unknownIn('/srv'))
    await settled()
    const [look] = fs.pending.splice(0)
    look?.perform()
    cache.clear()
    fs.isManual = false
    clock.jump(10_000)
    await miss(cache, '/srv', 3)
    t.match(cache.stats(), { directories: 1, names: 3 })
    look?.deliver()
    t.equal(await answer, 'ENOENT')
    t.match(cache.stats(), { directories: 1, names: 3 }, 'what was read since is kept')
  })

  namesTest(t, 'the root of the file system, invalidated while it is read', { spelledBelow: '/' }, async (t, { cache, fs }) => {
    for (const [what, directories] of [['/new', 0], ['/srv', 0], ['/srv/none', 0], [{ under: '/srv' }, 0], [undefined, 1]] as const) {
      await miss(cache, '/', 2)
      fs.isManual = true
      const answer = refusal(cache, unknownIn('/'))
      await deliver(fs, 'open')
      t.equal(await answer, 'ENOENT')
      if (what !== undefined) cache.invalidate(what)
      await deliverAll(fs)
      fs.isManual = false
      t.equal(cache.stats().directories, directories, JSON.stringify(what))
      cache.clear()
    }
  })

  namesTest(t, 'closed while it is looked at', {}, async (t, { cache, clock, fs }) => {
    await miss(cache, '/srv', 3)
    await clock.advance(1000)
    fs.isManual = true
    const answer = refusal(cache, '/srv/new')
    await settled()
    let isClosed = false
    const closing = cache.close().then(() => { isClosed = true })
    await settled()
    t.equal(isClosed, false)
    await deliverAll(fs)
    await closing
    t.equal(await answer, 'ENOENT')
    t.match(cache.stats(), { directories: 0, directoryHits: 0 })
  })

  namesTest(t, 'found meanwhile by somebody else', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    await miss(cache, '/srv', 3)
    await clock.advance(1000)
    fs.isManual = true
    const answer = cache.open('/srv/new')
    await settled()
    fs.pending[0]?.perform()
    fs.write('/srv/new', 'new')
    const other = cache.open('/srv/new', cache.policy({ errors: false }))
    for (const name of ['open', 'fstat', 'isRemote']) await deliver(fs, name)
    const lease = await other
    if (lease.kind === 'file') lease.release()
    t.equal(cache.stats().entries, 1)
    await deliverAll(fs)
    const found = await answer
    t.equal(found.kind, 'file')
    if (found.kind === 'file') found.release()
    await deliverAll(fs)
  })
})

t.test('faults', async (t) => {
  for (const [call, path, again] of [
    ['stat', '/srv/.', {}], ['keepsDirectoryTimes', '/srv', {}], ['names', '/srv', {}], ['stat', '/srv', {}]
  ] as const) {
    for (const [code, wait] of [
      ['EMFILE', 2000], ['EIO', 2000], ['ENOMEM', 2000], ['EACCES', 60_000], ['ENOENT', 60_000], ['ENOTDIR', 60_000]
    ] as const) {
      namesTest(t, `${code} of ${call} ${path}: no names are kept, and the next read is in ${wait} ms`, { inactive: Infinity }, async (t, { cache, clock, fs }) => {
        fs.fail(call, code, 1, path)
        await miss(cache, '/srv', 9)
        t.match(cache.stats(), { directories: 0, names: 0, directoryHits: 0, misses: 9, ...again })
        clock.jump(wait - 1)
        t.strictSame(await made(fs, () => miss(cache, '/srv', 2)), { open: 2 })
        clock.jump(1)
        t.strictSame(await made(fs, () => miss(cache, '/srv', 2)), { open: 1, ...READ })
        t.equal(cache.stats().directories, 1)
      })
    }
  }

  for (const code of ['EMFILE', 'EIO', 'ENOMEM', 'ESTALE']) {
    namesTest(t, `${code} when it is looked at again: the ordinary way, and names stay known`, {}, async (t, { cache, clock, fs }) => {
      await miss(cache, '/srv', 3)
      await clock.advance(1000)
      fs.write('/srv/new', 'new')
      fs.fail('stat', code, 2)
      t.strictSame(await made(fs, () => miss(cache, '/srv')), { stat: 1, open: 1 })
      t.equal(await fetched(cache, '/srv/new'), 'new')
      t.equal(cache.stats().directories, 1)
      t.strictSame(await made(fs, () => miss(cache, '/srv')), { stat: 2, open: 1 }, 'seen, and not settled')
      t.equal(cache.stats().directories, 0)
    })
  }

  for (const code of ['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM', 'ELOOP']) {
    namesTest(t, `${code} when it is looked at again: its names are not known any more`, {}, async (t, { cache, clock, fs }) => {
      await miss(cache, '/srv', 3)
      await clock.advance(1000)
      fs.fail('stat', code, 1)
      t.strictSame(await made(fs, () => refusal(cache, unknownIn('/srv'))), { stat: 3, open: 1, keepsDirectoryTimes: 1, names: 1 })
      t.equal(cache.stats().directories, 1, 'it was read again')
    })
  }

  namesTest(t, 'a directory that may not be read is none', {}, async (t, { cache, clock, fs }) => {
    fs.chmod('/srv', false)
    clock.jump(10_000)
    await miss(cache, '/srv', 9)
    t.match(cache.stats(), { directories: 0, directoryHits: 0 })
  })

  namesTest(t, 'nor is one that may not be searched', { spelledBelow: '/srv/site' }, async (t, { cache, clock, fs }) => {
    fs.mkdir('/srv/closed')
    fs.chmodSearch('/srv/closed', false)
    fs.link('/srv/site', '/srv/sub')
    clock.jump(10_000)
    await miss(cache, '/srv/site', 2)
    fs.isManual = true
    const answer = refusal(cache, unknownIn('/srv/site'))
    await deliver(fs, 'open')
    t.equal(await answer, 'ENOENT')
    fs.link('/srv/site', '/srv/closed')
    fs.isManual = false
    await deliverAll(fs)
    t.equal(cache.stats().directories, 0)
    t.equal(await refusal(cache, unknownIn('/srv/site')), 'EACCES')
  })
})

t.test('on a file system that does not keep the times of directories', async (t) => {
  namesTest(t, 'none is read, and it is asked once a minute', { inactive: Infinity }, async (t, { cache, clock, fs }) => {
    fs.keepsTimes = false
    t.strictSame(await made(fs, () => miss(cache, '/srv', 9)), { open: 9, stat: 1, keepsDirectoryTimes: 1 })
    t.strictSame(await made(fs, () => miss(cache, '/srv/sub', 9)), { open: 9, stat: 1, keepsDirectoryTimes: 1 }, 'of each directory')
    clock.jump(59_999)
    t.strictSame(await made(fs, () => miss(cache, '/srv', 9)), { open: 9 })
    clock.jump(1)
    t.strictSame(await made(fs, () => miss(cache, '/srv', 9)), { open: 9, stat: 1, keepsDirectoryTimes: 1 })
    t.equal(cache.stats().directories, 0)
  })
})

t.test('bounds', async (t) => {
  const fill = (fs: FakeFileSystem, directory: string, names: number): void => {
    fs.mkdir(directory)
    for (let i = 0; i < names; i++) fs.write(`${directory}/${i}`, '')
  }

  namesTest(t, 'max directories, those read last', { directories: { max: 2 } }, async (t, { cache, clock, fs }) => {
    for (const name of ['1', '2', '3']) fill(fs, `/srv/${name}`, 1)
    clock.jump(10_000)
    for (const name of ['1', '2', '3']) await miss(cache, `/srv/${name}`, 3)
    t.match(cache.stats(), { directories: 2, names: 2 })
    t.strictSame(await made(fs, () => miss(cache, '/srv/2', 9)), {})
    t.strictSame(await made(fs, () => miss(cache, '/srv/3', 9)), {})
    t.strictSame(await made(fs, () => miss(cache, '/srv/1', 9)), { open: 9 }, 'what had no room is left alone for a minute')
    clock.jump(60_000)
    t.strictSame(await made(fs, () => miss(cache, '/srv/1', 9)), { open: 1, ...READ })
    t.match(cache.stats(), { directories: 2, names: 2 })
  })

  namesTest(t, 'maxNames in all', { directories: { maxNames: 10 } }, async (t, { cache, clock, fs }) => {
    fill(fs, '/srv/1', 5)
    fill(fs, '/srv/2', 5)
    fill(fs, '/srv/3', 1)
    clock.jump(10_000)
    await miss(cache, '/srv/1', 3)
    await miss(cache, '/srv/2', 3)
    t.match(cache.stats(), { directories: 2, names: 10 })
    await miss(cache, '/srv/3', 3)
    t.match(cache.stats(), { directories: 2, names: 6 })
    t.strictSame(await made(fs, () => miss(cache, '/srv/2', 9)), {})
  })

  namesTest(t, 'maxNames in one: it is left alone for a minute, and so is the one above', { directories: { maxNames: 4 }, inactive: Infinity }, async (t, { cache, clock, fs }) => {
    fill(fs, '/srv/large', 5)
    fill(fs, '/srv/small', 4)
    clock.jump(10_000)
    t.strictSame(await made(fs, () => miss(cache, '/srv/large', 9)), { open: 9, stat: 1, keepsDirectoryTimes: 1, names: 1 })
    clock.jump(59_999)
    t.strictSame(await made(fs, () => miss(cache, '/srv/large', 9)), { open: 9 })
    clock.jump(1)
    t.strictSame(await made(fs, () => miss(cache, '/srv/large', 9)), { open: 9, stat: 1, keepsDirectoryTimes: 1, names: 1 })
    t.match(cache.stats(), { directories: 0, names: 0 })
    await miss(cache, '/srv/small', 3)
    t.match(cache.stats(), { directories: 1, names: 4 })
  })

  namesTest(t, 'misses are counted in a thousand directories', {}, async (t, { cache, clock, fs }) => {
    for (const name of ['1', '2']) fill(fs, `/srv/${name}`, 1)
    clock.jump(10_000)
    const once = async (directories: number, before: string): Promise<void> => {
      for (let i = 0; i < directories; i++) await refusal(cache, `/${before}${i}/x/y`, cache.policy({ spelledBelow: `/${before}${i}/x` }))
    }
    const [one, two] = [cache.policy({ spelledBelow: '/srv/1' }), cache.policy({ spelledBelow: '/srv/2' })]
    await miss(cache, '/srv/1', 2, one)
    await once(999, 'p')
    await miss(cache, '/srv/1', 1, one)
    t.equal(cache.stats().directories, 1, 'the first of a thousand')
    await miss(cache, '/srv/2', 2, two)
    await once(1000, 'q')
    await miss(cache, '/srv/2', 1, two)
    t.equal(cache.stats().directories, 1, 'the first of more is forgotten')
  })
})

t.test('inactive', async (t) => {
  namesTest(t, 'names go by the timer, which ends when nothing is left', { inactive: '10s' }, async (t, { cache, clock }) => {
    await miss(cache, '/srv', 3)
    await miss(cache, '/srv/sub', 3)
    await clock.advance(9000)
    await miss(cache, '/srv')
    await clock.advance(1500)
    t.match(cache.stats(), { directories: 1, names: 2 })
    t.equal(clock.timers, 1)
    t.ok(cache.lookup(unknownIn('/srv')) === undefined)
    await clock.advance(8500)
    t.match(cache.stats(), { directories: 0, names: 0 })
    await clock.advance(20_000)
    t.equal(clock.timers, 0)
  })

  namesTest(t, 'also names that were read for longer than everything else was kept', { inactive: 1000 }, async (t, { cache, clock, fs }) => {
    await miss(cache, '/srv', 2)
    fs.isManual = true
    const answer = refusal(cache, unknownIn('/srv'))
    for (const name of ['open', 'stat', 'keepsDirectoryTimes', 'names']) await deliver(fs, name)
    t.equal(await answer, 'ENOENT')
    await clock.advance(5000)
    t.equal(clock.timers, 0)
    await deliverAll(fs)
    t.equal(cache.stats().directories, 1)
    await clock.advance(500)
    t.equal(cache.stats().directories, 0)
    t.equal(clock.timers, 0)
  })

  namesTest(t, 'the timer runs when there is nothing but names', { inactive: '10s', errors: 10 }, async (t, { cache, clock }) => {
    await miss(cache, '/srv', 3)
    await clock.advance(8000)
    await miss(cache, '/srv')
    await clock.advance(9000)
    t.match(cache.stats(), { directories: 1, negativeEntries: 0, entries: 0 })
    t.equal(clock.timers, 1)
    await clock.advance(1500)
    t.match(cache.stats(), { directories: 0 })
    t.equal(clock.timers, 0)
  })
})

t.test('who may', async (t) => {
  for (const [name, options] of [
    ['errors: false', { errors: false }],
    ['without spelledBelow', { spelledBelow: undefined }],
    ['directories: false', { directories: false }]
  ] as Array<[string, OpenFileCacheOptions]>) {
    namesTest(t, `${name}: nobody`, options, async (t, { cache, fs }) => {
      t.strictSame(await made(fs, () => miss(cache, '/srv', 9)), { open: 9 })
      t.match(cache.stats(), { directories: 0, names: 0, directoryHits: 0 })
    })
  }

  namesTest(t, 'each look-up for itself', {}, async (t, { cache, fs }) => {
    await miss(cache, '/srv', 3)
    for (const policy of [cache.policy({ errors: false }), { ...cache.policy(), spelledBelow: undefined }, cache.policy({ spelledBelow: '/srv/sub' })]) {
      t.strictSame(await made(fs, () => miss(cache, '/srv', 2, policy)), { open: 2 })
      t.equal(cache.lookup(unknownIn('/srv'), policy), undefined)
    }
    t.equal(cache.stats().directoryHits, 0)
  })

  namesTest(t, 'a miss counts when one of those who wait for it may', { errors: false }, async (t, { cache }) => {
    const policies = [cache.policy(), { ...cache.policy({ errors: 1000 }), spelledBelow: undefined }, cache.policy({ errors: 1000 })]
    for (let i = 0; i < 3; i++) {
      const path = unknownIn('/srv')
      await Promise.all(policies.map((policy) => refusal(cache, path, policy)))
    }
    t.equal((await statsOf(cache)).directories, 1)
  })

  t.test('OpenFileCache.off(): nobody', async (t) => {
    const { clock, fileSystem: fs } = fakeWorld()
    const cache = OpenFileCache.off({ clock, fileSystem: fs })
    build({ clock, fs })
    const policy = cache.policy({ ...BELOW, errors: 1000 })
    t.strictSame(await made(fs, () => miss(cache, '/srv', 9, policy)), { open: 9 })
    t.equal(cache.stats().directories, 0)
    await nothingIsLeft(t, { cache, clock, fs })
  })

  namesTest(t, 'only ENOENT is a miss', {}, async (t, { cache, fs }) => {
    for (const code of ['ENOTDIR', 'EACCES', 'ELOOP', 'ENAMETOOLONG', 'EIO']) {
      fs.fail('open', code, 9)
      for (let i = 0; i < 9; i++) await codeOf(refusal(cache, unknownIn('/srv')))
    }
    t.equal(fs.count('names'), 0)
  })
})

t.test('under a link policy', async (t) => {
  for (const symlinks of ['within-root', 'deny'] as const) {
    const links = { symlinks, root: '/srv' }

    namesTest(t, `${symlinks}: when the directory itself is proven, once per \`valid\``, { links, valid: '5s' }, async (t, { cache, clock, fs }) => {
      await miss(cache, '/srv/sub', 3)
      t.equal(cache.stats().directories, 1)
      t.equal(cache.lookup(unknownIn('/srv/sub')), undefined, 'not yet')
      t.equal((await made(fs, () => miss(cache, '/srv/sub', 9)))['open'], 1)
      t.ok(cache.lookup(unknownIn('/srv/sub')))
      t.strictSame(await made(fs, () => miss(cache, '/srv/sub', 9)), {})
      t.match(cache.stats(), { entries: 1, directoryHits: 19 })
      clock.jump(5000)
      t.equal(cache.lookup(unknownIn('/srv/sub')), undefined)
      t.match(await made(fs, () => miss(cache, '/srv/sub', 9)), { open: 1, stat: 1 })
    })

    namesTest(t, `${symlinks}: nothing is told of a directory behind a refused link`, { links }, async (t, { cache, clock, fs }) => {
      fs.link('/srv/l', '/out')
      clock.jump(10_000)
      await miss(cache, '/srv/l', 5)
      t.equal(cache.stats().directories, 1)
      t.equal(await refusal(cache, '/srv/l/x'), 'ELOOP')
      t.equal(await refusal(cache, '/srv/l'), 'ELOOP')
      fs.write('/out/new', '')
      t.equal(await refusal(cache, '/srv/l/new'), 'ELOOP', 'at once: its names are not used')
      t.equal(cache.stats().directoryHits, 0)
    })

    namesTest(t, `${symlinks}: a link swapped for one that is refused`, { links, valid: 1000 }, async (t, { cache, clock, fs }) => {
      fs.mkdir('/srv/site')
      clock.jump(10_000)
      await miss(cache, '/srv/site', 9)
      fs.unlink('/srv/site')
      fs.link('/srv/site', '/out')
      await clock.advance(1000)
      t.equal(await refusal(cache, '/srv/site/x'), 'ELOOP')
      t.equal(await refusal(cache, '/srv/site'), 'ELOOP')
    })

    for (const code of ['EMFILE', 'EIO']) {
      namesTest(t, `${symlinks}: ${code} when it is proven is nobody's failure`, { links, valid: '5s' }, async (t, { cache, fs }) => {
        await miss(cache, '/srv/sub', 3)
        fs.fail('open', code, 9, '/srv/sub')
        t.equal(await refusal(cache, unknownIn('/srv/sub')), 'ENOENT')
        t.match(cache.stats(), { directoryHits: 0, directories: 1 })
      })
    }
  }

  namesTest(t, 'the root itself, which is /', { links: { symlinks: 'deny', root: '/' }, spelledBelow: '/' }, async (t, { cache, fs }) => {
    await miss(cache, '/', 4)
    t.strictSame(await made(fs, () => miss(cache, '/', 9)), {})
    t.strictSame(await made(fs, () => miss(cache, '/none/none', 9)), {})
  })

  namesTest(t, 'each policy for itself', {}, async (t, { cache, clock, fs }) => {
    fs.link('/srv/l', '/srv/sub')
    clock.jump(10_000)
    const within = cache.policy({ links: { symlinks: 'within-root', root: '/srv' } })
    const deny = cache.policy({ links: { symlinks: 'deny', root: '/srv' } })
    await miss(cache, '/srv/l', 3)
    await miss(cache, '/srv/l', 1, within)
    t.strictSame(await made(fs, () => miss(cache, '/srv/l', 9, within)), {})
    t.equal((await made(fs, () => miss(cache, '/srv/l', 9, deny)))['open'], 10, 'each, and the directory once')
    t.equal(await refusal(cache, '/srv/l/b', deny), 'ELOOP')
  })
})

t.test('invalidate()', async (t) => {
  const rows: Array<[what: string | { under: string }, left: string[]]> = [
    ['/srv/new', ['/srv/sub', '/srv/sub/deep']],
    ['/srv/new/x/y', ['/srv/sub', '/srv/sub/deep']],
    ['/srv/sub/new', ['/srv', '/srv/sub/deep']],
    ['/srv/sub/deep/new', ['/srv', '/srv/sub']],
    ['/srv/a', ['/srv', '/srv/sub', '/srv/sub/deep']],
    ['/srv/sub', ['/srv', '/srv/sub/deep']],
    ['/srv/sub/deep/c', ['/srv', '/srv/sub', '/srv/sub/deep']],
    ['/srv/su', ['/srv/sub', '/srv/sub/deep']],
    ['/other', ['/srv', '/srv/sub', '/srv/sub/deep']],
    [{ under: '/srv/sub' }, ['/srv']],
    [{ under: '/srv/sub/' }, ['/srv']],
    [{ under: '/srv/sub/deep' }, ['/srv', '/srv/sub']],
    [{ under: '/srv/sub/new' }, ['/srv', '/srv/sub/deep']],
    [{ under: '/srv/s' }, ['/srv/sub', '/srv/sub/deep']],
    [{ under: '/srv' }, []],
    [{ under: '/' }, []]
  ]
  for (const [what, left] of rows) {
    namesTest(t, `of ${JSON.stringify(what)}: whatever says that it is not there`, {}, async (t, { cache }) => {
      for (const directory of ['/srv', '/srv/sub', '/srv/sub/deep']) await miss(cache, directory, 3)
      t.equal(cache.stats().directories, 3)
      cache.invalidate(what)
      t.strictSame(['/srv', '/srv/sub', '/srv/sub/deep'].filter((directory) => cache.lookup(unknownIn(directory)) !== undefined), left)
      t.equal(cache.stats().directories, left.length)
    })
  }

  namesTest(t, 'clear(): everything, and the misses that were counted', {}, async (t, { cache }) => {
    await miss(cache, '/srv', 3)
    await miss(cache, '/srv/sub', 2)
    cache.clear()
    t.match(cache.stats(), { directories: 0, names: 0 })
    await miss(cache, '/srv/sub', 2)
    t.equal(cache.stats().directories, 0)
    await miss(cache, '/srv/sub')
    t.equal(cache.stats().directories, 1)
  })
})
