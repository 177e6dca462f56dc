import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable, Transform } from 'node:stream'
import { pathToFileURL } from 'node:url'
import fastifyStatic from '@fastify/static'
import Fastify from 'fastify'
import t from 'tap'
import * as errors from '../lib/errors'
import cachedStatic from '../lib/index'
import { OpenFileCache } from '../lib/open-file-cache'
import { LAST_MODIFIED, makeHot, MTIME, put, ROOT, siteTest, tagOf } from './fixtures/fake-site'
import { fakeWorld, settled } from './fixtures/fake-world'
import type { Test } from 'tap'
import type { FastifyStaticOptions } from '@fastify/static'
import type { FastifyInstance, FastifyPluginAsync, LightMyRequestResponse, RouteOptions } from 'fastify'
import type { Engine } from './fixtures/engine'
import type { Site, SiteOptions } from './fixtures/fake-site'
import type { CachedStaticOptions } from '../types/index'

const ONE_FILE = { 'a.txt': 'aaaa' }

const FORBIDDEN = { statusCode: 403, code: 'FST_STATIC_FORBIDDEN_PATH', error: 'Forbidden', message: 'Forbidden' }
const MALFORMED = { statusCode: 400, code: 'FST_STATIC_MALFORMED_PATH', error: 'Bad Request', message: 'Bad Request' }
const READ_FAILED = {
  statusCode: 500, code: 'FST_STATIC_READ_FAILED', error: 'Internal Server Error', message: 'Internal Server Error'
}
const EXHAUSTED = {
  statusCode: 503, code: 'FST_STATIC_EXHAUSTED', error: 'Service Unavailable', message: 'Service Unavailable'
}
const notFound = (url: string, method = 'GET') =>
  ({ message: `Route ${method}:${url} not found`, error: 'Not Found', statusCode: 404 })

/** The fields of a response, without those that Node adds. */
function fieldsOf ({ headers }: LightMyRequestResponse): Record<string, unknown> {
  const { date, connection, ...fields } = headers
  return fields
}

/** No error tells anything of the file. */
const SILENT = ['etag', 'last-modified', 'cache-control', 'accept-ranges', 'content-disposition']

function carriesNoFileField (t: Test, response: LightMyRequestResponse): void {
  t.strictSame(Object.keys(response.headers).filter((name) => SILENT.includes(name)), [], 'carries no field of the file')
}

t.test('a file', async (t) => {
  siteTest(t, 'is answered by 200 with its fields in order, cold and hot, and held in memory or not', {
    files: { ...ONE_FILE, 'big.bin': Buffer.alloc(200_000, 'b') }
  }, async (t, { get }) => {
    for (let round = 0; round < 4; round++) {
      const response = await get('/a.txt')
      t.equal(response.statusCode, 200)
      t.equal(response.body, 'aaaa')
      t.strictSame(Object.entries(fieldsOf(response)), [
        ['accept-ranges', 'bytes'],
        ['cache-control', 'public, max-age=0'],
        ['last-modified', LAST_MODIFIED],
        ['etag', tagOf(4)],
        ['content-type', 'text/plain; charset=utf-8'],
        ['content-length', '4']
      ])
      const large = await get('/big.bin')
      t.match(large, { statusCode: 200, headers: { 'content-length': '200000', etag: tagOf(200_000) } })
      t.ok(large.rawPayload.equals(Buffer.alloc(200_000, 'b')))
    }
  })

  siteTest(t, 'is answered on HEAD by the same fields, without a body', {
    files: { ...ONE_FILE, LICENSE: 'x', 'big.bin': Buffer.alloc(200_000, 'b'), empty: '' }
  }, async (t, { get, head }) => {
    for (let round = 0; round < 3; round++) {
      for (const url of ['/a.txt', '/LICENSE', '/big.bin', '/empty']) {
        const response = await head(url)
        t.equal(response.statusCode, 200)
        t.equal(response.body, '')
        t.strictSame(Object.entries(fieldsOf(response)), Object.entries(fieldsOf(await get(url))), url)
      }
    }
  })

  siteTest(t, 'that is empty is answered by no byte', { files: { 'empty.txt': '' } }, async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      t.match(await get('/empty.txt'), { statusCode: 200, body: '', headers: { 'content-length': '0', etag: tagOf(0) } })
      t.match(await get('/empty.txt', { range: 'bytes=0-' }), { statusCode: 416, headers: { 'content-range': 'bytes */0' } })
    }
  })

  siteTest(t, 'that is not modified is answered by 304, without a body and without Content-Length', {
    files: ONE_FILE
  }, async (t, { get, head }) => {
    for (let round = 0; round < 3; round++) {
      for (const response of [
        await get('/a.txt', { 'if-none-match': tagOf(4) }), await head('/a.txt', { 'if-modified-since': LAST_MODIFIED })
      ]) {
        t.match(response, { statusCode: 304, body: '' })
        t.strictSame(Object.entries(fieldsOf(response)), [
          ['accept-ranges', 'bytes'],
          ['cache-control', 'public, max-age=0'],
          ['last-modified', LAST_MODIFIED],
          ['etag', tagOf(4)]
        ])
      }
    }
  })

  siteTest(t, 'is answered in part by 206', { files: { 'a.txt': 'abcdef', 'big.bin': Buffer.alloc(200_000, 'b') } }, async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      const response = await get('/a.txt', { range: 'bytes=2-3' })
      t.match(response, { statusCode: 206, body: 'cd' })
      t.strictSame(Object.entries(fieldsOf(response)), [
        ['accept-ranges', 'bytes'],
        ['cache-control', 'public, max-age=0'],
        ['last-modified', LAST_MODIFIED],
        ['etag', tagOf(6)],
        ['content-type', 'text/plain; charset=utf-8'],
        ['content-range', 'bytes 2-3/6'],
        ['content-length', '2']
      ])
      t.match(await get('/big.bin', { range: 'bytes=-70000' }),
        { statusCode: 206, body: 'b'.repeat(70_000), headers: { 'content-range': 'bytes 130000-199999/200000' } })
    }
  })

  siteTest(t, 'is answered whole, with acceptRanges: false', { files: ONE_FILE, options: { acceptRanges: false } }, async (t, { get }) => {
    const response = await get('/a.txt', { range: 'bytes=0-1' })
    t.match(response, { statusCode: 200, body: 'aaaa' })
    t.notOk('accept-ranges' in response.headers)
  })

  siteTest(t, 'beyond its end is answered by 416 with its size and nothing else', { files: ONE_FILE }, async (t, site) => {
    for (let round = 0; round < 6; round++) {
      if (round === 3) await makeHot(site, '/a.txt')
      const response = await site.get('/a.txt', { range: 'bytes=9-' })
      t.equal(response.statusCode, 416)
      t.equal(response.headers['content-range'], 'bytes */4')
      t.strictSame(response.json(), {
        statusCode: 416, code: 'FST_STATIC_RANGE_NOT_SATISFIABLE', error: 'Range Not Satisfiable', message: 'Range Not Satisfiable'
      })
      carriesNoFileField(t, response)
    }
  })

  siteTest(t, 'under a failed precondition is answered by 412 and nothing else', { files: ONE_FILE }, async (t, site) => {
    for (let round = 0; round < 6; round++) {
      if (round === 3) await makeHot(site, '/a.txt')
      const response = await site.get('/a.txt', { 'if-match': '"x"' })
      t.equal(response.statusCode, 412)
      t.strictSame(response.json(), {
        statusCode: 412, code: 'FST_STATIC_PRECONDITION_FAILED', error: 'Precondition Failed', message: 'Precondition Failed'
      })
      carriesNoFileField(t, response)
    }
  })

  siteTest(t, 'has a path that onSend hooks can read, whatever its payload is', {
    files: { 'a.txt': 'aaaa', 'b.txt': 'bbbb', 'big.bin': Buffer.alloc(200_000, 'b'), 'x/empty': '', 'y/empty': '' },
    before: (app) => app.addHook('onSend', async (_request, reply, payload) => {
      reply.header('x-path', (payload as { path?: string } | undefined)?.path ?? 'none')
    })
  }, async (t, { get, head }) => {
    for (let round = 0; round < 3; round++) {
      for (const url of ['/a.txt', '/b.txt', '/big.bin', '/x/empty', '/y/empty']) {
        t.equal((await get(url)).headers['x-path'], `${ROOT}${url}`)
      }
      t.equal((await get('/a.txt', { range: 'bytes=0-1' })).headers['x-path'], '/www/a.txt')
      t.equal((await head('/a.txt')).headers['x-path'], 'none')
    }
  })

  siteTest(t, 'can be changed by onSend hooks on its way', {
    files: ONE_FILE,
    before: (app) => app.addHook('onSend', async (_request, _reply, payload) =>
      Buffer.isBuffer(payload) ? payload.toString().toUpperCase() : payload)
  }, async (t, { get }) => {
    for (let round = 0; round < 3; round++) t.match(await get('/a.txt'), { body: 'AAAA', headers: { 'content-length': '4' } })
  })

  siteTest(t, 'is found by its name once decoded, and not decoded twice', {
    files: { 'a b.txt': 'space', 'ü#?.txt': 'odd', '%61.txt': 'percent' }
  }, async (t, { get }) => {
    t.equal((await get('/a%20b.txt')).body, 'space')
    t.equal((await get('/%C3%BC%23%3F.txt?x=1')).body, 'odd')
    t.equal((await get('/%2561.txt')).body, 'percent')
    t.equal((await get('/%61.txt')).statusCode, 404)
  })

  siteTest(t, 'is not there for other methods', { files: ONE_FILE }, async (t, { app }) => {
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'] as const) {
      const response = await app.inject({ method, url: '/a.txt' })
      t.equal(response.statusCode, 404)
      t.strictSame(response.json(), notFound('/a.txt', method))
    }
  })
})

