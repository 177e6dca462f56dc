import { mkdirSync, renameSync, rmSync, statSync, symlinkSync, truncateSync, utimesSync, writeFileSync, openSync, writeSync, closeSync, appendFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { bytesOf, sha256, versionOf } from './fixtures/files'
import { Http2Exchange, http2Request } from './fixtures/http2-client'
import { siteTest } from './fixtures/live-site'
import type { OpenFileCacheOptions } from '../types/open-file-cache'
import type { LiveSite } from './fixtures/live-site'
import type { Answer } from './fixtures/raw-client'

const MIB = 1024 * 1024
const VALID = 20_000
const LONG_AGO = new Date('2001-02-03T04:05:06Z')

type Version = ReturnType<typeof versionOf>

/** What the cache has of a file when it changes. */
const STATES: Array<[name: string, size: number, requests: number, openFileCache: OpenFileCacheOptions]> = [
  ['bytes in memory', 1000, 3, {}],
  ['an open descriptor of a small file', 1000, 3, { memory: false }],
  ['an open descriptor of a large file', 300_000, 3, {}],
  ['metadata only', 1000, 1, {}]
]

function replaceByRename (path: string, bytes: Buffer): void {
  const temporary = `${path}.tmp`
  writeFileSync(temporary, bytes)
  renameSync(temporary, path)
}

/** Without truncating to nothing on the way. */
function editInPlace (path: string, bytes: Buffer): void {
  const fd = openSync(path, 'r+')
  writeSync(fd, bytes, 0, bytes.length, 0)
  closeSync(fd)
  truncateSync(path, bytes.length)
}

/** `directory/current` is a link to `directory/releases/<n>`, as deployments swap it. */
function release (root: string, name: string, bytes: Buffer): void {
  mkdirSync(join(root, 'releases', name), { recursive: true })
  writeFileSync(join(root, 'releases', name, 'file.bin'), bytes)
  symlinkSync(join('releases', name), join(root, 'next'))
  renameSync(join(root, 'next'), join(root, 'current'))
}

const CHANGES: Array<[name: string, change: (path: string, old: Buffer) => void]> = [
  ['replaced by rename, longer', (path, old) => replaceByRename(path, bytesOf(old.length + 500, 3))],
  ['replaced by rename, shorter', (path, old) => replaceByRename(path, bytesOf(old.length - 500, 3))],
  ['replaced by rename, as long', (path, old) => replaceByRename(path, bytesOf(old.length, 3))],
  ['edited in place, longer', (path, old) => editInPlace(path, bytesOf(old.length + 500, 3))],
  ['edited in place, shorter', (path, old) => editInPlace(path, bytesOf(old.length - 500, 3))],
  ['edited in place, as long', (path, old) => editInPlace(path, bytesOf(old.length, 3))],
  ['emptied', (path) => truncateSync(path, 0)],
  ['deleted and made again', (path, old) => { rmSync(path); writeFileSync(path, bytesOf(old.length + 1, 3)) }],
  ['under a directory link that is swapped', (path, old) => release(dirname(dirname(path)), '2', bytesOf(old.length + 500, 3))]
]

/** Length, tag, date and bytes of one version, all of them. */
function isOf (version: Version, { status, headers, body, complete }: Answer, method: string): boolean {
  return status === 200 && complete && headers.etag === version.etag && headers['content-length'] === version.length &&
    headers['last-modified'] === version.lastModified && (method === 'HEAD' || body.equals(version.body))
}

async function prepare (site: LiveSite, size: number, requests: number): Promise<{ path: string, old: Version }> {
  release(site.root, '1', bytesOf(size, 1))
  const path = join(site.root, 'current', 'file.bin')
  utimesSync(path, LONG_AGO, LONG_AGO)
  for (let i = 0; i < requests; i++) await site.request('/current/file.bin')
  return { path, old: versionOf(path) }
}

for (const [state, size, requests, cache] of STATES) {
  t.test(`a file of which the cache has ${state}`, async (t) => {
    for (const [name, change] of CHANGES) {
      siteTest(t, `is ${name}`, { cache: { valid: VALID, ...cache } }, async (t, site) => {
        const { path, old } = await prepare(site, size, requests)
        change(path, old.body)
        const now = versionOf(path)
        t.not(now.etag, old.etag, 'the versions can be told apart')

        for (const method of ['HEAD', 'GET', 'GET', 'HEAD', 'GET']) {
          const answer = await site.request('/current/file.bin', {}, method)
          t.ok(isOf(old, answer, method) || isOf(now, answer, method), `within valid: ${method} of one whole version`)
        }
        const within = await site.request('/current/file.bin', { 'If-None-Match': old.etag })
        t.ok(within.status === 304 ? within.headers.etag === old.etag : isOf(now, within, 'GET'), 'within valid: conditional')

        site.clock.jump(VALID)
        t.ok(isOf(now, await site.request('/current/file.bin', {}, 'HEAD'), 'HEAD'), 'after valid: HEAD of the new one')
        for (let i = 0; i < 3; i++) t.ok(isOf(now, await site.request('/current/file.bin'), 'GET'), 'after valid: the new one')
        t.ok(isOf(now, await site.request('/current/file.bin', { 'If-None-Match': old.etag }), 'GET'), 'after valid: no 304 for the old one')
        t.equal((await site.request('/current/file.bin', { 'If-None-Match': now.etag })).status, 304)
        // The old descriptor is closed.
        await site.idle(t, 1)
      })
    }

    siteTest(t, 'is deleted', { cache: { valid: VALID, errors: true, ...cache } }, async (t, site) => {
      const { path, old } = await prepare(site, size, requests)
      rmSync(path)
      for (let i = 0; i < 3; i++) {
        const answer = await site.request('/current/file.bin')
        t.ok(answer.status === 404 || isOf(old, answer, 'GET'), 'within valid: gone, or the whole old version')
      }
      site.clock.jump(VALID)
      for (let i = 0; i < 2; i++) {
        const { status, headers } = await site.request('/current/file.bin')
        t.match({ status, etag: headers.etag, lastModified: headers['last-modified'] }, { status: 404, etag: undefined, lastModified: undefined })
      }
      t.equal((await site.idle(t, 0)).entries, 0, 'nothing of it is kept')
    })

    siteTest(t, 'is deleted, and nobody asks any more', { cache: { valid: VALID, inactive: 30_000, ...cache } }, async (t, site) => {
      const { path } = await prepare(site, size, requests)
      rmSync(path)
      await site.clock.advance(31_000)
      // Its disk space is free.
      t.equal((await site.idle(t, 0)).entries, 0)
    })

    siteTest(t, 'turns into a directory', { cache: { valid: VALID, ...cache } }, async (t, site) => {
      const { path, old } = await prepare(site, size, requests)
      rmSync(path)
      mkdirSync(path)
      const within = await site.request('/current/file.bin')
      t.ok(within.status === 404 || isOf(old, within, 'GET'))
      site.clock.jump(VALID)
      t.equal((await site.request('/current/file.bin')).status, 404)
      writeFileSync(join(path, 'index.html'), 'index')
      site.clock.jump(VALID)
      t.match(await site.request('/current/file.bin'), { status: 200, body: Buffer.from('index') })
      await site.idle(t, 0)
    })

    siteTest(t, 'is asked for all the time: valid counts from the check, not from the use', { cache: { valid: VALID, ...cache } }, async (t, site) => {
      const { path, old } = await prepare(site, size, requests)
      replaceByRename(path, bytesOf(size + 1, 3))
      const now = versionOf(path)
      let age = 0
      for (let answer = await site.request('/current/file.bin'); !isOf(now, answer, 'GET'); answer = await site.request('/current/file.bin')) {
        t.ok(isOf(old, answer, 'GET'))
        site.clock.jump(1000)
        age += 1000
        if (age > VALID) break
      }
      t.ok(age <= VALID, `new after ${age} ms`)
    })
  })
}

t.test('a file that changes while it is read into memory', async (t) => {
  /** Runs before each read of a file of the site, with how many there were. */
  let beforeRead: ((path: string, reads: number) => void) | undefined
  let reads = 0
  let path = ''
  function changing (t: Tap, name: string, change: (path: string, reads: number) => void, body: (t: Tap, site: LiveSite) => Promise<void>): void {
    siteTest(t, name, {
      cache: { minUses: 1 },
      fileSystem: (real) => ({
        read: (fd, buffer, offset, length, position, callback) => {
          beforeRead?.(path, ++reads)
          real.read(fd, buffer, offset, length, position, callback)
        }
      })
    }, async (t, site) => {
      path = join(site.root, 'file.bin')
      writeFileSync(path, bytesOf(1000))
      utimesSync(path, LONG_AGO, LONG_AGO)
      reads = 0
      beforeRead = change
      try {
        await body(t, site)
      } finally {
        beforeRead = undefined
      }
    })
  }

  /** A version of its own second, so that its tag names it. */
  function version (n: number, size = 1000): { bytes: Buffer, time: Date } {
    return { bytes: bytesOf(size, 100 + n), time: new Date(LONG_AGO.getTime() + n * 1000) }
  }

  function isOneVersion ({ headers, body, complete }: Answer, versions: number, size: (n: number) => number): boolean {
    for (let n = 0; n <= versions; n++) {
      const { bytes, time } = n === 0 ? { bytes: bytesOf(1000), time: LONG_AGO } : version(n, size(n))
      if (headers['last-modified'] !== time.toUTCString()) continue
      return complete && headers.etag === `W/"${bytes.length.toString(16)}-${time.getTime().toString(16)}"` && body.equals(bytes)
    }
    return false
  }

  for (const [name, size] of [
    ['as long', () => 1000],
    ['longer each time', (n: number) => 1000 + n * 10],
    ['shorter each time', (n: number) => 1000 - n * 10]
  ] as const) {
    for (const writes of [1, 2, 3, 4, 5]) {
      // Longer while it is sent from the descriptor looks like appended to: what was promised is completed.
      if (name === 'longer each time' && writes > 3) continue
      changing(t, `is overwritten, ${name}, before the first ${writes} reads: what is sent is one version`, (path, reads) => {
        if (reads > writes) return
        const { bytes, time } = version(reads, size(reads))
        editInPlace(path, bytes)
        utimesSync(path, time, time)
      }, async (t, site) => {
        const answer = await site.request('/file.bin')
        if (answer.status === 500) {
          t.equal(site.log.splice(0).filter(({ level }) => level >= 50).length, 1)
        } else {
          t.ok(!answer.complete || isOneVersion(answer, writes, size), `of one version: ${answer.headers.etag}, ${answer.body.length} bytes`)
        }
        const after = await site.request('/file.bin')
        t.ok(isOneVersion(after, writes, size), 'and so is the next')
      })
    }
  }
})

type Tap = Parameters<typeof siteTest>[0]

t.test('a file that changes while it is sent', async (t) => {
  const big = bytesOf(12 * MIB)

  for (const protocol of ['http/1.1', 'https'] as const) {
    /** A download that has begun and waits for its reader, with one more request behind it. */
    function sending (
      t: Tap, name: string, body: (t: Tap, site: LiveSite, path: string, rest: () => Promise<{ first: Answer, second: Answer | undefined }>) => Promise<void>
    ): void {
      siteTest(t, `${protocol}: ${name}`, { protocol, files: { 'small.txt': 'small' } }, async (t, site) => {
        const path = join(site.root, 'big.bin')
        writeFileSync(path, big)
        utimesSync(path, LONG_AGO, LONG_AGO)
        const connection = await site.connect()
        connection.request('/big.bin')
        connection.request('/small.txt')
        const head = await connection.head()
        t.match(head, { status: 200, headers: { 'content-length': String(big.length) } })
        await body(t, site, path, async () => {
          const first = await connection.body(head)
          return { first, second: first.complete ? await connection.answer() : undefined }
        })
        await site.idle(t)
      })
    }

    for (const [name, change] of [
      ['cut', (path: string) => truncateSync(path, 10 * MIB)],
      ['cut in a chunk that is under way', (path: string) => truncateSync(path, 11 * MIB + 12_345)],
      ['emptied', (path: string) => truncateSync(path, 0)],
      ['overwritten at its end', (path: string) => {
        const fd = openSync(path, 'r+')
        writeSync(fd, 'other', big.length - 5)
        closeSync(fd)
      }],
      ['overwritten at its start', (path: string) => {
        const fd = openSync(path, 'r+')
        writeSync(fd, 'other', 0)
        closeSync(fd)
      }]
    ] as const) {
      sending(t, `${name}: the connection breaks, and nothing is mixed in`, async (t, site, path, rest) => {
        change(path)
        const { first } = await rest()
        t.notOk(first.complete, `${first.body.length} bytes of ${big.length}`)
        t.ok(first.body.equals(big.subarray(0, first.body.length)), 'of the old version all of them, and no next answer among them')
        await site.idle(t)
        const now = versionOf(path)
        t.ok(isOf(now, await site.request('/big.bin'), 'GET'), 'the next reader gets what is there now')
      })
    }

    sending(t, 'appended: exactly what was promised, and the connection goes on', async (t, site, path, rest) => {
      appendFileSync(path, bytesOf(MIB, 9))
      const { first, second } = await rest()
      t.ok(first.complete)
      t.equal(sha256(first.body), sha256(big))
      t.match(second, { status: 200, body: Buffer.from('small') })
      t.ok(isOf(versionOf(path), await site.request('/big.bin'), 'GET'), 'the next reader gets what is there now')
    })

    sending(t, 'replaced by rename: the old version whole', async (t, _site, path, rest) => {
      replaceByRename(path, Buffer.from('new'))
      const { first, second } = await rest()
      t.ok(first.complete)
      t.equal(sha256(first.body), sha256(big))
      t.match(second, { status: 200, body: Buffer.from('small') })
    })

    sending(t, 'deleted: the old version whole', async (t, site, path, rest) => {
      rmSync(path)
      site.app.openFileCache.invalidate(path)
      const { first, second } = await rest()
      t.ok(first.complete)
      t.equal(sha256(first.body), sha256(big))
      t.match(second, { status: 200, body: Buffer.from('small') })
      // And then closed.
      await site.idle(t, 0)
    })
  }

  for (const protocol of ['h2', 'h2c'] as const) {
    const content = big.subarray(0, 2 * MIB)

    function sending (t: Tap, name: string, change: (path: string) => void, body: (t: Tap, site: LiveSite, answer: Awaited<ReturnType<typeof http2Request>>) => Promise<void>): void {
      siteTest(t, `${protocol}: ${name}`, { protocol, files: { 'small.txt': 'small' } }, async (t, site) => {
        const path = join(site.root, 'big.bin')
        writeFileSync(path, content)
        utimesSync(path, LONG_AGO, LONG_AGO)
        const session = await site.session()
        const exchange = new Http2Exchange(session, '/big.bin')
        t.match(await exchange.head, { status: 200, headers: { 'content-length': String(content.length) } })
        change(path)
        await body(t, site, await exchange.answer())
        t.match(await http2Request(session, '/small.txt'), { status: 200, rstCode: 0, body: Buffer.from('small') }, 'the session lives on')
        const now = versionOf(path)
        const again = await http2Request(session, '/big.bin')
        t.equal(again.rstCode, 0)
        t.ok(isOf(now, { ...again, complete: true, rawHeaders: [] }, 'GET'), 'the next reader gets what is there now')
        await site.idle(t)
      })
    }

    for (const [name, change] of [
      ['cut', (path: string) => truncateSync(path, MIB)],
      ['emptied', (path: string) => truncateSync(path, 0)],
      ['overwritten', (path: string) => {
        const fd = openSync(path, 'r+')
        writeSync(fd, 'other', content.length - 5)
        closeSync(fd)
      }]
    ] as const) {
      sending(t, `${name}: the stream ends with INTERNAL_ERROR`, change, async (t, _site, answer) => {
        t.equal(answer.rstCode, 2, 'NGHTTP2_INTERNAL_ERROR')
        t.ok(answer.body.length < content.length)
        t.ok(answer.body.equals(content.subarray(0, answer.body.length)))
      })
    }

    sending(t, 'appended: exactly what was promised', (path) => appendFileSync(path, 'more'), async (t, _site, answer) => {
      t.equal(answer.rstCode, 0)
      t.equal(sha256(answer.body), sha256(content))
    })

    sending(t, 'replaced by rename: the old version whole', (path) => {
      replaceByRename(path, Buffer.from('new'))
      t.equal(statSync(path).size, 3)
    }, async (t, site, answer) => {
      t.equal(answer.rstCode, 0)
      t.equal(sha256(answer.body), sha256(content))
      site.app.openFileCache.clear()
    })
  }
})
