import { buffer } from 'node:stream/consumers'
import { once } from 'node:events'
import t from 'tap'
import { BodyFault, FileBody } from '../lib/file-body'
import { codeOf, deliver, engineTest, opened } from './fixtures/engine'
import { settled } from './fixtures/fake-world'
import type { Test } from 'tap'
import type { Engine } from './fixtures/engine'
import type { ByteRange } from '../lib/range'
import type { Lease, OpenFileCacheOptions } from '../types/open-file-cache'

const CHUNK = 64 * 1024

/** Bytes that tell where they are from. */
function content (length: number, seed = 1): Buffer {
  return Buffer.from(Array.from({ length }, (_, i) => (i * 31 + (i >> 8) * seed) & 0xff))
}

const LARGE = content(3 * CHUNK + 100)

interface Sending extends Engine {
  readonly lease: Lease
  readonly faults: string[]
  open (range?: Partial<ByteRange>, chunkSize?: number): Promise<FileBody>
}

/** A test with a lease of `/f`, which the body owns once it is open. */
function bodyTest (t: Test, name: string, bytes: Buffer, body: (t: Test, sending: Sending) => Promise<void>): void {
  const options: OpenFileCacheOptions = { memory: false }
  engineTest(t, name, options, async (t, engine) => {
    engine.fs.write('/f', bytes)
    engine.clock.jump(60_000)
    const lease = await opened(engine.cache, '/f')
    await lease.current()
    const faults: string[] = []
    await body(t, {
      ...engine,
      lease,
      faults,
      open: ({ start = 0, end = bytes.length - 1 } = {}, chunkSize?: number) =>
        FileBody.open(lease, '/f', { start, end }, {
          onFault: (cause) => {
            faults.push('fault')
            return cause
          },
          chunkSize
        })
    })
    await settled()
    t.equal(engine.cache.stats().leases, 0, 'afterwards: the lease was released')
  })
}

/** All that comes before the end or the error. */
async function drain (body: FileBody): Promise<{ bytes: Buffer, error: unknown }> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of body) chunks.push(chunk)
  } catch (error) {
    return { bytes: Buffer.concat(chunks), error }
  }
  return { bytes: Buffer.concat(chunks), error: undefined }
}

