// Sections A1 (freshness) and A2 (negative entries, limits) of the public cases.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { appendFileSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, truncateSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import cachedStatic from '../lib/index'
import { OpenFileCache } from '../lib/open-file-cache'
import { bytesOf, descriptorsUnder, hasProcfs, until, versionOf } from './fixtures/files'
import { openSite, siteTest } from './fixtures/live-site'
import { RawConnection, rawRequest } from './fixtures/raw-client'
import type { OpenFileCacheOptions } from '../types/open-file-cache'
import type { Answer } from './fixtures/raw-client'

const V = 20_000
const LONG_AGO = new Date('2001-02-03T04:05:06Z')

type Version = ReturnType<typeof versionOf>

function isWhole ({ status, headers, body, complete }: Answer, version: Version): boolean {
  return status === 200 && complete && body.equals(version.body) && headers['content-length'] === version.length &&
    headers.etag === version.etag && headers['last-modified'] === version.lastModified
}

function replace (path: string, text: string): void {
  writeFileSync(`${path}.tmp`, text)
  renameSync(`${path}.tmp`, path)
}

/** Written a while ago, so that the next version has another time. */
function old (path: string, text: string): Version {
  writeFileSync(path, text)
  utimesSync(path, LONG_AGO, LONG_AGO)
  return versionOf(path)
}

/** The ways to keep a small file. */
const KEPT: Array<[how: string, options: OpenFileCacheOptions]> = [
  ['in memory', { valid: V, minUses: 1 }],
  ['by its descriptor', { valid: V, minUses: 1, memory: false }],
  ['not yet', { valid: V, minUses: 10 }]
]