t.test('a directory', async (t) => {
  const files = { 'index.html': 'root', 'd/index.html': 'index', 'd/home.html': 'home', 'e/x': 'x' }

  siteTest(t, 'is answered by its index, with or without trailing slash, and without a redirect', { files }, async (t, { get }) => {
    for (let round = 0; round < 2; round++) {
      for (const [url, body] of [['/', 'root'], ['/d', 'index'], ['/d/', 'index']] as const) {
        t.match(await get(url), { statusCode: 200, body, headers: { 'content-type': 'text/html; charset=utf-8' } })
      }
      for (const url of ['/e', '/e/', '/none/', '/index.html/']) t.equal((await get(url)).statusCode, 404, url)
    }
  })

  siteTest(t, 'is answered by the names of the index option', { files, options: { index: ['none.html', 'home.html'] } }, async (t, { get }) => {
    t.equal((await get('/d/')).body, 'home')
    t.equal((await get('/')).statusCode, 404)
  })

  siteTest(t, 'is forbidden with index: false, and not found without its trailing slash', { files, options: { index: false } }, async (t, { get }) => {
    for (const url of ['/', '/d/']) t.strictSame((await get(url)).json(), FORBIDDEN, url)
    t.equal((await get('/d')).statusCode, 404)
    t.equal((await get('/d/index.html')).body, 'index')
    t.equal((await get('/d/index.html/')).statusCode, 404)
  })
})

t.test('paths', async (t) => {
  siteTest(t, 'that climb, or name a segment that is none, are forbidden', { files: ONE_FILE }, async (t, { get }) => {
    for (const url of ['/%2e%2e/a.txt', '/x/%2e%2e/a.txt', '/%2e/a.txt', '//a.txt', '/x//a.txt', '/a.txt/%2e', '/x%5ca.txt', '/x\\a.txt']) {
      const response = await get(url)
      t.strictSame(response.json(), FORBIDDEN, url)
      carriesNoFileField(t, response)
    }
  })

  siteTest(t, 'with a NUL are malformed', { files: ONE_FILE }, async (t, { get }) => {
    t.strictSame((await get('/a.txt%00')).json(), MALFORMED)
  })

  siteTest(t, 'with an encoded slash, or too long for any file system, are not found', { files: ONE_FILE }, async (t, { get, fs }) => {
    const opens = fs.count('open')
    for (const url of ['/x%2Fa.txt', `/${'x'.repeat(256)}`, `/${'x/'.repeat(2100)}x`]) {
      t.strictSame((await get(url)).json(), notFound(url))
    }
    t.equal(fs.count('open'), opens, 'without a look at the disk')
  })

  const dotted = { '.env': 'secret', 'd/.git/x': 'x', '.well-known/security.txt': 'contact', 'a/.well-known/x': 'x' }

  siteTest(t, 'with a dot are not found by default, but for .well-known/', { files: dotted }, async (t, { get }) => {
    for (const url of ['/.env', '/d/.git/x', '/a/.well-known/x']) t.strictSame((await get(url)).json(), notFound(url))
    t.equal((await get('/.well-known/security.txt')).body, 'contact')
  })

  siteTest(t, 'with a dot are forbidden with dotfiles: \'deny\'', { files: dotted, options: { dotfiles: 'deny' } }, async (t, { get }) => {
    for (const url of ['/.env', '/d/.git/x']) t.strictSame((await get(url)).json(), FORBIDDEN)
    t.equal((await get('/.well-known/security.txt')).body, 'contact')
  })

  siteTest(t, 'with a dot are served with dotfiles: \'allow\'', { files: dotted, options: { dotfiles: 'allow' } }, async (t, { get }) => {
    t.equal((await get('/.env')).body, 'secret')
    t.equal((await get('/d/.git/x')).body, 'x')
  })

  for (const [where, server] of [
    ['in routerOptions', { routerOptions: { useSemicolonDelimiter: true } }], ['beside them', { useSemicolonDelimiter: true }]
  ] as const) {
    siteTest(t, `are cut where the router cuts them, with useSemicolonDelimiter ${where}`, {
      files: ONE_FILE, server: server as object
    }, async (t, { get }) => {
      t.equal((await get('/a.txt;x=%5c')).body, 'aaaa')
      t.strictSame((await get('/%5ca.txt;x')).json(), FORBIDDEN)
    })
  }

  siteTest(t, 'are not cut at a semicolon by default', { files: { 'a;b.txt': 'semicolon' } }, async (t, { get }) => {
    t.equal((await get('/a;b.txt')).body, 'semicolon')
    t.strictSame((await get('/a;%5c.txt')).json(), FORBIDDEN)
  })
})

t.test('the route', async (t) => {
  const routesOf = (site: Partial<SiteOptions>): [RouteOptions[], SiteOptions] => {
    const routes: RouteOptions[] = []
    return [routes, { ...site, before: (app) => app.addHook('onRoute', (route) => { routes.push(route) }) }]
  }

  const [routes, options] = routesOf({ files: ONE_FILE, options: { prefix: '/static' } })
  siteTest(t, 'is one, of GET and HEAD, hidden from schemas', options, async (t) => {
    t.equal(routes.length, 1)
    t.match(routes[0], { url: '/static/*', schema: { hide: true } })
    t.strictSame(routes[0]?.method, ['GET', 'HEAD'])
  })

  const [none, unserved] = routesOf({ files: ONE_FILE, options: { serve: false } })
  siteTest(t, 'is left out with serve: false', unserved, async (t, { get }) => {
    t.strictSame(none, [])
    t.equal((await get('/a.txt')).statusCode, 404)
  })

  siteTest(t, 'begins with the prefix, and not with half of it', { files: ONE_FILE, options: { prefix: '/static' } }, async (t, { get }) => {
    t.equal((await get('/static/a.txt')).body, 'aaaa')
    for (const url of ['/a.txt', '/statica.txt', '/static']) t.equal((await get(url)).statusCode, 404, url)
  })

  siteTest(t, 'joins the prefix of the surrounding context', {
    files: ONE_FILE,
    register: (app, { cache: openFileCache }) => {
      app.register(async (child) => {
        child.register(cachedStatic, { root: ROOT, prefix: '/inner', openFileCache })
      }, { prefix: '/outer' })
    }
  }, async (t, { get }) => {
    t.equal((await get('/outer/inner/a.txt')).body, 'aaaa')
    for (const url of ['/inner/a.txt', '/outer/a.txt']) t.equal((await get(url)).statusCode, 404, url)
  })

  siteTest(t, 'may have parameters in its prefix', { files: ONE_FILE, options: { prefix: '/app/:version/' } }, async (t, { get }) => {
    t.equal((await get('/app/1.2/a.txt')).body, 'aaaa')
    t.strictSame((await get('/app/%2e%2e/a.txt')).json(), FORBIDDEN)
    t.strictSame((await get('/app/./a.txt')).json(), FORBIDDEN)
    t.equal((await get('/app/.../a.txt')).body, 'aaaa')
  })

  siteTest(t, 'does not stand in the way of routes of the application', {
    files: ONE_FILE, before: (app) => app.get('/a.txt', async () => 'mine')
  }, async (t, { get, head }) => {
    t.equal((await get('/a.txt')).body, 'mine')
    t.equal((await head('/a.txt')).headers['content-length'], '4')
  })

  siteTest(t, 'may be registered more than once in one application', {
    files: { 'one/a.txt': '1', 'two/a.txt': '2' },
    register: (app, { cache: openFileCache }) => {
      app.register(cachedStatic, { root: `${ROOT}/one`, prefix: '/1/', openFileCache })
      app.register(cachedStatic, { root: `${ROOT}/two`, prefix: '/2/', openFileCache, decorateReply: false })
    }
  }, async (t, { get }) => {
    for (let round = 0; round < 2; round++) {
      t.equal((await get('/1/a.txt')).body, '1')
      t.equal((await get('/2/a.txt')).body, '2')
    }
  })
})

