import { once } from 'node:events'
import { ServerResponse } from 'node:http'
import { finished, pipeline, Transform } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import t from 'tap'
import { FileBody } from '../lib/file-body'
import { Turns } from '../lib/turns'
import { deliver, engineTest, opened } from './fixtures/engine'
import { DrivenSocket, responseOn, TestPool } from './fixtures/fake-response'
import { settled } from './fixtures/fake-world'
import { bytesOf } from './fixtures/files'
import type { Test } from 'tap'
import type { Engine } from './fixtures/engine'
import type { ByteRange } from '../lib/range'

const CHUNK = 64 * 1024
/** Of a buffer of the pool. */
const SIZE = 1000

interface Sending extends Engine {
  readonly pool: TestPool
  readonly socket: DrivenSocket
  readonly response: ServerResponse
  readonly faults: Error[]
  /** Errors of the body. */
  readonly errors: Error[]
  open (range?: Partial<ByteRange>, chunkSize?: number): Promise<FileBody>
}

/**
 * A test of a body of `/f` into a response whose socket the test drives. Whatever happened: each buffer was given back or
 * dropped, once, and the lease was released.
 */
function pipeTest (
  t: Test, name: string, bytes: Buffer, test: (t: Test, sending: Sending) => Promise<void>, isAssigned = true
): void {
  engineTest(t, name, { memory: false }, async (t, engine) => {
    engine.fs.write('/f', bytes)
    engine.clock.jump(60_000)
    const pool = new TestPool(SIZE)
    const socket = new DrivenSocket()
    const response = responseOn(socket, isAssigned)
    const faults: Error[] = []
    const errors: Error[] = []
    const open = async ({ start = 0, end = bytes.length - 1 }: Partial<ByteRange> = {}, chunkSize?: number): Promise<FileBody> => {
      const lease = await opened(engine.cache, '/f')
      await lease.current()
      const onFault = (cause: Error): Error => {
        faults.push(cause)
        return cause
      }
      const body = await FileBody.open(lease, '/f', { start, end }, { onFault, pool, chunkSize })
      body.on('error', (error) => errors.push(error))
      // As `sendBody` does.
      response.once('close', () => body.abandon())
      response.setHeader('content-length', end - start + 1)
      return body
    }
    await test(t, { ...engine, pool, socket, response, faults, errors, open })
    await settled()
    t.strictSame(pool.violations, [], 'afterwards: the accounts of the pool are right')
    t.equal(pool.lent, 0, 'afterwards: no buffer is lent')
    t.equal(engine.cache.stats().leases, 0, 'afterwards: the lease was released')
  })
}

/** As Fastify calls it, from a callback of Node: what is written goes to the socket before a fake read is answered. */
function piped (body: FileBody, response: ServerResponse, options?: { end?: boolean }): Promise<void> {
  return new Promise((resolve) => setImmediate(() => {
    body.pipe(response, options)
    resolve()
  }))
}

function accounts ({ takes, gives, drops }: TestPool): number[] {
  return [takes, gives, drops]
}