for (const [how, cache] of KEPT) {
  siteTest(t, `P01 a file made longer in place, kept ${how}`, { cache }, async (t, site) => {
    const path = join(site.root, 'a.txt')
    const first = old(path, 'A'.repeat(10))
    for (let i = 0; i < 2; i++) t.ok(isWhole(await site.request('/a.txt'), first))
    writeFileSync(path, 'B'.repeat(20))
    const second = versionOf(path)
    const atOnce = await site.request('/a.txt')
    t.ok(isWhole(atOnce, first) || isWhole(atOnce, second), 'at once: no mixture')
    if (cache.memory === false) t.ok(isWhole(atOnce, second), 'an fstat of the descriptor leaves no window')
    site.clock.jump(V)
    t.ok(isWhole(await site.request('/a.txt'), second), 'after V: the new one')
  })

  siteTest(t, `P02 a file cut in place, kept ${how}`, { cache }, async (t, site) => {
    const path = join(site.root, 'a.txt')
    const first = old(path, '0123456789')
    for (let i = 0; i < 2; i++) t.ok(isWhole(await site.request('/a.txt'), first))
    truncateSync(path, 2)
    const second = versionOf(path)
    const connection = await site.connect()
    for (let i = 0; i < 3; i++) {
      const closing = await site.request('/a.txt')
      t.ok(isWhole(closing, first) || isWhole(closing, second))
      connection.request('/a.txt')
      const alive = await connection.answer()
      t.ok(isWhole(alive, first) || isWhole(alive, second), 'keep-alive does not stall')
    }
    site.clock.jump(V)
    connection.request('/a.txt')
    t.match(await connection.answer(), { status: 200, headers: { 'content-length': '2' }, body: Buffer.from('01') })
  })

  siteTest(t, `P04 a cover swapped by rename, kept ${how}`, { cache }, async (t, site) => {
    const path = join(site.root, 'x')
    const first = old(path, 'old cover')
    t.ok(isWhole(await site.request('/x'), first))
    replace(path, 'the new cover, which is longer')
    const second = versionOf(path)
    for (let i = 0; i < 3; i++) {
      const within = await site.request('/x')
      t.ok(isWhole(within, first) || isWhole(within, second), 'within V: one version whole')
    }
    site.clock.jump(V)
    t.ok(isWhole(await site.request('/x'), second), 'the first request after V')
  })

  siteTest(t, `P06 a ConfigMap update with the same time and size, kept ${how}`, { cache }, async (t, site) => {
    const { root } = site
    // All times are long enough ago to be trusted.
    site.clock.wallOffset += 60_000
    for (const [name, text] of [['..v1', '{"a":1}'], ['..v2', '{"a":2}']] as const) {
      mkdirSync(join(root, name))
      writeFileSync(join(root, name, 'x.json'), text)
      utimesSync(join(root, name, 'x.json'), LONG_AGO, LONG_AGO)
    }
    symlinkSync('..v1', join(root, '..data'))
    symlinkSync(join('..data', 'x.json'), join(root, 'x.json'))
    for (let i = 0; i < 2; i++) t.match(await site.request('/x.json'), { status: 200, body: Buffer.from('{"a":1}') })
    symlinkSync('..v2', join(root, '..data_tmp'))
    renameSync(join(root, '..data_tmp'), join(root, '..data'))
    site.clock.jump(V)
    t.match(await site.request('/x.json'), { status: 200, body: Buffer.from('{"a":2}') })
  })

  siteTest(t, `P09 appended again and again, kept ${how}`, { cache }, async (t, site) => {
    const path = join(site.root, 'log.txt')
    old(path, 'one ')
    for (const word of ['two ', 'three ', 'four ']) {
      for (let i = 0; i < 2; i++) await site.request('/log.txt')
      appendFileSync(path, word)
      site.clock.jump(V)
      t.ok(isWhole(await site.request('/log.txt'), versionOf(path)), word)
    }
  })

  siteTest(t, `P17 other bytes of the same length and time, kept ${how}`, { cache }, async (t, site) => {
    // All times are long enough ago to be trusted.
    site.clock.wallOffset += 60_000
    const path = join(site.root, 'a.txt')
    const { etag } = old(path, '0123456789')
    for (let i = 0; i < 2; i++) await site.request('/a.txt')
    old(path, 'abcdefghij')
    site.clock.jump(V)
    t.match(await site.request('/a.txt'), { status: 200, body: Buffer.from('abcdefghij') }, 'the change time tells')
    t.match(etag, /^W\//, 'weak, as two such versions share it')
  })
}

t.test('P07 a root that is a release link', async (t) => {
  const releases = t.testdir({ 1: { public: { 'a.txt': 'a of 1', 'b.bin': bytesOf(200_000, 1) } }, 2: { public: { 'a.txt': 'a of 2', 'b.bin': bytesOf(200_000, 2) } } })
  symlinkSync('1', join(releases, 'current'))
  const site = await openSite(t, releases, {
    cache: { valid: V, minUses: 1 }, plugin: { root: join(releases, 'current', 'public') }
  })
  for (let i = 0; i < 2; i++) {
    t.match(await site.request('/a.txt'), { status: 200, body: Buffer.from('a of 1') })
    t.match(await site.request('/b.bin'), { status: 200, body: bytesOf(200_000, 1) })
  }
  symlinkSync('2', join(releases, 'next'))
  renameSync(join(releases, 'next'), join(releases, 'current'))
  site.clock.jump(V)
  t.match(await site.request('/a.txt'), { status: 200, body: Buffer.from('a of 2') })
  t.match(await site.request('/b.bin'), { status: 200, body: bytesOf(200_000, 2) })
  rmSync(join(releases, '1'), { recursive: true })
  await site.idle(t, 1)
  if (hasProcfs) t.strictSame(descriptorsUnder(join(releases, '1')), [], 'release 1 is let go')
  t.match(await site.request('/a.txt'), { status: 200, body: Buffer.from('a of 2') })
  await site.end(t)
})

for (const [how, openFileCache] of [['openFileCache: false', false], ['valid: 0', { valid: 0 }]] as const) {
  siteTest(t, `P08 always fresh with ${how}`, { plugin: { openFileCache } }, async (t, site) => {
    const path = join(site.root, 'style.css')
    for (let i = 0; i < 10; i++) {
      if (i % 2 === 0) writeFileSync(path, `in place ${i}`)
      else replace(path, `by rename ${i}`)
      t.ok(isWhole(await site.request('/style.css'), versionOf(path)))
      t.ok(isWhole(await site.request('/style.css'), versionOf(path)))
    }
    rmSync(path)
    t.match(await site.request('/style.css'), { status: 404 })
    writeFileSync(path, 'again')
    t.match(await site.request('/style.css'), { status: 200 })
  })
}

siteTest(t, 'P10 reproducible builds: a tag of the content changes where size and time do not', {
  cache: { valid: V, minUses: 1 },
  plugin: { etag: (path) => `"${createHash('sha256').update(readFileSync(path)).digest('hex')}"` }
}, async (t, site) => {
  const path = join(site.root, 'a.js')
  writeFileSync(path, '0123456789')
  utimesSync(path, 1, 1)
  const { headers } = await site.request('/a.js')
  replace(path, 'abcdefghij')
  utimesSync(path, 1, 1)
  site.clock.jump(V)
  const answer = await site.request('/a.js', {
    'If-None-Match': headers.etag as string, 'If-Modified-Since': headers['last-modified'] as string
  })
  t.match(answer, { status: 200, body: Buffer.from('abcdefghij') })
  t.not(answer.headers.etag, headers.etag)
})

t.test('P11 two hosts give one file the same tag', async (t) => {
  const root = t.testdir({ one: { 'x.txt': 'the same' }, another: { 'x.txt': 'the same' } })
  const tags: unknown[] = []
  for (const host of ['one', 'another']) {
    utimesSync(join(root, host, 'x.txt'), LONG_AGO, LONG_AGO)
    const site = await openSite(t, join(root, host))
    tags.push((await site.request('/x.txt')).headers.etag)
    await site.end(t)
  }
  t.equal(tags[0], tags[1])
})

t.test('P12 off means off, and options stay with their registration', async (t) => {
  const root = t.testdir({ off: { 'x.txt': 'off' }, on: { 'x.txt': 'on' } })
  const off = Object.freeze({ root: join(root, 'off'), prefix: '/off', openFileCache: false, decorateReply: false } as const)
  const on = Object.freeze({ root: join(root, 'on'), prefix: '/on', openFileCache: Object.freeze({ minUses: 1, memory: false }) } as const)
  const site = await openSite(t, root, {
    plugin: { serve: false, decorateReply: false, openFileCache: false },
    after: async (app) => {
      await app.register(cachedStatic, off)
      await app.register(cachedStatic, on)
    }
  })
  const before = await site.idle(t, 0)
  for (let i = 0; i < 5; i++) t.match(await site.request('/off/x.txt'), { status: 200, body: Buffer.from('off') })
  t.strictSame(site.stats(), before, 'the shared cache has not heard of it')
  if (hasProcfs) {
    await until(() => descriptorsUnder(join(root, 'off')).length === 0)
    t.strictSame(descriptorsUnder(join(root, 'off')), [])
  }
  for (let i = 0; i < 5; i++) t.match(await site.request('/on/x.txt'), { status: 200, body: Buffer.from('on') })
  t.match(await site.idle(t, 1), { openFiles: 1, entries: 1 })
  await site.end(t)
})

siteTest(t, 'P13 a hot file: V counts from the last check', { cache: { valid: V } }, async (t, site) => {
  const path = join(site.root, 'hot.txt')
  const first = old(path, 'first')
  let second: Version | undefined
  let isNewAt: number | undefined
  for (let now = 0; now <= 3 * V; now += 100) {
    if (now === V) {
      replace(path, 'the second')
      second = versionOf(path)
    }
    const answer = await site.request('/hot.txt')
    if (second === undefined || !isWhole(answer, second)) t.ok(isWhole(answer, first), `at ${now}`)
    else isNewAt ??= now
    await site.clock.advance(100)
  }
  t.ok(isNewAt !== undefined && isNewAt <= 2 * V, `seen at ${isNewAt}`)
})

t.test('P14 deleting a cached file, and tiny durations', async (t) => {
  siteTest(t, 'files can be deleted and replaced while they are cached', { cache: { minUses: 1, memory: false } }, async (t, site) => {
    const path = join(site.root, 'x.txt')
    writeFileSync(path, 'one')
    await site.request('/x.txt')
    t.doesNotThrow(() => replace(path, 'two'))
    t.doesNotThrow(() => rmSync(path))
  })

  for (const duration of [0, 1]) {
    siteTest(t, `the sweep does not spin with durations of ${duration} ms`, {
      cache: { valid: duration, inactive: duration, minUses: 1 }, files: { 'x.txt': 'x' }
    }, async (t, site) => {
      let ticks = 0
      const { after } = site.clock
      site.clock.after = (delay, callback) => {
        t.ok(delay >= 100, `a timer of ${delay} ms`)
        ticks++
        return after.call(site.clock, delay, callback)
      }
      for (let i = 0; i < 20; i++) {
        t.equal((await site.request('/x.txt')).status, 200)
        await site.clock.advance(100)
      }
      t.ok(ticks <= 20, `${ticks} timers in 2 s`)
    })
  }

  siteTest(t, 'the sweep keeps no process alive', { files: { 'x.txt': 'x' } }, async (t, site) => {
    // Resources that keep the event loop alive: timers without unref() are among them.
    const timers = (): number => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length
    const cache = new OpenFileCache()
    const before = timers()
    const lease = await cache.open(join(site.root, 'x.txt'))
    if (lease.kind !== 'negative') lease.release()
    t.equal(cache.stats().entries, 1)
    t.equal(timers(), before)
    await cache.close()
  })
})

t.test('P15 a network file system forgets a descriptor', async (t) => {
  const faults: string[] = []
  function failing (t: Parameters<typeof siteTest>[0], name: string, codes: string[], status: number): void {
    siteTest(t, name, {
      files: { 'big.bin': bytesOf(200_000), 'small.txt': 'small' },
      cache: { valid: V, minUses: 1 },
      fileSystem: (real) => ({
        read: (fd, buffer, offset, length, position, callback) => {
          const code = faults.shift()
          if (code === undefined) real.read(fd, buffer, offset, length, position, callback)
          else process.nextTick(() => callback(Object.assign(new Error(code), { code }), 0))
        }
      })
    }, async (t, site) => {
      for (const path of ['/big.bin', '/small.txt']) {
        if (path === '/big.bin') t.equal((await site.request(path)).status, 200)
        faults.push(...codes)
        const answer = await site.request(path)
        t.equal(answer.status, status, path)
        if (status === 500) {
          t.equal(answer.headers.etag, undefined)
          t.notMatch(answer.body.toString(), /ESTALE|EIO|big\.bin/)
        } else {
          t.ok(isWhole(answer, versionOf(join(site.root, path))))
        }
        t.equal(faults.length, 0)
        t.ok(isWhole(await site.request(path), versionOf(join(site.root, path))), 'nothing of it is remembered')
      }
      t.equal(site.stats().negativeEntries, 0)
      const logged = site.log.splice(0).filter(({ level }) => level >= 50).length
      t.equal(logged, status === 500 ? 2 : 0)
    })
  }
  failing(t, 'ESTALE once: opened once more', ['ESTALE'], 200)
  failing(t, 'ESTALE twice: 500', ['ESTALE', 'ESTALE'], 500)
  failing(t, 'EIO: 500', ['EIO'], 500)
})

siteTest(t, 'P16 a plain edit on a shared folder', { cache: { valid: V }, files: { 'style.css': 'a { color: red }' } }, async (t, site) => {
  const path = join(site.root, 'style.css')
  for (let i = 0; i < 3; i++) t.ok(isWhole(await site.request('/style.css'), versionOf(path)))
  writeFileSync(path, 'a { color: blue }')
  site.clock.jump(V)
  t.ok(isWhole(await site.request('/style.css'), versionOf(path)))
})

t.test('P18 asked for just before the release', async (t) => {
  async function begin (site: { root: string, request: (path: string) => Promise<Answer> }): Promise<void> {
    t.equal((await site.request('/new.js')).status, 404)
    writeFileSync(join(site.root, 'new.js'), 'new')
  }

  siteTest(t, 'errors: true: 404 until V, however often it is asked for', { cache: { valid: V, errors: true } }, async (t, site) => {
    await begin(site)
    for (let age = 0; age < V; age += 1000) {
      t.equal((await site.request('/new.js')).status, 404, `after ${age} ms`)
      await site.clock.advance(1000)
    }
    t.equal((await site.request('/new.js')).status, 200, 'after V')
  })

  siteTest(t, 'errors: false: 200 at once', { cache: { valid: V, errors: false } }, async (t, site) => {
    await begin(site)
    t.equal((await site.request('/new.js')).status, 200)
  })

  siteTest(t, 'by default within a second', { cache: { valid: V } }, async (t, site) => {
    await begin(site)
    t.equal((await site.request('/new.js')).status, 404)
    site.clock.jump(1000)
    t.equal((await site.request('/new.js')).status, 200)
  })
})

siteTest(t, 'P20 the fallback page has not the lifetime of the assets', {
  files: { 'index.html': '<title>app</title>', assets: { 'app-1.js': '1' } },
  plugin: { immutable: true, maxAge: '1y', fallback: 'index.html' }
}, async (t, site) => {
  const html = { Accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }
  t.match(await site.request('/assets/app-1.js'), { status: 200, headers: { 'cache-control': /max-age=31536000, immutable/ } })
  for (let i = 0; i < 3; i++) {
    t.match(await site.request('/route', html), {
      status: 200, headers: { 'content-type': /^text\/html/, 'cache-control': 'no-cache' }, body: Buffer.from('<title>app</title>')
    })
    const missing = await site.request('/assets/app-OLD.js', html)
    t.match(missing, { status: 404 })
    t.equal(missing.headers['cache-control'], undefined)
  }
})

t.test('P22 files that are added after the start', async (t) => {
  for (const [errors, wait] of [[false, 0], [true, V]] as const) {
    siteTest(t, `errors: ${errors}`, { cache: { valid: V, errors }, files: { 'x.txt': 'x' } }, async (t, site) => {
      t.equal((await site.request('/up/new.png')).status, 404)
      mkdirSync(join(site.root, 'up'))
      writeFileSync(join(site.root, 'up', 'new.png'), 'png')
      site.clock.jump(wait)
      t.match(await site.request('/up/new.png'), { status: 200, headers: { 'content-type': 'image/png' } })
    })
  }
})

t.test('P23 max above what the process may open', { skip: process.platform === 'win32' && 'needs ulimit' }, async (t) => {
  const root = t.testdir({})
  for (let i = 0; i < 200; i++) writeFileSync(join(root, `${i}.txt`), `file ${i}`)
  const server = spawn('sh', [
    '-c', 'ulimit -n 64 && exec "$0" "$@"',
    process.execPath, ...process.execArgv, join(__dirname, 'fixtures', 'limited-server.ts'), root
  ], { stdio: ['pipe', 'pipe', 'pipe'] })
  t.teardown(() => server.kill())
  let warnings = ''
  server.stderr.on('data', (chunk) => { warnings += chunk })
  const [port] = await once(createInterface(server.stdout), 'line')
  const connection = await RawConnection.open(Number(port))
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 200; i++) {
      connection.request(`/${i}.txt`)
      const { status, body } = await connection.answer()
      if (status !== 200 || body.toString() !== `file ${i}`) t.fail(`${status} for file ${i}`)
    }
  }
  for (let i = 0; i < 10; i++) {
    t.match(await rawRequest(Number(port), `/${i}.txt`), { status: 200 }, 'a new connection is accepted')
  }
  t.equal(warnings.split('half of the descriptors').length - 1, 1, 'one warning')
  connection.destroy()
  server.stdin.end()
  const [code] = await once(server, 'exit')
  t.equal(code, 0)
})

