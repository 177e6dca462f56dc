import { execFile, execFileSync } from 'node:child_process'
import fs from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { nodeFileSystem } from '../lib/file-system'
import { OpenFileCache } from '../lib/open-file-cache'
import { contentOf, fetched, held, listeningSocket, opened, readAt, refusal, stateOf, use } from './fixtures/engine'
import { FakeClock, settled } from './fixtures/fake-world'
import type { Test } from 'tap'
import type { FileSystem, OpenFileCacheOptions } from '../types/open-file-cache'

const isLinux = process.platform === 'linux'
const onWindows = process.platform === 'win32' && 'Windows has none of this'
const VALID = 20_000

/** A port that knows when the system has done all that it was asked for. */
interface WatchedFileSystem extends FileSystem {
  quiet (): Promise<void>
}

function watched (port: FileSystem): WatchedFileSystem {
  const calls = new Set<Promise<unknown>>()
  const watch = <A extends unknown[], R>(call: (...args: A) => Promise<R>) => (...args: A): Promise<R> => {
    const result = call(...args)
    const done = (): void => { calls.delete(result) }
    calls.add(result)
    result.then(done, done)
    return result
  }
  return {
    ...port,
    open: watch(port.open),
    close: watch(port.close),
    fstat: watch(port.fstat),
    stat: watch(port.stat),
    realpath: watch(port.realpath),
    readdir: watch(port.readdir),
    realpathOf: watch(port.realpathOf),
    isRemote: watch(port.isRemote),
    async quiet () {
      await settled()
      while (calls.size > 0) {
        await Promise.allSettled(calls)
        await settled()
      }
    }
  }
}

interface Real {
  readonly cache: OpenFileCache
  readonly clock: FakeClock
  readonly dir: string
  /** Checks that as many descriptors are open below `dir` as the cache says, and how many that is. */
  openIs (expected?: number): Promise<void>
}

function descriptorsBelow (dir: string): string[] {
  return fs.readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [fs.readlinkSync(`/proc/self/fd/${fd}`)]
    } catch {
      return []
    }
  }).filter((path) => path.startsWith(dir + '/') || path === dir)
}

/** A test of the engine over the real file system, with a clock that nobody waits for. */
function realTest (
  t: Test, name: string, options: OpenFileCacheOptions, tree: Parameters<Test['testdir']>[0],
  body: (t: Test, real: Real) => Promise<void>, skip: string | false = false
): void {
  t.test(name, { skip }, async (t) => {
    const clock = new FakeClock()
    // Files that were made just now are settled.
    clock.wallOffset = Date.now() + 60_000
    const port = watched(nodeFileSystem())
    const cache = new OpenFileCache({ minUses: 1, valid: VALID, ...options }, { clock, fileSystem: port })
    const dir = fs.realpathSync(t.testdir(tree))
    const openIs = async (expected?: number): Promise<void> => {
      await port.quiet()
      const { openFiles } = cache.stats()
      if (expected !== undefined) t.equal(openFiles, expected, 'descriptors as the cache counts them')
      if (isLinux) t.equal(descriptorsBelow(dir).length, openFiles, 'descriptors as the kernel shows them')
    }
    await body(t, { cache, clock, dir, openIs })
    await cache.close()
    await openIs(0)
    const { opens, closes, leases, bodyBytes } = cache.stats()
    t.strictSame({ closes, leases, bodyBytes }, { closes: opens, leases: 0, bodyBytes: 0 })
  })
}

/** As a deploy does it: a new file beside, renamed over. */
function replace (path: string, content: string): void {
  fs.writeFileSync(`${path}.tmp`, content)
  fs.renameSync(`${path}.tmp`, path)
}

function swapLink (path: string, target: string): void {
  fs.symlinkSync(target, `${path}.tmp`)
  fs.renameSync(`${path}.tmp`, path)
}