t.test('into a response of HTTP/1.1', async (t) => {
  for (const length of [1, SIZE - 1, SIZE, SIZE + 1, 2 * SIZE, 2 * SIZE + 1, 7 * SIZE + 13]) {
    const bytes = bytesOf(length)
    pipeTest(t, `${length} bytes go in order, in buffers of the pool that all come back`, bytes, async (t, { open, response, socket, pool, fs, faults, cache }) => {
      const body = await open()
      const ended: unknown[] = []
      finished(body, (error) => ended.push(error))
      await piped(body, response)
      await socket.acceptAll()
      t.ok(bytes.equals(socket.body))
      t.ok(response.writableFinished)
      t.strictSame(ended, [undefined], 'and nobody is told of a premature close')
      const chunks = Math.ceil(length / SIZE)
      t.equal(fs.count('read'), chunks)
      t.strictSame(accounts(pool), [chunks, chunks, 0])
      t.strictSame(faults, [])
      t.equal(cache.stats().leases, 0)
    })
  }

  const bytes = bytesOf(5 * SIZE + 1)

  pipeTest(t, 'at most two buffers are under way, and the next one is read when one was written', bytes, async (t, { open, response, socket, pool, fs }) => {
    const body = await open()
    await piped(body, response)
    for (let turn = 0; turn < 5; turn++) await settled()
    t.equal(fs.count('read'), 2)
    t.equal(pool.lent, 2)
    for (let reads = 3; reads <= 6; reads++) {
      t.ok(await socket.accept())
      t.equal(fs.count('read'), reads)
      t.equal(pool.lent, 2)
    }
    t.ok(await socket.accept())
    t.equal(pool.lent, 1)
    await socket.acceptAll()
    t.ok(bytes.equals(socket.body))
  })

  pipeTest(t, 'one buffer is read while the other is written', bytes, async (t, { open, response, socket, pool, fs }) => {
    const body = await open()
    fs.isManual = true
    await piped(body, response)
    await socket.accept()
    t.equal(fs.pending.length, 1)
    t.equal(pool.lent, 1, 'the written one is back')
    await deliver(fs, 'read')
    t.equal(fs.pending.length, 1, 'the next one is being read')
    t.notOk(socket.body.length > SIZE)
    fs.isManual = false
    await deliver(fs, 'read')
    await socket.acceptAll()
    t.ok(bytes.equals(socket.body))
  })

  pipeTest(t, 'the lease is released with the last bytes, before they are written', bytesOf(SIZE + 1), async (t, { open, response, socket, cache }) => {
    const body = await open()
    await piped(body, response)
    await settled()
    t.ok(socket.pending)
    t.equal(cache.stats().leases, 0)
    await socket.acceptAll()
  })

  pipeTest(t, 'a range within a buffer, and over several', bytes, async (t, { open, pool }) => {
    for (const [start, end] of [[5, 9], [SIZE - 1, SIZE], [SIZE, 3 * SIZE - 1], [1, 4 * SIZE]] as const) {
      const socket = new DrivenSocket()
      const body = await open({ start, end })
      await piped(body, responseOn(socket))
      await socket.acceptAll()
      t.ok(bytes.subarray(start, end + 1).equals(socket.chunkedBody), `${start} to ${end}`)
    }
    t.equal(pool.drops, 0)
  })

  pipeTest(t, 'chunked, when the length is not said', bytes, async (t, { open, response, socket, pool }) => {
    const body = await open({ start: 10, end: 10 + 2 * SIZE })
    response.removeHeader('content-length')
    await piped(body, response)
    await socket.acceptAll()
    t.ok(bytes.subarray(10, 11 + 2 * SIZE).equals(socket.chunkedBody))
    t.strictSame(accounts(pool), [3, 3, 0])
  })

  pipeTest(t, 'short reads', bytes, async (t, { open, response, socket, pool, fs }) => {
    fs.maxRead = 300
    const body = await open({ start: 10, end: 2009 })
    await piped(body, response)
    await socket.acceptAll()
    t.ok(bytes.subarray(10, 2010).equals(socket.body))
    t.equal(fs.count('read'), 7)
    t.strictSame(accounts(pool), [7, 7, 0])
  })

  pipeTest(t, 'end: false leaves the response open, and the body ends', bytes, async (t, { open, response, socket }) => {
    const body = await open()
    let ended = false
    body.once('end', () => { ended = true })
    await piped(body, response, { end: false })
    await socket.acceptAll()
    t.ok(bytes.equals(socket.body))
    t.ok(ended)
    t.notOk(response.writableEnded)
    response.end()
    await socket.acceptAll()
    t.ok(response.writableFinished)
  })

  for (const options of [undefined, {}, { end: true }]) {
    pipeTest(t, `options ${JSON.stringify(options)} end the response`, bytes, async (t, { open, response, socket }) => {
      const body = await open()
      await piped(body, response, options)
      await socket.acceptAll()
      t.ok(response.writableEnded)
    })
  }

  pipeTest(t, 'pipeline() into the response', bytes, async (t, { open, response, socket, pool }) => {
    const done = promisify(pipeline)(await open(), response)
    await socket.acceptAll()
    await done
    t.ok(bytes.equals(socket.body))
    t.strictSame(accounts(pool), [6, 6, 0])
  })

  pipeTest(t, 'a response that waits for its turn has two buffers, and gets the rest with its socket', bytes, async (t, { open, response, socket, pool, fs }) => {
    const body = await open()
    await piped(body, response)
    for (let turn = 0; turn < 5; turn++) await settled()
    t.equal(fs.count('read'), 2)
    response.assignSocket(socket as never)
    await socket.acceptAll()
    t.ok(bytes.equals(socket.body))
    t.strictSame(accounts(pool), [6, 6, 0])
  }, false)

  pipeTest(t, 'a size that is asked for is that of memory of its own', bytes, async (t, { open, response, socket, pool, fs }) => {
    const body = await open({}, 2000)
    await piped(body, response)
    await socket.acceptAll()
    t.ok(bytes.equals(socket.body))
    t.equal(fs.count('read'), 3)
    t.strictSame(accounts(pool), [0, 0, 0])
  })
})