siteTest(t, 'P24 inactive counts from the last use', {
  cache: { inactive: 10_000, valid: Infinity, minUses: 1, memory: false }, files: { 'x.txt': 'x' }
}, async (t, site) => {
  await site.request('/x.txt')
  const { opens } = await site.idle(t, 1)
  for (let i = 0; i < 12; i++) {
    await site.clock.advance(5000)
    t.equal((await site.request('/x.txt')).status, 200)
  }
  t.match(await site.idle(t, 1), { opens, openFiles: 1, entries: 1 }, 'a used entry lives on')
  await site.clock.advance(11_000)
  t.match(await site.idle(t, 0), { entries: 0 }, 'an unused one does not')
})

siteTest(t, 'P25 what minUses counts', {
  cache: { minUses: 3, inactive: 2000, valid: Infinity, memory: false, errors: true }, files: { 'x.txt': 'x', dir: {} }
}, async (t, site) => {
  for (const use of [1, 2]) {
    await site.request('/x.txt')
    t.match(await site.idle(t, 0), { entries: 1 }, `use ${use}: an entry, and no descriptor`)
    await site.clock.advance(500)
  }
  await site.request('/x.txt')
  t.match(await site.idle(t, 1), { openFiles: 1 }, 'use 3: it stays open')
  await site.clock.advance(3000)
  t.match(await site.idle(t, 0), { entries: 0 }, 'nothing is permanent')
  t.equal((await site.request('/none')).status, 404)
  t.equal((await site.request('/dir')).status, 404)
  const { misses } = site.stats()
  for (const path of ['/none', '/dir']) await site.request(path)
  t.equal(site.stats().misses, misses, 'directories and errors do not wait')
})

