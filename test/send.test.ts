import { EventEmitter } from 'node:events'
import { constants } from 'node:http2'
import { Readable } from 'node:stream'
import t from 'tap'
import * as errors from '../lib/errors'
import { isAbandoned, onClose, openBody, refuseWith, sendBody, sendBytes, sendStream, setHead, varyByAcceptEncoding, withdrawHead } from '../lib/send'
import { engineTest, opened } from './fixtures/engine'
import { DrivenSocket, responseOn, TestPool } from './fixtures/fake-response'
import { settled } from './fixtures/fake-world'
import type { FastifyReply } from 'fastify'
import type { OpenFileCache } from '../lib/open-file-cache'
import type { FilePlan } from '../lib/respond'

class FakeSocket extends EventEmitter {
  destroyed = false
}

class FakeStream extends EventEmitter {
  destroyed = false
  aborted = false
  readonly resets: number[] = []

  close (code: number): void {
    this.resets.push(code)
  }
}

class FakeResponse extends EventEmitter {
  destroyed = false
  stream: FakeStream | undefined

  constructor (public socket: FakeSocket | null) {
    super()
  }
}

/** As much of a reply as is used, and what became of it. */
class FakeReply {
  readonly socket = new FakeSocket()
  readonly raw = new FakeResponse(this.socket)
  readonly request = { raw: { socket: this.socket } }
  readonly stream = new FakeStream()
  sent = false
  statusCode = 200
  readonly fields: Record<string, unknown> = {}
  readonly payloads: unknown[] = []
  notFounds = 0

  code (status: number): this {
    this.statusCode = status
    return this
  }

  header (name: string, value: unknown): this {
    this.fields[name] = value
    return this
  }

  headers (fields: object): this {
    Object.assign(this.fields, fields)
    return this
  }

  getHeader (name: string): unknown {
    return this.fields[name]
  }

  removeHeader (name: string): this {
    delete this.fields[name]
    return this
  }

  send (payload: unknown): this {
    this.payloads.push(payload)
    this.sent = true
    return this
  }

  callNotFound (): this {
    this.notFounds++
    return this
  }

  overHttp2 (): this {
    this.raw.stream = this.stream
    return this
  }

  get asReply (): FastifyReply {
    return this as unknown as FastifyReply
  }
}

const planOf = (status: FilePlan['status'], fields = { etag: '"a"', 'content-length': '1' }): FilePlan =>
  ({ kind: 'file', status, fields, body: undefined })

t.test('the head', async (t) => {
  t.test('is the status and the fields of the plan', async (t) => {
    const reply = new FakeReply()
    setHead(reply.asReply, planOf(206), undefined, undefined)
    t.equal(reply.statusCode, 206)
    t.strictSame(reply.fields, { etag: '"a"', 'content-length': '1' })
  })

  t.test('keeps the status that the reply has when the plan has none', async (t) => {
    const reply = new FakeReply().code(404)
    setHead(reply.asReply, planOf(undefined), undefined, undefined)
    t.equal(reply.statusCode, 404)
  })

  t.test('ends with what the application sets, which wins', async (t) => {
    const reply = new FakeReply()
    setHead(reply.asReply, planOf(undefined), 'attachment', () => {
      t.strictSame(reply.fields, { etag: '"a"', 'content-length': '1', 'content-disposition': 'attachment' })
      reply.header('etag', '"b"')
    })
    t.strictSame(reply.fields, { etag: '"b"', 'content-length': '1', 'content-disposition': 'attachment' })
  })

  t.test('of a 304 says nothing of content, whoever has said it', async (t) => {
    const reply = new FakeReply().header('content-type', 'text/x').header('x-mine', '1')
    setHead(reply.asReply, planOf(304, { etag: '"a"', 'content-length': '1' }), undefined, () => {
      for (const name of ['content-language', 'content-encoding', 'content-range', 'content-location']) reply.header(name, 'x')
    })
    t.strictSame(reply.fields, { 'x-mine': '1', etag: '"a"', 'content-location': 'x' })
  })

  t.test('is taken back, status and fields, when an error goes out after all', async (t) => {
    for (const status of [undefined, 206, 304] as const) {
      const reply = new FakeReply().header('x-mine', '1')
      setHead(reply.asReply, planOf(status), 'attachment', () => { reply.header('x-mine-too', '1') })
      withdrawHead(reply.asReply)
      t.equal(reply.statusCode, 200)
      t.strictSame(reply.fields, { 'x-mine': '1', 'x-mine-too': '1' })
    }
  })

  t.test('is taken back also when the application threw while it was set', async (t) => {
    const reply = new FakeReply()
    t.throws(() => setHead(reply.asReply, planOf(206), 'attachment', () => { throw new Error('mine') }), { message: 'mine' })
    withdrawHead(reply.asReply)
    t.equal(reply.statusCode, 200)
    t.strictSame(reply.fields, {})
  })

  t.test('is taken back without a status that was the application\'s own', async (t) => {
    const reply = new FakeReply().code(404)
    setHead(reply.asReply, planOf(undefined), undefined, undefined)
    withdrawHead(reply.asReply)
    t.equal(reply.statusCode, 404)
    t.strictSame(reply.fields, {})
  })

  t.test('is taken back once, and only where there is one', async (t) => {
    const reply = new FakeReply().code(206).header('etag', '"mine"')
    withdrawHead(reply.asReply)
    t.equal(reply.statusCode, 206)
    t.strictSame(reply.fields, { etag: '"mine"' })
    setHead(reply.asReply, planOf(undefined), undefined, undefined)
    withdrawHead(reply.asReply)
    reply.code(206).header('etag', '"mine"')
    withdrawHead(reply.asReply)
    t.equal(reply.statusCode, 206)
    t.strictSame(reply.fields, { etag: '"mine"' })
  })
})