t.test('when all buffers of the pool are lent', async (t) => {
  const bytes = bytesOf(3 * CHUNK + 5)

  pipeTest(t, 'memory of its own is, 64 KiB at a time', bytes, async (t, { open, response, socket, pool, fs }) => {
    pool.limit = 0
    const body = await open()
    await piped(body, response)
    for (let reads = 1; reads <= 4; reads++) {
      await settled()
      t.equal(fs.count('read'), reads, 'the next is read when this one was written')
      t.ok(await socket.accept())
      t.equal(socket.body.length, Math.min(reads * CHUNK, bytes.length))
    }
    t.ok(bytes.equals(socket.body))
    t.equal(fs.count('read'), 4)
    t.strictSame(accounts(pool), [0, 0, 0])
  })

  pipeTest(t, 'a body with one buffer waits for that one', bytesOf(5 * SIZE), async (t, { open, response, socket, pool, fs }) => {
    pool.limit = 1
    const body = await open()
    await piped(body, response)
    for (let turn = 0; turn < 5; turn++) await settled()
    t.equal(fs.count('read'), 1)
    await socket.acceptAll()
    t.ok(bytesOf(5 * SIZE).equals(socket.body))
    t.strictSame(accounts(pool), [5, 5, 0])
  })

  pipeTest(t, 'a body takes one again when there is one', bytes, async (t, { open, response, socket, pool, fs }) => {
    pool.limit = 0
    const body = await open()
    await piped(body, response)
    await socket.accept()
    pool.limit = 2
    await socket.accept()
    t.equal(pool.lent, 2)
    t.equal(fs.count('read'), 4)
    await socket.acceptAll()
    t.ok(bytes.equals(socket.body))
    t.equal(pool.drops, 0)
  })

  pipeTest(t, 'and memory as well, the body fails', bytes, async (t, { open, response, socket, pool, faults, errors }) => {
    pool.limit = 0
    const body = await open()
    await piped(body, response)
    t.intercept(Buffer, 'allocUnsafeSlow', { value () { throw new RangeError('Array buffer allocation failed') } })
    await socket.acceptAll()
    t.match(faults, [{ message: 'Array buffer allocation failed' }])
    t.strictSame(errors, faults)
    t.notOk(response.writableEnded)
  })
})

t.test('a body whose turn to read has not come', async (t) => {
  const bytes = bytesOf(3 * SIZE)
  /** With the only turn taken, once the body has read its first bytes. */
  const queued = async ({ open, response, pool }: Sending): Promise<FileBody> => {
    pool.reads = new Turns(1)
    const body = await open()
    await settled()
    t.ok(pool.reads.take())
    await piped(body, response)
    return body
  }

  pipeTest(t, 'reads when it comes', bytes, async (t, sending) => {
    const { pool, socket, fs } = sending
    await queued(sending)
    await socket.accept()
    t.equal(fs.count('read'), 1)
    t.equal(pool.lent, 0, 'and has no buffer meanwhile')
    pool.reads.done()
    await socket.acceptAll()
    t.ok(bytes.equals(socket.body))
    t.ok(pool.reads.take(), 'each turn ended')
  })

  pipeTest(t, 'and whose client leaves reads nothing more', bytes, async (t, sending) => {
    const { pool, response, fs, cache } = sending
    const body = await queued(sending)
    response.destroy()
    await settled()
    t.ok(body.closed)
    t.equal(cache.stats().leases, 0, 'nor keeps the file open until its turn comes')
    pool.reads.done()
    await settled()
    await settled()
    t.equal(fs.count('read'), 1)
    t.ok(pool.reads.take(), 'each turn ended')
  })

  pipeTest(t, 'nor does it when all buffers are lent by then, and one of its own is being written', bytes, async (t, sending) => {
    const { pool, socket, fs } = sending
    await queued(sending)
    pool.limit = 1
    pool.reads.done()
    await settled()
    t.equal(fs.count('read'), 1)
    await socket.acceptAll()
    t.ok(bytes.equals(socket.body))
    t.ok(pool.reads.take(), 'each turn ended')
  })

  engineTest(t, 'the first bytes neither: a lease that was released meanwhile is an error', { memory: false }, async (t, { cache, fs }) => {
    fs.write('/f', bytes)
    const pool = new TestPool(SIZE)
    pool.reads = new Turns(1)
    pool.reads.take()
    const lease = await opened(cache, '/f')
    const body = FileBody.open(lease, '/f', { start: 0, end: bytes.length - 1 }, { onFault: (cause) => cause, pool })
    lease.release()
    pool.reads.done()
    await t.rejects(body, { message: /released/ })
    await settled()
    t.ok(pool.reads.take(), 'its turn ended')
    t.equal(pool.lent, 0)
    t.equal(fs.count('read'), 0)
  })
})