t.test('the hook consults, the handler transmits', async (t) => {
  siteTest(t, 'one use for each request', { files: ONE_FILE }, async (t, { get, head, cache }) => {
    const counted = () => cache.stats().hits + cache.stats().misses
    let uses = counted()
    for (let round = 0; round < 3; round++) {
      for (const request of [
        () => get('/a.txt'), () => head('/a.txt'), () => get('/a.txt', { range: 'bytes=0-1' }), () => get('/a.txt', { 'if-none-match': '*' })
      ]) {
        await request()
        t.equal(counted(), ++uses)
      }
    }
  })

  siteTest(t, 'the disk is asked before the other hooks, and nothing is sent before them', {
    files: ONE_FILE,
    before: (app, { fs }) => app.addHook('preHandler', async (_request, reply) => {
      reply.header('x-opens', fs.count('open'))
      reply.header('x-sent', String(reply.sent))
    })
  }, async (t, { get, fs }) => {
    const opens = fs.count('open')
    t.match((await get('/a.txt')).headers, { 'x-opens': String(opens + 1), 'x-sent': 'false' })
  })

  siteTest(t, 'a hot file costs no call to the file system', { files: ONE_FILE }, async (t, site) => {
    await makeHot(site, '/a.txt')
    await makeHot(site, '/none')
    const calls = { ...site.fs.calls }
    for (let i = 0; i < 10; i++) {
      await site.get('/a.txt')
      await site.head('/a.txt')
      await site.get('/a.txt', { range: 'bytes=0-1' })
      await site.get('/none')
    }
    t.strictSame(site.fs.calls, calls)
  })

  for (const [name, cache] of [
    ['hot', { minUses: 1 }], ['below minUses', { minUses: 100 }], ['checked each time', { valid: 0, minUses: 1 }],
    ['kept open', { minUses: 1, memory: false }]
  ] as const) {
    siteTest(t, `a preHandler that answers 401 leaves no lease: a file ${name}`, {
      files: { 'a.txt': 'aaaa', 'big.bin': Buffer.alloc(200_000) },
      cache,
      before: (app) => app.addHook('preHandler', async (request, reply) => {
        await settled()
        if (request.headers.authorization === undefined) return await reply.code(401).send('who?')
      })
    }, async (t, site) => {
      for (let round = 0; round < 3; round++) {
        for (const url of ['/a.txt', '/big.bin', '/none', '/']) {
          t.match(await site.get(url), { statusCode: 401, body: 'who?' })
          t.equal((await site.held()).leases, 0)
        }
        t.match(await site.get('/a.txt', { authorization: 'me' }), { statusCode: 200, body: 'aaaa' })
        t.equal((await site.held()).leases, 0)
      }
      if (name === 'below minUses') t.equal((await site.held()).openFiles, 0)
    })
  }

  siteTest(t, 'an error of a later hook leaves no lease', {
    files: ONE_FILE, cache: { valid: 0 }, before: (app) => app.addHook('preHandler', async () => { throw new Error('mine') })
  }, async (t, site) => {
    t.equal((await site.get('/a.txt')).statusCode, 500)
    t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
  })

  siteTest(t, 'a hook that takes the response over leaves no lease', {
    files: ONE_FILE,
    cache: { valid: 0 },
    before: (app) => app.addHook('preHandler', async (_request, reply) => {
      reply.hijack()
      reply.raw.end('taken')
    })
  }, async (t, site) => {
    t.equal((await site.get('/a.txt')).body, 'taken')
    t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
  })

  siteTest(t, 'errors and 404 come after the preHandler hooks too', {
    files: ONE_FILE, before: (app) => app.addHook('preHandler', async (_request, reply) => { reply.header('x-hook', '1') })
  }, async (t, { get, fs }) => {
    fs.fail('open', 'EIO')
    for (const url of ['/a.txt', '/none', '/%2e%2e/x', '/a%00']) t.equal((await get(url)).headers['x-hook'], '1', url)
  })
})

t.test('a client that leaves', async (t) => {
  const left = async (site: Site, headers: Record<string, string> = {}) => {
    await t.rejects(site.get('/a.txt', headers), { code: 'LIGHT_ECONNRESET' })
    for (let i = 0; i < 10; i++) await settled()
  }
  const isQuiet = (t: Test, { log }: Site) =>
    t.strictSame(log.filter(({ level }) => level >= 40).map(({ msg }) => msg), [], 'and is no error in the log')

  for (const size of [4, 200_000]) {
    for (const cache of [{}, { minUses: 1 }, { valid: 0 }, { minUses: 1, memory: false as const }]) {
      const name = `${size} bytes, ${JSON.stringify(cache)}`

      siteTest(t, `while the hook waits for the disk leaves no lease: ${name}`, {
        files: { 'a.txt': Buffer.alloc(size) },
        cache,
        before: (app, { fs }) => app.addHook('onRequest', async (request, reply) => {
          if (request.headers['x-leave'] === undefined) return
          fs.isManual = true
          setImmediate(() => {
            reply.raw.destroy()
            setImmediate(() => {
              fs.isManual = false
              for (const call of [...fs.pending]) call.deliver()
            })
          })
        })
      }, async (t, site) => {
        site.clock.jump(60_000)
        await left(site, { 'x-leave': '1' })
        t.equal((await site.held()).leases, 0)
        isQuiet(t, site)
        t.equal((await site.get('/a.txt')).statusCode, 200)
      })

      siteTest(t, `while a later hook works leaves no lease: ${name}`, {
        files: { 'a.txt': Buffer.alloc(size) },
        cache,
        before: (app) => app.addHook('preHandler', async (request, reply) => {
          if (request.headers['x-leave'] === undefined) return
          reply.raw.destroy()
          await settled()
        })
      }, async (t, site) => {
        for (let round = 0; round < 2; round++) {
          await left(site, { 'x-leave': '1' })
          t.equal((await site.held()).leases, 0)
          await site.get('/a.txt')
        }
        isQuiet(t, site)
      })
    }
  }
})

t.test('for a client that left nothing is made up', async (t) => {
  for (const [name, cache] of [['held in memory', { minUses: 1 }], ['known by its metadata', { minUses: 100 }], ['checked each time', { valid: 0 }]] as const) {
    let calls = 0
    siteTest(t, `setHeaders is not called: a file ${name}`, {
      files: ONE_FILE,
      cache,
      options: { setHeaders: () => { calls++ } },
      before: (app) => app.addHook('preHandler', async (request, reply) => {
        if (request.headers['x-leave'] !== undefined) reply.raw.destroy()
      })
    }, async (t, site) => {
      await makeHot(site, '/a.txt')
      t.equal(calls, 2)
      for (const headers of [{}, { range: 'bytes=0-1' }, { 'if-none-match': '*' }]) {
        await t.rejects(site.get('/a.txt', { ...headers, 'x-leave': '1' }))
      }
      await site.held()
      t.equal(calls, 2)
    })
  }
})