t.test('a file that changes', async (t) => {
  realTest(t, 'P04 P32 replaced by rename: within valid the old version whole, then the new one', {}, { a: 'version 0' }, async (t, { cache, clock, dir, openIs }) => {
    for (let i = 1; i <= 50; i++) {
      const before = await opened(cache, `${dir}/a`)
      replace(`${dir}/a`, `version ${i}`.repeat(i))
      t.equal(await fetched(cache, `${dir}/a`), i === 1 ? 'version 0' : `version ${i - 1}`.repeat(i - 1))
      clock.jump(VALID)
      t.equal(await fetched(cache, `${dir}/a`), `version ${i}`.repeat(i))
      before.release()
    }
    await openIs(1)
  })

  realTest(t, 'P01 P02 P30 edited in place: longer, shorter, empty; length and bytes are of one version at once', {}, { a: 'A'.repeat(10) }, async (t, { cache, clock, dir, openIs }) => {
    t.equal(await fetched(cache, `${dir}/a`), 'A'.repeat(10))
    for (const content of ['B'.repeat(20), 'CC', '', 'D']) {
      fs.writeFileSync(`${dir}/a`, content)
      const lease = await opened(cache, `${dir}/a`)
      const current = await lease.current()
      t.equal(current.size, content.length)
      t.equal(current.mtimeNs, fs.statSync(`${dir}/a`, { bigint: true }).mtimeNs)
      t.equal(await contentOf(lease), content)
      lease.release()
      clock.jump(VALID)
      t.equal(await fetched(cache, `${dir}/a`), content)
    }
    await openIs(1)
  })

  realTest(t, 'P09 P17 edited in place to the same length, with the old mtime: seen after valid', {}, { a: 'aaaaaaaaaa' }, async (t, { cache, clock, dir, openIs }) => {
    const path = `${dir}/a`
    fs.utimesSync(path, 1, 1)
    await held(cache, path)
    const snapshots = new Set([cache.lookup(path)])
    for (const content of ['bbbbbbbbbb', 'cccccccccc', 'dddddddddd']) {
      const { ctimeNs } = fs.statSync(path, { bigint: true })
      do {
        fs.writeFileSync(path, content)
        fs.utimesSync(path, 1, 1)
      } while (fs.statSync(path, { bigint: true }).ctimeNs === ctimeNs)
      clock.jump(VALID)
      t.equal(await fetched(cache, path), content)
      t.equal(stateOf(cache, path), 'held')
      snapshots.add(cache.lookup(path))
    }
    t.equal(snapshots.size, 4, 'each a snapshot of its own')
    await openIs(0)
  })

  realTest(t, 'P10 replaced by rename, with the same size and mtime: seen after valid', {}, { a: 'aaaaaaaaaa' }, async (t, { cache, clock, dir }) => {
    fs.utimesSync(`${dir}/a`, 1, 1)
    t.equal(await fetched(cache, `${dir}/a`), 'aaaaaaaaaa')
    fs.writeFileSync(`${dir}/b`, 'bbbbbbbbbb')
    fs.utimesSync(`${dir}/b`, 1, 1)
    fs.renameSync(`${dir}/b`, `${dir}/a`)
    clock.jump(VALID)
    t.equal(await fetched(cache, `${dir}/a`), 'bbbbbbbbbb')
  })

  realTest(t, 'P08 valid: 0: fresh on each request', { valid: 0 }, { a: '' }, async (t, { cache, dir }) => {
    for (let i = 0; i < 20; i++) {
      fs.writeFileSync(`${dir}/a`, `edited ${i}`)
      t.equal(await fetched(cache, `${dir}/a`), `edited ${i}`)
      replace(`${dir}/a`, `replaced ${i}`)
      t.equal(await fetched(cache, `${dir}/a`), `replaced ${i}`)
    }
  })

  realTest(t, 'P28 P37 deleted: not there after valid, and the disk gets its space back', { errors: false }, { a: 'a' }, async (t, { cache, clock, dir, openIs }) => {
    await use(cache, `${dir}/a`)
    await openIs(1)
    fs.unlinkSync(`${dir}/a`)
    t.equal(await fetched(cache, `${dir}/a`), 'a')
    clock.jump(VALID)
    t.equal(await refusal(cache, `${dir}/a`), 'ENOENT')
    await openIs(0)
    fs.writeFileSync(`${dir}/a`, 'again')
    t.equal(await fetched(cache, `${dir}/a`), 'again')
  })

  realTest(t, 'P38 deleted and replaced while it is sent: the whole old version', { max: 1 }, { a: 'the old version', b: 'b' }, async (t, { cache, clock, dir, openIs }) => {
    const lease = await opened(cache, `${dir}/a`)
    fs.unlinkSync(`${dir}/a`)
    fs.writeFileSync(`${dir}/a`, 'new')
    await use(cache, `${dir}/b`)
    clock.jump(VALID)
    t.equal(await fetched(cache, `${dir}/a`), 'new')
    await openIs(2)
    t.equal((await lease.current()).size, 15)
    t.equal(await contentOf(lease), 'the old version')
    lease.release()
    await openIs(1)
  })

  realTest(t, 'P47 replaced as fast as possible: never a length of one version with bytes of another', { valid: 0 }, { a: 'x'.repeat(10) }, async (t, { cache, dir, openIs }) => {
    const reading = { isDone: false }
    const writer = (async () => {
      for (let i = 0; !reading.isDone; i++) {
        await fs.promises.writeFile(`${dir}/x`, i % 2 === 0 ? 'y'.repeat(20) : 'x'.repeat(10))
        await fs.promises.rename(`${dir}/x`, `${dir}/a`)
      }
    })()
    const seen = { x: 0, y: 0 }
    let mismatches = 0
    for (let i = 0; i < 300; i++) {
      await Promise.all(Array.from({ length: 4 }, async (_, j) => {
        const lease = await opened(cache, `${dir}/a`)
        const { size } = await lease.current()
        if (j === 0) await lease.fill()
        const content = await contentOf(lease)
        if (content === 'x'.repeat(size) && size === 10) seen.x++
        else if (content === 'y'.repeat(size) && size === 20) seen.y++
        else mismatches++
        lease.release()
      }))
    }
    reading.isDone = true
    await writer
    t.equal(mismatches, 0)
    t.equal(seen.x + seen.y, 1200)
    t.ok(seen.x > 0 && seen.y > 0)
    await openIs()
  })
})