t.test('a buffer is not lent again while somebody may read it', async (t) => {
  const bytes = bytesOf(9 * SIZE)

  /** Two buffers are being written. */
  const blocked = async ({ open, response }: Sending): Promise<FileBody> => {
    const body = await open()
    await piped(body, response)
    await settled()
    await settled()
    return body
  }

  /** Of what a write under way reads; how much of it is the file's. */
  const stillRight = ({ chunks }: NonNullable<DrivenSocket['pending']>): boolean => {
    const read = Buffer.concat(chunks)
    return bytes.subarray(0, SIZE).equals(read.subarray(read.indexOf('\r\n\r\n') + 4).subarray(0, SIZE))
  }

  pipeTest(t, 'when the write failed', bytes, async (t, sending) => {
    const { socket, pool, errors } = sending
    await blocked(sending)
    const { pending } = socket
    socket.on('error', () => {})
    pending?.done(new Error('EPIPE'))
    await settled()
    t.strictSame(accounts(pool), [2, 0, 2])
    t.ok(pending && stillRight(pending))
    t.strictSame(errors, [])
  })

  pipeTest(t, 'when the socket is destroyed, and the write never ends', bytes, async (t, sending) => {
    const { socket, pool, cache, fs } = sending
    await blocked(sending)
    const { pending } = socket
    socket.destroy()
    t.equal(pool.drops, 0)
    await settled()
    t.strictSame(accounts(pool), [2, 0, 2])
    t.ok(pending && stillRight(pending))
    t.equal(cache.stats().leases, 0)
    pending?.done()
    await settled()
    t.strictSame(accounts(pool), [2, 0, 2], 'nor when it ends after all')
    t.equal(fs.count('read'), 2)
  })

  for (const [what, destroy] of [
    ['socket', ({ socket }: Sending) => socket.destroy()],
    ['response', ({ response }: Sending) => response.destroy()]
  ] as const) {
    pipeTest(t, `when the ${what} is destroyed, and then the write ends well`, bytes, async (t, sending) => {
      const { socket, pool, fs } = sending
      await blocked(sending)
      const { pending } = socket
      destroy(sending)
      pending?.done()
      t.equal(pool.gives, 0)
      await settled()
      t.strictSame(accounts(pool), [2, 0, 2])
      t.ok(pending && stillRight(pending))
      t.equal(fs.count('read'), 2)
    })
  }

  pipeTest(t, 'when the response alone is destroyed, which has no socket yet', bytes, async (t, sending) => {
    const { response, pool, socket } = sending
    const body = await blocked(sending)
    response.destroy()
    response.assignSocket(socket as never)
    await settled()
    t.ok(body.destroyed)
    t.strictSame(accounts(pool), [2, 0, 2])
  }, false)

  pipeTest(t, 'when the client leaves and all was handed over already', bytesOf(2 * SIZE), async (t, sending) => {
    const { pool, response, socket } = sending
    const body = await blocked(sending)
    t.ok(response.writableEnded)
    t.ok(body.destroyed)
    t.strictSame(accounts(pool), [2, 0, 0])
    socket.destroy()
    await settled()
    t.strictSame(accounts(pool), [2, 0, 2])
  })

  pipeTest(t, 'when a response is given up that waited for its turn with the whole body', bytesOf(2 * SIZE), async (t, sending) => {
    const body = await blocked(sending)
    t.strictSame(accounts(sending.pool), [2, 0, 0])
    body.abandon()
    t.strictSame(accounts(sending.pool), [2, 0, 2])
  }, false)

  pipeTest(t, 'when the body is destroyed, until it is written or the response over', bytes, async (t, sending) => {
    const { socket, pool, fs, faults, response } = sending
    const body = await blocked(sending)
    body.destroy()
    t.strictSame(accounts(pool), [2, 0, 0])
    await socket.accept()
    t.strictSame(accounts(pool), [2, 1, 0])
    const { pending } = socket
    response.destroy()
    await settled()
    t.strictSame(accounts(pool), [2, 1, 1])
    t.ok(pending?.chunks[0]?.equals(bytes.subarray(SIZE, 2 * SIZE)))
    t.ok(bytes.subarray(0, SIZE).equals(socket.body))
    t.equal(fs.count('read'), 2)
    t.strictSame(faults, [])
  })

  pipeTest(t, 'when the body is destroyed for a reason after its last bytes', bytesOf(SIZE), async (t, { open, response, socket, pool, errors }) => {
    const body = await open()
    const reason = new Error('late')
    await new Promise<void>((resolve) => setImmediate(() => {
      body.pipe(response)
      body.destroy(reason)
      resolve()
    }))
    await settled()
    t.strictSame(errors, [reason])
    t.strictSame(accounts(pool), [1, 0, 0])
    await socket.acceptAll()
    t.ok(bytesOf(SIZE).equals(socket.body))
    t.strictSame(accounts(pool), [1, 1, 0])
  })

  pipeTest(t, 'when the body is destroyed while the next bytes are read', bytes, async (t, { open, response, socket, pool, fs, cache, faults }) => {
    const body = await open()
    fs.isManual = true
    await piped(body, response)
    await settled()
    const closed = once(body, 'close')
    body.destroy()
    await settled()
    t.strictSame(accounts(pool), [2, 0, 0])
    t.equal(cache.stats().leases, 1, 'the read is waited for')
    fs.isManual = false
    await deliver(fs, 'read')
    await closed
    t.strictSame(accounts(pool), [2, 1, 0], 'what was read, nobody has seen')
    t.equal(cache.stats().leases, 0)
    await socket.acceptAll()
    t.strictSame(accounts(pool), [2, 2, 0])
    t.ok(bytes.subarray(0, SIZE).equals(socket.body), 'and it is not sent')
    t.strictSame(faults, [])
  })

  pipeTest(t, 'and a write that ends meanwhile gives its buffer back, and reads no more', bytes, async (t, { open, response, socket, pool, fs }) => {
    const body = await open()
    fs.isManual = true
    await piped(body, response)
    await settled()
    body.destroy()
    await socket.accept()
    t.strictSame(accounts(pool), [2, 1, 0])
    t.equal(fs.pending.length, 1)
    fs.isManual = false
    await deliver(fs, 'read')
    t.strictSame(accounts(pool), [2, 2, 0])
    t.equal(fs.count('read'), 2)
  })

  pipeTest(t, 'when that read fails, the reason remains that of the destruction', bytes, async (t, { open, response, fs, pool, errors, faults }) => {
    const body = await open()
    fs.isManual = true
    await piped(body, response)
    await settled()
    const reason = new Error('left')
    body.destroy(reason)
    fs.fail('read', 'EIO')
    fs.isManual = false
    await deliver(fs, 'read')
    t.strictSame(errors, [reason])
    t.strictSame(faults, [])
    t.strictSame(accounts(pool), [2, 1, 0])
    response.destroy()
    await settled()
    t.strictSame(accounts(pool), [2, 1, 1])
  })

  pipeTest(t, 'when a response without a socket is destroyed while the next bytes are read', bytes, async (t, { open, response, socket, pool, fs }) => {
    const body = await open()
    fs.isManual = true
    await piped(body, response)
    await settled()
    response.destroy()
    fs.isManual = false
    await deliver(fs, 'read')
    t.ok(body.destroyed)
    // What was written is dropped now or later: Node 24 calls back at once.
    t.strictSame(accounts(pool).slice(0, 2), [2, 1], 'what was read, nobody has seen')
    response.assignSocket(socket as never)
    await settled()
    t.strictSame(accounts(pool), [2, 1, 1])
  }, false)

  pipeTest(t, 'when the socket is destroyed while the next bytes are read', bytes, async (t, { open, response, socket, pool, fs, faults }) => {
    const body = await open()
    fs.isManual = true
    await piped(body, response)
    await settled()
    socket.destroy()
    // Before anybody hears of it.
    fs.isManual = false
    fs.pending[0]?.deliver()
    await settled()
    t.ok(body.destroyed)
    t.strictSame(accounts(pool), [2, 1, 1])
    t.strictSame(faults, [])
  })

  pipeTest(t, 'when the body is destroyed before it is sent, its first buffer goes back', bytes, async (t, { open, pool, cache }) => {
    const body = await open()
    body.destroy()
    t.strictSame(accounts(pool), [1, 1, 0])
    t.equal(cache.stats().leases, 0)
  })

  pipeTest(t, 'when the first read fails, its buffer goes back', bytes, async (t, { fs, cache, pool }) => {
    const lease = await opened(cache, '/f')
    fs.fail('read', 'EIO')
    await t.rejects(FileBody.open(lease, '/f', { start: 0, end: 9 }, { pool, onFault: (cause) => cause }), { code: 'EIO' })
    t.strictSame(accounts(pool), [1, 1, 0])
    lease.release()
  })
})