t.test('not found', async (t) => {
  const files = { ...ONE_FILE, 'd/x': 'x' }

  siteTest(t, 'goes through the not-found handler of the context that the plugin is in', {
    files,
    register: (app, { cache: openFileCache }) => {
      app.setNotFoundHandler((_request, reply) => { reply.code(404).send('outer') })
      app.register(async (child) => {
        child.setNotFoundHandler((_request, reply) => { reply.code(404).send('inner') })
        child.register(cachedStatic, { root: ROOT, openFileCache })
      }, { prefix: '/in' })
      app.register(cachedStatic, { root: ROOT, openFileCache, decorateReply: false })
    }
  }, async (t, { get }) => {
    for (let round = 0; round < 2; round++) {
      for (const url of ['/none', '/a.txt/b', '/a.txt/', '/d', '/x%2Fy']) {
        t.match(await get(`/in${url}`), { statusCode: 404, body: 'inner' }, url)
        t.match(await get(url), { statusCode: 404, body: 'outer' }, url)
      }
    }
  })

  siteTest(t, 'is the answer for what is no file', { files }, async (t, { get, fs }) => {
    fs.special('/www/fifo')
    fs.fail('open', 'ENXIO', 1, '/www/socket')
    fs.fail('open', 'ENAMETOOLONG', 1, '/www/long')
    fs.fail('open', 'ENOTDIR', 1, '/www/notdir')
    for (const url of ['/none', '/a.txt/b', '/fifo', '/socket', '/long', '/notdir', '/d/']) {
      const response = await get(url)
      t.equal(response.statusCode, 404)
      t.strictSame(response.json(), notFound(url))
      carriesNoFileField(t, response)
    }
  })

  siteTest(t, 'is remembered for as long as errors says', { files }, async (t, { get, fs, cache, clock }) => {
    await get('/none')
    const opens = fs.count('open')
    await get('/none')
    t.equal(fs.count('open'), opens)
    t.equal(cache.stats().negativeHits, 1)
    put({ fs, cache, clock }, '/www/none', 'there')
    t.equal((await get('/none')).statusCode, 404)
    clock.jump(1000)
    t.match(await get('/none'), { statusCode: 200, body: 'there' })
  })

  siteTest(t, 'is the answer for HEAD too', { files }, async (t, { head }) => {
    t.match(await head('/none'), { statusCode: 404, body: '' })
  })
})

t.test('failures', async (t) => {
  siteTest(t, 'of permission and of links that loop are 403', { files: { ...ONE_FILE, 'd/b.txt': 'b' } }, async (t, { get, fs }) => {
    fs.chmod('/www/a.txt', false)
    fs.chmodSearch('/www/d', false)
    fs.link('/www/loop', '/www/loop')
    fs.fail('open', 'EPERM', 1, '/www/perm')
    for (let round = 0; round < 2; round++) {
      for (const url of ['/a.txt', '/d/b.txt', '/loop', ...(round === 0 ? ['/perm'] : [])]) {
        const response = await get(url)
        t.strictSame(response.json(), FORBIDDEN, url)
        carriesNoFileField(t, response)
      }
    }
  })

  for (const [code, body] of [['EMFILE', EXHAUSTED], ['ENFILE', EXHAUSTED], ['ENOMEM', EXHAUSTED], ['EIO', READ_FAILED], ['EINVAL', READ_FAILED]] as const) {
    siteTest(t, `to open with ${code} are ${body.statusCode}, and tell the client no path and no errno`, {
      files: ONE_FILE
    }, async (t, { get, fs, log }) => {
      fs.fail('open', code)
      const response = await get('/a.txt')
      t.equal(response.statusCode, body.statusCode)
      t.strictSame(response.json(), body)
      t.equal(response.headers['retry-after'], body === EXHAUSTED ? '1' : undefined)
      carriesNoFileField(t, response)
      t.match(log.find(({ level }) => level === 50), { err: { stack: new RegExp(code) } }, 'but the log')
      t.match(await get('/a.txt'), { statusCode: 200, body: 'aaaa' }, 'and are not remembered')
    })
  }

  siteTest(t, 'of a process without descriptors are 503, however many ask', {
    files: { ...ONE_FILE, 'b.txt': 'bbbb' }, cache: { minUses: 1 }
  }, async (t, { get, fs }) => {
    fs.limit = 0
    for (let round = 0; round < 3; round++) {
      const responses = await Promise.all([get('/a.txt'), get('/a.txt'), get('/b.txt')])
      for (const response of responses) t.match(response, { statusCode: 503, headers: { 'retry-after': '1' } })
    }
    fs.limit = 10
    t.equal((await get('/a.txt')).body, 'aaaa')
  })

  siteTest(t, 'reach the error handler of the application, which sees code, status and cause', {
    files: ONE_FILE,
    before: (app) => app.setErrorHandler((error: Error & { code: string, statusCode: number }, _request, reply) => {
      const { code, statusCode, cause } = error
      reply.code(statusCode).send({ mine: code, cause: (cause as { code?: string } | undefined)?.code })
    })
  }, async (t, { get, fs }) => {
    fs.fail('open', 'EIO')
    t.strictSame((await get('/a.txt')).json(), { mine: 'FST_STATIC_READ_FAILED', cause: 'EIO' })
    fs.fail('open', 'EMFILE')
    const exhausted = await get('/a.txt')
    t.strictSame(exhausted.json(), { mine: 'FST_STATIC_EXHAUSTED', cause: 'EMFILE' })
    t.equal(exhausted.headers['retry-after'], '1')
    const unsatisfiable = await get('/a.txt', { range: 'bytes=9-' })
    t.match(unsatisfiable, { statusCode: 416, headers: { 'content-range': 'bytes */4' } })
    t.strictSame(unsatisfiable.json(), { mine: 'FST_STATIC_RANGE_NOT_SATISFIABLE' })
    carriesNoFileField(t, unsatisfiable)
    t.strictSame((await get('/%2e%2e/x')).json(), { mine: 'FST_STATIC_FORBIDDEN_PATH' })
  })

  let seen: unknown
  siteTest(t, 'are instances of the exported errors', {
    files: ONE_FILE, before: (app) => app.addHook('onError', async (_request, _reply, error) => { seen = error })
  }, async (t, { get, fs }) => {
    const cases: Array<[keyof typeof errors, string, Record<string, string>]> = [
      ['FORBIDDEN_PATH', '/%2e%2e/x', {}], ['MALFORMED_PATH', '/%00', {}],
      ['PRECONDITION_FAILED', '/a.txt', { 'if-match': '"x"' }], ['RANGE_NOT_SATISFIABLE', '/a.txt', { range: 'bytes=9-' }]
    ]
    for (const [name, url, headers] of cases) {
      await get(url, headers)
      t.ok(seen instanceof errors[name], `is ${name}`)
    }
    for (const [name, code] of [['EXHAUSTED', 'EMFILE'], ['READ_FAILED', 'EIO']] as const) {
      fs.fail('open', code)
      await get('/')
      t.ok(seen instanceof errors[name], `is ${name}`)
      t.match((seen as Error).cause, { code })
    }
  })
})

t.test('an error after the head of a file was set carries nothing of the file', async (t) => {
  const files = { ...ONE_FILE, 'big.bin': Buffer.alloc(600_000, 'b') }
  const options: CachedStaticOptions = { maxAge: '1y', immutable: true }
  const requests: Array<[string, Record<string, string>]> = [
    ['/a.txt', {}], ['/a.txt', { range: 'bytes=0-1' }], ['/a.txt', { 'if-none-match': '*' }], ['/big.bin', {}],
    ['/big.bin', { range: 'bytes=0-99999' }], ['/send', {}], ['/send', { 'if-none-match': '*' }], ['/download', {}]
  ]
  const routes = (app: FastifyInstance) => {
    app.get('/send', (_request, reply) => { reply.sendFile('a.txt') })
    app.get('/download', (_request, reply) => { reply.download('big.bin') })
    app.get('/other', async (_request, reply) => {
      reply.header('cache-control', 'no-store').header('etag', '"mine"')
      throw new Error('mine')
    })
  }
  /** An onSend hook that fails for all but the error itself. */
  const failing = (app: FastifyInstance) => {
    const failed = new WeakSet()
    app.addHook('onSend', async (request) => {
      if (failed.has(request) || request.headers['x-fail'] === undefined) return
      failed.add(request)
      throw new Error('mine')
    })
  }

  siteTest(t, 'when an onSend hook fails', { files, options, before: (app) => { routes(app); failing(app) } }, async (t, site) => {
    for (let round = 0; round < 3; round++) {
      for (const [url, headers] of requests) {
        const response = await site.get(url, { ...headers, 'x-fail': '1' })
        t.equal(response.statusCode, 500)
        t.match(response.json(), { message: 'mine' })
        carriesNoFileField(t, response)
        t.notOk('content-range' in response.headers)
        t.equal((await site.held()).leases, 0)
        t.ok((await site.get(url, headers)).statusCode < 400)
      }
    }
  })

  siteTest(t, 'when the error handler of the application answers: it sees neither 206 nor 304', {
    files,
    options,
    before: (app) => {
      failing(app)
      app.setErrorHandler((_error, _request, reply) => { reply.send({ was: reply.statusCode }) })
    }
  }, async (t, { get }) => {
    for (const headers of [{ range: 'bytes=0-1' }, { 'if-none-match': '*' }]) {
      for (let round = 0; round < 3; round++) {
        const response = await get('/a.txt', { ...headers, 'x-fail': '1' })
        t.strictSame(response.json(), { was: 200 })
        carriesNoFileField(t, response)
      }
    }
  })

  siteTest(t, 'when a hook holds the body back, which then cannot be read: no errno either', {
    files,
    options,
    before: (app, { fs }) => {
      routes(app)
      app.addHook('onSend', async (_request, _reply, payload) => {
        if (!(payload instanceof Readable)) return payload
        fs.fail('read', 'EIO')
        const held: Buffer[] = []
        const holding = new Transform({
          transform: (chunk, _encoding, callback) => { held.push(chunk); callback() },
          flush: (callback) => callback(null, Buffer.concat(held))
        })
        payload.on('error', (error) => holding.destroy(error))
        return payload.pipe(holding)
      })
    }
  }, async (t, site) => {
    for (const url of ['/big.bin', '/download']) {
      const response = await site.get(url)
      t.equal(response.statusCode, 500)
      t.strictSame(response.json(), READ_FAILED)
      carriesNoFileField(t, response)
      t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
      t.match(site.log.find(({ level }) => level === 50), { err: { stack: /EIO/ } }, 'but the log')
    }
  })

  siteTest(t, 'and leaves the fields of other replies alone', { files, before: routes }, async (t, { get }) => {
    t.match(await get('/other'), { statusCode: 500, headers: { 'cache-control': 'no-store', etag: '"mine"' } })
  })
})