t.test('Vary names Accept-Encoding once, beside what is there', async (t) => {
  for (const [before, after] of [
    [undefined, 'accept-encoding'],
    ['', 'accept-encoding'],
    [[], 'accept-encoding'],
    ['origin', 'origin, accept-encoding'],
    [['origin', 'cookie'], 'origin, cookie, accept-encoding'],
    ['x-accept-encoding', 'x-accept-encoding, accept-encoding'],
    ['origin,Accept-Encoding', 'origin,Accept-Encoding'],
    ['*', '*']
  ] as const) {
    const reply = new FakeReply()
    if (before !== undefined) reply.header('vary', before)
    varyByAcceptEncoding(reply.asReply)
    const { vary } = reply.fields
    t.strictSame(vary, after, JSON.stringify(before))
  }
})

t.test('a refusal', async (t) => {
  t.test('without an error is for the not-found handler', async (t) => {
    const reply = new FakeReply()
    refuseWith(reply.asReply, { kind: 'refusal', error: undefined, fields: {} })
    t.equal(reply.notFounds, 1)
    t.strictSame(reply.payloads, [])
  })

  t.test('with an error is sent as one, its fields before', async (t) => {
    const reply = new FakeReply()
    const error = new errors.RANGE_NOT_SATISFIABLE()
    refuseWith(reply.asReply, { kind: 'refusal', error, fields: { 'content-range': 'bytes */5' } })
    t.strictSame(reply.payloads, [error])
    t.strictSame(reply.fields, { 'content-range': 'bytes */5' })
    t.equal(reply.notFounds, 0)
  })
})

t.test('bytes in memory', async (t) => {
  t.test('go out themselves when they are wanted whole, and have the path', async (t) => {
    const reply = new FakeReply()
    const bytes = Buffer.from('abcdef')
    sendBytes(reply.asReply, bytes, { start: 0, end: 5 }, '/www/a')
    t.equal(reply.payloads[0], bytes)
    t.equal((reply.payloads[0] as { path?: string }).path, '/www/a')
  })

  t.test('go out in part, without a copy, and have the path too', async (t) => {
    const reply = new FakeReply()
    const bytes = Buffer.from('abcdef')
    for (const [start, end, text] of [[1, 3, 'bcd'], [0, 4, 'abcde'], [5, 5, 'f']] as const) {
      sendBytes(reply.asReply, bytes, { start, end }, '/www/a')
      const payload = reply.payloads.at(-1) as Buffer & { path?: string }
      t.equal(payload.toString(), text)
      t.equal(payload.buffer, bytes.buffer)
      t.equal(payload.path, '/www/a')
    }
  })
})