t.test('who reads besides, or keeps what is written, gets memory of its own', async (t) => {
  const bytes = bytesOf(3 * CHUNK)

  const unshared = async (t: Test, { response, socket, pool }: Sending, body: FileBody, kept: Buffer[]): Promise<void> => {
    body.pipe(response)
    await socket.acceptAll()
    t.ok(response.writableFinished)
    t.ok(bytes.equals(socket.body))
    t.strictSame(accounts(pool), [1, 0, 1], 'the buffer of the first bytes is not used again')
    t.ok(bytes.equals(Buffer.concat(kept)))
  }

  pipeTest(t, 'a wrapped write', bytes, async (t, sending) => {
    const { response } = sending
    const kept: Buffer[] = []
    const { write } = response
    response.write = function (this: ServerResponse, chunk: Buffer, ...more: unknown[]) {
      kept.push(chunk)
      return Reflect.apply(write, this, [chunk, ...more])
    } as typeof write
    await unshared(t, sending, await sending.open(), kept)
  })

  pipeTest(t, 'a listener to data', bytes, async (t, sending) => {
    const kept: Buffer[] = []
    const body = await sending.open()
    body.on('data', (chunk) => kept.push(chunk))
    await unshared(t, sending, body, kept)
  })

  pipeTest(t, 'a listener to pipe of the response, which reads then', bytes, async (t, sending) => {
    const kept: Buffer[] = []
    sending.response.on('pipe', (source) => source.on('data', (chunk: Buffer) => kept.push(chunk)))
    await unshared(t, sending, await sending.open(), kept)
  })

  pipeTest(t, 'a listener that is gone again, but has begun to read', bytes, async (t, sending) => {
    const body = await sending.open()
    const listener = (): void => {}
    body.on('data', listener)
    body.off('data', listener)
    await unshared(t, sending, body, [bytes])
  })

  pipeTest(t, 'a pause', bytes, async (t, sending) => {
    const body = await sending.open()
    body.pause()
    await unshared(t, sending, body, [bytes])
  })

  pipeTest(t, 'a second destination', bytes, async (t, sending) => {
    const body = await sending.open()
    const copy = new Transform({ transform: (chunk, _encoding, callback) => callback(null, chunk) })
    const copied = buffer(body.pipe(copy))
    const sent = unshared(t, sending, body, [bytes])
    t.ok(bytes.equals(await copied))
    await sent
  })

  pipeTest(t, 'a listener to readable', bytes, async (t, { open, response, socket, pool }) => {
    const kept: Buffer[] = []
    const body = await open()
    body.on('readable', () => {
      for (let chunk = body.read(); chunk !== null; chunk = body.read()) kept.push(chunk)
    })
    body.pipe(response)
    await socket.acceptAll()
    await settled()
    t.ok(bytes.equals(Buffer.concat(kept)))
    t.strictSame(accounts(pool), [1, 0, 1])
    response.destroy()
  })

  pipeTest(t, 'for await', bytes, async (t, { open, pool }) => {
    t.ok(bytes.equals(await buffer(await open())))
    t.strictSame(accounts(pool), [1, 0, 1])
  })

  pipeTest(t, 'a transformation, whose output goes into the response', bytes, async (t, { open, response, socket, pool }) => {
    const kept: Buffer[] = []
    pipeline(await open(), new Transform({
      transform (chunk, _encoding, callback) {
        kept.push(chunk)
        callback(null, chunk)
      }
    }), response, () => {})
    await socket.acceptAll()
    t.ok(bytes.equals(socket.body))
    t.ok(bytes.equals(Buffer.concat(kept)), 'what it keeps stays as it was')
    t.strictSame(accounts(pool), [1, 0, 1])
  })

  pipeTest(t, 'a server response of another kind', bytes, async (t, sending) => {
    class Other extends ServerResponse {
      override write (...parameters: unknown[]): boolean {
        return Reflect.apply(super.write, this, parameters)
      }
    }
    const socket = new DrivenSocket()
    const response = new Other(sending.response.req)
    response.assignSocket(socket as never)
    const body = await sending.open()
    response.setHeader('content-length', bytes.length)
    await unshared(t, { ...sending, socket, response }, body, [bytes])
  })

  for (const [what, ask] of [
    ['reads', (body: FileBody) => body.read()],
    ['resumes', (body: FileBody) => body.resume()],
    ['listens', (body: FileBody) => body.on('data', () => {})]
  ] as const) {
    pipeTest(t, `who ${what} only when the body is on its way takes nothing from it`, bytes, async (t, { open, response, socket, pool }) => {
      const body = await open()
      body.pipe(response)
      ask(body)
      await socket.acceptAll()
      t.ok(response.writableFinished)
      t.ok(bytes.equals(socket.body))
      t.equal(pool.drops, 0)
    })
  }
})

