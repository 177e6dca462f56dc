import fs from 'node:fs'
import { join, parse, sep } from 'node:path'
import t from 'tap'
import { nodeFileSystem } from '../lib/file-system'
import { OpenFileCache } from '../lib/open-file-cache'
import { Spelling } from '../lib/spelling'
import { codeOf, contentOf, deliver, deliverAll, engineTest, fetched, held, keptAs, opened, refusal, statsOf, use } from './fixtures/engine'
import { fakeWorld, settled } from './fixtures/fake-world'
import type { Test } from 'tap'
import type { FakeClock, FakeFileSystem } from './fixtures/fake-world'
import type { FileSystem, OpenFileCacheOptions } from '../types/open-file-cache'
import type { Engine } from './fixtures/engine'

interface Speller {
  readonly spelling: Spelling
  readonly clock: FakeClock
  readonly fs: FakeFileSystem
  /** How many `stat` and `readdir` a question costs, and its answer. */
  ask (path: string): Promise<{ from: number, stat: number, readdir: number }>
}

/** Over a tree whose changes are long ago. */
function speller (nameFolding: FileSystem['nameFolding'], build: (fs: FakeFileSystem) => void): Speller {
  const { clock, fileSystem: fs } = fakeWorld()
  fs.nameFolding = nameFolding
  build(fs)
  clock.jump(10_000)
  const spelling = new Spelling(fs, clock)
  return {
    spelling,
    clock,
    fs,
    async ask (path) {
      const [stat, readdir] = [fs.count('stat'), fs.count('readdir')]
      const from = await spelling.spelledFrom(path)
      return { from, stat: fs.count('stat') - stat, readdir: fs.count('readdir') - readdir }
    }
  }
}

function site (fs: FakeFileSystem): void {
  fs.mkdir('/srv')
  fs.mkdir('/srv/site')
  for (const name of ['a.css', 'b.css', '2024', '日本', 'ÿ.css']) fs.write(`/srv/site/${name}`, name)
}

function foldingSite (fs: FakeFileSystem): void {
  fs.fold('/')
  site(fs)
}

t.test('where nothing folds, every path is spelled as it is stored, without a look', async (t) => {
  const { spelling, fs } = speller('none', foldingSite)
  t.equal(spelling.spelledFrom('/SRV/A.css'), 0)
  t.strictSame(fs.calls, {})
})