t.test('the root', async (t) => {
  const over = (options: CachedStaticOptions, extra: SiteOptions = {}): SiteOptions => ({
    ...extra,
    register: (app, { cache: openFileCache }) => app.register(cachedStatic, { openFileCache, ...options })
  })

  siteTest(t, 'may be a file URL, or end with a slash', over({ root: new URL('file:///www/d%20d/') }, { files: { 'd d/a.txt': 'there' } }), async (t, { get }) => {
    t.equal((await get('/a.txt')).body, 'there')
  })

  siteTest(t, 'may be the root of the file system', over({ root: '/' }, { files: ONE_FILE }), async (t, { get }) => {
    t.equal((await get('/www/a.txt')).body, 'aaaa')
    t.equal((await get('/')).statusCode, 404)
  })

  siteTest(t, 'that is there leaves nothing behind by being checked', over({ root: '/www' }), async (t, site) => {
    t.match(site.cache.stats(), { entries: 0, negativeEntries: 0, hits: 0, misses: 0, openFiles: 0 })
    t.strictSame(site.log.filter(({ level }) => level >= 40), [])
  })

  siteTest(t, 'that is missing is warned of once, and served when it appears', over({ root: '/www/later' }), async (t, site) => {
    const warnings = () => site.log.filter(({ level }) => level >= 40).map(({ level, msg }) => ({ level, msg }))
    const expected = [{ level: 40, msg: '"root" path "/www/later" must exist' }]
    t.strictSame(warnings(), expected)
    t.equal((await site.get('/a.txt')).statusCode, 404)
    put(site, '/www/later/a.txt', 'now')
    site.clock.jump(1000)
    t.match(await site.get('/a.txt'), { statusCode: 200, body: 'now' })
    t.strictSame(warnings(), expected)
  })

  siteTest(t, 'that is missing is not warned of with suppressWarning', over({ root: '/www/later', suppressWarning: true }), async (t, site) => {
    t.strictSame(site.log.filter(({ level }) => level >= 40), [])
    put(site, '/www/later/a.txt', 'now')
    t.match(await site.get('/a.txt'), { statusCode: 200, body: 'now' })
  })

  siteTest(t, 'may be several, each of which is checked', over({ root: ['/none', '/www', new URL('file:///later')] }, { files: ONE_FILE }), async (t, site) => {
    t.strictSame(site.log.filter(({ level }) => level >= 40).map(({ msg }) => msg),
      ['"root" path "/none" must exist', '"root" path "/later" must exist'])
    t.match(site.cache.stats(), { entries: 0, negativeEntries: 0, hits: 0, misses: 0 })
    put(site, '/later/b.txt', 'bbbb')
    for (let round = 0; round < 2; round++) {
      t.equal((await site.get('/a.txt')).body, 'aaaa')
      t.equal((await site.get('/b.txt')).body, 'bbbb')
      t.equal((await site.get('/c.txt')).statusCode, 404)
    }
  })

  siteTest(t, 'is not remembered as missing from before it was registered', {
    register: (app, engine) => {
      app.register(async () => {
        await engine.cache.open('/www/later')
        engine.fs.mkdir('/www/later')
      })
      app.register(cachedStatic, { root: '/www/later', openFileCache: engine.cache })
    }
  }, async (t, site) => {
    site.clock.jump(1000)
    put(site, '/www/later/a.txt', 'now')
    t.equal((await site.get('/a.txt')).body, 'now')
  })

  siteTest(t, 'may be a link that is swapped at a release', over({ root: '/current' }, {
    before: (_app, engine) => {
      put(engine, '/v1/a.txt', 'one')
      put(engine, '/v2/a.txt', 'two')
      engine.fs.link('/current', '/v1')
    }
  }), async (t, site) => {
    await makeHot(site, '/a.txt')
    t.equal((await site.get('/a.txt')).body, 'one')
    site.fs.link('/current', '/v2')
    site.clock.jump(20_000)
    t.equal((await site.get('/a.txt')).body, 'two')
  })

  const registering = (root: string | string[], prepare: (engine: Engine) => void) => {
    const { clock, fileSystem: fs } = fakeWorld()
    const cache = new OpenFileCache({}, { clock, fileSystem: fs })
    put({ cache, clock, fs }, '/www/a.txt', 'aaaa')
    prepare({ cache, clock, fs })
    const app = Fastify()
    app.register(cachedStatic, { root, openFileCache: cache })
    return { fs, ready: async () => { await app.ready() } }
  }

  for (const [name, root, reason] of [
    ['that is a file', '/www/a.txt', 'is a file'], ['below a file', '/www/a.txt/x', 'cannot be opened (ENOTDIR)'],
    ['that loops', '/loop', 'cannot be opened (ELOOP)']
  ] as const) {
    t.test(`${name} is refused`, async (t) => {
      const { fs, ready } = registering(root, ({ fs }) => fs.link('/loop', '/loop'))
      await t.rejects(ready, {
        code: 'FST_STATIC_INVALID_OPTION', message: `"root" option must be a directory, but ${root} ${reason}`
      })
      await settled()
      t.equal(fs.openDescriptors, 0)
    })
  }

  t.test('that is a file is refused, be it the second of several', async (t) => {
    await t.rejects(registering(['/www', '/www/a.txt'], () => {}).ready, {
      code: 'FST_STATIC_INVALID_OPTION', message: '"root" option must be a directory, but /www/a.txt is a file'
    })
  })

  t.test('that cannot be looked at now is an error of the registration', async (t) => {
    await t.rejects(registering(ROOT, ({ fs }) => fs.fail('open', 'EIO')).ready, { code: 'EIO' })
  })

  siteTest(t, 'that may be entered but not read is a root', over({ root: '/www' }, {
    files: ONE_FILE, before: (_app, { fs }) => fs.chmod('/www', false)
  }), async (t, { get }) => {
    t.equal((await get('/a.txt')).body, 'aaaa')
  })

  siteTest(t, 'need not be given with serve: false, and is checked when it is', over({ serve: false }), async (t, site) => {
    t.strictSame(site.log.filter(({ level }) => level >= 40), [])
  })

  siteTest(t, 'is checked with serve: false too', over({ serve: false, root: '/none' }), async (t, site) => {
    t.strictSame(site.log.filter(({ level }) => level >= 40).map(({ msg }) => msg), ['"root" path "/none" must exist'])
  })

  t.test('on a real disk, missing at first and swapped by link later', async (t) => {
    const directory = t.testdir({ v1: { 'a.txt': 'one' }, v2: { 'a.txt': 'two' } })
    const root = join(directory, 'current')
    const app = Fastify()
    t.teardown(() => app.close())
    app.register(cachedStatic, { root: pathToFileURL(root), openFileCache: { valid: 0, errors: false } })
    t.equal((await app.inject('/a.txt')).statusCode, 404)
    symlinkSync('v1', root)
    t.equal((await app.inject('/a.txt')).body, 'one')
    symlinkSync('v2', join(directory, 'next'))
    renameSync(join(directory, 'next'), root)
    t.equal((await app.inject('/a.txt')).body, 'two')
    mkdirSync(join(directory, 'v2/d'))
    writeFileSync(join(directory, 'v2/d/index.html'), 'index')
    t.equal((await app.inject('/d')).body, 'index')
  })
})