t.test('links', async (t) => {
  realTest(t, 'P07 a release link is swapped: everything from the new release, the old one is closed', {}, {
    releases: { 1: { a: 'one', sub: { b: 'one' } }, 2: { a: 'two', sub: { b: 'two' } } },
    current: t.fixture('symlink', 'releases/1')
  }, async (t, { cache, clock, dir, openIs }) => {
    const paths = [`${dir}/current/a`, `${dir}/current/sub/b`]
    for (const path of paths) t.equal(await fetched(cache, path), 'one')
    swapLink(`${dir}/current`, 'releases/2')
    for (const path of paths) t.equal(await fetched(cache, path), 'one')
    clock.jump(VALID)
    for (const path of paths) t.equal(await fetched(cache, path), 'two')
    fs.rmSync(`${dir}/releases/1`, { recursive: true })
    await openIs(2)
    if (isLinux) t.strictSame(descriptorsBelow(`${dir}/releases/1`), [])
  })

  realTest(t, 'P06 a ConfigMap swaps its ..data link; size and mtime are the same', {}, {
    '..v1': { 'x.json': '{"v":1}' },
    '..v2': { 'x.json': '{"v":2}' },
    '..data': t.fixture('symlink', '..v1'),
    'x.json': t.fixture('symlink', '..data/x.json')
  }, async (t, { cache, clock, dir, openIs }) => {
    for (const version of ['..v1', '..v2']) fs.utimesSync(`${dir}/${version}/x.json`, 1, 1)
    await held(cache, `${dir}/x.json`)
    t.equal(await fetched(cache, `${dir}/x.json`), '{"v":1}')
    swapLink(`${dir}/..data`, '..v2')
    fs.rmSync(`${dir}/..v1`, { recursive: true })
    t.equal(await fetched(cache, `${dir}/x.json`), '{"v":1}')
    clock.jump(VALID)
    t.equal(await fetched(cache, `${dir}/x.json`), '{"v":2}')
    await openIs(0)
  })

  const linked = {
    root: {
      a: 'in',
      d: { b: 'in' },
      inner: t.fixture('symlink', 'd/b'),
      innerdir: t.fixture('symlink', 'd'),
      outer: t.fixture('symlink', '../secret'),
      outerdir: t.fixture('symlink', '../private'),
      'a (deleted)': 'in'
    },
    private: { s: 'out' },
    secret: 'out',
    current: t.fixture('symlink', 'root')
  }

  for (const procfs of ['/proc/self', '/there/is/no/procfs']) {
    for (const symlinks of ['within-root', 'deny'] as const) {
      t.test(`P101 ${symlinks}, ${procfs}`, async (t) => {
        const port = watched(nodeFileSystem(procfs))
        const clock = new FakeClock()
        const cache = new OpenFileCache({ minUses: 1, errors: false }, { clock, fileSystem: port })
        const dir = fs.realpathSync(t.testdir(linked))
        const inner = symlinks === 'deny' ? 'ELOOP' : 'in'
        for (const root of [`${dir}/root`, `${dir}/current`]) {
          const policy = cache.policy({ links: { symlinks, root } })
          const answer = async (name: string): Promise<string | undefined> =>
            await refusal(cache, `${root}/${name}`, policy) ?? await fetched(cache, `${root}/${name}`, policy)
          for (const [name, expected] of [
            ['a', 'in'], ['d/b', 'in'], ['a (deleted)', 'in'], ['inner', inner], ['innerdir/b', inner],
            ['outer', 'ELOOP'], ['outerdir/s', 'ELOOP'], ['../secret', 'ELOOP'], ['none', 'ENOENT']
          ] as const) t.equal(await answer(name), expected, `${root}/${name}`)
          swapLink(`${dir}/root/d/b`, '../../secret')
          clock.jump(VALID)
          t.equal(await answer('d/b'), 'ELOOP', 'swapped after it was cached')
          replace(`${dir}/root/d/b`, 'in')
          clock.jump(VALID)
          t.equal(await answer('d/b'), 'in')
        }
        await cache.close()
        await port.quiet()
        t.match(cache.stats(), { openFiles: 0, leases: 0 })
        if (isLinux) t.strictSame(descriptorsBelow(dir), [])
      })
    }
  }
})