t.test("'possible'", async (t) => {
  t.test('a directory that tells spellings apart is probed once a minute', async (t) => {
    const { spelling, clock, ask } = speller('possible', site)
    t.strictSame(await ask('/srv/site/a.css'), { from: 0, stat: 6, readdir: 0 })
    t.equal(spelling.spelledFrom('/srv/site/a.css'), 0, 'from then on it is known at once')
    t.equal(spelling.spelledFrom('/srv/site/b.css'), 0, 'of the other names, too')
    t.equal(spelling.spelledFrom('/srv/site'), 0)
    clock.jump(59_999)
    t.equal(spelling.spelledFrom('/srv/site/a.css'), 0)
    clock.jump(1)
    t.strictSame(await ask('/srv/site/a.css'), { from: 0, stat: 6, readdir: 0 })
  })

  t.test('a real directory costs two stats', { skip: process.platform !== 'linux' && 'of Linux' }, async (t) => {
    const dir = t.testdir({ d: { 'a.css': '', 'b.css': '' } })
    let stats = 0
    const port = nodeFileSystem()
    const spelling = new Spelling({
      ...port,
      stat: (path) => {
        stats++
        return port.stat(path)
      },
      readdir: async () => { throw new Error('no directory is read') }
    }, fakeWorld().clock)
    t.equal(await spelling.spelledFrom(dir), 0)
    stats = 0
    t.equal(await spelling.spelledFrom(join(dir, 'd', 'a.css')), 0)
    t.equal(stats, 4, 'of two directories')
    t.equal(spelling.spelledFrom(join(dir, 'd', 'b.css')), 0)
  })

  t.test('a directory that does not is read', async (t) => {
    const { ask } = speller('possible', foldingSite)
    for (const [path, from] of [
      ['/srv/site/a.css', 0],
      ['/srv/site/A.css', 15],
      ['/srv/site/a.CSS', 15],
      ['/srv/Site/a.css', 9],
      ['/SRV/site/a.css', 4],
      ['/SRV/Site/a.css', 9],
      ['/SRV/SITE/A.CSS', 15],
      ['/srv/SITE', 9],
      ['/Srv/', 4]
    ] as const) t.equal((await ask(path)).from, from, path)
  })

  t.test('what was read is asked again by stat until the directory changes', async (t) => {
    const { clock, fs, ask } = speller('possible', foldingSite)
    t.strictSame(await ask('/srv/site/a.css'), { from: 0, stat: 6, readdir: 3 })
    t.strictSame(await ask('/srv/site/a.css'), { from: 0, stat: 6, readdir: 0 })
    t.strictSame(await ask('/srv/site/b.css'), { from: 0, stat: 6, readdir: 1 })
    fs.rename('/srv/site', '/srv/Site')
    t.strictSame(await ask('/srv/site/a.css'), { from: 9, stat: 5, readdir: 2 })
    t.equal((await ask('/srv/Site/a.css')).from, 0)
    t.equal((await ask('/srv/Site/a.css')).readdir, 2, 'again, while a second change could hide in the times')
    clock.jump(2000)
    t.equal((await ask('/srv/Site/a.css')).readdir, 2)
    t.equal((await ask('/srv/Site/a.css')).readdir, 0)
  })

  t.test('both spellings there: the directory is read, nothing is concluded', async (t) => {
    const { ask } = speller('possible', (fs) => {
      site(fs)
      fs.write('/srv/site/A.CSS', '')
    })
    t.strictSame(await ask('/srv/site/a.css'), { from: 0, stat: 6, readdir: 1 })
    t.strictSame(await ask('/srv/site/A.CSS'), { from: 0, stat: 2, readdir: 1 })
    t.strictSame(await ask('/srv/site/b.css'), { from: 0, stat: 2, readdir: 0 })
  })

  t.test('a name of digits says nothing about its directory', async (t) => {
    const { spelling, fs, ask } = speller('possible', (fs) => {
      fs.mkdir('/2024')
      for (const name of ['1', '2.0', '_', '1-2', 'a.css']) fs.write(`/2024/${name}`, '')
    })
    for (const path of ['/2024', '/2024/1', '/2024/2.0', '/2024/_', '/2024/1-2', '/']) t.equal(spelling.spelledFrom(path), 0, path)
    t.strictSame(fs.calls, {})
    t.strictSame(await ask('/2024/a.css'), { from: 0, stat: 2, readdir: 0 })
  })

  t.test('a directory is read for names that may have others all the same', async (t) => {
    const strips = (name: string): string => name.replace(/[. ]+$/, '').replace('1~1', '1 2 3 4 5 6')
    const { fs, ask } = speller('possible', (fs) => {
      fs.fold('/', strips)
      for (const name of ['1', '日本', '1 2 3 4 5 6']) fs.write(`/${name}`, '')
    })
    for (const [path, from] of [
      ['/日本', 0], ['/1.', 3], ['/1 ', 3], ['/日本.', 4], ['/1 2 3 4 5 6', 0], ['/1~1', 4]
    ] as const) {
      t.ok(fs.resolve(path), 'it is there')
      t.strictSame(await ask(path), { from, stat: from === 0 ? 1 : 2, readdir: 1 }, path)
    }
  })

  t.test('a directory that tells cases apart, but not Unicode forms', async (t) => {
    const { spelling, ask } = speller('possible', (fs) => {
      fs.fold('/', (name) => name.normalize('NFC'))
      for (const name of ['caf\u00e9', 'thee\u0301', 'tea']) fs.write(`/${name}`, '')
    })
    t.strictSame(await ask('/tea'), { from: 0, stat: 2, readdir: 0 })
    t.strictSame(await ask('/caf\u00e9'), { from: 0, stat: 2, readdir: 1 })
    t.strictSame(await ask('/cafe\u0301'), { from: 6, stat: 3, readdir: 1 })
    t.strictSame(await ask('/thee\u0301'), { from: 0, stat: 2, readdir: 1 })
    t.strictSame(await ask('/the\u00e9'), { from: 5, stat: 3, readdir: 1 })
    t.equal(spelling.spelledFrom('/tea'), 0)
  })

  t.test('one that tells both apart is probed for both, once', async (t) => {
    const { spelling, ask } = speller('possible', site)
    t.strictSame(await ask('/srv/site/\u00ff.css'), { from: 0, stat: 8, readdir: 0 })
    t.equal(spelling.spelledFrom('/srv/site/\u00ff.css'), 0)
    t.equal(spelling.spelledFrom('/srv/site/a.css'), 0)
  })

  t.test('only letters of ASCII are swapped: what else is a letter depends on the file system', async (t) => {
    const { ask } = speller('possible', (fs) => {
      fs.fold('/', (name) => name.replace(/[A-Z]/g, (letter) => letter.toLowerCase()))
      fs.write('/stra\u00dfe', '')
      fs.write('/\u00e4nderung', '')
    })
    t.equal((await ask('/STRA\u00dfE')).from, 7)
    t.equal((await ask('/\u00e4nderunG')).from, 9)
    t.equal((await ask('/stra\u00dfe')).from, 0)
  })

  t.test('short names', async (t) => {
    const { ask } = speller('possible', (fs) => {
      fs.fold('/', (name) => name.toLowerCase().replace(/^longfi~1/, 'long file name'))
      fs.write('/Long File Name.txt', '')
    })
    t.equal((await ask('/LONGFI~1.txt')).from, 13)
    t.equal((await ask('/Long File Name.txt')).from, 0)
  })

  t.test('a name that goes during the probe proves nothing', async (t) => {
    const { spelling, fs, ask } = speller('possible', foldingSite)
    fs.isManual = true
    const answer = codeOf(Promise.resolve(spelling.spelledFrom('/srv/site/a.css')))
    fs.unlink('/srv/site/a.css')
    await deliverAll(fs)
    t.equal(await answer, 'ENOENT')
    fs.isManual = false
    fs.write('/srv/site/a.css', '')
    t.equal((await ask('/srv/site/A.css')).from, 15)
  })

  t.test('a probe that fails otherwise than by ENOENT: the directory is read', async (t) => {
    const { fs, ask } = speller('possible', site)
    await ask('/srv/site')
    for (const code of ['EIO', 'EACCES', 'ENAMETOOLONG']) {
      fs.fail('stat', code, 1, '/srv/site/A.CSS')
      t.strictSame(await ask('/srv/site/a.css'), { from: 0, stat: 2, readdir: code === 'EIO' ? 1 : 0 }, code)
    }
    t.strictSame(await ask('/srv/site/a.css'), { from: 0, stat: 2, readdir: 0 }, 'nothing was concluded')
  })

  t.test('1000 directories are remembered, those probed last', async (t) => {
    const { spelling, clock, ask } = speller('possible', (fs) => {
      for (let i = 0; i < 1000; i++) {
        fs.mkdir(`/d${i}`)
        fs.write(`/d${i}/a`, '')
      }
    })
    for (let i = 0; i < 999; i++) await ask(`/d${i}/a`)
    t.equal(spelling.spelledFrom('/d0/a'), 0)
    await ask('/d999/a')
    t.strictSame(await ask('/d1/a'), { from: 0, stat: 0, readdir: 0 })
    t.strictSame(await ask('/d0/a'), { from: 0, stat: 4, readdir: 0 }, 'its own, and those of /, which went for it')
    clock.jump(60_000)
    await ask('/d2/a')
    for (let i = 3; i < 1000; i++) await ask(`/d${i}/a`)
    t.equal(spelling.spelledFrom('/d2/a'), 0, 'one that is probed again counts as new')
  })
})