t.test('setHeaders', async (t) => {
  const calls: Array<{ path: string, size: number, mtime: number, isFile: boolean }> = []
  const setHeaders: CachedStaticOptions['setHeaders'] = (reply, path, stat) => {
    calls.push({ path, size: stat.size, mtime: stat.mtime.getTime(), isFile: stat.isFile() })
    reply.header('x-mine', 'yes')
    reply.header('cache-control', 'no-store')
    reply.header('etag', '"theirs"')
    reply.header('content-type', 'text/x')
  }

  siteTest(t, 'is called for 200, 206, 304 and HEAD, and what it sets wins', { files: ONE_FILE, options: { setHeaders } }, async (t, { get, head }) => {
    for (let round = 0; round < 3; round++) {
      for (const [statusCode, request] of [
        [200, () => get('/a.txt')], [206, () => get('/a.txt', { range: 'bytes=0-1' })],
        [304, () => get('/a.txt', { 'if-none-match': tagOf(4) })], [200, () => head('/a.txt')]
      ] as const) {
        calls.length = 0
        const response = await request()
        t.equal(response.statusCode, statusCode)
        t.match(response.headers, { 'x-mine': 'yes', 'cache-control': 'no-store', etag: '"theirs"', 'last-modified': LAST_MODIFIED })
        t.equal(response.headers['content-type'], statusCode === 304 ? undefined : 'text/x')
        t.strictSame(calls, [{ path: '/www/a.txt', size: 4, mtime: MTIME, isFile: true }])
      }
    }
  })

  siteTest(t, 'cannot describe the content of a 304, which has none', {
    files: ONE_FILE,
    options: {
      setHeaders: (reply) => {
        for (const name of ['type', 'encoding', 'language', 'length', 'range', 'location']) reply.header(`content-${name}`, 'x')
      }
    },
    before: (app) => app.get('/own', (_request, reply) => { reply.type('text/x').sendFile('a.txt') })
  }, async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      for (const url of ['/a.txt', '/own']) {
        const response = await get(url, { 'if-none-match': '*' })
        t.equal(response.statusCode, 304)
        t.strictSame(Object.keys(response.headers).filter((name) => name.startsWith('content-')), ['content-location'])
        await get(url)
      }
    }
  })

  siteTest(t, 'has no part in conditions, which go by the tag of the file', { files: ONE_FILE, options: { setHeaders } }, async (t, { get }) => {
    t.equal((await get('/a.txt', { 'if-none-match': '"theirs"' })).statusCode, 200)
    t.equal((await get('/a.txt', { 'if-match': '"theirs"' })).statusCode, 412)
  })

  siteTest(t, 'is not called where no file is sent', { files: { ...ONE_FILE, 'd/x': '' }, options: { setHeaders } }, async (t, { get, fs }) => {
    await get('/a.txt')
    calls.length = 0
    for (const [statusCode, url, headers] of [
      [404, '/none', {}], [404, '/d', {}], [403, '/%2e%2e/', {}], [416, '/a.txt', { range: 'bytes=9-' }], [412, '/a.txt', { 'if-match': '"x"' }]
    ] as const) {
      const response = await get(url, headers)
      t.equal(response.statusCode, statusCode)
      t.notOk('x-mine' in response.headers)
    }
    fs.fail('open', 'EIO')
    t.equal((await get('/b')).statusCode, 500)
    t.strictSame(calls, [])
  })

  const throwing = (code: string | undefined): SiteOptions => ({
    files: { ...ONE_FILE, 'big.bin': Buffer.alloc(200_000) },
    cache: { minUses: 1 },
    options: {
      setHeaders: (reply) => {
        reply.header('x-mine', 'yes')
        throw Object.assign(new Error('mine'), { code })
      }
    }
  })

  for (const code of [undefined, 'ENOENT', 'ESTALE', 'EMFILE', 'ERR_FILE_CHANGED']) {
    siteTest(t, `may throw: 500, and no field of the file is left on it (code ${code})`, throwing(code), async (t, site) => {
      for (let round = 0; round < 3; round++) {
        for (const url of ['/a.txt', '/big.bin']) {
          for (const headers of [{}, { range: 'bytes=0-1' }, { 'if-none-match': '*' }]) {
            const response = await site.get(url, headers)
            t.match(response, { statusCode: 500, headers: { 'x-mine': 'yes', 'content-type': 'application/json; charset=utf-8' } })
            t.match(response.json(), { message: 'mine' })
            carriesNoFileField(t, response)
            t.notOk('content-range' in response.headers)
            t.equal((await site.held()).leases, 0)
          }
          t.equal((await site.head(url)).statusCode, 500)
        }
      }
    })
  }

  siteTest(t, 'may throw: the error handler of the application sees neither 206 nor 304', {
    ...throwing(undefined), before: (app) => app.setErrorHandler((_error, _request, reply) => { reply.send({ was: reply.statusCode }) })
  }, async (t, { get }) => {
    for (let round = 0; round < 2; round++) {
      for (const headers of [{ range: 'bytes=0-1' }, { 'if-none-match': '*' }]) {
        for (const url of ['/a.txt', '/big.bin']) {
          const { was } = (await get(url, headers)).json()
          t.ok(was === 200 || was === 500, String(was))
        }
      }
    }
  })
})

t.test('etag as a function', async (t) => {
  const calls: Array<{ path: string, size: number, isFile: boolean }> = []
  const etag: CachedStaticOptions['etag'] = (path, stat) => {
    calls.push({ path, size: stat.size, isFile: stat.isFile() })
    return `"v${calls.length}"`
  }

  siteTest(t, 'is called once per version of a file, whatever is asked of it', {
    files: { ...ONE_FILE, 'big.bin': Buffer.alloc(200_000) }, options: { etag }
  }, async (t, { get, head, fs, clock, cache }) => {
    calls.length = 0
    for (let round = 0; round < 3; round++) {
      t.equal((await get('/a.txt')).headers.etag, '"v1"')
      t.equal((await head('/a.txt')).headers.etag, '"v1"')
      t.equal((await get('/a.txt', { range: 'bytes=0-1' })).headers.etag, '"v1"')
      t.equal((await get('/a.txt', { 'if-none-match': '"v1"' })).statusCode, 304)
      clock.jump(30_000)
    }
    t.strictSame(calls, [{ path: '/www/a.txt', size: 4, isFile: true }])

    for (let round = 0; round < 3; round++) t.equal((await get('/big.bin')).headers.etag, '"v2"')
    t.equal(calls.length, 2)

    put({ fs, clock, cache }, '/www/a.txt', 'new version')
    clock.jump(30_000)
    for (let round = 0; round < 3; round++) {
      t.equal((await get('/a.txt', { 'if-none-match': '"v1"' })).headers.etag, '"v3"', 'and again when it changed')
    }
    t.strictSame(calls.slice(2), [{ path: '/www/a.txt', size: 11, isFile: true }])
  })

  siteTest(t, 'decides conditions', { files: ONE_FILE, options: { etag: () => '"strong"' } }, async (t, { get }) => {
    t.equal((await get('/a.txt', { 'if-match': '"strong"' })).statusCode, 200)
    t.equal((await get('/a.txt', { range: 'bytes=0-1', 'if-range': '"strong"' })).statusCode, 206)
    t.equal((await get('/a.txt', { 'if-none-match': tagOf(4) })).statusCode, 200)
  })

  siteTest(t, 'may give none', { files: ONE_FILE, options: { etag: () => undefined } }, async (t, { get }) => {
    t.notOk('etag' in (await get('/a.txt')).headers)
    t.equal((await get('/a.txt', { 'if-none-match': '*' })).statusCode, 304)
    t.equal((await get('/a.txt', { 'if-none-match': '"x"' })).statusCode, 200)
  })

  siteTest(t, 'must give an entity-tag', {
    files: Object.fromEntries(['plain', '"', '"a b"', '"a"b"', 'w/"a"', 'W/a', '', '"☃"', '"\n"'].map((tag, i) => [`${i}.txt`, tag])),
    options: { etag: (path) => ['plain', '"', '"a b"', '"a"b"', 'w/"a"', 'W/a', '', '"☃"', '"\n"'][Number(path.slice(5, 6))] }
  }, async (t, { get }) => {
    for (let i = 0; i < 9; i++) {
      for (let round = 0; round < 3; round++) {
        const response = await get(`/${i}.txt`)
        t.match(response, { statusCode: 500 })
        t.match(response.json(), { code: 'FST_STATIC_INVALID_OPTION_VALUE', message: /^"etag" option must return an entity-tag/ })
        carriesNoFileField(t, response)
      }
    }
  })

  siteTest(t, 'may give any entity-tag of RFC 9110 8.8.3', {
    files: { 0: '', 1: '', 2: '', 3: '' }, options: { etag: (path) => ['""', 'W/""', '"a,b!#~"', 'W/"x-\xff"'][Number(path.slice(5))] }
  }, async (t, { get }) => {
    for (const [i, tag] of ['""', 'W/""', '"a,b!#~"', 'W/"x-\xff"'].entries()) t.equal((await get(`/${i}`)).headers.etag, tag)
  })

  for (const code of ['ENOENT', 'ESTALE', undefined]) {
    siteTest(t, `may throw, which is not a failure of the file (code ${code})`, {
      files: { ...ONE_FILE, 'big.bin': Buffer.alloc(200_000) },
      options: { etag: () => { throw Object.assign(new Error('mine'), { code }) } }
    }, async (t, site) => {
      for (let round = 0; round < 3; round++) {
        for (const url of ['/a.txt', '/big.bin']) {
          const response = await site.get(url)
          t.equal(response.statusCode, 500)
          t.match(response.json(), { message: 'mine' })
          carriesNoFileField(t, response)
          t.equal((await site.held()).leases, 0)
        }
      }
    })
  }
})

