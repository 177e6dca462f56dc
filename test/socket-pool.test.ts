import { once } from 'node:events'
import { truncateSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { join } from 'node:path'
import { PassThrough, pipeline } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setImmediate } from 'node:timers/promises'
import { createGzip, gunzipSync } from 'node:zlib'
import t from 'tap'
import { collected } from './fixtures/engine'
import { bytesOf, sha256, until } from './fixtures/files'
import { Http2Exchange } from './fixtures/http2-client'
import { requestText } from './fixtures/raw-client'
import { siteTest } from './fixtures/live-site'
import type { Readable } from 'node:stream'
import type { Test } from 'tap'
import type { OpenFileCache } from '../lib/open-file-cache'
import type { LiveSite, Protocol } from './fixtures/live-site'

const MIB = 1024 * 1024
const POOL = 16 * MIB

/** Of other bytes and other lengths, so that no piece of one is right in another. */
const bodies = Array.from({ length: 6 }, (_, i) => bytesOf(MIB + i * 333_333 + i, i * 1_000_003 + 1))
const files = Object.fromEntries(bodies.map((bytes, i) => [`${i}.bin`, bytes]))
const hashes = bodies.map(sha256)

/** How many buffers can be lent: 64, when all came back or were given up. */
function room ({ cache }: LiveSite): number {
  const { buffers } = cache as OpenFileCache
  const lent: Buffer[] = []
  for (let taken = buffers.take(); taken !== undefined; taken = buffers.take()) lent.push(taken)
  for (const taken of lent) buffers.give(taken)
  return lent.length
}

/** How many may read: 16, when each turn ended. */
function turns ({ cache }: LiveSite): number {
  const { buffers: { reads } } = cache as OpenFileCache
  let taken = 0
  while (reads.take()) taken++
  for (let i = 0; i < taken; i++) reads.done()
  return taken
}

/** Nobody is served any more: no lease, no buffer is missing, and no turn to read. */
async function accounted (t: Test, site: LiveSite): Promise<void> {
  await site.idle(t)
  t.ok(site.stats().poolBytes <= POOL, `${site.stats().poolBytes} bytes in the pool`)
  // A response is over a moment after its last byte came.
  t.ok(await until(() => room(site) === 64), `${room(site)} buffers can be lent`)
  t.ok(await until(() => turns(site) === 16), 'sixteen may read')
}

interface Part {
  body: Buffer
  complete: boolean
}

type Ask = (path: string, headers: Record<string, string>, between: (received: number, leave: () => void) => void | Promise<void>) => Promise<Part>

async function asker (site: LiveSite): Promise<Ask> {
  if (!site.protocol.startsWith('h2')) {
    return async (path, headers, between) => {
      const connection = await site.connect()
      connection.request(path, headers)
      return await connection.answer('GET', async (received) => await between(received, () => connection.destroy()))
    }
  }
  const session = await site.session()
  return async (path, headers, between) => {
    const exchange = new Http2Exchange(session, path, headers)
    const { body, rstCode, headers: { 'content-length': length } } =
      await exchange.answer(async (received) => await between(received, () => exchange.stream.close(8)))
    return { body, complete: rstCode === 0 && body.length === Number(length) }
  }
}

for (const protocol of ['http/1.1', 'https', 'h2', 'h2c'] as Protocol[]) {
  siteTest(t, `over ${protocol} everybody gets the bytes of his file, whoever leaves or is slow`, {
    protocol,
    files,
    before: (app) => {
      app.addHook('onSend', async (request, { raw }, payload) => {
        if (request.headers['x-destroy'] === undefined) return payload
        const destroyed = async (): Promise<void> => {
          for (let turn = 0; turn < Number(request.headers['x-destroy']); turn++) await setImmediate()
          raw.destroy()
        }
        destroyed()
        return payload
      })
    }
  }, async (t, site) => {
    const ask = await asker(site)
    let stayed = 0
    for (let round = 0; round < 3; round++) {
      await Promise.all(Array.from({ length: 24 }, async (_, i) => {
        const file = (i + round) % bodies.length
        const bytes = bodies[file] as Buffer
        const leaves = i % 4 === 0
        const headers: Record<string, string> = i % 8 === 1 ? { 'x-destroy': String(i + round) } : {}
        const { body, complete } = await ask(`/${file}.bin`, headers, async (received, leave) => {
          if (leaves && received > i * 10_000) leave()
          for (let turn = 0; turn < i % 5; turn++) await setImmediate()
        })
        if (complete) {
          stayed++
          t.equal(sha256(body), hashes[file], `${file}.bin, round ${round}, reader ${i}`)
        } else {
          t.ok(leaves || 'x-destroy' in headers, 'nobody else is cut off')
          t.ok(body.equals(bytes.subarray(0, body.length)), `${body.length} bytes, all of them right`)
        }
        t.ok(site.stats().poolBytes <= POOL)
      }))
    }
    t.ok(stayed >= 3 * 15, `${stayed} stayed`)
    await accounted(t, site)
  })
}