t.test('P26 a hundred requests for one cold file', async (t) => {
  let opens = 0
  let stats = 0
  let release: (() => void) | undefined
  let code: string | undefined
  for (const fails of [false, true]) {
    siteTest(t, fails ? 'that cannot be opened' : 'that is there', {
      cache: { minUses: 1 },
      files: { 'x.txt': 'cold' },
      fileSystem: (real) => ({
        // How a directory folds names is not the matter here.
        nameFolding: 'none',
        open: async (path) => {
          if (!path.endsWith('x.txt')) return await real.open(path)
          opens++
          if (release === undefined) await new Promise<void>((resolve) => { release = resolve })
          if (code !== undefined) throw Object.assign(new Error(code), { code })
          return await real.open(path)
        },
        stat: async (path) => { stats++; return await real.stat(path) }
      })
    }, async (t, site) => {
      opens = stats = 0
      release = undefined
      code = fails ? 'EIO' : undefined
      const answers = Array.from({ length: 100 }, () => site.request('/x.txt'))
      t.ok(await until(() => site.stats().misses === 100), 'all of them wait')
      t.equal(opens, 1)
      ;(release as unknown as () => void)()
      for (const { status, body } of await Promise.all(answers)) {
        if (fails) t.equal(status, 500)
        else t.equal(body.toString(), 'cold')
      }
      t.match({ opens, stats }, { opens: 1, stats: 0 })
      if (fails) t.equal(site.log.splice(0).filter(({ level }) => level >= 50).length, 100)
      code = undefined
      t.match(await site.request('/x.txt'), { status: 200 }, 'nothing is left pending')
    })
  }
})

