// Clients that do not behave: each gets what HTTP gives it, none holds up the others, and nothing is left of them.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { bytesOf, sha256, until, versionOf } from './fixtures/files'
import { siteTest } from './fixtures/live-site'
import { Random } from './fixtures/random'
import { requestText } from './fixtures/raw-client'
import type { LiveSite, LiveSiteOptions } from './fixtures/live-site'
import type { Answer, RawConnection } from './fixtures/raw-client'

const MIB = 1024 * 1024
const small = Buffer.from('small file')
const middle = bytesOf(100_000, 3)
const large = bytesOf(4 * MIB, 5)
const BODIES: Record<string, Buffer> = { '/small.txt': small, '/middle.bin': middle, '/large.bin': large, '/dir/': Buffer.from('index') }
const files = { 'small.txt': small, 'middle.bin': middle, 'large.bin': large, dir: { 'index.html': 'index' } }

function hostileTest (t: Test, name: string, body: (t: Test, site: LiveSite) => Promise<void>, options: LiveSiteOptions = {}): void {
  siteTest(t, name, { files, ...options }, body)
}

/** Somebody who behaves is served meanwhile. */
async function isServed (t: Test, site: LiveSite): Promise<void> {
  const connection = await site.connect()
  for (let i = 0; i < 3; i++) {
    for (const [path, bytes] of Object.entries(BODIES)) {
      connection.request(path)
      const { status, body } = await connection.answer()
      t.ok(status === 200 && sha256(body) === sha256(bytes), `others get ${path}`)
    }
    connection.request('/none')
    t.equal((await connection.answer()).status, 404)
  }
  connection.destroy()
}

/** All that comes until the connection ends, in answers. */
async function answersOf (connection: RawConnection, methods: readonly string[] = []): Promise<Answer[]> {
  const answers: Answer[] = []
  for (;;) {
    try {
      answers.push(await connection.answer(methods[answers.length]))
    } catch (error) {
      if (!/the connection ended after ""/.test(String(error))) throw error
      return answers
    }
  }
}

t.test('slow readers', async (t) => {
  for (const [kept, openFileCache] of [['in memory or open', { memory: { maxFileSize: 8 * MIB } }], ['read from descriptors', { memory: false }], ['not kept', false]] as const) {
    hostileTest(t, `who do not read at all: ${kept}`, async (t, site) => {
      await isServed(t, site)
      const slow = await Promise.all(Array.from({ length: 60 }, async (_, i) => {
        const connection = await site.connect()
        connection.socket.pause()
        connection.send(requestText(i % 2 === 0 ? '/large.bin' : '/middle.bin').repeat(1 + i % 3))
        return connection
      }))
      await isServed(t, site)
      for (const connection of slow.slice(0, 30)) connection.destroy()
      await isServed(t, site)
      // The others have been slow long enough.
      for (const connection of slow.slice(30, 40)) {
        const index = slow.indexOf(connection)
        for (let i = 0; i < 1 + index % 3; i++) {
          const { status, body, complete } = await connection.answer()
          t.ok(status === 200 && complete && sha256(body) === sha256(index % 2 === 0 ? large : middle), `slow, but whole: ${index}`)
        }
      }
      for (const connection of slow) connection.destroy()
      if (openFileCache !== false) await site.idle(t)
    }, { plugin: { openFileCache } })
  }
})

