import { truncateSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import caching from '@fastify/caching'
import compress from '@fastify/compress'
import cors from '@fastify/cors'
import etag from '@fastify/etag'
import helmet from '@fastify/helmet'
import t from 'tap'
import { bytesOf, sha256, versionOf } from './fixtures/files'
import { Http2Exchange } from './fixtures/http2-client'
import { siteTest } from './fixtures/live-site'
import type { FastifyInstance } from 'fastify'
import type { LiveSite } from './fixtures/live-site'
import type { Answer } from './fixtures/raw-client'

type Plugins = (app: FastifyInstance) => Promise<void>

const NEIGHBOURS: Array<[name: string, register: Plugins]> = [
  ['@fastify/helmet', async (app) => { await app.register(helmet) }],
  ['@fastify/cors', async (app) => { await app.register(cors, { origin: true }) }],
  ['@fastify/compress', async (app) => { await app.register(compress, { global: true, threshold: 0 }) }],
  ['@fastify/etag', async (app) => { await app.register(etag) }],
  ['@fastify/caching', async (app) => { await app.register(caching, { privacy: 'private', expiresIn: 300 }) }]
]

const all: Plugins = async (app) => {
  for (const [, register] of NEIGHBOURS) await register(app)
}
const allReversed: Plugins = async (app) => {
  for (const [, register] of [...NEIGHBOURS].reverse()) await register(app)
}

const text = Buffer.from('All work and no play makes a dull cache. '.repeat(200))
const largeText = Buffer.from('All work and no play makes a dull cache. '.repeat(20_000))
const FILES = { 'small.txt': text, 'large.txt': largeText, 'photo.jpg': bytesOf(5000), 'index.html': '<h1>Hello</h1>' }

function plain ({ headers, body }: Answer): Buffer {
  switch (headers['content-encoding']) {
    case undefined: return body
    case 'gzip': return gunzipSync(body)
    case 'br': return brotliDecompressSync(body)
    default: throw new Error(`unexpected Content-Encoding: ${headers['content-encoding']}`)
  }
}

/** What holds whoever else is registered. One connection for all, so that a wrong length spoils the next answer. */
async function allIsRight (t: Parameters<typeof siteTest>[0], site: LiveSite): Promise<void> {
  const connection = await site.connect()
  async function ask (path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> {
    connection.request(path, { Origin: 'https://elsewhere.example', ...headers }, method)
    const answer = await connection.answer(method)
    const names = answer.rawHeaders.map(([name]) => name.toLowerCase()).filter((name) => name !== 'vary')
    const framing = names.filter((name) => name === 'content-length' || name === 'transfer-encoding')
    if (new Set(names).size < names.length || framing.length > 1) {
      t.fail(`${method} ${path} has a field twice, or a length and chunks: ${names.join(', ')}`)
    }
    return answer
  }

  for (const codings of ['', 'gzip', 'deflate;q=0, br']) {
    const headers: Record<string, string> = codings === '' ? {} : { 'Accept-Encoding': codings }
    for (const name of ['small.txt', 'large.txt', 'photo.jpg', 'index.html'] as const) {
      const file = versionOf(join(site.root, name))
      // Cold, warm, and from memory.
      for (let round = 0; round < 3; round++) {
        const answer = await ask(`/${name}`, headers)
        t.match(answer, { status: 200, complete: true, headers: { etag: file.etag, 'last-modified': file.lastModified } })
        t.equal(sha256(plain(answer)), sha256(file.body), `${name}, accepting ${codings || 'nothing'}`)
      }
      for (const [range, start, end] of [['0-99', 0, 99], ['100-', 100, file.body.length - 1], ['-7', file.body.length - 7, file.body.length - 1]] as const) {
        if (start >= file.body.length || start > end) continue
        const last = Math.min(end, file.body.length - 1)
        const answer = await ask(`/${name}`, { ...headers, Range: `bytes=${range}` })
        t.match(answer, {
          status: 206,
          complete: true,
          headers: { etag: file.etag, 'content-range': `bytes ${start}-${last}/${file.length}`, 'content-length': String(last - start + 1) }
        })
        t.equal(answer.headers['content-encoding'], undefined, 'P63 a part is not compressed')
        t.equal(sha256(answer.body), sha256(file.body.subarray(start, last + 1)))
      }
      for (const method of ['GET', 'HEAD']) {
        const notModified = await ask(`/${name}`, { ...headers, 'If-None-Match': file.etag }, method)
        t.match(notModified, { status: 304, headers: { etag: file.etag } })
        // @fastify/etag sends an empty text where we send nothing, so that Fastify writes a length.
        if (!site.app.hasPlugin('@fastify/etag')) t.equal(notModified.headers['content-length'], undefined)
      }
      t.match(await ask(`/${name}`, { ...headers, 'If-Match': '"other"' }), { status: 412, complete: true })
      t.match(await ask(`/${name}`, { ...headers, Range: `bytes=${file.length}-` }), { status: 416, complete: true, headers: { 'content-range': `bytes */${file.length}` } })
    }
    const missing = await ask('/missing.txt', headers)
    t.match(missing, { status: 404, complete: true })
    t.match(JSON.parse(plain(missing).toString()), { statusCode: 404, error: 'Not Found' })
    t.match(await ask('/missing.txt', headers, 'HEAD'), { status: 404 })
    t.match(await ask('/.env', headers), { status: 404, complete: true })
  }
  for (const name of ['small.txt', 'large.txt', 'photo.jpg'] as const) {
    const file = versionOf(join(site.root, name))
    const head = await ask(`/${name}`, {}, 'HEAD')
    t.match(head, { status: 200, headers: { etag: file.etag, 'content-length': file.length } })
    const { headers: { date: _, ...fields } } = head
    const { headers: { date: __, ...same } } = await ask(`/${name}`)
    t.strictSame(fields, same, 'HEAD has the fields of GET')
  }
  await site.idle(t, 1)
}

const cold = { valid: 20_000 }

for (const [name, register] of [...NEIGHBOURS, ['all five', all], ['all five in the other order', allReversed]] as Array<[string, Plugins]>) {
  siteTest(t, `${name}, registered before`, { files: FILES, cache: cold, before: register }, allIsRight)
  siteTest(t, `${name}, registered after`, { files: FILES, cache: cold, after: register }, allIsRight)
}

t.test('they do their own work too', async (t) => {
  siteTest(t, 'the fields of helmet and cors are on files, parts, 304 and 404', { files: FILES, before: all }, async (t, site) => {
    const { etag } = versionOf(join(site.root, 'small.txt'))
    for (const [path, headers, status] of [
      ['/small.txt', {}, 200],
      ['/large.txt', {}, 200],
      ['/small.txt', { Range: 'bytes=0-0' }, 206],
      ['/small.txt', { 'If-None-Match': etag }, 304],
      ['/missing.txt', {}, 404]
    ] as const) {
      const answer = await site.request(path, { ...headers, Origin: 'https://elsewhere.example' })
      t.match(answer, {
        status,
        headers: { 'x-content-type-options': 'nosniff', 'access-control-allow-origin': 'https://elsewhere.example', vary: /origin/i }
      })
    }
  })

  siteTest(t, 'compress packs what is whole, from memory and from a descriptor', { files: FILES, before: all }, async (t, site) => {
    for (const path of ['/small.txt', '/small.txt', '/small.txt', '/large.txt', '/large.txt']) {
      const answer = await site.request(path, { 'Accept-Encoding': 'gzip' })
      t.match(answer, { status: 200, headers: { 'content-encoding': 'gzip', vary: /accept-encoding/i } })
    }
    t.equal((await site.request('/photo.jpg', { 'Accept-Encoding': 'gzip' })).headers['content-encoding'], undefined)
  })

  siteTest(t, 'without a tag of ours, @fastify/etag makes one for what is in memory', {
    files: FILES, plugin: { etag: false }, before: async (app) => { await app.register(etag) }
  }, async (t, site) => {
    for (let round = 0; round < 2; round++) await site.request('/small.txt')
    const { headers } = await site.request('/small.txt')
    t.match(headers.etag, /^"/)
    t.match(await site.request('/small.txt', { 'If-None-Match': headers.etag as string }), { status: 304, headers: { etag: headers.etag } })
  })
})

t.test('a body that compress reads', async (t) => {
  const big = bytesOf(8 * 1024 * 1024)

  siteTest(t, 'leaves no lease when the client leaves', { before: all }, async (t, site) => {
    writeFileSync(join(site.root, 'big.txt'), big)
    for (let i = 0; i < 20; i++) {
      const connection = await site.connect()
      connection.request('/big.txt', { 'Accept-Encoding': 'gzip' })
      t.match(await connection.head(), { status: 200, headers: { 'content-encoding': 'gzip' } })
      connection.destroy()
    }
    await site.idle(t, 1)
  })

  siteTest(t, 'does not look complete when the file is cut', { before: all }, async (t, site) => {
    const path = join(site.root, 'big.txt')
    writeFileSync(path, big)
    const connection = await site.connect()
    connection.request('/big.txt', { 'Accept-Encoding': 'gzip' })
    const head = await connection.head()
    truncateSync(path, 1000)
    t.notOk((await connection.body(head).catch(() => ({ complete: false }))).complete)
    await site.idle(t, 1)
    t.match(site.log.splice(0).filter(({ level }) => level >= 50), [{ reqId: 'req-1' }], 'compress says so')
  })

  siteTest(t, 'does not look complete when the file is overwritten, over HTTP/2', { protocol: 'h2c', before: all }, async (t, site) => {
    const path = join(site.root, 'big.txt')
    writeFileSync(path, big)
    utimesSync(path, 1, 1)
    const exchange = new Http2Exchange(await site.session(), '/big.txt', { 'accept-encoding': 'gzip' })
    t.match(await exchange.head, { status: 200, headers: { 'content-encoding': 'gzip' } })
    utimesSync(path, 2, 2)
    t.equal((await exchange.answer()).rstCode, 2, 'NGHTTP2_INTERNAL_ERROR')
    await site.idle(t, 1)
    site.log.splice(0)
  })
})