t.test("'certain'", async (t) => {
  t.test('a miss in a known directory reads one directory', async (t) => {
    const { ask } = speller('certain', foldingSite)
    t.strictSame(await ask('/srv/site/a.css'), { from: 0, stat: 3, readdir: 3 })
    t.strictSame(await ask('/srv/site/b.css'), { from: 0, stat: 3, readdir: 1 })
    t.strictSame(await ask('/srv/site/B.css'), { from: 15, stat: 2, readdir: 1 })
    t.strictSame(await ask('/srv/site/2024'), { from: 0, stat: 3, readdir: 1 }, 'whatever the name')
    t.strictSame(await ask('/srv/site/'), { from: 0, stat: 2, readdir: 0 })
    t.strictSame(await ask('/SRV/site'), { from: 4, stat: 3, readdir: 2 })
  })

  t.test('the root has no name', async (t) => {
    const { spelling, fs } = speller('certain', foldingSite)
    t.equal(spelling.spelledFrom('/'), 0)
    t.strictSame(fs.calls, {})
  })

  t.test('on the real file system', async (t) => {
    const dir = fs.realpathSync.native(t.testdir({ d: { a: '' } }))
    const port: FileSystem = { ...nodeFileSystem(), nameFolding: 'certain' }
    const spelling = new Spelling(port, fakeWorld().clock)
    t.equal(await spelling.spelledFrom(join(dir, 'd', 'a')), 0)
    t.equal(await spelling.spelledFrom(parse(dir).root), 0)
    t.equal(await spelling.spelledFrom(dir + sep), 0)
  })

  t.test('a directory that cannot be read: its names are not spelled as they are stored', async (t) => {
    const { fs, ask } = speller('certain', foldingSite)
    fs.chmod('/srv', false)
    t.equal((await ask('/srv/site/a.css')).from, 9)
    fs.fail('readdir', 'EPERM', 1, '/srv/site/')
    t.equal((await ask('/srv/site/b.css')).from, 15)
  })

  t.test('what is gone since it was found is missing, not misspelled', async (t) => {
    const { fs, ask } = speller('certain', foldingSite)
    for (const name of ['stat', 'readdir'] as const) {
      for (const code of ['ENOENT', 'ENOTDIR']) {
        fs.fail(name, code, 1, '/srv/site/')
        t.equal(await codeOf(ask('/srv/site/b.css')), code)
      }
    }
  })

  t.test('a failure that may pass says nothing', async (t) => {
    const { fs, ask } = speller('certain', foldingSite)
    for (const name of ['stat', 'readdir'] as const) {
      for (const code of ['EMFILE', 'EIO', 'ESTALE']) {
        fs.fail(name, code)
        t.equal(await codeOf(ask('/srv/site/a.css')), code)
      }
    }
    t.equal((await ask('/srv/site/a.css')).from, 0)
  })

  t.test('1000 names are remembered, those used last', async (t) => {
    const { ask } = speller('certain', (fs) => {
      fs.mkdir('/d')
      for (let i = 0; i < 1000; i++) fs.write(`/d/${i}`, '')
    })
    for (let i = 0; i < 999; i++) await ask(`/d/${i}`)
    t.strictSame(await ask('/d/0'), { from: 0, stat: 2, readdir: 0 })
    t.strictSame(await ask('/d/999'), { from: 0, stat: 2, readdir: 1 })
    t.strictSame(await ask('/d/0'), { from: 0, stat: 2, readdir: 0 })
    t.strictSame(await ask('/d/1'), { from: 0, stat: 2, readdir: 1 })
  })
})

