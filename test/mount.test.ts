import { mkdirSync, realpathSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { deliver, deliverAll } from './fixtures/engine'
import { settled } from './fixtures/fake-world'
import { makeHot, MTIME, put, ROOT, siteTest, tagOf } from './fixtures/fake-site'
import { openSite } from './fixtures/live-site'
import type { Test } from 'tap'
import type { Engine } from './fixtures/engine'
import type { Site, SiteOptions } from './fixtures/fake-site'
import type { LiveSite, LiveSiteOptions } from './fixtures/live-site'
import type { OpenFileCacheOptions } from '../types/open-file-cache'

const BIG = Buffer.from(Array.from({ length: 600_000 }, (_, i) => (i * 31 + (i >> 8)) & 0xff))

const READ_FAILED = {
  statusCode: 500, code: 'FST_STATIC_READ_FAILED', error: 'Internal Server Error', message: 'Internal Server Error'
}

/** What happens once, while the next request with `x-meanwhile` waits between the hook and the handler. */
interface Meanwhile {
  happen: (engine: Engine) => unknown
}

function slowly (meanwhile: Meanwhile, options: SiteOptions): SiteOptions {
  return {
    ...options,
    before: (app, engine) => app.addHook('preHandler', async (request) => {
      await settled()
      if (request.headers['x-meanwhile'] === undefined) return
      const { happen } = meanwhile
      // The hook runs again before the not-found handler.
      meanwhile.happen = () => {}
      await happen(engine)
    })
  }
}

t.test('the file changes between the hook and the handler', async (t) => {
  const kinds: Array<[string, OpenFileCacheOptions, string]> = [
    ['held in memory', { minUses: 1 }, 'small'],
    ['kept open', { minUses: 1, memory: false }, BIG.toString('latin1')],
    ['known by its metadata', { minUses: 100 }, 'small'],
    ['known by its metadata, and large', { minUses: 100 }, BIG.toString('latin1')]
  ]
  for (const [kind, cache, text] of kinds) {
    const old = Buffer.from(text, 'latin1')
    const other = Buffer.concat([Buffer.from(old).reverse(), Buffer.from('!')])
    const meanwhile: Meanwhile = { happen: () => {} }
    const options = slowly(meanwhile, { files: { 'a.bin': old }, cache })

    const changing = (name: string, happen: Meanwhile['happen'], body: (t: Test, site: Site) => Promise<void>) => {
      siteTest(t, `${kind}: ${name}`, options, async (t, site) => {
        meanwhile.happen = happen
        await makeHot(site, '/a.bin')
        await body(t, site)
        t.equal((await site.held()).leases, 0)
      })
    }
    const answers = async (t: Test, { get }: Site, bytes: Buffer) => {
      const response = await get('/a.bin', { 'x-meanwhile': '1' })
      t.match(response, { statusCode: 200, headers: { etag: tagOf(bytes.length), 'content-length': String(bytes.length) } })
      t.ok(response.rawPayload.equals(bytes))
    }
    const replace = (engine: Engine) => {
      put(engine, `${ROOT}/new`, other)
      engine.fs.rename(`${ROOT}/new`, `${ROOT}/a.bin`)
    }

    changing('an entry that went stale is checked, and answers', ({ clock }) => clock.jump(25_000), async (t, site) => {
      const before = site.cache.stats()
      await answers(t, site, old)
      const { hits, misses, revalidations } = site.cache.stats()
      t.equal(revalidations, before.revalidations + 1)
      t.equal(hits + misses, before.hits + before.misses + 1, 'and the request is one use')
    })

    changing('an entry that went stale and changed is answered by the new version', (engine) => {
      replace(engine)
      engine.clock.jump(25_000)
    }, async (t, site) => {
      await answers(t, site, other)
    })

    changing('an entry that was evicted or invalidated is opened again', ({ cache }) => cache.invalidate(`${ROOT}/a.bin`), async (t, site) => {
      await answers(t, site, old)
    })

    changing('all were forgotten, and the file replaced', (engine) => {
      replace(engine)
      engine.cache.clear()
    }, async (t, site) => {
      await answers(t, site, other)
    })

    changing('a file that is gone is not found', ({ fs, cache }) => {
      fs.unlink(`${ROOT}/a.bin`)
      cache.clear()
    }, async (t, { get }) => {
      t.equal((await get('/a.bin', { 'x-meanwhile': '1' })).statusCode, 404)
    })

    changing('a file that may not be read any more is forbidden', ({ fs, cache }) => {
      fs.chmod(`${ROOT}/a.bin`, false)
      cache.clear()
    }, async (t, { get }) => {
      t.equal((await get('/a.bin', { 'x-meanwhile': '1' })).statusCode, 403)
    })

    changing('a file that cannot be opened now is unavailable', ({ fs, cache }) => {
      fs.fail('open', 'EMFILE', 2)
      cache.clear()
    }, async (t, { get }) => {
      t.match(await get('/a.bin', { 'x-meanwhile': '1' }), { statusCode: 503, headers: { 'retry-after': '1' } })
    })

    changing('a file that became a directory is answered by its index', (engine) => {
      engine.fs.unlink(`${ROOT}/a.bin`)
      put(engine, `${ROOT}/a.bin/index.html`, 'index')
      engine.cache.clear()
    }, async (t, { get }) => {
      t.match(await get('/a.bin', { 'x-meanwhile': '1' }), {
        statusCode: 200, body: 'index', headers: { 'content-type': 'text/html; charset=utf-8' }
      })
    })

    changing('conditions and ranges of a body go by the new version', (engine) => {
      replace(engine)
      engine.cache.clear()
    }, async (t, { get }) => {
      t.match(await get('/a.bin', { 'x-meanwhile': '1', range: 'bytes=1-3' }), {
        statusCode: 206, headers: { 'content-range': `bytes 1-3/${other.length}`, etag: tagOf(other.length) }
      })
    })

    changing('a client that has the new version is told so', (engine) => {
      replace(engine)
      engine.cache.clear()
    }, async (t, { get }) => {
      t.match(await get('/a.bin', { 'x-meanwhile': '1', 'if-none-match': tagOf(other.length) }), {
        statusCode: 304, headers: { etag: tagOf(other.length) }
      })
    })

    changing('what needs no body is answered by what the hook has seen, without a look at the disk', (engine) => {
      replace(engine)
      engine.cache.clear()
    }, async (t, { head, get, cache, fs }) => {
      const calls = { ...fs.calls }
      t.match(await head('/a.bin', { 'x-meanwhile': '1' }), {
        statusCode: 200, body: '', headers: { 'content-length': String(old.length), etag: tagOf(old.length) }
      })
      t.strictSame({ ...fs.calls, close: calls.close }, calls)
      t.equal(cache.stats().leases, 0)
      t.match(await get('/a.bin'), { statusCode: 200, headers: { etag: tagOf(other.length) } })
    })
  }

  const meanwhile: Meanwhile = { happen: () => {} }
  siteTest(t, 'the fallback answers for a file that is gone', slowly(meanwhile, {
    files: { page: 'page', 'app.html': 'app' }, options: { fallback: 'app.html' }, cache: { minUses: 1 }
  }), async (t, site) => {
    await makeHot(site, '/page')
    meanwhile.happen = ({ fs, cache }) => {
      fs.unlink('/www/page')
      cache.clear()
    }
    t.match(await site.get('/page', { accept: 'text/html', 'x-meanwhile': '1' }), {
      statusCode: 200, body: 'app', headers: { 'cache-control': 'no-cache' }
    })
  })
})

t.test('what was opened for the request is what answers it, however long the hooks take', async (t) => {
  for (const [name, text] of [['small', 'small'], ['large', BIG.toString('latin1')]] as const) {
    const bytes = Buffer.from(text, 'latin1')
    const meanwhile: Meanwhile = { happen: () => {} }
    siteTest(t, name, slowly(meanwhile, { files: { 'a.bin': bytes } }), async (t, site) => {
      meanwhile.happen = (engine) => {
        engine.fs.unlink('/www/a.bin')
        engine.clock.jump(100_000)
        engine.cache.clear()
      }
      const opens = site.fs.count('open')
      const response = await site.get('/a.bin', { 'x-meanwhile': '1' })
      t.match(response, { statusCode: 200, headers: { etag: tagOf(bytes.length) } })
      t.ok(response.rawPayload.equals(bytes))
      t.equal(site.fs.count('open'), opens + 1)
      t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
    })
  }
})

t.test('one response, one version', async (t) => {
  const meanwhile: Meanwhile = { happen: () => {} }

  siteTest(t, 'a file that grew in place is answered by what it is when its descriptor is looked at', slowly(meanwhile, {
    files: { 'a.bin': BIG }, cache: { minUses: 1 }
  }), async (t, site) => {
    await makeHot(site, '/a.bin')
    const grown = Buffer.concat([BIG, BIG])
    meanwhile.happen = (engine) => put(engine, '/www/a.bin', grown)
    const response = await site.get('/a.bin', { 'x-meanwhile': '1' })
    t.match(response, { statusCode: 200, headers: { etag: tagOf(1_200_000), 'content-length': '1200000' } })
    t.ok(response.rawPayload.equals(grown))
  })

  siteTest(t, 'a file that was cut in place too', slowly(meanwhile, {
    files: { 'a.bin': BIG }, cache: { minUses: 1, memory: false }
  }), async (t, site) => {
    await makeHot(site, '/a.bin')
    for (const size of [150_000, 10, 0]) {
      meanwhile.happen = (engine) => put(engine, '/www/a.bin', BIG.subarray(0, size))
      const response = await site.get('/a.bin', { 'x-meanwhile': '1' })
      t.match(response, { statusCode: 200, headers: { etag: tagOf(size), 'content-length': String(size) } })
      t.ok(response.rawPayload.equals(BIG.subarray(0, size)))
    }
    meanwhile.happen = () => {}
    t.equal((await site.get('/a.bin', { range: 'bytes=0-' })).statusCode, 416)
  })

  siteTest(t, 'what is held in memory is answered as it was, at most valid old', slowly(meanwhile, {
    files: { 'a.txt': 'old' }, cache: { minUses: 1 }
  }), async (t, site) => {
    await makeHot(site, '/a.txt')
    meanwhile.happen = (engine) => put(engine, '/www/a.txt', 'new version')
    t.match(await site.get('/a.txt', { 'x-meanwhile': '1' }), { body: 'old', headers: { etag: tagOf(3), 'content-length': '3' } })
    site.clock.jump(20_000)
    t.match(await site.get('/a.txt'), { body: 'new version', headers: { etag: tagOf(11), 'content-length': '11' } })
  })
})

/** A request whose calls to the file system wait until the test performs them. */
async function stepping (site: Site, url: string, headers: Record<string, string>,
  steps: (step: (name: string) => Promise<void>) => Promise<void>) {
  site.fs.isManual = true
  const request = site.get(url, headers)
  // Whoever awaits it later must find the error, not the process.
  request.catch(() => {})
  await settled()
  try {
    await steps((name) => deliver(site.fs, name))
  } finally {
    site.fs.isManual = false
    await deliverAll(site.fs)
  }
  return await request
}

t.test('the file changes between the look at its descriptor and the first read', async (t) => {
  const cut: Array<[string, number, OpenFileCacheOptions]> = [
    ['a large file', BIG.length, {}], ['a small file', 100, {}], ['a small file that is not for memory', 100, { memory: false }]
  ]
  for (const [name, size, cache] of cut) {
    siteTest(t, `cut to nothing, it is planned again: ${name}`, { files: { 'a.bin': BIG.subarray(0, size) }, cache }, async (t, site) => {
      const response = await stepping(site, '/a.bin', {}, async (step) => {
        for (const call of ['open', 'fstat', 'isRemote']) await step(call)
        put(site, '/www/a.bin', '')
        await step('read')
      })
      t.match(response, { statusCode: 200, body: '', headers: { 'content-length': '0', etag: tagOf(0) } })
      t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
    })

    siteTest(t, `cut to nothing, a range of it is not satisfiable: ${name}`, { files: { 'a.bin': BIG.subarray(0, size) }, cache }, async (t, site) => {
      const response = await stepping(site, '/a.bin', { range: 'bytes=10-' }, async (step) => {
        for (const call of ['open', 'fstat', 'isRemote']) await step(call)
        put(site, '/www/a.bin', '')
        await step('read')
      })
      t.match(response, { statusCode: 416, headers: { 'content-range': 'bytes */0' } })
      t.notOk('etag' in response.headers)
    })
  }

  siteTest(t, 'overwritten, a small one is read again: one version', { files: { 'a.bin': 'old!' }, cache: { memory: false } }, async (t, site) => {
    const response = await stepping(site, '/a.bin', {}, async (step) => {
      for (const call of ['open', 'fstat', 'isRemote']) await step(call)
      site.fs.write('/www/a.bin', 'new!')
      site.fs.utimes('/www/a.bin', BigInt(MTIME + 5) * 1_000_000n)
      await step('read')
    })
    t.match(response, { statusCode: 200, body: 'new!', headers: { etag: tagOf(4, MTIME + 5) } })
  })

  siteTest(t, 'again and again, it fails at last', { files: { 'a.bin': 'v0' }, cache: { memory: false } }, async (t, site) => {
    const opens = site.fs.count('open')
    const response = await stepping(site, '/a.bin', {}, async (step) => {
      for (const calls of [['open', 'fstat', 'isRemote'], ['open', 'fstat']]) {
        for (const call of calls) await step(call)
        site.clock.jump(5)
        site.fs.write('/www/a.bin', 'vX')
        await step('read')
      }
    })
    t.equal(site.fs.count('open'), opens + 2)
    t.equal(response.statusCode, 500)
    t.strictSame(response.json(), READ_FAILED)
    t.notOk('etag' in response.headers)
    t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
    t.match(site.log.find(({ level }) => level === 50), { err: { stack: /overwritten/ } })
  })
})

t.test('a small file that will not hold still', async (t) => {
  const versions = ['one', 'second', 'the third', 'and the fourth']

  siteTest(t, 'is answered from its descriptor, by one version', { files: { 'a.txt': versions[0] as string } }, async (t, site) => {
    const response = await stepping(site, '/a.txt', {}, async (step) => {
      for (const call of ['open', 'fstat', 'isRemote']) await step(call)
      for (const text of versions.slice(1)) {
        site.clock.jump(5)
        put(site, '/www/a.txt', text)
        await step('read')
        await step('fstat')
      }
    })
    const last = versions.at(-1) as string
    t.match(response, { statusCode: 200, body: last, headers: { 'content-length': String(last.length), etag: tagOf(last.length) } })
    t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
  })
})

t.test('the file changes while it is being sent', async (t) => {
  const resets = async (t: Test, site: Site, change: (engine: Engine) => void, headers: Record<string, string> = {}) => {
    const request = stepping(site, '/a.bin', headers, async (step) => {
      for (const call of ['open', 'fstat', 'isRemote', 'read']) await step(call)
      site.clock.jump(5)
      change(site)
    })
    await t.rejects(request, { code: 'LIGHT_ECONNRESET' }, 'the connection is reset, rather than a torn answer completed')
    t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
  }

  siteTest(t, 'cut', { files: { 'a.bin': BIG } }, async (t, site) => {
    await resets(t, site, ({ fs }) => fs.write('/www/a.bin', BIG.subarray(0, 70_000)))
    t.match((await site.get('/a.bin')).headers, { 'content-length': '70000' })
  })

  siteTest(t, 'overwritten in place', { files: { 'a.bin': BIG } }, async (t, site) => {
    await resets(t, site, ({ fs }) => fs.write('/www/a.bin', Buffer.alloc(BIG.length)))
    t.ok((await site.get('/a.bin')).rawPayload.equals(Buffer.alloc(BIG.length)))
  })

  siteTest(t, 'overwritten in place, under a range', { files: { 'a.bin': BIG } }, async (t, site) => {
    await resets(t, site, ({ fs }) => fs.write('/www/a.bin', Buffer.alloc(BIG.length)), { range: 'bytes=5-550000' })
  })

  siteTest(t, 'unreadable', { files: { 'a.bin': BIG } }, async (t, site) => {
    await resets(t, site, ({ fs }) => fs.fail('read', 'EIO'))
  })

  for (const [name, change, headers] of [
    ['grown', ({ fs }: Engine) => fs.write('/www/a.bin', Buffer.concat([BIG, BIG])), {}],
    ['replaced by rename', (engine: Engine) => {
      put(engine, '/www/new', Buffer.alloc(300_000))
      engine.fs.rename('/www/new', '/www/a.bin')
    }, {}],
    ['removed', ({ fs }: Engine) => fs.unlink('/www/a.bin'), {}],
    ['grown, under a range to its end', ({ fs }: Engine) => fs.write('/www/a.bin', Buffer.concat([BIG, BIG])), { range: 'bytes=10-' }]
  ] as const) {
    siteTest(t, `${name}, it is sent as it was promised`, { files: { 'a.bin': BIG } }, async (t, site) => {
      const response = await stepping(site, '/a.bin', headers, async (step) => {
        for (const call of ['open', 'fstat', 'isRemote', 'read']) await step(call)
        site.clock.jump(5)
        change(site)
      })
      const expected = 'range' in headers ? BIG.subarray(10) : BIG
      t.match(response.headers, { 'content-length': String(expected.length), etag: tagOf(BIG.length) })
      t.ok(response.rawPayload.equals(expected))
      t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
    })
  }

  let raw: { destroy (): void } | undefined
  siteTest(t, 'a client that leaves while a read is under way frees the descriptor after it', {
    files: { 'a.bin': BIG }, before: (app) => app.addHook('onRequest', async (_request, reply) => { raw = reply.raw })
  }, async (t, site) => {
    site.fs.isManual = true
    const request = site.get('/a.bin')
    request.catch(() => {})
    for (const call of ['open', 'fstat', 'isRemote', 'read']) await deliver(site.fs, call)
    const response = await Promise.race([request, settled()])
    t.equal(response, undefined, 'it is still being sent')
    raw?.destroy()
    await settled()
    t.equal(site.cache.stats().openFiles, 1)
    t.strictSame(site.fs.pending.map(({ name }) => name), ['read'])
    site.fs.isManual = false
    await deliverAll(site.fs)
    await t.rejects(request, { code: 'LIGHT_ECONNRESET' })
    t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
    t.strictSame(site.log.filter(({ level }) => level >= 40), [])
  })
})

t.test('failures of the file system', async (t) => {
  // What is read whole is looked at by that, and not before.
  const kinds: Array<[string, OpenFileCacheOptions, Buffer, ReadonlyArray<'fstatSync' | 'read'>]> = [
    ['small', {}, Buffer.from('small'), ['read']],
    ['large', {}, BIG, ['fstatSync', 'read']],
    ['not for memory', { memory: false }, Buffer.from('small'), ['fstatSync', 'read']]
  ]
  for (const [kind, cache, bytes, calls] of kinds) {
    const files = { 'a.bin': bytes }

    siteTest(t, `${kind}: a read that fails is 500, leaves nothing, and is not remembered`, { files, cache }, async (t, site) => {
      site.fs.fail('read', 'EIO')
      const response = await site.get('/a.bin')
      t.equal(response.statusCode, 500)
      t.strictSame(response.json(), READ_FAILED)
      for (const name of ['etag', 'last-modified', 'cache-control']) t.notOk(name in response.headers)
      t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
      t.match(site.log.find(({ level }) => level === 50), { err: { stack: /EIO/ } })
      const next = await site.get('/a.bin')
      t.equal(next.statusCode, 200)
      t.ok(next.rawPayload.equals(bytes))
    })

    for (const call of calls) {
      siteTest(t, `${kind}: ${call} that fails is 500, and leaves nothing`, { files, cache }, async (t, site) => {
        site.fs.fail(call, 'EIO')
        const response = await site.get('/a.bin')
        t.strictSame(response.json(), READ_FAILED)
        t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
        t.equal((await site.get('/a.bin')).statusCode, 200)
      })

      siteTest(t, `${kind}: ESTALE of ${call} opens the file once more, and serves it`, { files, cache }, async (t, site) => {
        const opens = site.fs.count('open')
        site.fs.fail(call, 'ESTALE')
        const response = await site.get('/a.bin')
        t.equal(response.statusCode, 200)
        t.ok(response.rawPayload.equals(bytes))
        t.equal(site.fs.count('open'), opens + 2)
        t.strictSame(site.log.filter(({ level }) => level >= 40), [])
        t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
      })

      siteTest(t, `${kind}: ESTALE of ${call} twice is 500`, { files, cache }, async (t, site) => {
        const opens = site.fs.count('open')
        site.fs.fail(call, 'ESTALE', 100)
        const response = await site.get('/a.bin')
        t.equal(response.statusCode, 500)
        t.strictSame(response.json(), READ_FAILED)
        t.equal(site.fs.count('open'), opens + 2)
        t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
      })

      siteTest(t, `${kind}: after ESTALE of ${call} it is what is there then that answers`, { files, cache }, async (t, site) => {
        site.fs.fail(call, 'ESTALE')
        const { fs } = site
        const response = await stepping(site, '/a.bin', {}, async (step) => {
          for (const name of ['open', 'fstat', 'isRemote']) await step(name)
          fs.unlink('/www/a.bin')
          if (call === 'read') await step('read')
        })
        t.equal(response.statusCode, 404)
        t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
      })

      siteTest(t, `${kind}: an open that fails after ESTALE of ${call} is its own answer`, { files, cache }, async (t, site) => {
        const response = await stepping(site, '/a.bin', {}, async (step) => {
          for (const name of ['open', 'fstat']) await step(name)
          site.fs.fail(call, 'ESTALE')
          site.fs.fail('open', 'EMFILE', 2)
          await step('isRemote')
        })
        t.equal(response.statusCode, 503)
        t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
      })
    }

    siteTest(t, `${kind}: a miss is one open and one fstat in the thread pool, and one more fstat when it is read whole`, { files, cache }, async (t, site) => {
      const { calls: before } = site.fs
      const counts = (): number[] => (['open', 'fstat', 'fstatSync', 'stat', 'close'] as const).map((name) => site.fs.count(name))
      const [opens, fstats, fstatSyncs, stats, closes] = counts() as [number, number, number, number, number]
      t.ok((await site.get('/a.bin')).rawPayload.equals(bytes))
      await site.held()
      const isWhole = kind === 'small'
      t.strictSame(counts(), [opens + 1, fstats + (isWhole ? 2 : 1), fstatSyncs + (isWhole ? 0 : 2), stats, closes + 1], JSON.stringify(before))
    })

    siteTest(t, `${kind}: short reads make no difference`, { files, cache }, async (t, site) => {
      site.fs.maxRead = 777
      for (let round = 0; round < 3; round++) t.ok((await site.get('/a.bin')).rawPayload.equals(bytes))
      t.equal((await site.get('/a.bin', { range: 'bytes=1-3' })).rawPayload.compare(bytes.subarray(1, 4)), 0)
    })

    siteTest(t, `${kind}: on a network file system it is the same, without a synchronous call`, { files, cache }, async (t, site) => {
      site.fs.remote = true
      for (let round = 0; round < 3; round++) {
        t.ok((await site.get('/a.bin')).rawPayload.equals(bytes))
        t.equal((await site.head('/a.bin')).headers['content-length'], String(bytes.length))
      }
      t.equal(site.fs.count('fstatSync'), 0)
      site.clock.jump(30_000)
      site.cache.clear()
      site.fs.fail('fstat', 'ESTALE', 1)
      t.equal((await site.get('/a.bin')).statusCode, 200)
    })
  }

  siteTest(t, 'a file that is hot and becomes unreadable is 500 once its descriptor fails', {
    files: { 'a.bin': BIG }, cache: { minUses: 1 }
  }, async (t, site) => {
    await makeHot(site, '/a.bin')
    site.fs.fail('fstatSync', 'EIO')
    t.equal((await site.get('/a.bin')).statusCode, 500)
    t.strictSame(await site.held(), { leases: 0, openFiles: 0 }, 'which is not kept')
    t.equal((await site.get('/a.bin')).statusCode, 200)
  })

  siteTest(t, 'a descriptor that refers to another file is never read', { files: { 'a.bin': BIG }, cache: { minUses: 1 } }, async (t, site) => {
    await makeHot(site, '/a.bin')
    const { fs } = site
    const fstatSync = fs.fstatSync.bind(fs)
    fs.fstatSync = (fd) => ({ ...fstatSync(fd), ino: 999n })
    t.strictSame((await site.get('/a.bin')).json(), READ_FAILED)
    fs.fstatSync = fstatSync
    t.ok((await site.get('/a.bin')).rawPayload.equals(BIG))
  })
})

t.test('a client that leaves while the file is being read', async (t) => {
  for (const [kind, bytes, calls] of [
    ['small', Buffer.from('small'), ['open', 'fstat', 'isRemote']], ['large', BIG, ['open', 'fstat', 'isRemote']],
    ['on a network file system', BIG, ['open', 'fstat', 'isRemote']]
  ] as const) {
    for (const fault of [undefined, 'EIO', 'ESTALE']) {
      let raw: { destroy (): void } | undefined
      siteTest(t, `leaves nothing, and is no error: ${kind}${fault === undefined ? '' : `, ${fault}`}`, {
        files: { 'a.bin': bytes }, before: (app) => app.addHook('onRequest', async (_request, reply) => { raw = reply.raw })
      }, async (t, site) => {
        site.fs.remote = kind === 'on a network file system'
        const opens = site.fs.count('open')
        await t.rejects(stepping(site, '/a.bin', {}, async (step) => {
          for (const call of calls) await step(call)
          const name = site.fs.remote ? 'fstat' : 'read'
          t.strictSame(site.fs.pending.map(({ name }) => name), [name])
          if (fault !== undefined) site.fs.fail(name, fault)
          raw?.destroy()
          await settled()
        }), { code: 'LIGHT_ECONNRESET' })
        await settled()
        t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
        t.strictSame(site.log.filter(({ level }) => level >= 40).map(({ msg }) => msg), [])
        t.equal(site.fs.count('open'), opens + 1, 'and is not opened again for nobody')
      })
    }
  }
})

t.test('states of an entry', async (t) => {
  siteTest(t, 'metadata alone answers HEAD, 304, 412 and 416 without a look at the disk', {
    files: { 'a.txt': 'aaaa' }, cache: { minUses: 100 }
  }, async (t, { get, head, fs }) => {
    await get('/a.txt')
    const calls = { ...fs.calls }
    t.equal((await head('/a.txt')).statusCode, 200)
    t.equal((await get('/a.txt', { 'if-none-match': '*' })).statusCode, 304)
    t.equal((await get('/a.txt', { 'if-match': '"x"' })).statusCode, 412)
    t.equal((await get('/a.txt', { range: 'bytes=9-' })).statusCode, 416)
    t.strictSame(fs.calls, calls)
  })

  siteTest(t, 'a large file that is hot is read from one descriptor, for all at a time', { files: { 'a.bin': BIG } }, async (t, site) => {
    await makeHot(site, '/a.bin')
    t.strictSame(await site.held(), { leases: 0, openFiles: 1 })
    const opens = site.fs.count('open')
    const responses = await Promise.all([
      site.get('/a.bin'), site.get('/a.bin', { range: 'bytes=70000-' }), site.get('/a.bin'), site.head('/a.bin')
    ])
    t.ok(responses[0]?.rawPayload.equals(BIG))
    t.ok(responses[1]?.rawPayload.equals(BIG.subarray(70_000)))
    t.ok(responses[2]?.rawPayload.equals(BIG))
    t.equal(site.fs.count('open'), opens)
    t.strictSame(await site.held(), { leases: 0, openFiles: 1 })
  })

  siteTest(t, 'a crowd that asks for a cold file opens and reads it once', { files: { 'a.txt': 'aaaa' } }, async (t, site) => {
    const opens = site.fs.count('open')
    const responses = await Promise.all(Array.from({ length: 20 }, () => site.get('/a.txt')))
    for (const response of responses) t.equal(response.body, 'aaaa')
    t.equal(site.fs.count('open'), opens + 1)
    t.equal(site.fs.count('read'), 1)
    t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
  })

  siteTest(t, 'with valid: 0 each request looks at the disk', { files: { 'a.txt': 'old' }, cache: { valid: 0 } }, async (t, site) => {
    for (let i = 0; i < 5; i++) {
      const text = 'x'.repeat(i)
      put(site, '/www/a.txt', text)
      site.clock.jump(5000)
      t.match(await site.get('/a.txt'), { statusCode: 200, body: text, headers: { etag: tagOf(i) } })
    }
  })
})

t.test('symlinks', async (t) => {
  const onWindows = process.platform === 'win32' && 'Windows has none of this'
  const FORBIDDEN = { statusCode: 403, code: 'FST_STATIC_FORBIDDEN_PATH', error: 'Forbidden', message: 'Forbidden' }

  /** What a root with links in it answers, each time, by the route and by calls. */
  interface Tree { readonly dir: string, readonly root: string, readonly site: LiveSite }

  const linked = (
    t: Test, name: string, options: Omit<LiveSiteOptions, 'plugin'> & { plugin: object }, body: (t: Test, tree: Tree) => Promise<void>
  ): void => {
    t.test(name, { skip: onWindows }, async (t) => {
      const dir = t.testdir({
        outside: { secret: 'secret', 'index.html': 'secret index' },
        root: {
          file: 'file',
          'big.bin': BIG,
          dir: { inner: 'inner', 'index.html': 'index' },
          sub: { own: 'own', up: t.fixture('symlink', '../file'), beside: t.fixture('symlink', 'own') },
          'to-file': t.fixture('symlink', 'file'),
          'to-big': t.fixture('symlink', 'big.bin'),
          'to-dir': t.fixture('symlink', 'dir'),
          'to-secret': t.fixture('symlink', '../outside/secret'),
          'to-outside': t.fixture('symlink', '../outside')
        }
      })
      const root = join(dir, 'root')
      const site = await openSite(t, root, {
        ...options,
        before: (app) => {
          app.get('/call/*', (request, reply) => {
            const { root } = request.query as { root?: string }
            reply.sendFile((request.params as { '*': string })['*'], root === undefined ? {} : { root: join(dir, root) })
          })
        }
      })
      try {
        await body(t, { dir, root, site })
      } finally {
        await site.end(t)
      }
    })
  }

  const answers: Array<[url: string, body: string | Buffer, isLink: boolean, isOutside: boolean]> = [
    ['file', 'file', false, false], ['big.bin', BIG, false, false], ['dir/', 'index', false, false], ['dir', 'index', false, false],
    ['to-file', 'file', true, false], ['to-big', BIG, true, false], ['to-dir/inner', 'inner', true, false], ['to-dir/', 'index', true, false],
    ['to-secret', 'secret', true, true], ['to-outside/secret', 'secret', true, true], ['to-outside/', 'secret index', true, true], ['to-outside', 'secret index', true, true]
  ]
  for (const symlinks of ['follow', 'within-root', 'deny'] as const) {
    for (const [kind, cache] of [
      ['held in memory', { minUses: 1 }], ['kept open', { minUses: 1, memory: false }], ['opened each time', { valid: 0 }]
    ] as Array<[string, OpenFileCacheOptions]>) {
      linked(t, `${symlinks}: by the route and by calls: ${kind}`, { plugin: { symlinks }, cache }, async (t, { site }) => {
        for (let round = 0; round < 3; round++) {
          for (const [path, body, isLink, isOutside] of answers) {
            for (const url of [`/${path}`, `/call/${path}`]) {
              const isRefused = isLink && (symlinks === 'deny' || (symlinks === 'within-root' && isOutside))
              const answer = await site.request(url)
              t.equal(answer.status, isRefused ? 403 : 200, url)
              if (isRefused) t.strictSame(JSON.parse(answer.body.toString()), FORBIDDEN)
              else t.ok(answer.body.equals(Buffer.from(body)), url)
            }
          }
        }
      })
    }
  }

  linked(t, 'go by the root of the call, whatever is known of the file under another', { plugin: { symlinks: 'within-root' }, cache: { minUses: 1 } }, async (t, { site }) => {
    for (let round = 0; round < 3; round++) {
      for (const [url, status, body] of [
        ['/sub/up', 200, 'file'], ['/call/up?root=root/sub', 403, undefined], ['/call/sub/up?root=root', 200, 'file'], ['/call/beside?root=root/sub', 200, 'own'],
        ['/to-secret', 403, undefined], ['/call/root/to-secret?root=', 200, 'secret'], ['/call/inner?root=root/to-dir', 200, 'inner']
      ] as const) {
        const answer = await site.request(url)
        t.equal(answer.status, status, url)
        if (body !== undefined) t.equal(answer.body.toString(), body, url)
      }
    }
  })

  linked(t, 'are proven again when a link was swapped after it was cached', { plugin: { symlinks: 'within-root' }, cache: { minUses: 1, valid: '5s' } }, async (t, { root, site }) => {
    const swap = (name: string, target: string): void => {
      symlinkSync(target, join(root, 'new'))
      renameSync(join(root, 'new'), join(root, name))
    }
    const urls = ['/to-file', '/call/to-file', '/to-dir/inner', '/call/to-dir/inner']
    const statuses = async () => await Promise.all(urls.map(async (url) => (await site.request(url)).status))
    for (let round = 0; round < 2; round++) t.strictSame(await statuses(), [200, 200, 200, 200])
    mkdirSync(join(root, '../outside/dir'))
    writeFileSync(join(root, '../outside/dir/inner'), 'secret')
    swap('to-file', '../outside/secret')
    swap('to-dir', '../outside/dir')
    t.equal((await site.request('/to-file')).body.toString(), 'file', 'what was proven stays, at most valid')
    site.clock.jump(5_000)
    for (let round = 0; round < 2; round++) t.strictSame(await statuses(), [403, 403, 403, 403])
    swap('to-file', 'sub/own')
    swap('to-dir', 'dir')
    site.clock.jump(5_000)
    for (let round = 0; round < 2; round++) t.strictSame(await statuses(), [200, 200, 200, 200])
    t.equal((await site.request('/to-file')).body.toString(), 'own')
  })

  for (const [symlinks, status] of [['follow', 200], ['within-root', 200], ['deny', 403]] as const) {
    linked(t, `${symlinks}: without any root, an absolute path is below that of the file system`, {
      plugin: { symlinks, serve: false, root: undefined, dotfiles: 'allow' }
    }, async (t, { dir, site }) => {
      const real = realpathSync(dir).slice(1)
      for (let round = 0; round < 3; round++) {
        for (const [path, expected] of [['root/file', 200], ['root/to-file', status], ['root/to-secret', status], ['root/to-dir/inner', status]] as const) {
          t.equal((await site.request(`/call//${real}/${path}`)).status, expected, path)
        }
      }
    })
  }
})
