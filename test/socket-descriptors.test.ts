import { truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { bytesOf, descriptorsUnder, hasProcfs, until, versionOf } from './fixtures/files'
import { Http2Exchange } from './fixtures/http2-client'
import { requestText } from './fixtures/raw-client'
import { siteTest } from './fixtures/live-site'
import type { LiveSite } from './fixtures/live-site'

const MIB = 1024 * 1024

function sparse (root: string, name: string, size: number): void {
  writeFileSync(join(root, name), '')
  truncateSync(join(root, name), size)
}

/** Calls `times` times, `width` at a time. */
async function inParallel (times: number, width: number, task: (index: number) => Promise<void>): Promise<void> {
  let next = 0
  await Promise.all(Array.from({ length: width }, async () => {
    while (next < times) await task(next++)
  }))
}

t.test('a client that leaves', async (t) => {
  for (const protocol of ['http/1.1', 'https'] as const) {
    siteTest(t, `200 times in the middle of 32 MiB, over ${protocol}`, { protocol }, async (t, site) => {
      sparse(site.root, 'big.bin', 32 * MIB)
      await inParallel(200, 20, async () => {
        const connection = await site.connect()
        connection.request('/big.bin')
        t.equal((await connection.head()).status, 200)
        connection.destroy()
      })
      t.equal((await site.idle(t, 1)).openFiles, 1, 'the one descriptor of the cache')
    })
  }

  for (const protocol of ['h2', 'h2c'] as const) {
    siteTest(t, `200 times in the middle of 32 MiB, over ${protocol}`, { protocol }, async (t, site) => {
      sparse(site.root, 'big.bin', 32 * MIB)
      // Node's server refuses streams (ENHANCE_YOUR_CALM) of a session on which some 160 have been reset.
      for (let i = 0; i < 10; i++) {
        const session = await site.session()
        await inParallel(20, 10, async () => {
          const exchange = new Http2Exchange(session, '/big.bin')
          t.equal((await exchange.head).status, 200)
          exchange.stream.destroy()
        })
      }
      t.equal((await site.idle(t, 1)).openFiles, 1, 'the one descriptor of the cache')
    })

    siteTest(t, `with a whole session of 20 streams, over ${protocol}`, { protocol }, async (t, site) => {
      sparse(site.root, 'big.bin', 32 * MIB)
      const session = await site.session()
      const exchanges = Array.from({ length: 20 }, () => new Http2Exchange(session, '/big.bin'))
      for (const { head } of exchanges) t.equal((await head).status, 200)
      t.equal(site.stats().leases, 20)
      session.destroy()
      await site.idle(t)
    })
  }

  siteTest(t, 'before the head', {}, async (t, site) => {
    sparse(site.root, 'big.bin', 32 * MIB)
    await inParallel(200, 20, async () => {
      const connection = await site.connect()
      connection.request('/big.bin')
      connection.destroy()
    })
    await site.idle(t)
    t.equal((await site.request('/big.bin', { Range: 'bytes=0-0' })).status, 206, 'others are served')
  })

  t.test('while a cold file is being looked up', async (t) => {
    const waiting: Array<() => void> = []
    let left = 0
    siteTest(t, 'nobody is there any more when it is found', {
      cache: { minUses: 1 },
      fileSystem: (real) => ({
        open: async (path) => {
          if (path.endsWith('.bin')) await new Promise<void>((resolve) => waiting.push(resolve))
          return await real.open(path)
        }
      }),
      before: (app) => {
        app.addHook('onRequest', async ({ raw }) => { raw.socket.once('close', () => { left++ }) })
      }
    }, async (t, site) => {
      for (let i = 0; i < 50; i++) {
        sparse(site.root, `${i}.bin`, MIB)
        const connection = await site.connect()
        connection.request(`/${i}.bin`)
        t.ok(await until(() => waiting.length === 1))
        connection.destroy()
        t.ok(await until(() => left === i + 1))
        waiting.pop()?.()
      }
      t.ok(await until(() => site.stats().opens === 50))
      t.equal((await site.idle(t, 50)).openFiles, 50)
    })
  })

  siteTest(t, 'with pipelined requests still in the queue', {}, async (t, site) => {
    sparse(site.root, 'big.bin', 32 * MIB)
    await inParallel(20, 5, async () => {
      const connection = await site.connect()
      connection.send(requestText('/big.bin').repeat(5))
      t.equal((await connection.head()).status, 200)
      connection.destroy()
    })
    await site.idle(t)
  })

  for (const protocol of ['http/1.1', 'h2c'] as const) {
    siteTest(t, `while a hook holds the answer back, over ${protocol}`, {
      protocol,
      before: (app) => {
        app.addHook('onSend', async (request, _reply, payload) => {
          await new Promise((resolve) => request.raw.once(protocol === 'h2c' ? 'aborted' : 'close', resolve))
          return payload
        })
      }
    }, async (t, site) => {
      sparse(site.root, 'big.bin', 32 * MIB)
      for (let i = 0; i < 10; i++) {
        let leave: () => void
        if (protocol === 'h2c') {
          const { stream } = new Http2Exchange(await site.session(), '/big.bin')
          // NO_ERROR and CANCEL by turns.
          leave = () => i % 2 === 0 ? stream.destroy() : stream.close(8)
        } else {
          const connection = await site.connect()
          connection.request('/big.bin')
          leave = () => connection.destroy()
        }
        t.ok(await until(() => site.stats().leases === 1))
        leave()
        t.ok(await until(() => site.stats().leases === 0))
      }
      await site.idle(t, 1)
    })
  }
})

t.test('a server that leaves', async (t) => {
  for (const victim of ['the response', 'the socket'] as const) {
    siteTest(t, `a hook destroys ${victim} in the middle of the body`, {
      before: (app) => {
        app.addHook('onSend', async (request, reply, payload) => {
          // Once the first piece is on its way.
          reply.raw.once('pipe', () => {
            setImmediate().then(() => {
              if (victim === 'the response') reply.raw.destroy()
              else request.raw.socket.destroy()
            })
          })
          return payload
        })
      }
    }, async (t, site) => {
      sparse(site.root, 'big.bin', 32 * MIB)
      await inParallel(50, 10, async () => {
        const connection = await site.connect()
        connection.request('/big.bin')
        const { length } = await connection.rest()
        t.ok(length > 0 && length < 32 * MIB, `${length} bytes`)
      })
      await site.idle(t)
    })
  }

  siteTest(t, 'onSend hooks that throw for a body from a descriptor leave no lease', {
    before: (app) => {
      app.addHook('onSend', async (request) => {
        if (request.headers['x-throw'] !== undefined) throw new Error('thrown by the hook')
      })
    }
  }, async (t, site) => {
    sparse(site.root, 'big.bin', MIB)
    const connection = await site.connect()
    for (let i = 0; i < 50; i++) {
      connection.request('/big.bin', { 'X-Throw': '1' })
      t.equal((await connection.answer()).status, 500)
    }
    await site.idle(t)
    connection.request('/big.bin')
    t.match(await connection.answer(), { status: 200, complete: true }, 'the connection and the server live on')
    connection.destroy()
    t.equal(site.log.splice(0).filter(({ level }) => level >= 50).length, 50, 'each was logged')
  })

  siteTest(t, 'onSend hooks that replace a body from a descriptor leave no lease', {
    before: (app) => {
      app.addHook('onSend', async (request, reply, payload) => {
        if (request.headers['x-replace'] === undefined) return payload
        reply.removeHeader('content-length')
        return 'another body'
      })
    }
  }, async (t, site) => {
    sparse(site.root, 'big.bin', MIB)
    const connection = await site.connect()
    for (let i = 0; i < 50; i++) {
      connection.request('/big.bin', { 'X-Replace': '1' })
      t.match(await connection.answer(), { status: 200, body: Buffer.from('another body') })
    }
    await site.idle(t)
    connection.destroy()
  })

  for (const forceCloseConnections of [true, false]) {
    siteTest(t, `app.close() during a slow download, forceCloseConnections: ${forceCloseConnections}`, {
      fastify: { forceCloseConnections }
    }, async (t, site) => {
      const body = bytesOf(12 * MIB)
      writeFileSync(join(site.root, 'big.bin'), body)
      const connection = await site.connect()
      connection.request('/big.bin', { Connection: 'close' })
      const head = await connection.head()
      let isClosed = false
      const closing = site.app.close().then(() => { isClosed = true })
      if (forceCloseConnections) t.ok(await until(() => isClosed), 'resolves at once')
      for (let turn = 0; turn < 100; turn++) await setImmediate()
      t.equal(isClosed, forceCloseConnections)
      const answer = await connection.body(head)
      t.equal(answer.complete, !forceCloseConnections)
      t.ok(answer.body.equals(body.subarray(0, answer.body.length)))
      await closing
      await site.idle(t, 0)
    })
  }

  siteTest(t, 'a closed cache still serves those who are connected, and keeps nothing', {}, async (t, site) => {
    writeFileSync(join(site.root, 'a.txt'), 'hello')
    sparse(site.root, 'big.bin', MIB)
    await site.app.openFileCache.close()
    for (let i = 0; i < 5; i++) {
      t.match(await site.request('/a.txt'), { status: 200, body: Buffer.from('hello') })
      t.match(await site.request('/big.bin'), { status: 200, complete: true })
      t.match(await site.request('/none'), { status: 404 })
    }
    t.match(await site.idle(t, 0), { entries: 0, negativeEntries: 0 })
  })
})

t.test('descriptors under the root are those that the cache counts', async (t) => {
  const files = { 'small.txt': 'hello', 'big.bin': bytesOf(200_000) }
  const answers: Array<[name: string, path: string, headers: (site: LiveSite) => Record<string, string>, method: string, status: number]> = [
    ['200 from memory', '/small.txt', () => ({}), 'GET', 200],
    ['200 from a descriptor', '/big.bin', () => ({}), 'GET', 200],
    ['206 from memory', '/small.txt', () => ({ Range: 'bytes=1-2' }), 'GET', 206],
    ['206 from a descriptor', '/big.bin', () => ({ Range: 'bytes=1-150000' }), 'GET', 206],
    ['304 of a file in memory', '/small.txt', ({ root }) => ({ 'If-None-Match': versionOf(`${root}/small.txt`).etag }), 'GET', 304],
    ['304 of an open file', '/big.bin', ({ root }) => ({ 'If-None-Match': versionOf(`${root}/big.bin`).etag }), 'GET', 304],
    ['404', '/none.txt', () => ({}), 'GET', 404],
    ['HEAD of a file in memory', '/small.txt', () => ({}), 'HEAD', 200],
    ['HEAD of an open file', '/big.bin', () => ({}), 'HEAD', 200],
    ['412', '/big.bin', () => ({ 'If-Match': '"other"' }), 'GET', 412],
    ['416', '/big.bin', () => ({ Range: 'bytes=200000-' }), 'GET', 416]
  ]
  for (const [name, path, headers, method, status] of answers) {
    for (const [mode, openFileCache] of [['on', {}], ['off', false as const]] as const) {
      // What is not of the file itself, or not from a descriptor, is no other without a cache.
      if (mode === 'off' && !['200 from a descriptor', '304 of an open file', '404', 'HEAD of an open file'].includes(name)) continue
      siteTest(t, `after 500 times ${name}, the cache being ${mode}`, { files, plugin: { openFileCache } }, async (t, site) => {
        const fields = headers(site)
        await inParallel(5, 5, async () => {
          const connection = await site.connect()
          for (let i = 0; i < 100; i++) {
            connection.request(path, fields, method)
            const answer = await connection.answer(method)
            if (answer.status !== status || !answer.complete) t.fail(`status ${answer.status}`)
          }
          connection.destroy()
        })
        if (openFileCache === false) {
          if (hasProcfs) await until(() => descriptorsUnder(site.root).length === 0)
          if (hasProcfs) t.strictSame(descriptorsUnder(site.root), [])
        } else {
          await site.idle(t, 1)
        }
      })
    }
  }

  siteTest(t, 'after eviction under load: max 2, 500 files', {
    plugin: { openFileCache: { max: 2, minUses: 1, memory: false } }
  }, async (t, site) => {
    for (let i = 0; i < 500; i++) writeFileSync(join(site.root, `${i}.txt`), `file ${i}`)
    await inParallel(20, 20, async (start) => {
      const connection = await site.connect()
      for (let i = start; i < 500; i += 20) {
        connection.request(`/${i}.txt`)
        const { status, body } = await connection.answer()
        if (status !== 200 || body.toString() !== `file ${i}`) t.fail(`${status}: ${body} for file ${i}`)
      }
      connection.destroy()
    })
    const stats = await site.idle(t, 2)
    t.equal(stats.entries, 2)
    t.equal(stats.evictions, 498)
    t.equal(stats.opens - stats.closes, stats.openFiles)
  })
})