siteTest(t, 'P27 names that plain objects have', { files: { 'x.txt': 'x' }, plugin: { openFileCache: { errors: false } } }, async (t, site) => {
  const names = ['__proto__', 'constructor', 'hasOwnProperty', 'toString']
  for (const name of names) {
    for (const path of [`/${name}`, `/${name}/x`]) for (let i = 0; i < 3; i++) t.match(await site.request(path), { status: 404 }, path)
  }
  for (const name of names) {
    writeFileSync(join(site.root, name), `file ${name}`)
    for (let i = 0; i < 3; i++) t.match(await site.request(`/${name}`), { status: 200, body: Buffer.from(`file ${name}`) })
  }
  t.equal(({} as { x?: unknown }).x, undefined)
})

siteTest(t, 'P28 a cached file is deleted, errors are not cached', {
  cache: { valid: V, errors: false, minUses: 1, memory: false }, files: { 'x.txt': 'x' }
}, async (t, site) => {
  await site.request('/x.txt')
  t.equal((await site.idle(t, 1)).openFiles, 1)
  rmSync(join(site.root, 'x.txt'))
  site.clock.jump(V)
  for (let i = 0; i < 2; i++) t.equal((await site.request('/x.txt')).status, 404)
  t.match(await site.idle(t, 0), { entries: 0, negativeEntries: 0 })
})