t.test('a response that somebody ended', async (t) => {
  const bytes = bytesOf(5 * SIZE)

  for (const length of [1, 5 * SIZE]) {
    pipeTest(t, `before: nothing is written after its end (${length} bytes)`, bytes, async (t, { open, response, socket, pool, cache }) => {
      const errors: Error[] = []
      response.on('error', (error) => errors.push(error))
      const body = await open({ end: length - 1 })
      response.setHeader('content-length', 4)
      response.end('mine')
      await piped(body, response)
      t.strictSame(accounts(pool), [1, 1, 0])
      t.equal(cache.stats().leases, 0)
      await socket.acceptAll()
      t.equal(socket.body.toString(), 'mine')
      t.strictSame(errors, [])
      t.ok(body.destroyed)
    })
  }

  pipeTest(t, 'meanwhile: nothing is written after its end', bytes, async (t, { open, response, socket, pool }) => {
    const errors: Error[] = []
    response.on('error', (error) => errors.push(error))
    const body = await open()
    await piped(body, response)
    await settled()
    response.end()
    await socket.acceptAll()
    t.ok(bytes.subarray(0, 2 * SIZE).equals(socket.body))
    t.strictSame(errors, [])
    t.ok(body.destroyed)
    t.equal(pool.lent, 0)
  })
})