t.test('readers that stop', async (t) => {
  for (const protocol of ['http/1.1', 'https'] as const) {
    siteTest(t, `more of them than there are buffers hold nobody back, over ${protocol}`, { protocol }, async (t, site) => {
      const size = 12 * MIB
      const large = bytesOf(size, 5)
      writeFileSync(join(site.root, 'large.bin'), large)
      const other = bytesOf(3 * MIB, 77)
      writeFileSync(join(site.root, 'other.bin'), other)
      const stopped = await Promise.all(Array.from({ length: 40 }, async () => {
        const connection = await site.connect()
        connection.request('/large.bin')
        return { connection, head: await connection.head() }
      }))
      t.equal(site.stats().leases, 40)
      t.ok(await until(() => room(site) === 0), 'they have all buffers')
      for (let i = 0; i < 2; i++) {
        const { body, complete } = await site.request('/other.bin')
        t.ok(complete)
        t.equal(sha256(body), sha256(other))
      }
      // Most leave, the others go on.
      for (const { connection } of stopped.splice(4)) connection.destroy()
      for (const { connection, head } of stopped) {
        const { body, complete } = await connection.body(head)
        t.ok(complete)
        t.ok(body.equals(large))
      }
      await accounted(t, site)
    })
  }

  siteTest(t, '64 of 100 MB hold no more than 60 MB, and a fast one finishes meanwhile', {}, async (t, site) => {
    const size = 100_000_000
    writeFileSync(join(site.root, 'sparse.bin'), '')
    truncateSync(join(site.root, 'sparse.bin'), size)
    await site.request('/sparse.bin', { Range: 'bytes=0-0' })
    const held = async (): Promise<number> => {
      await collected()
      // Bytes outside of the heap, those of buffers included.
      return process.memoryUsage().external
    }
    const before = await held()
    for (let i = 0; i < 64; i++) {
      const connection = await site.connect()
      connection.request('/sparse.bin')
      t.equal((await connection.head()).status, 200)
    }
    t.equal(site.stats().leases, 64)
    t.ok(await until(() => room(site) === 0))
    const more = await held() - before
    t.ok(more < 60e6, `${more} bytes more`)
    const [response] = await once(get(`http://127.0.0.1:${site.port}/sparse.bin`), 'response') as [Readable]
    let received = 0
    for await (const chunk of response) received += (chunk as Buffer).length
    t.equal(received, size)
    const after = await held() - before
    t.ok(after < 60e6, `${after} bytes more after it`)
    t.equal(site.stats().leases, 64, 'the others are still there')
  })
})

t.test('those who wait for their turn to read', async (t) => {
  const held: Array<() => void> = []
  let isHeld = true
  let left = 0
  siteTest(t, 'and leave are read for no more; the others are served', {
    files,
    cache: {},
    fileSystem: (real) => ({
      read: (...call) => {
        if (isHeld) held.push(() => real.read(...call))
        else real.read(...call)
      }
    }),
    before: (app) => {
      app.addHook('onRequest', async ({ raw }) => { raw.socket.once('close', () => { left++ }) })
    }
  }, async (t, site) => {
    const connections = await Promise.all(Array.from({ length: 60 }, async () => await site.connect()))
    for (const connection of connections) connection.request('/0.bin')
    t.ok(await until(() => held.length === 16 && site.stats().leases === 60))
    const gone = connections.splice(30)
    for (const connection of gone) connection.destroy()
    t.ok(await until(() => left === gone.length))
    isHeld = false
    for (const read of held) read()
    for (const connection of connections) {
      const { body, complete } = await connection.answer()
      t.ok(complete && body.equals(bodies[0] as Buffer))
    }
    await accounted(t, site)
  })
})