t.test('what is sent', async (t) => {
  bodyTest(t, 'is the whole file, in chunks of 64 KiB', LARGE, async (t, { open, fs, faults }) => {
    const body = await open()
    const sizes: number[] = []
    body.on('data', (chunk: Buffer) => sizes.push(chunk.length))
    t.ok(LARGE.equals(await buffer(body)))
    t.strictSame(sizes, [CHUNK, CHUNK, CHUNK, 100])
    t.equal(fs.count('read'), 4)
    t.strictSame(faults, [])
  })

  for (const [start, end] of [[0, 0], [5, 9], [CHUNK - 1, CHUNK], [CHUNK, 2 * CHUNK - 1], [1, LARGE.length - 1], [LARGE.length - 1, LARGE.length - 1]] as const) {
    bodyTest(t, `is bytes ${start} to ${end}, when these are asked for`, LARGE, async (t, { open }) => {
      t.ok(LARGE.subarray(start, end + 1).equals(await buffer(await open({ start, end }))))
    })
  }

  bodyTest(t, 'is the whole file, in chunks of the size that is asked for', content(1000), async (t, { open, fs, faults }) => {
    const body = await open({}, 300)
    t.equal(body.readableHighWaterMark, 300)
    const sizes: number[] = []
    body.on('data', (chunk: Buffer) => sizes.push(chunk.length))
    t.ok(content(1000).equals(await buffer(body)))
    t.strictSame(sizes, [300, 300, 300, 100])
    t.equal(fs.count('read'), 4)
    t.strictSame(faults, [])
  })

  bodyTest(t, 'is the whole file in one chunk that is larger than 64 KiB', LARGE, async (t, { open, fs }) => {
    const body = await open({}, 10 * CHUNK)
    const sizes: number[] = []
    body.on('data', (chunk: Buffer) => sizes.push(chunk.length))
    t.ok(LARGE.equals(await buffer(body)))
    t.strictSame(sizes, [LARGE.length])
    t.equal(fs.count('read'), 1)
  })

  bodyTest(t, 'is a part of it, in chunks of one byte', content(1000), async (t, { open, fs }) => {
    t.ok(content(1000).subarray(10, 15).equals(await buffer(await open({ start: 10, end: 14 }, 1))))
    t.equal(fs.count('read'), 5)
  })

  bodyTest(t, 'is the same with short reads', LARGE, async (t, { open, fs }) => {
    fs.maxRead = 1000
    t.ok(LARGE.subarray(10, 70_000).equals(await buffer(await open({ start: 10, end: 69_999 }))))
    t.equal(fs.count('read'), 70)
  })

  bodyTest(t, 'is the same for two bodies of one descriptor at a time', LARGE, async (t, { open, cache, fs }) => {
    const other = await opened(cache, '/f')
    const another = await FileBody.open(other, '/f', { start: 100, end: LARGE.length - 1 }, { onFault: (cause) => cause })
    const [one, two] = await Promise.all([buffer(await open()), buffer(another)])
    t.ok(LARGE.equals(one))
    t.ok(LARGE.subarray(100).equals(two))
    t.strictSame(fs.violations, [])
  })

  bodyTest(t, 'has the path of the file, as that of fs.ReadStream', Buffer.from('abc'), async (t, { open }) => {
    const body = await open()
    t.equal(body.path, '/f')
    body.destroy()
  })
})

t.test('the first bytes are read before there is a body', async (t) => {
  bodyTest(t, 'so that there is nothing left to read for a small one', Buffer.from('abc'), async (t, { open, fs }) => {
    const body = await open()
    t.equal(fs.count('read'), 1)
    t.equal((await buffer(body)).toString(), 'abc')
    t.equal(fs.count('read'), 1)
  })

  bodyTest(t, 'no more of them than were asked for', LARGE, async (t, { open, fs }) => {
    const body = await open()
    await settled()
    t.equal(fs.count('read'), 1)
    body.destroy()
  })

  bodyTest(t, 'and of a size that was asked for, no more than that', LARGE, async (t, { open, fs }) => {
    const body = await open({}, 100)
    await settled()
    t.equal(fs.count('read'), 1)
    t.equal(body.read().length, 100)
    body.destroy()
  })

  bodyTest(t, 'a read that fails leaves the lease to the caller, and calls no fault', Buffer.from('abc'), async (t, { open, fs, cache, lease, faults }) => {
    fs.fail('read', 'EIO')
    t.equal(await codeOf(open()), 'EIO')
    t.equal(cache.stats().leases, 1)
    t.strictSame(faults, [])
    lease.release()
  })

  bodyTest(t, 'a file that was cut meanwhile too', LARGE, async (t, { open, fs, cache, lease, faults }) => {
    fs.write('/f', LARGE.subarray(0, 10))
    await t.rejects(open({ start: 10 }), { code: 'ERR_FILE_CHANGED', message: 'the file ends before the bytes that were promised' })
    t.ok(await open({ start: 10 }).catch((error) => error instanceof BodyFault))
    t.equal(cache.stats().leases, 1)
    t.strictSame(faults, [])
    lease.release()
  })

  bodyTest(t, 'a small file that was overwritten meanwhile too', Buffer.from('abc'), async (t, { open, fs, lease, faults }) => {
    fs.write('/f', 'ABC')
    await t.rejects(open(), { code: 'ERR_FILE_CHANGED', message: 'the file was overwritten while it was being sent' })
    t.strictSame(faults, [])
    lease.release()
  })
})