t.test('bytes as a stream', async (t) => {
  const bytes = Buffer.from('abcdef')
  for (const [start, end, text] of [[0, 5, 'abcdef'], [1, 3, 'bcd'], [5, 5, 'f'], [0, -1, ''], [6, 5, '']] as const) {
    t.test(`are the same, and have the path: ${start} to ${end}`, async (t) => {
      const reply = new FakeReply()
      sendStream(reply.asReply, bytes, { start, end }, '/www/a')
      const [payload] = reply.payloads as [Readable & { path?: string }]
      t.ok(payload instanceof Readable)
      t.equal(payload.path, '/www/a')
      const chunks: Buffer[] = await payload.toArray()
      t.equal(Buffer.concat(chunks).toString(), text)
      t.ok(chunks.every(({ buffer }) => buffer === bytes.buffer), 'without a copy')
      t.strictSame(reply.fields, {})
    })
  }
})

t.test('the end of a response', async (t) => {
  const counting = (reply: FakeReply) => {
    const counted = { calls: 0 }
    onClose(reply.asReply, () => counted.calls++)
    return counted
  }

  t.test('is told when it comes', async (t) => {
    const reply = new FakeReply()
    const counted = counting(reply)
    t.equal(counted.calls, 0)
    reply.raw.emit('close')
    t.equal(counted.calls, 1)
  })

  t.test('is told at once when the response is destroyed already', async (t) => {
    const reply = new FakeReply()
    reply.raw.destroyed = true
    t.equal(counting(reply).calls, 1)
    t.equal(reply.raw.listenerCount('close'), 0)
  })

  t.test('is told at once when the socket is destroyed, of which a response that waits for it does not know', async (t) => {
    const reply = new FakeReply()
    reply.socket.destroyed = true
    t.equal(counting(reply).calls, 1)
  })

  t.test('is told when the socket closes that a pipelined response waits for', async (t) => {
    const reply = new FakeReply()
    reply.raw.socket = null
    const counted = counting(reply)
    reply.socket.emit('close')
    t.equal(counted.calls, 1)
  })

  t.test('leaves no listener on the socket, which serves more responses', async (t) => {
    const reply = new FakeReply()
    reply.raw.socket = null
    const most = reply.socket.getMaxListeners()
    const counted = counting(reply)
    reply.raw.emit('close')
    t.equal(counted.calls, 1)
    t.equal(reply.socket.listenerCount('close'), 0)
    t.equal(reply.socket.getMaxListeners(), most)
  })

  t.test('is told at once when the stream of HTTP/2 is destroyed or aborted, of which its response does not know', async (t) => {
    for (const name of ['destroyed', 'aborted'] as const) {
      const reply = new FakeReply().overHttp2()
      t.equal(counting(reply).calls, 0)
      reply.stream[name] = true
      t.equal(counting(reply).calls, 1)
    }
  })

  t.test('is told when the stream of HTTP/2 is aborted', async (t) => {
    const reply = new FakeReply().overHttp2()
    const counted = counting(reply)
    reply.stream.emit('aborted')
    t.equal(counted.calls, 1)
  })

  t.test('before an answer means that the client left', async (t) => {
    const reply = new FakeReply()
    t.equal(isAbandoned(reply.asReply), false)
    reply.raw.destroyed = true
    t.equal(isAbandoned(reply.asReply), true)
    reply.sent = true
    t.equal(isAbandoned(reply.asReply), false)
  })
})

