import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { bytesOf, sha256, until, versionOf } from './fixtures/files'
import { Http2Exchange, http2Request } from './fixtures/http2-client'
import { requestText } from './fixtures/raw-client'
import { siteTest } from './fixtures/live-site'
import type { FastifyInstance } from 'fastify'
import type { LiveSite, Protocol } from './fixtures/live-site'

const MIB = 1024 * 1024
const PROTOCOLS: Protocol[] = ['http/1.1', 'https', 'h2', 'h2c']

const small = bytesOf(1000, 7)
const middle = bytesOf(128 * 1024, 11)
const large = bytesOf(2 * MIB + 12_345)

interface Body {
  status: number
  headers: Record<string, string>
  body: Buffer
  complete: boolean
}

type Get = (path: string, headers?: Record<string, string>, between?: (received: number) => void | Promise<void>) => Promise<Body>

/** Each call on a connection of its own over HTTP/1.1, on one shared session over HTTP/2. */
async function getter (site: LiveSite): Promise<Get> {
  if (!site.protocol.startsWith('h2')) {
    return async (path, headers, between) => {
      const connection = await site.connect()
      connection.request(path, headers)
      return await connection.answer('GET', between)
    }
  }
  const session = await site.session()
  return async (path, headers, between) => {
    const answer = await new Http2Exchange(session, path, headers).answer(between)
    return { ...answer, complete: answer.rstCode === 0 && answer.body.length === Number(answer.headers['content-length']) }
  }
}

function trailers (app: FastifyInstance): void {
  app.addHook('onSend', async (_request, reply, payload) => {
    reply.trailer('x-checked', async () => 'yes')
    // RFC 9112 6.2: not beside Transfer-Encoding. Fastify leaves that to who adds a trailer.
    reply.removeHeader('content-length')
    return payload
  })
}