t.test('requests in pieces', async (t) => {
  hostileTest(t, 'that stop anywhere, and go on when others were served', async (t, site) => {
    const text = requestText('/middle.bin', { 'If-None-Match': '"x", "y"', Range: 'bytes=10-19' })
    const slow = await Promise.all(Array.from({ length: text.length }, async (_, at) => {
      const connection = await site.connect()
      connection.send(text.slice(0, at))
      return connection
    }))
    await isServed(t, site)
    for (const [at, connection] of slow.entries()) connection.send(text.slice(at))
    for (const connection of slow) {
      const { status, body } = await connection.answer()
      t.ok(status === 206 && body.equals(middle.subarray(10, 20)))
      connection.destroy()
    }
    await site.idle(t)
  })

  hostileTest(t, 'that stop for good: the server ends them', async (t, site) => {
    const texts = ['', 'G', 'GET ', 'GET /small.txt', 'GET /small.txt HTTP/1.1\r\n', 'GET /small.txt HTTP/1.1\r\nHost: x\r\n', 'GET /small.txt HTTP/1.1\r\nHost: x\r\nX: ', '\r\n']
    const slow = await Promise.all(Array.from({ length: 40 }, async (_, i) => {
      const connection = await site.connect()
      connection.send(texts[i % texts.length] as string)
      return connection
    }))
    await isServed(t, site)
    for (const connection of slow) {
      const rest = await connection.rest()
      t.ok(rest.length === 0 || rest.toString().startsWith('HTTP/1.1 408 '), rest.toString().slice(0, 30))
    }
    await isServed(t, site)
  }, { fastify: { http: { headersTimeout: 200, requestTimeout: 400, connectionsCheckingInterval: 50 } } })

  hostileTest(t, 'that were never more than a piece', async (t, site) => {
    const text = requestText('/large.bin')
    for (let at = 1; at < text.length; at++) {
      const connection = await site.connect()
      connection.socket.end(text.slice(0, at))
      const rest = await connection.rest()
      t.notMatch(rest.toString('latin1', 0, 12), /HTTP\/1.1 [25]/, `${at} bytes`)
    }
    await isServed(t, site)
    await site.idle(t)
  })
})