t.test('a body', async (t) => {
  engineTest(t, 'ends with the response, though nobody reads it', { memory: false }, async (t, { cache, fs }) => {
    fs.write('/f', 'abc')
    const reply = new FakeReply()
    sendBody(reply.asReply, await openBody(reply.asReply, await opened(cache, '/f'), { start: 0, end: 2 }, '/f', {}))
    t.equal(reply.payloads.length, 1)
    t.equal((reply.payloads[0] as { path?: string }).path, '/f')
    t.equal(cache.stats().leases, 1)
    reply.raw.emit('close')
    t.equal(cache.stats().leases, 0)
  })

  engineTest(t, 'is read by as many bytes at a time as are wanted', { memory: false }, async (t, { cache, fs }) => {
    fs.write('/f', Buffer.alloc(200_000, 'x'))
    for (const [size, reads] of [[undefined, 4], [70_000, 3], [200_000, 1], [300_000, 1]] as const) {
      const reply = new FakeReply()
      const before = fs.count('read')
      const body = await openBody(reply.asReply, await opened(cache, '/f'), { start: 0, end: 199_999 }, '/f', { chunkSize: size })
      t.equal(Buffer.concat(await body.toArray()).length, 200_000)
      t.equal(fs.count('read'), before + reads, `${size}`)
    }
  })

  /** A buffer of the cache's pool that holds the first bytes, if there is one: then one less can be lent. */
  const isPooled = async (reply: FakeReply, cache: OpenFileCache): Promise<boolean> => {
    const body = await openBody(reply.asReply, await opened(cache, '/f'), { start: 0, end: 2 }, '/f', { pool: cache.buffers })
    const lent: Buffer[] = []
    for (let buffer = cache.buffers.take(); buffer !== undefined; buffer = cache.buffers.take()) lent.push(buffer)
    for (const buffer of lent) cache.buffers.give(buffer)
    body.destroy()
    return lent.length === 63
  }

  engineTest(t, 'is read into the pool over HTTP/1.1, and not over HTTP/2', { memory: false }, async (t, { cache, fs }) => {
    fs.write('/f', 'abc')
    t.equal(await isPooled(new FakeReply(), cache), true)
    t.equal(await isPooled(new FakeReply().overHttp2(), cache), false)
    t.equal(cache.stats().poolBytes, 64 * cache.buffers.size)
  })

  engineTest(t, 'leaves no buffer lent when the client leaves whose response waits for its turn, whole', { memory: false }, async (t, { cache, fs }) => {
    fs.write('/f', 'abc')
    const pool = new TestPool(1000)
    const socket = new DrivenSocket()
    const raw = responseOn(socket, false)
    const reply = Object.assign(new FakeReply(), { raw, request: { raw: { socket } } }) as unknown as FakeReply
    const body = await openBody(reply.asReply, await opened(cache, '/f'), { start: 0, end: 2 }, '/f', { pool })
    sendBody(reply.asReply, body)
    body.pipe(raw)
    await settled()
    t.ok(body.destroyed, 'all was handed over')
    t.equal(pool.lent, 1)
    socket.destroy()
    await settled()
    t.equal(pool.lent, 0)
    t.equal(pool.drops, 1)
  })

  engineTest(t, 'is not sent to a client that left while it was opened', { memory: false }, async (t, { cache, fs }) => {
    fs.write('/f', 'abc')
    const reply = new FakeReply()
    const body = await openBody(reply.asReply, await opened(cache, '/f'), { start: 0, end: 2 }, '/f', {})
    reply.raw.destroyed = true
    sendBody(reply.asReply, body)
    t.strictSame(reply.payloads, [])
    t.equal(cache.stats().leases, 0)
  })

  for (const http2 of [true, false]) {
    const name = http2
      ? 'of a file that changed resets the stream of HTTP/2 as an internal error, before it errors itself'
      : 'of a file that changed leaves the connection of HTTP/1 to Fastify, which destroys it'
    engineTest(t, name, { memory: false }, async (t, { cache, fs }) => {
      fs.write('/f', Buffer.alloc(200_000))
      const reply = http2 ? new FakeReply().overHttp2() : new FakeReply()
      const body = await openBody(reply.asReply, await opened(cache, '/f'), { start: 0, end: 199_999 }, '/f', {})
      const resetsAtError: number[] = []
      body.once('error', () => resetsAtError.push(...reply.stream.resets))
      fs.write('/f', '')
      body.resume()
      await settled()
      await settled()
      t.ok(body.errored instanceof errors.READ_FAILED)
      t.match(body.errored?.cause, { code: 'ERR_FILE_CHANGED' })
      t.strictSame(resetsAtError, http2 ? [constants.NGHTTP2_INTERNAL_ERROR] : [])
    })
  }
})