t.test('types', async (t) => {
  siteTest(t, 'go before the built-in table', {
    files: { 'a.ts': '', 'a.html': '', 'a.txt': '' }, options: { types: { '.ts': 'text/plain', '.html': 'text/x; charset=latin1' } }
  }, async (t, { get }) => {
    for (const [url, type] of [['/a.ts', 'text/plain; charset=utf-8'], ['/a.html', 'text/x; charset=latin1'], ['/a.txt', 'text/plain; charset=utf-8']] as const) {
      t.equal((await get(url)).headers['content-type'], type)
    }
  })
})

t.test('the fallback', async (t) => {
  const files = { 'index.html': 'app', 'd/x': 'x', 'a.txt': 'aaaa' }
  const html = { accept: 'text/html' }
  const options: CachedStaticOptions = { fallback: 'index.html', maxAge: '1d', immutable: true }

  siteTest(t, 'answers 200 for a missing page to who accepts HTML, and must be checked each time', { files, options }, async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      for (const url of ['/users/7', '/d', '/d/', '/none/', '/v1.2/page', '/none?x=.png', '/a.txt/b']) {
        t.match(await get(url, html), {
          statusCode: 200,
          body: 'app',
          headers: { 'cache-control': 'no-cache', 'content-type': 'text/html; charset=utf-8', etag: tagOf(3), 'last-modified': LAST_MODIFIED }
        }, url)
      }
      for (const url of ['/', '/index.html']) {
        t.match(await get(url), { statusCode: 200, body: 'app', headers: { 'cache-control': 'no-cache' } }, 'also by its own name')
      }
      t.equal((await get('/a.txt', html)).headers['cache-control'], 'public, max-age=86400, immutable', 'unlike the assets')
    }
  })

  siteTest(t, 'answers HEAD and conditions too', { files, options }, async (t, { get, head }) => {
    t.match(await head('/page', html), { statusCode: 200, body: '', headers: { 'content-length': '3', 'cache-control': 'no-cache' } })
    t.match(await get('/page', { ...html, 'if-none-match': tagOf(3) }), { statusCode: 304, headers: { 'cache-control': 'no-cache' } })
  })

  siteTest(t, 'leaves a missing asset a 404', { files, options }, async (t, { get }) => {
    for (const url of ['/none.js', '/users/7.png', '/.hidden', '/d/.x', '/x%2Fy']) t.equal((await get(url, html)).statusCode, 404, url)
    t.equal((await get('/%2e%2e/x', html)).statusCode, 403)
  })

  siteTest(t, 'is for clients that name text/html, and do not refuse it', { files, options }, async (t, { get }) => {
    for (const accept of [
      'text/html', 'TEXT/HTML', 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'image/png, text/html;q=0.1',
      ' text/html ; q=0.5', 'text/html;charset=utf-8', 'a/b,text/html;level=1', 'text/html;q=0.001', 'text/html; q=1, a/b;q=0'
    ]) t.equal((await get('/page', { accept })).statusCode, 200, accept)
    for (const accept of [
      '*/*', 'text/*', 'application/json', '', 'text/html;q=0', 'text/html; q=0.000', 'text/html ;Q=0', 'text/html;q=0, a/b',
      'text/htmlx', 'xtext/html', 'a/b;x=text/html', 'text/html;level=1;q=0'
    ]) t.equal((await get('/page', { accept })).statusCode, 404, accept)
    t.equal((await get('/page')).statusCode, 404, 'no Accept')
  })

  siteTest(t, 'that is missing is a 404, once, as is one that is a directory', {
    files: { 'd/x': 'x' },
    register: (app, { cache: openFileCache }) => {
      app.register(cachedStatic, { root: ROOT, openFileCache, prefix: '/1/', fallback: 'none.html' })
      app.register(cachedStatic, { root: ROOT, openFileCache, prefix: '/2/', fallback: 'd', decorateReply: false })
    }
  }, async (t, { get }) => {
    for (let round = 0; round < 2; round++) {
      for (const url of ['/1/page', '/2/page']) {
        const response = await get(url, html)
        t.equal(response.statusCode, 404)
        t.strictSame(response.json(), notFound(url))
      }
    }
  })

  siteTest(t, 'has no Cache-Control with cacheControl: false', { files, options: { fallback: 'index.html', cacheControl: false } }, async (t, { get }) => {
    for (let round = 0; round < 2; round++) t.notOk('cache-control' in (await get('/page', html)).headers)
  })

  const calls: string[] = []
  siteTest(t, 'has fields that are made once', {
    files, options: { ...options, etag: (path) => { calls.push(path); return '"a"' } }
  }, async (t, { get }) => {
    for (let round = 0; round < 4; round++) {
      await get('/page', html)
      await get('/index.html')
    }
    t.strictSame(calls, ['/www/index.html'])
  })

  siteTest(t, 'has the lifetime that a call of sendFile asks for', {
    files, options, before: (app) => app.get('/call', (_request, reply) => { reply.sendFile('index.html', { maxAge: 5000 }) })
  }, async (t, { get }) => {
    for (let round = 0; round < 2; round++) {
      t.equal((await get('/call')).headers['cache-control'], 'public, max-age=5, immutable')
      t.equal((await get('/page', html)).headers['cache-control'], 'no-cache')
    }
  })

  siteTest(t, 'that is missing, or no file, when it is registered is warned of', {
    files,
    register: (app, engine) => {
      const { cache: openFileCache, fs } = engine
      put(engine, '/www/closed.html', 'x')
      fs.chmod('/www/closed.html', false)
      for (const [i, fallback] of ['none.html', 'd', 'index.html', 'closed.html', 'index.html/x'].entries()) {
        app.register(cachedStatic, { root: ROOT, openFileCache, prefix: `/${i}/`, fallback, decorateReply: false })
      }
    }
  }, async (t, { log, cache }) => {
    t.strictSame(log.filter(({ level }) => level >= 40).map(({ level, msg }) => ({ level, msg })), [
      { level: 40, msg: '"fallback" file "/www/none.html" is missing' },
      { level: 40, msg: '"fallback" must be a file, but "/www/d" is a directory' },
      { level: 40, msg: '"fallback" file "/www/closed.html" cannot be opened (EACCES)' },
      { level: 40, msg: '"fallback" file "/www/index.html/x" cannot be opened (ENOTDIR)' }
    ])
    t.match(cache.stats(), { entries: 0, negativeEntries: 0, hits: 0, misses: 0, leases: 0 })
  })

  siteTest(t, 'means nothing with serve: false', { files, options: { ...options, fallback: 'none.html', serve: false } }, async (t, { get, log }) => {
    t.equal((await get('/page', html)).statusCode, 404)
    t.strictSame(log.filter(({ level }) => level >= 40), [])
  })

  siteTest(t, 'may be a dotfile or lie in a directory', {
    files: { '.app/.page.html': 'app' }, options: { fallback: '/.app/.page.html' }
  }, async (t, { get }) => {
    t.equal((await get('/page', html)).body, 'app')
    t.equal((await get('/.app/.page.html', html)).statusCode, 404)
  })

  for (const fallback of ['../page.html', 'a//b', 'a\\b', 'a/./b', '\0', '//a']) {
    t.test(`is refused when it is no file below the root: ${JSON.stringify(fallback)}`, async (t) => {
      const app = Fastify()
      app.register(cachedStatic, { root: t.testdir(), fallback })
      await t.rejects(async () => { await app.ready() }, {
        code: 'FST_STATIC_INVALID_OPTION_VALUE',
        message: `"fallback" option must be a file name below "root", but is ${JSON.stringify(fallback)}`
      })
      await app.close()
    })
  }
})