t.test('half-closed: who says no more still listens', async (t) => {
  const paths = ['/small.txt', '/middle.bin', '/large.bin', '/dir/', '/none', '/dir/%2e%2e']
  hostileTest(t, 'a server that allows it answers', async (t, site) => {
    for (const way of ['cold', 'warm', 'hot']) {
      for (const path of paths) {
        for (const [method, times] of [['GET', 1], ['HEAD', 1], ['GET', 5]] as const) {
          const connection = await site.connect()
          connection.socket.end(requestText(path, {}, method).repeat(times))
          const answers = await answersOf(connection, Array(times).fill(method))
          t.equal(answers.length, times, `${way} ${method} ${path} × ${times}`)
          for (const { status, body, complete } of answers) {
            t.ok(complete && status === (path === '/none' ? 404 : path.includes('%') ? 403 : 200))
            if (status === 200 && method === 'GET') t.equal(sha256(body), sha256(BODIES[path] as Buffer))
          }
        }
      }
    }
    await site.idle(t)
  }, {
    after: (app) => { (app.server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true }
  })

  // Node ends a connection with its client's side, unless the answer is on its way by then.
  hostileTest(t, 'by default: what is sent at once arrives, as from any route', async (t, site) => {
    const answersTo = async (path: string): Promise<string[]> => {
      const connection = await site.connect()
      connection.socket.end(requestText(path))
      return (await connection.rest()).toString('latin1').match(/HTTP\/1.1 \d+/g) ?? []
    }
    const atOnce = await answersTo('/route')
    t.strictSame(atOnce, ['HTTP/1.1 200'])
    t.strictSame(await answersTo('/disk'), [], 'a route that waits for the disk is too late')
    for (const path of paths.slice(0, 4)) {
      t.strictSame(await answersTo(path), [], `cold ${path}: so are we`)
      for (let i = 0; i < 3; i++) await site.request(path)
    }
    for (const path of ['/small.txt', '/middle.bin', '/dir/']) t.strictSame(await answersTo(path), atOnce, `hot ${path}`)
    await site.request('/none')
    t.strictSame(await answersTo('/none'), ['HTTP/1.1 404'])
    t.strictSame(await answersTo('/dir/%2e%2e'), ['HTTP/1.1 403'])
    await site.idle(t)
    await isServed(t, site)
  }, {
    before: (app) => {
      app.get('/route', (_request, reply) => { reply.send('route') })
      app.get('/disk', async () => await readFile(__filename))
    }
  })
})

/** Requests of all kinds, and what each must get. */
const KINDS: Array<[text: string, method: string, status: number, body: Buffer | undefined]> = [
  ...Object.entries(BODIES).map(([path, body]): [string, string, number, Buffer] => [requestText(path), 'GET', 200, body]),
  [requestText('/small.txt'), 'GET', 200, small], [requestText('/small.txt', {}, 'HEAD'), 'HEAD', 200, undefined], [requestText('/large.bin', {}, 'HEAD'), 'HEAD', 200, undefined],
  [requestText('/large.bin', { Range: 'bytes=1000000-1100000' }), 'GET', 206, large.subarray(1_000_000, 1_100_001)], [requestText('/small.txt', { Range: 'bytes=-1' }), 'GET', 206, small.subarray(-1)],
  [requestText('/small.txt', { Range: 'bytes=99-' }), 'GET', 416, undefined], [requestText('/small.txt', { 'If-None-Match': '*' }), 'GET', 304, undefined], [requestText('/large.bin', { 'If-None-Match': '*' }), 'GET', 304, undefined],
  [requestText('/none'), 'GET', 404, undefined], [requestText('/none', {}, 'HEAD'), 'HEAD', 404, undefined], [requestText('/dir/../small.txt'), 'GET', 403, undefined], [requestText('/%zz'), 'GET', 400, undefined],
  [requestText('/small.txt', { 'Content-Length': '5' }, 'POST') + 'a=b&c', 'POST', 404, undefined], [requestText('/small.txt', { 'Content-Length': '0' }, 'PUT'), 'PUT', 404, undefined], [requestText('/small.txt', {}, 'OPTIONS'), 'OPTIONS', 404, undefined],
  // A body that looks like a request is a body.
  [requestText('/small.txt', { 'Content-Length': String(requestText('/none').length) }) + requestText('/none'), 'GET', 200, small],
  [requestText('/middle.bin', { 'Transfer-Encoding': 'chunked' }) + `${requestText('/none').length.toString(16)};x=y\r\n${requestText('/none')}\r\n0\r\nTrailer: x\r\n\r\n`, 'GET', 200, middle]
]

t.test('many requests in one packet, or cut anywhere: each its answer, in order', async (t) => {
  for (const [kept, openFileCache] of [['hot', { minUses: 1 }], ['from descriptors', { minUses: 1, memory: false }], ['cold each time', false]] as const) {
    hostileTest(t, kept, async (t, site) => {
      const random = new Random(11)
      for (let round = 0; round < 6; round++) {
        const kinds = Array.from({ length: 48 }, () => random.pick(KINDS))
        const text = kinds.map(([text]) => text).join('')
        const connection = await site.connect()
        connection.socket.setNoDelay(true)
        // Sent beside, since a server whose answers nobody reads stops reading.
        const sending = (async () => {
          if (round % 2 === 0) return connection.send(text)
          for (let at = 0; at < text.length;) {
            const end = at + random.int(1, 400)
            connection.send(text.slice(at, end))
            await new Promise((resolve) => setImmediate(resolve))
            at = end
          }
        })()
        let right = 0
        for (const [text, method, status, body] of kinds) {
          const answer = await connection.answer(method)
          if (answer.status === status && answer.complete && (body === undefined || answer.body.equals(body))) right++
          else t.fail(`${answer.status} with ${answer.body.length} bytes for ${text.slice(0, 60)}`)
        }
        t.equal(right, kinds.length)
        await sending
        connection.destroy()
      }
      await isServed(t, site)
      if (openFileCache !== false) await site.idle(t)
    }, { plugin: { openFileCache, redirect: true } })
  }

  hostileTest(t, 'and who leaves in the middle of them', async (t, site) => {
    const random = new Random(12)
    for (let round = 0; round < 30; round++) {
      const connection = await site.connect()
      connection.send(Array.from({ length: 30 }, () => random.pick(KINDS)[0]).join(''))
      if (round % 3 > 0) await connection.head()
      if (round % 3 > 1) connection.socket.resetAndDestroy()
      else connection.destroy()
    }
    await isServed(t, site)
    await site.idle(t)
  })
})

t.test('bodies that nobody asked for', async (t) => {
  hostileTest(t, 'of GET and HEAD', async (t, site) => {
    const cases: Array<[fields: Record<string, string>, body: string]> = [
      [{ 'Content-Length': '0' }, ''], [{ 'Content-Length': '3' }, 'abc'], [{ 'Content-Length': String(MIB), 'Content-Type': 'application/json' }, '{'.repeat(MIB)],
      [{ 'Transfer-Encoding': 'chunked' }, '0\r\n\r\n'], [{ 'Transfer-Encoding': 'chunked', 'Content-Type': 'text/plain' }, '3\r\nabc\r\n0\r\n\r\n'], [{ 'Content-Type': 'x' }, '']
    ]
    for (const [fields, sent] of cases) {
      for (const path of ['/small.txt', '/large.bin', '/small.txt', '/none']) {
        for (const method of ['GET', 'HEAD']) {
          const connection = await site.connect()
          connection.send(requestText(path, fields, method) + sent + requestText('/middle.bin'))
          const answer = await connection.answer(method)
          t.equal(answer.status, path === '/none' ? 404 : 200, `${method} ${path} ${JSON.stringify(fields)}`)
          if (method === 'GET' && answer.status === 200) t.equal(sha256(answer.body), sha256(BODIES[path] as Buffer))
          t.equal(sha256((await connection.answer()).body), sha256(middle), 'the next one')
          connection.destroy()
        }
      }
    }
    await site.idle(t)
  })

  hostileTest(t, 'that never come, or not as they should', async (t, site) => {
    const open: RawConnection[] = []
    for (const [fields, sent] of [
      [{ 'Content-Length': '1000' }, 'abc'], [{ 'Transfer-Encoding': 'chunked' }, ''], [{ 'Transfer-Encoding': 'chunked' }, 'ffff\r\nabc'], [{ 'Transfer-Encoding': 'chunked' }, '3\r\nabc\r\n']
    ] as Array<[Record<string, string>, string]>) {
      for (const path of ['/small.txt', '/large.bin']) {
        const connection = await site.connect()
        open.push(connection)
        connection.send(requestText(path, fields) + sent)
        const { status, body } = await connection.answer()
        t.ok(status === 200 && sha256(body) === sha256(BODIES[path] as Buffer), `${path} ${JSON.stringify(fields)}`)
      }
    }
    await isServed(t, site)
    await site.idle(t)
    for (const connection of open) connection.destroy()
  })

  hostileTest(t, 'framed in more than one way: refused, and nothing of them is a request', async (t, site) => {
    const smuggled = requestText('/middle.bin')
    for (const [fields, sent] of [
      ['Content-Length: 3\r\nTransfer-Encoding: chunked', '0\r\n\r\n'], ['Transfer-Encoding: chunked\r\nContent-Length: 3', '0\r\n\r\n'], ['Content-Length: 3\r\nContent-Length: 4', 'abcd'], ['Content-Length: 3, 4', 'abcd'],
      ['Content-Length: -1', ''], ['Content-Length: +3', 'abc'], ['Content-Length: 0x3', 'abc'], ['Content-Length: 3 3', 'abc'], ['Content-Length: 99999999999999999999', ''], ['Content-Length: ', ''],
      ['Transfer-Encoding: chunked, identity', '0\r\n\r\n'], ['Transfer-Encoding : chunked', '0\r\n\r\n'], ['Content-Length : 3', 'abc'], ['Transfer-Encoding: chunked\r\nTransfer-Encoding: identity', '0\r\n\r\n'],
      ['\tTransfer-Encoding: chunked', '0\r\n\r\n'], ['X: y\rContent-Length: 3', 'abc'], ['X: y\nContent-Length: 3', 'abc']
    ] as Array<[string, string]>) {
      const connection = await site.connect()
      connection.send(`GET /small.txt HTTP/1.1\r\nHost: x\r\n${fields}\r\n\r\n${sent}${smuggled}`)
      const answers = await answersOf(connection)
      t.strictSame(answers.map(({ status }) => status), [400], JSON.stringify(fields))
    }
    for (const chunks of ['zz\r\n', '-1\r\n', '3\r\nabcd\r\n0\r\n\r\n', 'fffffffffffffffff\r\n', '3 \r\nabc\r\n']) {
      const connection = await site.connect()
      connection.send(requestText('/small.txt', { 'Transfer-Encoding': 'chunked' }) + chunks + smuggled)
      for (const { status, body } of await answersOf(connection)) t.ok(status === 400 || body.equals(small), `${JSON.stringify(chunks)}: ${status}`)
    }
    await isServed(t, site)
    await site.idle(t)
  })
})

t.test('Expect', async (t) => {
  hostileTest(t, '100-continue is met, anything else is not', async (t, site) => {
    for (const [fields, sent] of [[{}, ''], [{ 'Content-Length': '3' }, 'abc'], [{ 'Transfer-Encoding': 'chunked' }, '1\r\na\r\n0\r\n\r\n']] as Array<[Record<string, string>, string]>) {
      for (const path of ['/small.txt', '/large.bin', '/none', '/small.txt']) {
        const connection = await site.connect()
        connection.request(path, { Expect: '100-continue', ...fields })
        t.equal((await connection.head()).status, 100)
        connection.send(sent)
        const { status, body } = await connection.answer()
        t.equal(status, path === '/none' ? 404 : 200)
        if (status === 200) t.equal(sha256(body), sha256(BODIES[path] as Buffer))
        connection.request('/middle.bin')
        t.equal(sha256((await connection.answer()).body), sha256(middle), 'the next one')
        connection.destroy()
      }
    }
    t.equal((await site.request('/small.txt', { Expect: '200-ok' })).status, 417)
    t.equal((await site.request('/small.txt', { Expect: 'x'.repeat(10_000) })).status, 417)
    await site.idle(t)
  })
})

t.test('methods', async (t) => {
  hostileTest(t, 'only GET and HEAD reach a file', async (t, site) => {
    const { etag } = versionOf(join(site.root, 'small.txt'))
    for (const way of ['cold', 'hot']) {
      for (const path of ['/small.txt', '/large.bin', '/dir/', '/none']) {
        for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND', 'PURGE', 'LINK', 'MKCOL', 'LOCK', 'M-SEARCH', 'SOURCE']) {
          for (const fields of [{}, { Range: 'bytes=0-0', 'If-None-Match': etag }] as Array<Record<string, string>>) {
            const { status, headers, body } = await site.request(path, { 'Content-Length': '0', ...fields }, method)
            t.ok([400, 404].includes(status), `${way} ${method} ${path}: ${status}`)
            t.equal(headers.etag, undefined)
            t.notOk(body.includes(small))
          }
        }
        for (const method of ['FOO', 'get', 'Get', 'GETX', 'GE', '__proto__', 'G\x00T', '']) t.equal((await site.request(path, {}, method)).status, 400, `${way} ${method}`)
        for (const [method, status] of [['GET', 200], ['HEAD', 200]] as const) t.equal((await site.request(path, {}, method)).status, path === '/none' ? 404 : status)
      }
      for (const target of ['localhost:80', '/small.txt', 'evil.com:443']) {
        const connection = await site.connect()
        connection.request(target, {}, 'CONNECT')
        t.notMatch((await connection.rest()).toString('latin1'), /^HTTP\/1.1 [235]|small file/, `CONNECT ${target}`)
      }
      t.equal((await site.request('*', {}, 'OPTIONS')).status, 404)
    }
    for (const version of ['HTTP/0.9', 'HTTP/1.2', 'HTTP/2.0', 'HTTP/9.9', 'HTTP/1', 'http/1.1', 'FTP/1.1', '']) {
      const connection = await site.connect()
      connection.send(`GET /small.txt ${version}\r\nHost: x\r\nConnection: close\r\n\r\n`)
      const rest = (await connection.rest()).toString('latin1')
      t.match(rest, /^HTTP\/1.1 (?:400|505|200) /, version)
    }
    const old = await site.connect()
    old.send('GET /small.txt HTTP/1.0\r\n\r\n')
    t.match(await old.answer(), { status: 200, body: small })
    t.equal((await old.rest()).length, 0, 'HTTP/1.0 ends with its answer')
    await isServed(t, site)
    await site.idle(t)
  })
})

t.test('noise', async (t) => {
  hostileTest(t, 'that is no HTTP', async (t, site) => {
    const random = new Random(13)
    const noises = [...Array.from({ length: 60 }, () => random.bytes(random.int(1, 3000))), Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), Buffer.from([0x16, 3, 1, 2, 0, 1, 0]), Buffer.alloc(100_000), Buffer.alloc(100_000, 'A')]
    for (const noise of noises) {
      const connection = await site.connect()
      connection.socket.write(requestText('/small.txt'))
      connection.socket.write(noise)
      // Be it by a reset.
      const closed = new Promise((resolve) => connection.socket.once('close', resolve))
      connection.socket.end()
      const rest = await connection.rest()
      t.notMatch(rest.toString('latin1'), /HTTP\/1.1 5/)
      await closed
    }
    await isServed(t, site)
    await site.idle(t)
    t.ok(await until(() => site.app.server.listening))
  })
})