t.test('special files', async (t) => {
  realTest(t, 'P36 a FIFO and a socket are not there; a directory is one; each is closed once', { errors: false }, { d: {}, a: 'a' }, async (t, { cache, dir, openIs }) => {
    execFileSync('mkfifo', [`${dir}/fifo`])
    fs.symlinkSync(await listeningSocket(t), `${dir}/s`)
    for (let i = 0; i < 10; i++) {
      const answers = await Promise.all(['fifo', 's', 'd', 'a', 'fifo'].map((name) => cache.open(`${dir}/${name}`)))
      t.match(answers, [{ errno: 'ENOENT' }, { errno: 'ENOENT' }, { state: 'metadata-only' }, { state: 'open' }, { errno: 'ENOENT' }])
      for (const answer of answers) if (!('errno' in answer)) answer.release()
    }
    await openIs(1)
  }, onWindows)

  realTest(t, 'a file becomes a FIFO, a directory, a file', { errors: false }, { a: 'a' }, async (t, { cache, clock, dir, openIs }) => {
    const path = `${dir}/a`
    await use(cache, path)
    await openIs(1)
    fs.unlinkSync(path)
    execFileSync('mkfifo', [path])
    clock.jump(VALID)
    t.equal(await refusal(cache, path), 'ENOENT')
    await openIs(0)
    fs.unlinkSync(path)
    fs.mkdirSync(path)
    t.equal((await opened(cache, path)).snapshot.kind, 'directory')
    fs.rmdirSync(path)
    fs.writeFileSync(path, 'b')
    clock.jump(VALID)
    t.equal(await fetched(cache, path), 'b')
    await openIs(1)
  }, onWindows)

  realTest(t, 'P90 P91 names that lead nowhere', { errors: '1m' }, { a: '', loop: t.fixture('symlink', 'loop') }, async (t, { cache, dir, openIs }) => {
    for (const [name, errno] of [
      ['none', 'ENOENT'], ['a/b', 'ENOTDIR'], ['a/', 'ENOTDIR'], ['loop', 'ELOOP'], ['n'.repeat(256), 'ENAMETOOLONG'],
      [Array(30).fill('n'.repeat(200)).join('/'), 'ENAMETOOLONG']
    ] as const) t.equal(await refusal(cache, `${dir}/${name}`), errno)
    t.equal(cache.stats().negativeEntries, 4, 'the last two are not stored')
    await t.rejects(cache.open(`${dir}/a\0b`), { code: 'ERR_INVALID_ARG_VALUE' })
    await openIs(0)
  }, onWindows)
})