t.test('a body that fails in the middle does not end the response', async (t) => {
  const bytes = bytesOf(6 * SIZE)

  /** Two buffers are written or being written when it happens. */
  const failing = async (
    t: Test, { open, response, socket, faults, errors, cache, pool }: Sending, happens: () => void, expected: object
  ): Promise<void> => {
    const body = await open()
    await piped(body, response)
    await settled()
    happens()
    await socket.acceptAll()
    t.match(faults, [expected])
    t.equal(faults.length, 1)
    t.strictSame(errors, faults)
    t.notOk(response.writableEnded)
    t.ok(socket.body.length < bytes.length)
    t.equal(cache.stats().leases, 0)
    t.equal(pool.lent, 0)
    t.ok(body.destroyed)
    response.destroy()
  }

  pipeTest(t, 'when a read fails', bytes, async (t, sending) => {
    await failing(t, sending, () => sending.fs.fail('read', 'EIO'), { code: 'EIO' })
  })

  pipeTest(t, 'when the file was cut', bytes, async (t, sending) => {
    await failing(t, sending, () => {
      sending.clock.jump(5)
      sending.fs.write('/f', bytes.subarray(0, 10))
    }, { code: 'ERR_FILE_CHANGED', message: 'the file ends before the bytes that were promised' })
  })

  pipeTest(t, 'when the file was overwritten', bytes, async (t, sending) => {
    await failing(t, sending, () => {
      sending.clock.jump(5)
      sending.fs.write('/f', bytesOf(bytes.length, 3))
    }, { code: 'ERR_FILE_CHANGED', message: 'the file was overwritten while it was being sent' })
  })
})