for (const protocol of PROTOCOLS) {
  t.test(`over ${protocol}`, async (t) => {
    const files = { 'empty.bin': '', 'small.bin': small, 'middle.bin': middle, 'large.bin': large }
    const written: Buffer[] = []
    const read: Buffer[] = []
    const names = { 'empty.bin': Buffer.alloc(0), 'small.bin': small, 'middle.bin': middle, 'large.bin': large }

    siteTest(t, 'bodies are the bytes of the file: cold, warm, and hot', { protocol, files }, async (t, site) => {
      const get = await getter(site)
      for (const [name, bytes] of Object.entries(names)) {
        for (let round = 0; round < 4; round++) {
          const { status, headers, body, complete } = await get(`/${name}`)
          t.match({ status, complete, length: headers['content-length'] }, { status: 200, complete: true, length: String(bytes.length) })
          t.equal(sha256(body), sha256(bytes), `${name}, request ${round + 1}`)
        }
      }
      t.equal((await site.idle(t)).bodyBytes, small.length + middle.length)
      t.strictSame(site.log.filter(({ msg }) => /premature/.test(String(msg))), [], 'and no success is logged as a failure')
    })

    siteTest(t, 'hooks that keep what is written see the bytes of the file', {
      protocol,
      files,
      before: (app) => {
        app.addHook('onRequest', async (_request, { raw }) => {
          const write = raw.write.bind(raw) as (...parameters: unknown[]) => boolean
          raw.write = ((chunk: Buffer, ...more: unknown[]) => {
            written.push(chunk)
            return write(chunk, ...more)
          }) as typeof raw.write
        })
        app.addHook('onSend', async (_request, _reply, payload) => {
          (payload as { on?: (event: string, listener: (chunk: Buffer) => void) => void }).on?.('data', (chunk) => read.push(chunk))
          return payload
        })
      }
    }, async (t, site) => {
      const get = await getter(site)
      for (let round = 0; round < 2; round++) {
        written.length = read.length = 0
        t.equal(sha256((await get('/large.bin')).body), sha256(large))
        await get('/middle.bin')
        t.equal(sha256(Buffer.concat(written).subarray(0, large.length)), sha256(large), 'what res.write was given')
        t.equal(sha256(Buffer.concat(read).subarray(0, large.length)), sha256(large), 'what the payload gave')
      }
    })

    siteTest(t, 'ranges are the bytes that Content-Range names', { protocol, files }, async (t, site) => {
      const get = await getter(site)
      for (const [name, bytes] of Object.entries(names).slice(1)) {
        const size = bytes.length
        for (const [range, start, end] of [
          ['0-0', 0, 0],
          [`${size - 1}-`, size - 1, size - 1],
          ['-1', size - 1, size - 1],
          ['-500', size - 500, size - 1],
          ['1-', 1, size - 1],
          [`0-${size - 1}`, 0, size - 1],
          [`7-${size + 7}`, 7, size - 1],
          [`${Math.floor(size / 3)}-${Math.floor(size / 2)}`, Math.floor(size / 3), Math.floor(size / 2)],
          ['65535-65536', 65535, 65536],
          ['65536-131071', 65536, 131071]
        ] as const) {
          if (start >= size) continue
          const { status, headers, body, complete } = await get(`/${name}`, { Range: `bytes=${range}` })
          const last = Math.min(end, size - 1)
          t.match({ status, complete, range: headers['content-range'] }, { status: 206, complete: true, range: `bytes ${start}-${last}/${size}` })
          t.equal(sha256(body), sha256(bytes.subarray(start, last + 1)), `${name}, bytes=${range}`)
        }
      }
    })

    siteTest(t, '20 parallel readers share one descriptor and get each its own bytes', {
      protocol, files, plugin: { openFileCache: { minUses: 1 } }
    }, async (t, site) => {
      const get = await getter(site)
      await get('/large.bin', { Range: 'bytes=0-0' })
      const { opens } = await site.idle(t, 1)
      let most = 0
      const bodies = await Promise.all(Array.from({ length: 20 }, async (_, i) => {
        const headers = i % 4 === 3 ? { Range: `bytes=${i * 1000}-` } : undefined
        const answer = await get('/large.bin', headers, () => { most = Math.max(most, site.stats().leases) })
        return { ...answer, wanted: headers === undefined ? large : large.subarray(i * 1000) }
      }))
      for (const { complete, body, wanted } of bodies) {
        t.ok(complete)
        t.equal(sha256(body), sha256(wanted))
      }
      t.ok(most > 1, `${most} leases at once`)
      t.match(await site.idle(t, 1), { opens, openFiles: 1 }, 'nothing else was opened')
    })

    siteTest(t, 'slow readers, and others beside them, get the bytes of the file', { protocol, files }, async (t, site) => {
      const get = await getter(site)
      // Reader `i` waits `i` turns of the event loop between two pieces.
      const answers = await Promise.all(Array.from({ length: 8 }, async (_, i) =>
        await get('/large.bin', {}, async () => {
          for (let turn = 0; turn < i; turn++) await setImmediate()
        })))
      for (const { body, complete } of answers) {
        t.ok(complete)
        t.equal(sha256(body), sha256(large))
      }
    })
  })
}