/** A cache over a site on a file system that folds case, its changes long ago. */
function foldingTest (t: Test, name: string, options: OpenFileCacheOptions, body: (t: Test, engine: Engine) => Promise<void>): void {
  for (const nameFolding of ['possible', 'certain'] as const) {
    engineTest(t, `${name}, ${nameFolding}`, options, async (t, engine) => {
      engine.fs.nameFolding = nameFolding
      foldingSite(engine.fs)
      engine.clock.jump(10_000)
      await body(t, engine)
    })
  }
}

t.test('the cache', async (t) => {
  foldingTest(t, 'a misspelled name is not there for those who say so', {}, async (t, { cache }) => {
    const exact = cache.policy({ spelledBelow: '/srv' })
    const negative = { kind: 'negative', errno: 'ENOENT' }
    t.strictSame(await cache.open('/srv/site/A.css', exact), negative)
    t.equal(await fetched(cache, '/srv/site/A.css'), 'a.css')
    const lease = await opened(cache, '/srv/site/A.css')
    t.strictSame(await cache.open('/srv/site/A.css', exact), negative)
    t.strictSame(cache.lookup('/srv/site/A.css', exact), negative)
    t.equal(cache.lease('/srv/site/A.css', exact), undefined)
    t.equal(cache.lookup('/srv/site/A.css'), lease.snapshot)
    lease.release()
    t.strictSame(await cache.list('/srv/SITE', exact), negative)
    t.match(await cache.list('/srv/SITE'), [{ name: '2024' }, { name: 'a.css' }, { name: 'b.css' }, { name: 'ÿ.css' }, { name: '日本' }])
    t.strictSame(cache.lease('/srv/SITE', exact), undefined)
    t.equal(await fetched(cache, '/srv/site/a.css', exact), 'a.css')
    t.match(await statsOf(cache), { entries: 3, negativeEntries: 0, leases: 0 })
  })

  foldingTest(t, 'names at and above the directory may be spelled in any way', {}, async (t, { cache }) => {
    for (const [path, spelledBelow, expected] of [
      ['/SRV/site/a.css', '/SRV', undefined],
      ['/SRV/site/a.css', '/', 'ENOENT'],
      ['/SRV/Site/a.css', '/SRV', 'ENOENT'],
      ['/SRV/Site/a.css', '/SRV/', 'ENOENT'],
      ['/SRV/Site/a.css', '/SRV/Site', undefined],
      ['/SRV/Site/a.css', '/SRV/Site/', undefined],
      ['/SRV/Site/A.css', '/SRV/Site', 'ENOENT'],
      ['/SRV/Site', '/SRV/Site', undefined],
      ['/SRV/Site', '/SRV', 'ENOENT'],
      ['/srv/site/a.css', '/', undefined]
    ] as const) t.equal(await refusal(cache, path, cache.policy({ spelledBelow })), expected, `${path} below ${spelledBelow}`)
  })

  foldingTest(t, 'under a link policy, too', {}, async (t, { cache, fs }) => {
    fs.link('/srv/site/link', '/srv/site/a.css')
    const policy = cache.policy({ links: { symlinks: 'within-root', root: '/srv' }, spelledBelow: '/srv' })
    t.equal(await fetched(cache, '/srv/site/link', policy), 'a.css')
    t.equal(await refusal(cache, '/srv/site/LINK', policy), 'ENOENT')
    t.match(await cache.list('/srv/site', policy), { length: 6 })
    t.equal((await statsOf(cache)).leases, 0)
  })

  foldingTest(t, 'one flight answers each as it wants', {}, async (t, { cache, fs }) => {
    const exact = cache.policy({ spelledBelow: '/srv' })
    const answers = await Promise.all([exact, undefined, exact, undefined].map((policy) => cache.open('/srv/site/A.css', policy)))
    t.strictSame(answers.map(({ kind }) => kind), ['negative', 'file', 'negative', 'file'])
    t.equal(fs.count('open'), 1)
    t.match(await statsOf(cache), { leases: 2, openFiles: 1 })
    for (const answer of answers) if (answer.kind === 'file') answer.release()
    t.match(await statsOf(cache), { leases: 0, openFiles: 1 }, 'kept by two uses')
  })

  foldingTest(t, 'a refused look-up is a hit or a miss, but no use', { minUses: 1 }, async (t, { cache, fs, clock }) => {
    const exact = cache.policy({ spelledBelow: '/srv' })
    for (let i = 0; i < 3; i++) t.equal(await refusal(cache, '/srv/site/A.css', exact), 'ENOENT')
    cache.lookup('/srv/site/A.css', exact)
    await cache.open('/srv/site/A.css', exact, false)
    t.match(await statsOf(cache), { hits: 3, misses: 1, negativeHits: 0, openFiles: 0, entries: 1 })
    clock.jump(20_000)
    t.equal(await refusal(cache, '/srv/site/A.css', exact), 'ENOENT')
    t.match(await statsOf(cache), { misses: 2, openFiles: 0 })
    t.equal(fs.count('open'), 2)
  })

  foldingTest(t, 'refusals keep nothing open, and have nothing checked by the timer', { minUses: 1, inactive: '30s' }, async (t, { cache, clock }) => {
    const exact = cache.policy({ spelledBelow: '/srv' })
    await use(cache, '/srv/site/A.css')
    await use(cache, '/srv/site/b.css')
    t.equal(cache.stats().openFiles, 2)
    await clock.advance(10_000, async () => {
      cache.lookup('/srv/site/b.css')
      await cache.open('/srv/site/A.css', exact)
      await settled()
    })
    const { revalidations } = cache.stats()
    await clock.advance(19_500, async () => {
      cache.lookup('/srv/site/b.css')
      cache.lookup('/srv/site/A.css', exact)
      cache.lease('/srv/site/A.css', exact)
      await settled()
    })
    t.equal(cache.stats().revalidations, revalidations + 1, 'b.css')
    t.equal(cache.stats().openFiles, 2)
    await clock.advance(1000, async () => {
      cache.lookup('/srv/site/b.css')
      cache.lookup('/srv/site/A.css', exact)
      await settled()
    })
    t.match(cache.stats(), { openFiles: 1, entries: 1 })
  })

  foldingTest(t, 'a descriptor that was opened for refusals alone is closed', {
    memory: { max: 5, maxFileSize: 5 }
  }, async (t, { cache, clock, fs }) => {
    const exact = cache.policy({ spelledBelow: '/srv' })
    await held(cache, '/srv/site/A.css')
    await held(cache, '/srv/site/b.css')
    t.equal(keptAs(cache, '/srv/site/A.css'), undefined, 'retained, but its bytes are pushed out')
    clock.jump(20_000)
    const opens = fs.count('open')
    t.equal(await refusal(cache, '/srv/site/A.css', exact), 'ENOENT')
    t.equal(fs.count('open'), opens + 1)
    t.equal((await statsOf(cache)).openFiles, 0)
    t.equal(await fetched(cache, '/srv/site/A.css', exact).catch(() => 'refused'), 'refused')
    t.equal(await fetched(cache, '/srv/site/A.css'), 'a.css')
  })

  foldingTest(t, 'what goes between its opening and the look at its spelling is missing for errors, not for valid', {}, async (t, { cache, clock, fs }) => {
    const exact = cache.policy({ spelledBelow: '/srv' })
    fs.isManual = true
    const asked = refusal(cache, '/srv/site/b.css', exact)
    await deliver(fs, 'open')
    await deliver(fs, 'fstat')
    fs.unlink('/srv/site/b.css')
    await deliverAll(fs)
    t.equal(await asked, 'ENOENT')
    fs.isManual = false
    fs.write('/srv/site/b.css', 'back')
    t.equal(await refusal(cache, '/srv/site/b.css', exact), 'ENOENT', 'remembered')
    clock.jump(1000)
    t.equal(await fetched(cache, '/srv/site/b.css', exact), 'back')
  })

  foldingTest(t, 'one that others keep open stays', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    const exact = cache.policy({ spelledBelow: '/srv' })
    await use(cache, '/srv/site/A.css')
    fs.write('/srv/site/a.css', 'changed')
    clock.jump(20_000)
    t.equal(await refusal(cache, '/srv/site/A.css', exact), 'ENOENT')
    t.equal(keptAs(cache, '/srv/site/A.css'), 'open')
    t.equal(await fetched(cache, '/srv/site/A.css'), 'changed')
  })

  foldingTest(t, 'a file that is renamed to another case is noticed within valid', {}, async (t, { cache, clock, fs }) => {
    const exact = cache.policy({ spelledBelow: '/srv' })
    await use(cache, '/srv/site/a.css', 2, exact)
    fs.rename('/srv/site/a.css', '/srv/site/A.css')
    clock.jump(19_999)
    t.equal(await refusal(cache, '/srv/site/a.css', exact), undefined)
    clock.jump(1)
    t.equal(await refusal(cache, '/srv/site/a.css', exact), 'ENOENT')
    t.equal(await refusal(cache, '/srv/site/A.css', exact), undefined)
    fs.rename('/srv/site/A.css', '/srv/site/a.css')
    clock.jump(20_000)
    t.equal(await refusal(cache, '/srv/site/a.css', exact), undefined)
    t.equal(await refusal(cache, '/srv/site/A.css', exact), 'ENOENT')
  })

  foldingTest(t, 'a directory, too, by whose renaming the file does not change', {}, async (t, { cache, clock, fs }) => {
    const exact = cache.policy({ spelledBelow: '/srv' })
    await use(cache, '/srv/site/a.css', 2, exact)
    const opens = fs.count('open')
    fs.rename('/srv/site', '/srv/Site')
    clock.jump(20_000)
    t.equal(await refusal(cache, '/srv/site/a.css', exact), 'ENOENT')
    t.equal(keptAs(cache, '/srv/site/a.css'), 'open')
    t.equal(fs.count('open'), opens)
    fs.rename('/srv/Site', '/srv/site')
    clock.jump(20_000)
    t.equal(await refusal(cache, '/srv/site/a.css', exact), undefined)
    t.equal(fs.count('open'), opens)
  })

  foldingTest(t, 'and by the timer, before a request', {}, async (t, { cache, clock, fs }) => {
    const exact = cache.policy({ spelledBelow: '/srv' })
    await use(cache, '/srv/site/a.css', 2, exact)
    cache.lookup('/srv/site/a.css', exact)
    fs.rename('/srv/site', '/srv/Site')
    await clock.advance(19_999)
    t.match(cache.lookup('/srv/site/a.css', exact), { errno: 'ENOENT' })
    t.match(cache.lookup('/srv/site/a.css'), { kind: 'file' })
  })

  foldingTest(t, 'what is not there is not there for everybody', { errors: '1m' }, async (t, { cache, clock, fs }) => {
    const exact = cache.policy({ spelledBelow: '/srv' })
    await use(cache, '/srv/site/A.css')
    fs.unlink('/srv/site/a.css')
    clock.jump(20_000)
    t.strictSame(await Promise.all([refusal(cache, '/srv/site/A.css', exact), refusal(cache, '/srv/site/A.css')]), ['ENOENT', 'ENOENT'])
    t.match(cache.stats(), { entries: 0, negativeEntries: 1 })
  })

  foldingTest(t, 'bytes that are held while the spelling is looked at are not taken for checked', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.tickNs = 1_000_000_000n
    fs.write('/srv/site/a.css', 'old')
    const lease = await opened(cache, '/srv/site/a.css')
    fs.isManual = true
    const filled = lease.fill()
    await deliver(fs, 'read')
    fs.write('/srv/site/a.css', 'new')
    clock.jump(20_000)
    const answer = fetched(cache, '/srv/site/a.css')
    await deliver(fs, 'stat')
    t.match(fs.pending, [{ name: 'fstat' }, { name: 'stat' }], 'the end of the read, and a look at the spelling')
    await deliver(fs, 'fstat')
    await filled
    await deliverAll(fs)
    t.equal(await answer, 'new')
    lease.release()
  })

  foldingTest(t, 'a directory that may be entered but not read', {}, async (t, { cache, fs }) => {
    const exact = cache.policy({ spelledBelow: '/' })
    fs.chmod('/srv/site', false)
    t.equal(await refusal(cache, '/srv/site', exact), undefined)
    t.equal(await refusal(cache, '/srv/SITE', exact), 'ENOENT')
    t.equal(await refusal(cache, '/srv/SITE'), undefined)
    t.equal(await refusal(cache, '/srv/site/a.css', exact), 'ENOENT', 'nobody can tell how its names are spelled')
    t.equal(await refusal(cache, '/srv/site/a.css'), undefined)
  })

  foldingTest(t, 'a failure that may pass is nobody’s "not there"', {}, async (t, { cache, clock, fs }) => {
    const exact = cache.policy({ spelledBelow: '/srv' })
    fs.fail('readdir', 'EIO')
    t.equal(await codeOf(cache.open('/srv/site/a.css', exact)), 'EIO')
    t.match(await statsOf(cache), { entries: 0, negativeEntries: 0, openFiles: 0 })
    t.equal(await refusal(cache, '/srv/site/a.css', exact), undefined)
    clock.jump(20_000)
    fs.write('/srv/site/other', '')
    fs.fail('stat', 'EIO', 1, '/srv/site/')
    t.equal(await codeOf(cache.open('/srv/site/a.css', exact)), 'EIO')
    t.match(await statsOf(cache), { entries: 1, negativeEntries: 0, openFiles: 0 })
    fs.chmod('/srv/site', false)
    fs.fail('stat', 'EIO', 1, '/srv/')
    t.equal(await codeOf(cache.open('/srv/site', exact)), 'EIO')
    t.equal(await refusal(cache, '/srv/site', exact), undefined)
  })

  foldingTest(t, 'no descriptor left for the directory: idle ones make room', { minUses: 1 }, async (t, { cache, fs }) => {
    const exact = cache.policy({ spelledBelow: '/srv' })
    await use(cache, '/srv/site/b.css', 1, exact)
    fs.fail('readdir', 'EMFILE')
    t.equal(await refusal(cache, '/srv/site/a.css', exact), undefined)
    t.equal(keptAs(cache, '/srv/site/b.css'), undefined)
    t.equal(keptAs(cache, '/srv/site/a.css'), 'open')
  })

  foldingTest(t, 'what is invalidated while its spelling is looked at is not kept', { minUses: 1 }, async (t, { cache, fs }) => {
    const exact = cache.policy({ spelledBelow: '/srv' })
    fs.isManual = true
    const answers = [cache.open('/srv/site/A.css', exact), cache.open('/srv/site/A.css')]
    for (const name of ['open', 'fstat', 'stat']) await deliver(fs, name)
    cache.invalidate('/srv/site/A.css')
    await deliverAll(fs)
    const [refused, lease] = await Promise.all(answers)
    t.equal(refused?.kind, 'negative')
    t.match(cache.stats(), { entries: 0, leases: 1, openFiles: 1 })
    if (lease?.kind === 'file') {
      fs.isManual = false
      t.equal(await contentOf(lease), 'a.css')
      lease.release()
    }
    t.match(await statsOf(cache), { leases: 0, openFiles: 0 })
  })

  t.test('OpenFileCache.off() says so each time', async (t) => {
    const { clock, fileSystem: fs } = fakeWorld()
    fs.nameFolding = 'certain'
    foldingSite(fs)
    const cache = OpenFileCache.off({ clock, fileSystem: fs })
    const exact = cache.policy({ spelledBelow: '/srv' })
    t.equal(await refusal(cache, '/srv/site/A.css', exact), 'ENOENT')
    t.equal(await refusal(cache, '/srv/site/a.css', exact), undefined)
    t.equal(await refusal(cache, '/srv/SITE', exact), 'ENOENT')
    t.match(await statsOf(cache), { openFiles: 0, leases: 0, entries: 0 })
  })

  t.test('on the real file system', async (t) => {
    const dir = fs.realpathSync.native(t.testdir({ d: { 'a.css': 'a' } }))
    const cache = new OpenFileCache()
    const exact = cache.policy({ spelledBelow: dir })
    t.equal(await fetched(cache, join(dir, 'd', 'a.css'), exact), 'a')
    t.equal(await refusal(cache, join(dir, 'd', 'A.css'), exact), 'ENOENT')
    t.equal(await refusal(cache, join(dir, 'D', 'a.css'), exact), 'ENOENT')
    t.match(await cache.list(join(dir, 'd'), exact), [{ name: 'a.css' }])
    await cache.close()
  })
})