t.test('many', async (t) => {
  const many = (count: number): Record<string, string> =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, `content of ${i}`]))

  realTest(t, 'P26 P31 five hundred files through a cache of two', { max: 2 }, many(500), async (t, { cache, dir, openIs }) => {
    for (let i = 0; i < 500; i++) {
      const bodies = await Promise.all(Array.from({ length: 3 }, () => fetched(cache, `${dir}/f${i}`)))
      if (bodies.some((body) => body !== `content of ${i}`)) t.fail(`f${i}`)
      if (i % 50 === 0) await openIs(Math.min(2, i + 1))
    }
    t.equal(cache.stats().opens, 500)
    await openIs(2)
  })

  realTest(t, 'P39 a hundred files, open and held', {}, many(100), async (t, { cache, dir, openIs }) => {
    await Promise.all(Array.from({ length: 50 }, (_, i) => use(cache, `${dir}/f${i}`)))
    await Promise.all(Array.from({ length: 50 }, (_, i) => held(cache, `${dir}/f${i + 50}`)))
    await openIs(50)
    t.equal(cache.stats().bodyBytes, 50 * 'content of 99'.length)
    for (let i = 0; i < 100; i++) t.equal(await fetched(cache, `${dir}/f${i}`), `content of ${i}`)
  })

  realTest(t, 'P35 twenty readers of one descriptor, 8 MiB each', {}, {}, async (t, { cache, dir, openIs }) => {
    const content = Buffer.alloc(8 * 1024 * 1024)
    for (let i = 0; i < content.length; i += 4) content.writeUInt32LE(i, i)
    fs.writeFileSync(`${dir}/large`, content)
    const bodies = await Promise.all(Array.from({ length: 20 }, async () => {
      const lease = await opened(cache, `${dir}/large`)
      let isEqual = true
      for (let position = 0; position < content.length;) {
        const chunk = await readAt(lease, 256 * 1024, position)
        isEqual &&= content.subarray(position, position + chunk.length).equals(chunk)
        position += chunk.length
      }
      lease.release()
      return isEqual
    }))
    t.strictSame(bodies, Array(20).fill(true))
    t.equal(cache.stats().opens, 1)
    await openIs(1)
  })

  realTest(t, 'random work: what the kernel has open is what the cache says', { max: 8, memory: { max: 100, maxFileSize: 30 }, minUses: 2 }, many(20), async (t, { cache, clock, dir, openIs }) => {
    let seed = 1
    const random = (below: number): number => {
      seed = (seed * 48_271) % 0x7fffffff
      return seed % below
    }
    const work: Array<() => Promise<unknown>> = [
      () => cache.open(`${dir}/f${random(22)}`).then(async (answer) => {
        if ('errno' in answer) return
        if (random(2) === 0) await answer.fill()
        if (random(2) === 0) await answer.current()
        answer.release()
      }),
      async () => { replace(`${dir}/f${random(20)}`, `replaced ${random(1000)}`) },
      async () => { fs.writeFileSync(`${dir}/f${random(20)}`, 'x'.repeat(random(40))) },
      async () => { fs.rmSync(`${dir}/f${random(20)}`, { force: true }) },
      async () => { cache.invalidate(`${dir}/f${random(20)}`) },
      async () => { if (random(10) === 0) cache.clear() },
      async () => { clock.jump(random(VALID)) },
      () => clock.advance(random(1000))
    ]
    for (let round = 0; round < 40; round++) {
      await Promise.all(Array.from({ length: 20 }, () => (work[random(work.length)] as () => Promise<unknown>)()))
      await openIs()
      t.ok(cache.stats().openFiles <= 8)
    }
  })
})