t.test('HTTP/1.1', async (t) => {
  siteTest(t, 'a reader that stops holds only itself back', { files: { 'large.bin': large } }, async (t, site) => {
    const stopped = await site.connect()
    stopped.request('/large.bin')
    const head = await stopped.head()
    for (let i = 0; i < 3; i++) t.equal(sha256((await site.request('/large.bin')).body), sha256(large))
    const { body, complete } = await stopped.body(head)
    t.ok(complete)
    t.equal(sha256(body), sha256(large))
  })

  siteTest(t, 'readers that leave do not disturb those that stay', { files: { 'large.bin': large } }, async (t, site) => {
    const staying = Array.from({ length: 5 }, async () => await site.request('/large.bin'))
    for (let i = 0; i < 40; i++) {
      const connection = await site.connect()
      connection.request('/large.bin')
      await connection.head()
      connection.destroy()
    }
    for (const { body, complete } of await Promise.all(staying)) {
      t.ok(complete)
      t.equal(sha256(body), sha256(large))
    }
    await site.idle(t)
  })

  siteTest(t, 'pipelined requests are answered in their order, each with its own', {
    files: { 'small.txt': small, 'large.bin': large }
  }, async (t, site) => {
    const { etag } = versionOf(join(site.root, 'small.txt'))
    const connection = await site.connect()
    const requests: Array<[path: string, headers: Record<string, string>, method: string, status: number, bytes: Buffer | undefined]> = [
      ['/small.txt', {}, 'GET', 200, small],
      ['/large.bin', {}, 'GET', 200, large],
      ['/large.bin', {}, 'HEAD', 200, undefined],
      ['/large.bin', { Range: 'bytes=1000000-2000000' }, 'GET', 206, large.subarray(1_000_000, 2_000_001)],
      ['/small.txt', { 'If-None-Match': etag }, 'GET', 304, undefined],
      ['/none', {}, 'GET', 404, undefined],
      ['/small.txt', { Range: 'bytes=5000-' }, 'GET', 416, undefined],
      ['/small.txt', { 'If-Match': '"x"' }, 'GET', 412, undefined],
      ['/a\\b', {}, 'GET', 403, undefined],
      ['/large.bin', {}, 'GET', 200, large],
      ['/small.txt', { Range: 'bytes=-10' }, 'GET', 206, small.subarray(-10)]
    ]
    for (let round = 0; round < 2; round++) {
      connection.send(requests.map(([path, headers, method]) => requestText(path, headers, method)).join(''))
      for (const [path, , method, status, bytes] of requests) {
        const answer = await connection.answer(method)
        t.match(answer, { status, complete: true }, `${method} ${path}: ${status}`)
        if (bytes !== undefined) t.equal(sha256(answer.body), sha256(bytes))
      }
    }
    await site.idle(t)
  })

  siteTest(t, 'keep-alive: a connection takes one answer after the other', {
    files: { 'small.txt': small, 'large.bin': large }
  }, async (t, site) => {
    const connection = await site.connect()
    for (let i = 0; i < 10; i++) {
      connection.request('/large.bin', { Range: 'bytes=0-10' })
      t.equal(sha256((await connection.answer()).body), sha256(large.subarray(0, 11)))
      connection.request('/small.txt')
      t.equal(sha256((await connection.answer()).body), sha256(small))
      connection.request('/large.bin', {}, 'HEAD')
      t.match(await connection.answer('HEAD'), { status: 200, headers: { 'content-length': String(large.length) } })
    }
  })

  for (const name of ['small.bin', 'large.bin'] as const) {
    const bytes = name === 'small.bin' ? small : large
    siteTest(t, `trailers follow the body of ${name}`, { files: { [name]: bytes }, before: trailers }, async (t, site) => {
      const connection = await site.connect()
      for (let i = 0; i < 3; i++) {
        connection.request(`/${name}`)
        const answer = await connection.answer()
        t.match(answer, { status: 200, complete: true, trailers: { 'x-checked': 'yes' } })
        t.equal(sha256(answer.body), sha256(bytes))
      }
    })
  }
})