t.test('one version', async (t) => {
  bodyTest(t, 'a file that grows is sent as long as was promised', LARGE, async (t, { open, fs, clock, faults }) => {
    const body = await open()
    clock.jump(5)
    fs.write('/f', Buffer.concat([LARGE, content(5 * CHUNK, 7)]))
    t.ok(LARGE.equals(await buffer(body)))
    t.strictSame(faults, [])
  })

  bodyTest(t, 'a file that is replaced by rename is sent as it was', LARGE, async (t, { open, fs, faults }) => {
    const body = await open()
    fs.write('/new', content(LARGE.length, 7))
    fs.rename('/new', '/f')
    t.ok(LARGE.equals(await buffer(body)))
    t.strictSame(faults, [])
  })

  bodyTest(t, 'a file that is removed is sent as it was', LARGE, async (t, { open, fs }) => {
    const body = await open()
    fs.unlink('/f')
    t.ok(LARGE.equals(await buffer(body)))
  })

  bodyTest(t, 'a file that is only touched by chmod is sent', LARGE, async (t, { open, fs, clock, faults }) => {
    const body = await open()
    clock.jump(5)
    fs.chmod('/f', false)
    t.ok(LARGE.equals(await buffer(body)))
    t.strictSame(faults, [])
  })

  for (const remote of [false, true]) {
    const where = remote ? ', on a network file system' : ''

    t.test(`a file that is overwritten in place fails before its last bytes${where}`, async (t) => {
      engineTest(t, 'and calls the fault first', { memory: false }, async (t, { cache, fs, clock }) => {
        fs.remote = remote
        fs.write('/f', LARGE)
        const lease = await opened(cache, '/f')
        await lease.current()
        const order: string[] = []
        const body = await FileBody.open(lease, '/f', { start: 0, end: LARGE.length - 1 }, {
          onFault: (cause) => {
            order.push('fault')
            return cause
          }
        })
        body.on('error', () => order.push('error'))
        clock.jump(5)
        fs.write('/f', content(LARGE.length, 7))
        const { bytes, error } = await drain(body)
        t.ok(error instanceof BodyFault)
        t.match(error, { code: 'ERR_FILE_CHANGED', message: 'the file was overwritten while it was being sent' })
        t.ok(bytes.length < LARGE.length, 'the answer is not complete')
        t.strictSame(order, ['fault', 'error'])
        t.equal(cache.stats().leases, 0)
      })
    })
  }

  bodyTest(t, 'also when only a part of it was promised', LARGE, async (t, { open, fs, clock, faults }) => {
    const body = await open({ start: 10, end: CHUNK + 20 })
    clock.jump(5)
    fs.write('/f', content(LARGE.length, 7))
    t.match(await drain(body), { error: { code: 'ERR_FILE_CHANGED' } })
    t.strictSame(faults, ['fault'])
  })

  bodyTest(t, 'a file that is cut fails, and calls the fault first', LARGE, async (t, { open, fs, clock, faults, cache }) => {
    const body = await open()
    body.on('error', () => faults.push('error'))
    clock.jump(5)
    fs.write('/f', LARGE.subarray(0, CHUNK))
    const { bytes, error } = await drain(body)
    t.match(error, { code: 'ERR_FILE_CHANGED', message: 'the file ends before the bytes that were promised' })
    t.ok(bytes.length <= CHUNK)
    t.strictSame(faults, ['fault', 'error'])
    t.equal(cache.stats().leases, 0)
  })

  bodyTest(t, 'a file that is cut to a part that was sent already fails too', LARGE, async (t, { open, fs, clock, faults }) => {
    const body = await open({ start: 0, end: CHUNK })
    clock.jump(5)
    fs.write('/f', Buffer.concat([LARGE.subarray(0, CHUNK + 1)]))
    t.match(await drain(body), { error: { code: 'ERR_FILE_CHANGED' } }, 'it may have been rewritten as well')
    t.strictSame(faults, ['fault'])
  })
})