t.test('in processes of their own', async (t) => {
  const run = promisify(execFile)
  const lib = join(__dirname, '..', 'lib')

  const child = async (t: Test, program: string, shell = 'exec "$@"'): Promise<unknown> => {
    const path = join(t.testdir({ 'program.ts': program.replaceAll('LIB', lib) }), 'program.ts')
    const { stdout } = await run('sh', ['-c', shell, 'sh', process.execPath, ...process.execArgv, path], { timeout: 50_000 })
    return JSON.parse(stdout)
  }

  t.test('what this user may not read is forbidden, a directory that may be entered is a directory', {
    skip: onWindows || (process.getuid?.() !== 0 && 'only root can become another user')
  }, async (t) => {
    const dir = fs.mkdtempSync('/tmp/open-file-cache-')
    t.teardown(() => fs.rmSync(dir, { recursive: true }))
    fs.chmodSync(dir, 0o755)
    for (const [name, mode] of [['enter', 0o711], ['closed', 0o700]] as const) {
      fs.mkdirSync(`${dir}/${name}`)
      fs.writeFileSync(`${dir}/${name}/a`, 'a')
      fs.chmodSync(`${dir}/${name}/a`, 0o644)
      fs.chmodSync(`${dir}/${name}`, mode)
    }
    fs.writeFileSync(`${dir}/secret`, 's')
    fs.chmodSync(`${dir}/secret`, 0o600)
    fs.writeFileSync(`${dir}/changes`, 'c')
    fs.chmodSync(`${dir}/changes`, 0o644)
    const answers = await child(t, `
      import { chmodSync } from 'node:fs'
      import { FakeClock } from 'LIB/../test/fixtures/fake-world'
      import { OpenFileCache } from 'LIB/open-file-cache'
      const clock = new FakeClock()
      const cache = new OpenFileCache({ minUses: 1 }, { clock })
      const answers = {}
      const ask = async (name) => {
        const answer = await cache.open('${dir}/' + name)
        answers[name] = answer.errno ?? answer.snapshot.kind
        answer.release?.()
      }
      const main = async () => {
        process.seteuid(65534)
        for (const name of ['enter', 'enter/a', 'closed', 'closed/a', 'secret', 'changes']) await ask(name)
        process.seteuid(0)
        chmodSync('${dir}/changes', 0o600)
        process.seteuid(65534)
        clock.jump(20_000)
        await ask('changes')
        await cache.close()
        console.log(JSON.stringify({ ...answers, open: cache.stats().openFiles }))
      }
      main()
    `)
    t.strictSame(answers, {
      enter: 'directory', 'enter/a': 'file', closed: 'directory', 'closed/a': 'EACCES', secret: 'EACCES', changes: 'EACCES', open: 0
    })
  })

  t.test('P23 P109 with sixty-four descriptors: clamped, one warning, recovers from EMFILE', { skip: onWindows }, async (t) => {
    const result = await child(t, `
      import { writeFileSync } from 'node:fs'
      import { OpenFileCache } from 'LIB/open-file-cache'
      const cache = new OpenFileCache({ max: 1000, minUses: 1, memory: false })
      const warnings = []
      process.on('warning', ({ message }) => warnings.push(message))
      const main = async () => {
        for (let i = 0; i < 200; i++) writeFileSync(__dirname + '/f' + i, 'x')
        for (let i = 0; i < 200; i++) (await cache.open(__dirname + '/f' + i)).release()
        // The last closes may be under way.
        for (let i = 0; i < 100_000 && cache.stats().openFiles > 32; i++) await new Promise((resolve) => setImmediate(resolve))
        const { openFiles } = cache.stats()
        const answers = await Promise.allSettled(Array.from({ length: 200 }, (_, i) => cache.open(__dirname + '/f' + i)))
        const kinds = answers.map(({ value, reason }) => reason?.code ?? value.errno ?? value.snapshot.kind)
        for (const { value } of answers) value?.release?.()
        let served = 0
        for (let i = 0; i < 200; i++) {
          const answer = await cache.open(__dirname + '/f' + i)
          if (answer.snapshot?.kind === 'file') served++
          answer.release()
        }
        console.log(JSON.stringify({
          openFiles, kinds: [...new Set(kinds)].sort(), served, warnings: warnings.length, entries: cache.stats().entries
        }))
      }
      main()
    `, 'ulimit -n 64 && exec "$@"')
    t.strictSame(result, { openFiles: 32, kinds: ['EMFILE', 'file'], served: 200, warnings: 1, entries: 200 })
  })

  t.test('P39 nothing is left to the garbage collector', async (t) => {
    const result = await child(t, `
      import { OpenFileCache } from 'LIB/open-file-cache'
      import { setFlagsFromString } from 'node:v8'
      import { runInNewContext } from 'node:vm'
      setFlagsFromString('--expose-gc')
      const warnings = []
      process.on('warning', ({ message }) => warnings.push(message))
      const main = async () => {
        let cache = new OpenFileCache({ minUses: 1 })
        const lease = await cache.open(__filename)
        lease.release()
        await cache.close()
        const { openFiles } = cache.stats()
        cache = undefined
        for (let i = 0; i < 5; i++) {
          await new Promise((resolve) => setImmediate(resolve))
          runInNewContext('gc')()
        }
        console.log(JSON.stringify({ openFiles, warnings }))
      }
      main()
    `)
    t.strictSame(result, { openFiles: 0, warnings: [] })
  })
})