t.test('HTTP/2', async (t) => {
  const files = { 'small.txt': small, 'large.bin': large }
  const toDestroy: Array<() => void> = []

  for (const protocol of ['h2', 'h2c'] as const) {
    siteTest(t, `${protocol}: a stream whose window is closed holds only itself back`, { protocol, files }, async (t, site) => {
      // The window of a stream is smaller than that of the session.
      const session = await site.session({ initialWindowSize: 4096 })
      const blocked = Array.from({ length: 10 }, () => new Http2Exchange(session, '/large.bin'))
      for (const { head } of blocked) t.equal((await head).status, 200)
      t.equal(site.stats().leases, 10)
      for (let i = 0; i < 3; i++) t.equal(sha256((await http2Request(session, '/small.txt')).body), sha256(small))
      // Half of them leave, blocked.
      for (const { stream } of blocked.splice(5)) stream.close(8)
      t.ok(await until(() => site.stats().leases === 5))
      for (const answer of await Promise.all(blocked.map((exchange) => exchange.answer()))) {
        t.equal(answer.rstCode, 0)
        t.equal(sha256(answer.body), sha256(large))
      }
      await site.idle(t)
    })

    siteTest(t, `${protocol}: streams that are reset do not spoil the bytes of the others`, { protocol, files }, async (t, site) => {
      const session = await site.session()
      const staying = Array.from({ length: 5 }, () => new Http2Exchange(session, '/large.bin').answer())
      for (let i = 0; i < 40; i++) {
        const exchange = new Http2Exchange(session, '/large.bin')
        await exchange.head
        exchange.stream.close(i % 2 === 0 ? 8 : 0)
      }
      for (const answer of await Promise.all(staying)) {
        t.equal(answer.rstCode, 0)
        t.equal(sha256(answer.body), sha256(large))
      }
      await site.idle(t)
    })

    siteTest(t, `${protocol}: a blocked stream that the server destroys gets no byte of another`, {
      protocol,
      files: { 'large.bin': large, 'other.bin': bytesOf(large.length, 99) },
      before: (app) => {
        app.addHook('onRequest', async ({ headers }, { raw }) => {
          if (headers['x-destroy'] !== undefined) toDestroy.push(() => raw.destroy())
        })
      }
    }, async (t, site) => {
      const session = await site.session()
      const others = await site.session()
      const blocked = Array.from({ length: 5 }, () => new Http2Exchange(session, '/large.bin', { 'x-destroy': '1' }))
      for (const { head } of blocked) await head
      const reading = Array.from({ length: 5 }, () => new Http2Exchange(others, '/other.bin').answer())
      for (const destroy of toDestroy.splice(0)) {
        destroy()
        await setImmediate()
      }
      for (const { body } of await Promise.all(reading)) t.equal(sha256(body), sha256(bytesOf(large.length, 99)))
      for (const exchange of blocked) {
        const { body } = await exchange.answer()
        t.ok(body.length < large.length && body.equals(large.subarray(0, body.length)), `${body.length} bytes, all of them right`)
      }
      await site.idle(t)
    })

    siteTest(t, `${protocol}: HEAD, 304, 404, 412 and 416 end their streams`, { protocol, files }, async (t, site) => {
      const session = await site.session()
      const { etag } = versionOf(join(site.root, 'large.bin'))
      for (const [path, headers, method, status] of [
        ['/large.bin', {}, 'HEAD', 200],
        ['/large.bin', { 'if-none-match': etag }, 'GET', 304],
        ['/none', {}, 'GET', 404],
        ['/large.bin', { 'if-match': '"x"' }, 'GET', 412],
        ['/small.txt', { range: 'bytes=1000-' }, 'GET', 416]
      ] as const) {
        const answer = await http2Request(session, path, headers, method)
        t.match(answer, { status, rstCode: 0 })
        if (method === 'HEAD') t.equal(answer.headers['content-length'], String(large.length))
        if (status === 304 || method === 'HEAD') t.equal(answer.body.length, 0)
      }
      await site.idle(t)
    })
  }

  siteTest(t, 'trailers follow the body', { protocol: 'h2c', files, before: trailers }, async (t, site) => {
    const session = await site.session()
    for (const [name, bytes] of [['large.bin', large], ['small.txt', small]] as const) {
      const answer = await http2Request(session, `/${name}`)
      t.match(answer, { status: 200, rstCode: 0, trailers: { 'x-checked': 'yes' } })
      t.equal(sha256(answer.body), sha256(bytes))
    }
  })
})

t.test('payload.path in onSend hooks', async (t) => {
  const seen: unknown[] = []
  siteTest(t, 'is the path of the file, for Buffers and for streams', {
    files: { 'a.txt': 'aaa', 'b.txt': 'bbb', 'empty-1.txt': '', 'empty-2.txt': '', 'large.bin': large },
    before: (app) => {
      app.addHook('onSend', async (_request, _reply, payload) => {
        seen.push([Buffer.isBuffer(payload) ? 'Buffer' : 'stream', (payload as { path?: string } | undefined)?.path])
        return payload
      })
    }
  }, async (t, site) => {
    for (let round = 0; round < 4; round++) {
      for (const name of ['a.txt', 'b.txt', 'empty-1.txt', 'empty-2.txt', 'large.bin']) {
        const kind = name === 'large.bin' ? 'stream' : 'Buffer'
        await site.request(`/${name}`)
        t.strictSame(seen.splice(0), [[kind, join(site.root, name)]], `${name}, request ${round + 1}`)
        if (name.startsWith('empty')) continue
        await site.request(`/${name}`, { Range: 'bytes=1-1' })
        t.strictSame(seen.splice(0), [[kind, join(site.root, name)]], `${name}, a range`)
      }
    }
  })

  siteTest(t, 'is there for sendFile and download too', {
    files: { 'a.txt': 'aaa', 'large.bin': large },
    plugin: { serve: false },
    before: (app) => {
      app.get('/file', (_request, reply) => reply.sendFile('large.bin'))
      app.get('/load', (_request, reply) => reply.download('a.txt'))
      app.addHook('onSend', async (_request, _reply, payload) => {
        seen.push((payload as { path?: string } | undefined)?.path)
        return payload
      })
    }
  }, async (t, site) => {
    await site.request('/file')
    await site.request('/load')
    t.strictSame(seen.splice(0), [join(site.root, 'large.bin'), join(site.root, 'a.txt')])
  })
})