t.test('a failure in the middle', async (t) => {
  bodyTest(t, 'of a read is the error of the body', LARGE, async (t, { open, fs, faults }) => {
    const body = await open()
    fs.fail('read', 'EIO')
    t.match(await drain(body), { error: { code: 'EIO' } })
    t.strictSame(faults, ['fault'])
  })

  bodyTest(t, 'of memory is too, and nobody waits for the read that did not begin', LARGE, async (t, { open, cache, faults }) => {
    const body = await open()
    t.intercept(Buffer, 'allocUnsafeSlow', { value () { throw new RangeError('Array buffer allocation failed') } })
    const error = once(body, 'error')
    body.resume()
    await settled()
    t.equal(cache.stats().leases, 0)
    t.strictSame(faults, ['fault'])
    t.match(await error, [{ message: 'Array buffer allocation failed' }])
  })

  engineTest(t, 'may be told in other words', { memory: false }, async (t, { cache, fs }) => {
    fs.write('/f', LARGE)
    const told = new Error('told')
    const causes: unknown[] = []
    const body = await FileBody.open(await opened(cache, '/f'), '/f', { start: 0, end: LARGE.length - 1 }, {
      onFault: (cause) => {
        causes.push(cause)
        return told
      }
    })
    fs.fail('read', 'EIO')
    t.equal((await drain(body)).error, told)
    t.match(causes, [{ code: 'EIO' }])
  })

  bodyTest(t, 'of the last look at the file is too', LARGE, async (t, { open, fs, faults }) => {
    const body = await open()
    fs.fail('fstatSync', 'ESTALE')
    t.match(await drain(body), { error: { code: 'ESTALE' } })
    t.strictSame(faults, ['fault'])
  })
})

t.test('the lease', async (t) => {
  bodyTest(t, 'is released with the last bytes, before somebody has read them', Buffer.from('abc'), async (t, { open, cache }) => {
    const body = await open()
    t.equal(cache.stats().leases, 1)
    await once(body, 'readable')
    t.equal(cache.stats().leases, 0)
    t.equal(body.read().toString(), 'abc')
    body.resume()
    await once(body, 'end')
    t.equal(cache.stats().leases, 0)
  })

  bodyTest(t, 'is released at once when the body is destroyed and nothing is being read', LARGE, async (t, { open, cache, faults }) => {
    const body = await open()
    body.destroy()
    t.equal(cache.stats().leases, 0)
    await once(body, 'close')
    t.strictSame(faults, [])
  })

  bodyTest(t, 'is released after a read that is under way, when the body is destroyed', LARGE, async (t, { open, fs, cache, faults }) => {
    const body = await open()
    const chunks: Buffer[] = []
    body.on('data', (chunk) => chunks.push(chunk))
    fs.isManual = true
    await settled()
    t.equal(chunks.length, 1)
    t.equal(fs.pending.length, 1)
    let closed = false
    body.once('close', () => { closed = true })
    body.destroy()
    await settled()
    t.equal(cache.stats().leases, 1)
    t.notOk(closed)
    await deliver(fs, 'read')
    fs.isManual = false
    t.equal(cache.stats().leases, 0)
    t.ok(closed)
    t.equal(chunks.length, 1, 'and what it read is not sent')
    t.strictSame(faults, [], 'a client that left is no fault')
    t.strictSame(fs.violations, [])
  })

  bodyTest(t, 'is released so also when that read fails', LARGE, async (t, { open, fs, cache, faults }) => {
    const body = await open()
    fs.isManual = true
    body.resume()
    await settled()
    const reason = new Error('left')
    body.destroy(reason)
    fs.fail('read', 'EIO')
    const error = once(body, 'error')
    await deliver(fs, 'read')
    fs.isManual = false
    t.strictSame(await error, [reason], 'the error is the one that it was destroyed with')
    t.equal(cache.stats().leases, 0)
    t.strictSame(faults, [])
  })
})