t.test('one connection', async (t) => {
  siteTest(t, 'keep-alive: one large body after the other, and no success is logged as a failure', { files }, async (t, site) => {
    const connection = await site.connect()
    for (let i = 0; i < 12; i++) {
      const file = i % bodies.length
      connection.request(`/${file}.bin`)
      const { body, complete } = await connection.answer()
      t.ok(complete)
      t.equal(sha256(body), hashes[file])
    }
    t.strictSame(site.log.filter(({ msg }) => /premature|error|abort/i.test(String(msg))), [])
    t.ok(site.stats().poolBytes <= 2 * 256 * 1024, 'with two buffers')
    await accounted(t, site)
  })

  siteTest(t, 'pipelined: large bodies that wait for their turns', { files }, async (t, site) => {
    const connection = await site.connect()
    const order = [0, 1, 2, 3, 4, 5, 0, 5]
    connection.send(order.map((file) => requestText(`/${file}.bin`)).join(''))
    for (const file of order) {
      const { body, complete } = await connection.answer()
      t.ok(complete)
      t.equal(sha256(body), hashes[file])
    }
    t.strictSame(site.log.filter(({ msg }) => /premature|error|abort/i.test(String(msg))), [])
    await accounted(t, site)
  })

  siteTest(t, 'pipelined: a client that leaves takes no buffer with it, of those that waited whole either', {
    files: { ...files, 'middle.bin': bytesOf(300_000, 3) }
  }, async (t, site) => {
    await site.request('/middle.bin', { Range: 'bytes=0-0' })
    for (let i = 0; i < 10; i++) {
      writeFileSync(join(site.root, 'first.bin'), bytesOf(8 * MIB, i))
      site.cache?.clear()
      const connection = await site.connect()
      connection.send(requestText('/first.bin') + requestText('/middle.bin').repeat(8))
      await connection.head()
      // The first one is blocked; each of the others has all of its two buffers.
      t.ok(await until(() => room(site) === 64 - 2 * 9 && site.stats().leases === 1), `${room(site)} can be lent`)
      connection.destroy()
      await accounted(t, site)
    }
  })
})

t.test('hooks', async (t) => {
  const kept: Buffer[] = []
  siteTest(t, 'that keep what is written have it later, too', {
    files,
    before: (app) => {
      app.addHook('onRequest', async (request, { raw }) => {
        if (request.headers['x-keep'] === undefined) return
        const { write } = raw
        raw.write = function (this: typeof raw, chunk: Buffer, ...more: unknown[]) {
          kept.push(chunk)
          return Reflect.apply(write, this, [chunk, ...more])
        } as typeof write
      })
    }
  }, async (t, site) => {
    await site.request('/1.bin', { 'x-keep': '1' })
    for (let i = 0; i < 3; i++) {
      await Promise.all(hashes.map(async (hash, file) => t.equal(sha256((await site.request(`/${file}.bin`)).body), hash)))
    }
    t.equal(sha256(Buffer.concat(kept)), hashes[1])
    await accounted(t, site)
  })

  const ways: Record<string, (payload: Readable) => unknown> = {
    'a compression': (payload) => pipeline(payload, createGzip({ level: 1 }), () => {}),
    pipeline: (payload) => pipeline(payload, new PassThrough(), () => {}),
    pipe: (payload) => payload.pipe(new PassThrough()),
    'for await': async (payload) => {
      const chunks: Buffer[] = []
      for await (const chunk of payload) chunks.push(chunk as Buffer)
      return Buffer.concat(chunks)
    },
    'a listener to data': async (payload) => await buffer(payload)
  }
  for (const [what, wrap] of Object.entries(ways)) {
    siteTest(t, `that wrap the payload by ${what} get the bytes of the file`, {
      files,
      before: (app) => {
        app.addHook('onSend', async (request, reply, payload) => {
          if (request.headers['x-plain'] !== undefined) return payload
          reply.removeHeader('content-length')
          return await wrap(payload as Readable)
        })
      }
    }, async (t, site) => {
      await Promise.all(Array.from({ length: 12 }, async (_, i) => {
        const file = i % bodies.length
        const isPlain = i % 3 === 0
        const { body, complete } = await site.request(`/${file}.bin`, isPlain ? { 'x-plain': '1' } : {})
        t.ok(complete)
        t.equal(sha256(!isPlain && what === 'a compression' ? gunzipSync(body) : body), hashes[file])
      }))
      await accounted(t, site)
    })
  }

  siteTest(t, 'that end the response themselves harm nobody', {
    files,
    before: (app) => {
      app.addHook('onSend', async (request, { raw }, payload) => {
        if (request.headers['x-end'] !== undefined) raw.end('mine')
        return payload
      })
    }
  }, async (t, site) => {
    const { body } = await site.request('/1.bin', { 'x-end': '1' })
    t.equal(body.toString(), 'mine')
    t.equal(sha256((await site.request('/1.bin')).body), hashes[1])
    await accounted(t, site)
  })

  siteTest(t, 'inject() gets the bytes of the file', { files }, async (t, site) => {
    for (let i = 0; i < 2; i++) {
      await Promise.all(hashes.map(async (hash, file) => t.equal(sha256((await site.app.inject(`/${file}.bin`)).rawPayload), hash)))
    }
    await accounted(t, site)
  })
})