t.test('options', async (t) => {
  t.test('may be frozen, and are not changed', async (t) => {
    const options = Object.freeze({
      root: t.testdir(ONE_FILE), prefix: '/static', index: Object.freeze(['a.txt']) as string[], openFileCache: Object.freeze({ max: 5 })
    })
    const before = structuredClone(options)
    const app = Fastify()
    app.register(cachedStatic, options)
    app.get('/', (_request, reply) => { reply.sendFile('a.txt', Object.freeze({ maxAge: 1 })) })
    for (const url of ['/static/', '/']) t.equal((await app.inject(url)).body, 'aaaa')
    t.strictSame(options, before)
    await app.close()
  })

  t.test('may come from a function, as those of every plugin of Fastify', async (t) => {
    const root = t.testdir(ONE_FILE)
    const app = Fastify()
    app.register(cachedStatic, () => ({ root }))
    t.equal((await app.inject('/a.txt')).body, 'aaaa')
    await app.close()
  })

  t.test('that are wrong are an error of the registration', async (t) => {
    const app = Fastify()
    app.register(cachedStatic, { root: 'relative' })
    await t.rejects(async () => { await app.ready() }, { code: 'FST_STATIC_INVALID_OPTION' })
    await app.close()
  })

  t.test('may have a prefix that the router takes, and none that it does not', async (t) => {
    const root = t.testdir(ONE_FILE)
    const app = Fastify()
    t.teardown(() => app.close())
    app.register(cachedStatic, { root, prefix: '/:version(\\d*)' })
    t.equal((await app.inject('/12/a.txt')).body, 'aaaa')
    t.equal((await app.inject('/x/a.txt')).statusCode, 404)
    const wrong = Fastify()
    t.teardown(() => wrong.close())
    wrong.register(cachedStatic, { root, prefix: '/a*' })
    await t.rejects(async () => { await wrong.ready() }, {
      code: 'FST_STATIC_INVALID_OPTION_VALUE', message: '"prefix" option must not contain \'*\', but is "/a*"'
    })
  })

  const misspelled = (options: object): SiteOptions => ({
    files: ONE_FILE,
    register: (app, { cache: openFileCache }) => {
      for (const prefix of ['/a/', '/b/']) {
        app.register(cachedStatic, { root: ROOT, openFileCache, prefix, decorateReply: false, ...options } as CachedStaticOptions)
      }
    }
  })

  siteTest(t, 'of unknown names are warned of, once per registration, and ignored', misspelled({ maxage: 5000, cacheControll: false }), async (t, { get, log }) => {
    for (const url of ['/a/a.txt', '/b/a.txt', '/a/a.txt']) {
      t.match(await get(url), { statusCode: 200, headers: { 'cache-control': 'public, max-age=0' } })
    }
    const warnings = [
      { level: 40, msg: '"maxage" option is unknown and ignored; did you mean "maxAge"?' },
      { level: 40, msg: '"cacheControll" option is unknown and ignored' }
    ]
    t.strictSame(log.filter(({ level }) => level >= 40).map(({ level, msg }) => ({ level, msg })), [...warnings, ...warnings])
  })

  siteTest(t, 'of unknown names are not warned of with suppressWarning', misspelled({ maxage: 5000, suppressWarning: true }), async (t, { get, log }) => {
    t.equal((await get('/a/a.txt')).statusCode, 200)
    t.strictSame(log.filter(({ level }) => level >= 40), [])
  })

  siteTest(t, 'of Fastify itself are known', misspelled({ logSerializers: {}, logLevel: 'info', constraints: {} }), async (t, { log }) => {
    t.strictSame(log.filter(({ level }) => level >= 40), [])
  })
})

t.test('decorateReply', async (t) => {
  const CLASH = {
    code: 'FST_STATIC_INVALID_OPTION',
    message: '"decorateReply" option must be false here: another registration, or @fastify/static, has added reply.sendFile and reply.download'
  }
  const other: FastifyPluginAsync<FastifyStaticOptions> = fastifyStatic

  /** An application with what `register` registers, over a directory with one file. */
  const decorateTest = (
    name: string, register: (app: FastifyInstance, root: string) => void, body: (t: Test, app: FastifyInstance) => Promise<void>
  ): void => {
    t.test(name, async (t) => {
      const app: FastifyInstance = Fastify()
      register(app, t.testdir(ONE_FILE))
      app.get('/call', (_request, reply) => { reply.sendFile('a.txt') })
      try {
        await body(t, app)
      } finally {
        await app.close()
      }
    })
  }
  const isRefused = async (t: Test, app: FastifyInstance): Promise<void> => {
    await t.rejects(async () => { await app.ready() }, CLASH)
  }

  decorateTest('twice is an error that says what to do', (app, root) => {
    app.register(cachedStatic, { root })
    app.register(cachedStatic, { root, prefix: '/other' })
  }, isRefused)

  decorateTest('twice is an error in a context below, too', (app, root) => {
    app.register(cachedStatic, { root })
    app.register(async (child) => { child.register(cachedStatic, { root, prefix: '/other' }) })
  }, isRefused)

  decorateTest('is refused after @fastify/static', (app, root) => {
    app.register(other, { root })
    app.register(cachedStatic, { root, prefix: '/other' })
  }, isRefused)

  for (const name of ['sendFile', 'download']) {
    decorateTest(`is refused where somebody has added ${name}`, (app, root) => {
      app.decorateReply(name, () => {})
      app.register(cachedStatic, { root })
    }, isRefused)
  }

  decorateTest('before @fastify/static is an error of that', (app, root) => {
    app.register(cachedStatic, { root })
    app.register(other, { root, prefix: '/other' })
  }, async (t, app) => {
    await t.rejects(async () => { await app.ready() }, { code: 'FST_ERR_DEC_ALREADY_PRESENT' })
  })

  decorateTest('is no clash with @fastify/static in a context below without it, as that of @fastify/swagger-ui', (app, root) => {
    app.register(cachedStatic, { root, prefix: '/mine' })
    app.register(async (child) => { child.register(other, { root, prefix: '/static/', decorateReply: false }) }, { prefix: '/docs' })
  }, async (t, app) => {
    for (const url of ['/mine/a.txt', '/docs/static/a.txt', '/call']) t.match(await app.inject(url), { statusCode: 200, body: 'aaaa' }, url)
    t.match((await app.inject('/call')).headers, { etag: /^W/ })
  })

  decorateTest('is no clash with @fastify/static in a context beside', (app, root) => {
    app.register(async (child) => { child.register(other, { root, prefix: '/theirs' }) })
    app.register(async (child) => {
      child.register(cachedStatic, { root, prefix: '/mine' })
      child.get('/mine/call', (_request, reply) => { reply.sendFile('a.txt') })
    })
  }, async (t, app) => {
    for (const url of ['/mine/a.txt', '/theirs/a.txt', '/mine/call']) t.match(await app.inject(url), { statusCode: 200, body: 'aaaa' }, url)
    t.notOk(app.hasReplyDecorator('sendFile'))
  })

  decorateTest('false leaves sendFile and download to another registration', (app, root) => {
    app.register(cachedStatic, { root })
    app.register(cachedStatic, { root, prefix: '/other', decorateReply: false })
  }, async (t, app) => {
    for (const url of ['/a.txt', '/other/a.txt', '/call']) t.match(await app.inject(url), { statusCode: 200, body: 'aaaa' }, url)
    t.ok(app.hasReplyDecorator('download'))
  })

  decorateTest('false leaves them to @fastify/static', (app, root) => {
    app.register(other, { root, prefix: '/other' })
    app.register(cachedStatic, { root, decorateReply: false })
  }, async (t, app) => {
    for (const url of ['/a.txt', '/other/a.txt', '/call']) t.match(await app.inject(url), { statusCode: 200, body: 'aaaa' }, url)
  })

  decorateTest('false alone adds neither', (app, root) => { app.register(cachedStatic, { root, decorateReply: false }) }, async (t, app) => {
    await app.ready()
    t.notOk(app.hasReplyDecorator('sendFile'))
    t.notOk(app.hasReplyDecorator('download'))
  })
})
