import { parse } from 'content-disposition'
import t from 'tap'
import cachedStatic from '../lib/index'
import { deliver, deliverAll } from './fixtures/engine'
import { LAST_MODIFIED, makeHot, put, ROOT, siteTest, tagOf } from './fixtures/fake-site'
import { settled } from './fixtures/fake-world'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { SiteOptions } from './fixtures/fake-site'
import type { CachedStaticOptions, SendOptions } from '../types/index'
import type { OpenFileCacheOptions } from '../types/open-file-cache'

const FORBIDDEN = { statusCode: 403, code: 'FST_STATIC_FORBIDDEN_PATH', error: 'Forbidden', message: 'Forbidden' }
const FILES = {
  'a.txt': 'aaaa',
  'big.bin': Buffer.alloc(200_000, 'b'),
  '404.html': '<h1>404</h1>',
  'd/index.html': 'index',
  'e/x': 'x',
  'a%20b.txt': 'percent',
  '.env': 'secret'
}

type Handler = (reply: FastifyReply, request: FastifyRequest) => unknown

/** Routes of the application that call the decorators, beside a mount that serves nothing itself. */
function withRoutes (routes: Record<string, Handler>, options: CachedStaticOptions = {}, cache: OpenFileCacheOptions = {}): SiteOptions {
  return {
    files: FILES,
    cache,
    options: { serve: false, ...options },
    before: (app, engine) => {
      put(engine, '/other/a.txt', 'other')
      for (const [url, handler] of Object.entries(routes)) {
        app.route({ method: ['GET', 'HEAD', 'POST'], url, handler: (request, reply) => { handler(reply, request) } })
      }
    }
  }
}

t.test('sendFile', async (t) => {
  siteTest(t, 'sends a file below the root with all its fields', withRoutes({ '/': (reply) => reply.sendFile('a.txt') }), async (t, { get, head }) => {
    for (let round = 0; round < 3; round++) {
      const response = await get('/')
      t.match(response, { statusCode: 200, body: 'aaaa' })
      const { date, connection, ...fields } = response.headers
      t.strictSame(Object.entries(fields), [
        ['accept-ranges', 'bytes'],
        ['cache-control', 'public, max-age=0'],
        ['last-modified', LAST_MODIFIED],
        ['etag', tagOf(4)],
        ['content-type', 'text/plain; charset=utf-8'],
        ['content-length', '4']
      ])
      t.match(await head('/'), { statusCode: 200, body: '', headers: { 'content-length': '4' } })
    }
  })

  siteTest(t, 'answers conditions and ranges', withRoutes({ '/': (reply) => reply.sendFile('big.bin') }), async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      t.equal((await get('/', { 'if-none-match': tagOf(200_000) })).statusCode, 304)
      t.match(await get('/', { range: 'bytes=-3' }), { statusCode: 206, body: 'bbb' })
      t.match(await get('/', { range: 'bytes=200000-' }), { statusCode: 416, headers: { 'content-range': 'bytes */200000' } })
      t.equal((await get('/', { 'if-match': '"x"' })).statusCode, 412)
    }
  })

  siteTest(t, 'takes a root, options, or both', withRoutes({
    '/root': (reply) => reply.sendFile('a.txt', '/other'),
    '/url': (reply) => reply.sendFile('a.txt', new URL('file:///other')),
    '/undefined-root': (reply) => reply.sendFile('a.txt', undefined, { maxAge: 1000 }),
    '/options': (reply) => reply.sendFile('a.txt', { maxAge: '1d', immutable: true, etag: false }),
    '/root-option': (reply) => reply.sendFile('a.txt', { root: '/other' }),
    '/root-url': (reply) => reply.sendFile('a.txt', { root: new URL('file:///other') }),
    '/both': (reply) => reply.sendFile('a.txt', '/other', { lastModified: false }),
    '/both-roots': (reply) => reply.sendFile('a.txt', '/other', { root: '/none' }),
    '/off': (reply) => reply.sendFile('a.txt', { acceptRanges: false, cacheControl: false })
  }, { maxAge: 5000 }), async (t, { get }) => {
    for (let round = 0; round < 2; round++) {
      t.match(await get('/root'), { statusCode: 200, body: 'other', headers: { 'cache-control': 'public, max-age=5' } })
      t.match(await get('/undefined-root'), { body: 'aaaa', headers: { 'cache-control': 'public, max-age=1' } })
      const { headers } = await get('/options')
      t.equal(headers['cache-control'], 'public, max-age=86400, immutable')
      t.notOk('etag' in headers)
      for (const url of ['/url', '/root-option', '/root-url', '/both-roots']) t.equal((await get(url)).body, 'other', url)
      const both = await get('/both')
      t.match(both, { body: 'other', headers: { 'cache-control': 'public, max-age=5' } })
      t.notOk('last-modified' in both.headers)
      const off = await get('/off', { range: 'bytes=0-1' })
      t.match(off, { statusCode: 200, body: 'aaaa' })
      t.notOk('accept-ranges' in off.headers || 'cache-control' in off.headers)
    }
  })

  siteTest(t, 'with options of one call leaves those of others alone', withRoutes({
    '/plain': (reply) => reply.sendFile('a.txt'), '/long': (reply) => reply.sendFile('a.txt', { maxAge: '1d' })
  }), async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      t.equal((await get('/long')).headers['cache-control'], 'public, max-age=86400')
      t.equal((await get('/plain')).headers['cache-control'], 'public, max-age=0')
    }
  })

  const registered: CachedStaticOptions = { serve: false, root: ROOT, maxAge: 1000 }
  siteTest(t, 'goes by the options as they were registered', {
    files: FILES,
    register: (app, { cache: openFileCache }) => {
      app.register(cachedStatic, Object.assign(registered, { openFileCache }))
      app.get('/', (_request, reply) => { reply.sendFile('a.txt', { immutable: true }) })
    }
  }, async (t, { get }) => {
    registered.maxAge = 'nonsense'
    t.equal((await get('/')).headers['cache-control'], 'public, max-age=1, immutable')
  })

  siteTest(t, 'takes a name, which is not decoded, and a leading slash for the root', withRoutes({
    '/percent': (reply) => reply.sendFile('a%20b.txt'),
    '/decoded': (reply) => reply.sendFile('a b.txt'),
    '/slash': (reply) => reply.sendFile('/a.txt'),
    '/absolute': (reply) => reply.sendFile(`${ROOT}/a.txt`)
  }), async (t, { get }) => {
    t.equal((await get('/percent')).body, 'percent')
    t.equal((await get('/decoded')).statusCode, 404)
    t.equal((await get('/slash')).body, 'aaaa')
    t.equal((await get('/absolute')).statusCode, 404)
  })

  siteTest(t, 'takes a directory for its index', withRoutes({
    '/d': (reply) => reply.sendFile('d'),
    '/d/': (reply) => reply.sendFile('d/'),
    '/e': (reply) => reply.sendFile('e'),
    '/x': (reply) => reply.sendFile('e', { index: ['y', 'x'] }),
    '/none': (reply) => reply.sendFile('d', { index: false }),
    '/none/': (reply) => reply.sendFile('d/', { index: false })
  }), async (t, { get }) => {
    for (let round = 0; round < 2; round++) {
      for (const [url, body] of [['/d', 'index'], ['/d/', 'index'], ['/x', 'x']] as const) t.equal((await get(url)).body, body)
      for (const url of ['/e', '/none']) t.equal((await get(url)).statusCode, 404, url)
      t.strictSame((await get('/none/')).json(), FORBIDDEN)
    }
  })

  siteTest(t, 'of a directory is redirected with the path of the request, as the route is', withRoutes({
    '/call': (reply) => reply.sendFile('d'), '/slash': (reply) => reply.sendFile('d/')
  }, { redirect: true }), async (t, { get, head }) => {
    for (let round = 0; round < 2; round++) {
      for (const method of [get, head]) t.match(await method('/call?q=1'), { statusCode: 301, headers: { location: '/call/?q=1' } })
      t.equal((await get('/slash')).body, 'index')
    }
  })

  siteTest(t, 'of a directory is its index where the path of the request has the slash: never round in circles', withRoutes({
    '/call/': (reply) => reply.sendFile('d'), '/none/': (reply) => reply.sendFile('e')
  }, { redirect: true, allowedPath: () => true }), async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      t.match(await get('/call/?q=1'), { statusCode: 200, body: 'index' })
      t.equal((await get('/none/')).statusCode, 404)
    }
  })

  siteTest(t, 'keeps the rules for names', withRoutes({
    '/up': (reply) => reply.sendFile('../secret'),
    '/in': (reply) => reply.sendFile('d/../a.txt'),
    '/backslash': (reply) => reply.sendFile('d\\a.txt'),
    '/empty': (reply) => reply.sendFile('d//index.html'),
    '/nul': (reply) => reply.sendFile('a\0'),
    '/dot': (reply) => reply.sendFile('.env'),
    '/deny': (reply) => reply.sendFile('.env', { dotfiles: 'deny' }),
    '/allow': (reply) => reply.sendFile('.env', { dotfiles: 'allow' }),
    '/long': (reply) => reply.sendFile('x'.repeat(300))
  }), async (t, { get }) => {
    for (const url of ['/up', '/in', '/backslash', '/empty', '/deny']) t.strictSame((await get(url)).json(), FORBIDDEN, url)
    t.match((await get('/nul')).json(), { statusCode: 400, code: 'FST_STATIC_MALFORMED_PATH' })
    for (const url of ['/dot', '/long']) t.equal((await get(url)).statusCode, 404, url)
    t.equal((await get('/allow')).body, 'secret')
  })

  siteTest(t, 'works on any method, whatever the conditions', withRoutes({ '/': (reply) => reply.sendFile('a.txt') }), async (t, { app }) => {
    for (const headers of [{}, { range: 'bytes=0-1' }, { 'if-none-match': '*' }, { 'if-match': '"x"' }]) {
      for (let round = 0; round < 2; round++) {
        t.match(await app.inject({ method: 'POST', url: '/', headers }), { statusCode: 200, body: 'aaaa' })
      }
    }
  })

  siteTest(t, 'keeps the status that was set before, with a body, whatever the conditions', withRoutes({
    '/': (reply) => reply.code(404).sendFile('404.html'), '/big': (reply) => reply.code(203).sendFile('big.bin')
  }), async (t, { get, head }) => {
    const { length } = FILES['404.html']
    for (const headers of [
      {}, { range: 'bytes=0-1' }, { range: 'bytes=999-' }, { 'if-none-match': tagOf(length) }, { 'if-match': '"x"' },
      { 'if-modified-since': LAST_MODIFIED }
    ]) {
      for (let round = 0; round < 3; round++) {
        const response = await get('/', headers)
        t.match(response, { statusCode: 404, body: FILES['404.html'], headers: { 'content-length': String(length) } })
        t.notOk('content-range' in response.headers)
      }
      t.equal((await get('/big', headers)).statusCode, 203)
    }
    t.match(await head('/', { 'if-none-match': '*' }), { statusCode: 404, body: '', headers: { 'content-length': String(length) } })
  })

  siteTest(t, 'overwrites the fields of the file that were set before', withRoutes({
    '/': (reply) => reply.type('text/x').header('etag', '"mine"').header('x-mine', '1').sendFile('a.txt')
  }), async (t, { get }) => {
    t.match((await get('/')).headers, { 'content-type': 'text/plain; charset=utf-8', etag: tagOf(4), 'x-mine': '1' })
  })

  siteTest(t, 'returns the reply, so that an async handler may return it', {
    files: FILES,
    before: (app) => app.get('/', async (_request, reply) => {
      const returned = reply.sendFile('a.txt')
      if (returned !== reply) throw new Error('not the reply')
      return await returned
    })
  }, async (t, { get }) => {
    for (let round = 0; round < 3; round++) t.equal((await get('/')).body, 'aaaa')
  })

  siteTest(t, 'shares the cache and the fields with the route', {
    files: FILES,
    options: { prefix: '/static/', etag: (path) => { tagged.push(path); return '"tag"' } },
    before: (app) => app.get('/', (_request, reply) => { reply.sendFile('a.txt') })
  }, async (t, { get, fs }) => {
    const opens = fs.count('open')
    for (let round = 0; round < 3; round++) {
      await get('/')
      await get('/static/a.txt')
    }
    t.equal(fs.count('open'), opens + 2, 'once below minUses, once to keep')
    t.strictSame(tagged, ['/www/a.txt'])
  })
  const tagged: string[] = []

  siteTest(t, 'calls setHeaders of the registration', withRoutes({
    '/': (reply) => reply.sendFile('a.txt'), '/options': (reply) => reply.sendFile('a.txt', { maxAge: 5 })
  }, { setHeaders: (reply, path, stat) => { reply.header('x-mine', `${path} ${stat.size}`) } }), async (t, { get }) => {
    for (const url of ['/', '/options']) t.equal((await get(url)).headers['x-mine'], '/www/a.txt 4')
  })
})

t.test('options of one call', async (t) => {
  const LETTERS = 'abcdefghij'
  const files = { ...FILES, 'l.txt': LETTERS, 'page.htm': 'htm', 'page.html': 'html', 'only.html': 'only', 'dir.htm/x': 'x', 'dir.html': 'dir', 'a.b': 'ab' }
  const kinds: Array<[string, OpenFileCacheOptions]> = [
    ['held in memory', { minUses: 1 }], ['kept open', { minUses: 1, memory: false }], ['opened each time', { valid: 0 }], ['opened each time, and not for memory', { valid: 0, memory: false }]
  ]

  for (const [kind, cache] of kinds) {
    const windows: Array<[SendOptions, string]> = [
      [{ start: 2 }, 'cdefghij'], [{ end: 4 }, 'abcde'], [{ start: 2, end: 4 }, 'cde'], [{ start: 0, end: 0 }, 'a'], [{ start: 9 }, 'j'],
      [{ start: 8, end: 99 }, 'ij'], [{ end: 9 }, LETTERS], [{ start: 10 }, ''], [{ start: 99 }, ''], [{ start: 99, end: 199 }, '']
    ]
    siteTest(t, `start and end send a part as if it were all: ${kind}`, {
      ...withRoutes(Object.fromEntries(windows.map(([options], i) => [`/${i}`, (reply: FastifyReply) => reply.sendFile('l.txt', options)])), {}, cache), files
    }, async (t, { get, head, held }) => {
      for (let round = 0; round < 3; round++) {
        for (const [i, [options, part]] of windows.entries()) {
          const url = `/${i}`
          const name = JSON.stringify(options)
          t.match(await get(url), { statusCode: 200, body: part, headers: { 'content-length': String(part.length), 'content-type': 'text/plain; charset=utf-8' } }, name)
          t.match(await head(url), { statusCode: 200, body: '', headers: { 'content-length': String(part.length) } }, name)
          t.match(await get(url, { 'if-none-match': tagOf(10) }), { statusCode: 304, body: '' }, name)
          for (const [range, from, to] of [['0-0', 0, 1], ['1-1', 1, 2], ['1-', 1, Infinity], ['0-99', 0, Infinity], ['-2', -2, Infinity]] as const) {
            const expected = part.slice(from, to)
            const response = await get(url, { range: `bytes=${range}` })
            if (expected === '' && part.length > 0) {
              t.match(response, { statusCode: 416, headers: { 'content-range': `bytes */${part.length}` } }, `${name} ${range}`)
            } else if (expected !== '') {
              const first = from < 0 ? Math.max(part.length + from, 0) : from
              t.match(response, {
                statusCode: 206,
                body: expected,
                headers: { 'content-range': `bytes ${first}-${first + expected.length - 1}/${part.length}`, 'content-length': String(expected.length) }
              }, `${name} ${range}`)
            } else {
              t.equal(response.statusCode, range === '-2' ? 200 : 416, `${name} ${range}`)
            }
          }
          t.match(await get(url, { range: `bytes=${part.length}-` }), { statusCode: 416, headers: { 'content-range': `bytes */${part.length}` } }, name)
        }
      }
      t.equal((await held()).leases, 0)
    })
  }

  siteTest(t, 'start and end send a part of a large file', withRoutes({
    '/': (reply) => reply.sendFile('big.bin', { start: 100, end: 199_899 }), '/max': (reply) => reply.sendFile('big.bin', { start: 50, maxContentRangeChunkSize: 70_000 })
  }), async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      t.match(await get('/'), { rawPayload: FILES['big.bin'].subarray(100, 199_900), headers: { 'content-length': '199800' } })
      t.match((await get('/', { range: 'bytes=-70000' })).headers, { 'content-range': 'bytes 129800-199799/199800', 'content-length': '70000' })
      const part = await get('/max', { range: 'bytes=0-' })
      t.match(part, { statusCode: 206, headers: { 'content-range': 'bytes 0-69999/199950', 'content-length': '70000' } })
      t.equal(part.rawPayload.length, 70_000)
    }
  })

  siteTest(t, 'start and end that are none are errors', withRoutes({
    '/negative': (reply) => reply.sendFile('a.txt', { start: -1 }),
    '/half': (reply) => reply.sendFile('a.txt', { end: 0.5 }),
    '/crossed': (reply) => reply.sendFile('a.txt', { start: 3, end: 2 })
  }), async (t, { get }) => {
    for (const url of ['/negative', '/half', '/crossed']) {
      t.match((await get(url)).json(), { statusCode: 500, code: 'FST_STATIC_INVALID_OPTION_VALUE', message: /^"(start|end)" option must be a whole number of bytes >= (0|"start" \(3\)), but is / }, url)
    }
  })

  siteTest(t, 'highWaterMark is how much is read at a time', withRoutes({
    '/registered': (reply) => reply.sendFile('big.bin'),
    '/own': (reply) => reply.sendFile('big.bin', { highWaterMark: 20_000 }),
    '/range': (reply) => reply.sendFile('big.bin', { highWaterMark: 1 })
  }, { highWaterMark: 50_000 }), async (t, { get, fs }) => {
    const reads = async (url: string, headers = {}) => {
      const before = fs.count('read')
      const { rawPayload } = await get(url, headers)
      return [rawPayload.length, fs.count('read') - before]
    }
    for (let round = 0; round < 3; round++) {
      t.strictSame(await reads('/registered'), [200_000, 4])
      t.strictSame(await reads('/own'), [200_000, 10])
      t.strictSame(await reads('/range', { range: 'bytes=5-9' }), [5, 5])
    }
  })

  siteTest(t, 'extensions are tried in order after a name that has none', {
    ...withRoutes({
      '/registered': (reply) => reply.sendFile('page'),
      '/own': (reply) => reply.sendFile('page', { extensions: ['none', 'html', 'htm'] }),
      '/text': (reply) => reply.sendFile('only', { extensions: 'html' }),
      '/off': (reply) => reply.sendFile('page', { extensions: false }),
      '/directory': (reply) => reply.sendFile('dir', { extensions: ['htm', 'html'] }),
      '/has-one': (reply) => reply.sendFile('a', { extensions: ['b'] }),
      '/has-another': (reply) => reply.sendFile('page.x', { extensions: ['html'] }),
      '/none': (reply) => reply.sendFile('page', { extensions: ['xml'] })
    }, { extensions: ['htm'] }),
    files
  }, async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      for (const [url, body] of [['/registered', 'htm'], ['/own', 'html'], ['/text', 'only'], ['/directory', 'dir'], ['/has-one', 'ab']] as const) {
        t.equal((await get(url)).body, body, url)
      }
      for (const url of ['/off', '/has-another', '/none']) t.equal((await get(url)).statusCode, 404, url)
    }
    t.equal((await get('/own')).headers['content-type'], 'text/html; charset=utf-8')
  })

  siteTest(t, 'root may be several, tried in order', {
    ...withRoutes({
      '/first': (reply) => reply.sendFile('a.txt', { root: [ROOT, '/other'] }),
      '/second': (reply) => reply.sendFile('a.txt', { root: ['/none', '/other', ROOT] }),
      '/url': (reply) => reply.sendFile('a.txt', { root: [new URL('file:///none'), new URL('file:///other')] }),
      '/download': (reply) => reply.download('a.txt', { root: ['/none', '/other'] }),
      '/nowhere': (reply) => reply.sendFile('z', { root: ['/other', ROOT] }),
      '/repeated': (reply) => reply.sendFile('a.txt', { root: ['/other', '/other/'] }),
      '/empty': (reply) => reply.sendFile('a.txt', { root: [] })
    })
  }, async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      for (const [url, body] of [['/first', 'aaaa'], ['/second', 'other'], ['/url', 'other'], ['/download', 'other']] as const) t.equal((await get(url)).body, body, url)
      t.equal((await get('/nowhere')).statusCode, 404)
      for (const url of ['/repeated', '/empty']) t.match((await get(url)).json(), { statusCode: 500, code: 'FST_STATIC_INVALID_OPTION', message: /^"root" option/ }, url)
    }
  })

  const own = { maxAge: '1d', immutable: true, etag: false, start: 1, contentType: false } as const
  const seen: string[] = []
  const onFile = (path: string) => { seen.push(path) }
  siteTest(t, 'hold whatever was tried before the file was found', {
    ...withRoutes({
      '/sidecar': (reply) => reply.sendFile('a.txt', { ...own, onFile }),
      '/coded': (reply) => reply.sendFile('coded.txt', { ...own, onFile }),
      '/second-root': (reply) => reply.sendFile('a.txt', { ...own, onFile, root: ['/none', '/other'] }),
      '/index': (reply) => reply.sendFile('d', { ...own, onFile }),
      '/index/': (reply) => reply.sendFile('d/', { ...own, onFile, index: ['none', 'index.html'] }),
      '/extension': (reply) => reply.sendFile('only', { ...own, onFile, extensions: ['htm', 'html'] }),
      '/all': (reply) => reply.sendFile('e', { ...own, onFile, root: ['/none', ROOT], index: ['y', 'x'] })
    }, { preCompressed: true, maxAge: 5000 }),
    files: { ...files, 'coded.txt.gz': 'gz!' }
  }, async (t, site) => {
    for (let round = 0; round < 4; round++) {
      // Nothing is kept by then, and the first file has to be opened twice.
      if (round === 3) site.fs.fail('read', 'ESTALE', 1, '/www/a.txt')
      for (const [url, body, path] of [
        ['/sidecar', 'aaa', '/www/a.txt'], ['/coded', 'z!', '/www/coded.txt.gz'], ['/second-root', 'ther', '/other/a.txt'], ['/index', 'ndex', '/www/d/index.html'],
        ['/index/', 'ndex', '/www/d/index.html'], ['/extension', 'nly', '/www/only.html'], ['/all', '', '/www/e/x']
      ] as const) {
        seen.length = 0
        const { headers, ...response } = await site.get(url, { 'accept-encoding': 'gzip, br' })
        t.match(response, { statusCode: 200, body }, url)
        t.match(headers, { 'cache-control': 'public, max-age=86400, immutable', 'content-length': String(body.length) })
        t.notOk('etag' in headers || 'content-type' in headers, url)
        t.strictSame(seen, [path])
      }
      if (round === 2) site.cache.clear()
    }
    t.strictSame(site.fs.failures, [{ name: 'read', code: 'ESTALE' }])
  })
})

t.test('contentType: false', async (t) => {
  const payloads: unknown[] = []
  for (const [kind, cache] of [['held in memory', { minUses: 1 }], ['kept open', { minUses: 1, memory: false }], ['known by its metadata', { minUses: 100 }]] as const) {
    siteTest(t, `leaves the field out of what is sent: ${kind}`, {
      files: FILES,
      cache,
      options: { contentType: false, preCompressed: true },
      before: (app) => {
        app.addHook('onSend', async (_request, _reply, payload) => { payloads.push((payload as { path?: string } | null | undefined)?.path) })
        app.get('/call', (_request, reply) => { reply.sendFile('a.txt') })
        app.get('/typed', (_request, reply) => { reply.type('text/x').sendFile('a.txt') })
        app.get('/on', (_request, reply) => { reply.sendFile('a.txt', { contentType: true }) })
        app.get('/typed-big', (_request, reply) => { reply.type('text/x').sendFile('big.bin') })
      }
    }, async (t, { get, head }) => {
      for (let round = 0; round < 3; round++) {
        for (const [url, body] of [['/a.txt', FILES['a.txt']], ['/call', FILES['a.txt']], ['/big.bin', String(FILES['big.bin'])]] as const) {
          for (const [headers, statusCode, part] of [[{}, 200, body], [{ range: 'bytes=1-2' }, 206, body.slice(1, 3)], [{ 'if-none-match': '*' }, 304, '']] as const) {
            payloads.length = 0
            const response = await get(url, headers)
            t.equal(response.statusCode, statusCode, url)
            t.ok(response.body === part)
            t.notOk('content-type' in response.headers, `${url} ${statusCode}`)
            t.equal(response.headers['content-length'], statusCode === 304 ? undefined : String(part.length))
            if (statusCode !== 304) t.strictSame(payloads, [url === '/big.bin' ? '/www/big.bin' : '/www/a.txt'])
          }
          const response = await head(url)
          t.match(response, { statusCode: 200, body: '', headers: { 'content-length': String(body.length) } }, url)
          t.notOk('content-type' in response.headers, url)
        }
        for (const headers of [{}, { range: 'bytes=1-2' }]) {
          for (const url of ['/typed', '/typed-big']) t.equal((await get(url, headers)).headers['content-type'], 'text/x', url)
          t.equal((await get('/on', headers)).headers['content-type'], 'text/plain; charset=utf-8')
        }
        t.equal((await head('/typed')).headers['content-type'], 'text/x')
        t.match((await get('/none')).headers, { 'content-type': 'application/json; charset=utf-8' })
      }
    })
  }
})

t.test('HEAD of a GET route, as Fastify exposes it', async (t) => {
  for (const [kind, cache] of [['held in memory', { minUses: 1 }], ['kept open', { minUses: 1, memory: false }], ['known by its metadata', { minUses: 100 }], ['opened each time', { valid: 0 }]] as const) {
    siteTest(t, `tells the length of the file, and none with 304: ${kind}`, {
      files: FILES,
      cache,
      options: { serve: false, maxAge: 1000 },
      before: (app) => {
        app.get('/a.txt', (_request, reply) => { reply.sendFile('a.txt') })
        app.get('/big.bin', async (_request, reply) => reply.sendFile('big.bin'))
        app.get('/part', (_request, reply) => { reply.sendFile('a.txt', { start: 1, end: 2 }) })
        app.get('/untyped', (_request, reply) => { reply.sendFile('a.txt', { contentType: false }) })
        app.get('/download', (_request, reply) => { reply.download('a.txt') })
        app.get('/page', (_request, reply) => { reply.code(404).sendFile('404.html') })
        app.get('/none', (_request, reply) => { reply.sendFile('none') })
      }
    }, async (t, { get, head, held, log }) => {
      for (let round = 0; round < 3; round++) {
        for (const [url, statusCode, length] of [
          ['/a.txt', 200, 4], ['/big.bin', 200, 200_000], ['/part', 200, 2], ['/untyped', 200, 4], ['/download', 200, 4], ['/page', 404, FILES['404.html'].length]
        ] as const) {
          const { headers: { date, ...fields } } = await get(url)
          const response = await head(url)
          t.match(response, { statusCode, body: '', headers: { 'content-length': String(length) } }, url)
          t.strictSame({ ...response.headers, date }, { ...fields, date }, url)
          if (statusCode === 404) continue
          for (const method of [get, head]) {
            const unmodified = await method(url, { 'if-none-match': '*' })
            t.match(unmodified, { statusCode: 304, body: '', headers: { etag: fields.etag, 'cache-control': 'public, max-age=1' } }, url)
            for (const name of ['content-length', 'content-type', 'transfer-encoding']) t.notOk(name in unmodified.headers, `${url} ${name}`)
          }
          t.match(await head(url, { range: 'bytes=0-0' }), { statusCode: 200, headers: { 'content-length': String(length) } }, url)
          t.equal((await head(url, { 'if-match': '"x"' })).statusCode, 412)
        }
        t.match(await head('/none'), { statusCode: 404, body: '' })
        t.equal((await held()).leases, 0)
      }
      t.strictSame(log.filter(({ level }) => level >= 40), [])
    })
  }
})

t.test('an absolute path without any root', async (t) => {
  siteTest(t, 'is one of the file system', {
    files: FILES,
    register: (app, { cache: openFileCache }) => {
      app.register(cachedStatic, { serve: false, openFileCache })
      const names = { file: '/www/a.txt', directory: '/www/d', slash: '/www/d/', none: '/www/none', up: '/www/../www/a.txt', dot: '/www/.env', top: '/', relative: 'www/a.txt' }
      for (const [url, name] of Object.entries(names)) app.get(`/${url}`, (_request, reply) => { reply.sendFile(name) })
      app.get('/allow', (_request, reply) => { reply.sendFile('/www/.env', { dotfiles: 'allow' }) })
      app.get('/download', (_request, reply) => { reply.download('/www/big.bin', { start: 5 }) })
      app.get('/root', (_request, reply) => { reply.sendFile('/www/a.txt', { root: '/www' }) })
      app.get('/null-root', (_request, reply) => { (reply.sendFile as (...values: unknown[]) => void)('/www/a.txt', null, { maxAge: 1000 }) })
    }
  }, async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      for (const [url, body] of [['/file', 'aaaa'], ['/directory', 'index'], ['/slash', 'index'], ['/allow', 'secret']] as const) t.equal((await get(url)).body, body, url)
      t.match(await get('/null-root'), { body: 'aaaa', headers: { 'cache-control': 'public, max-age=1' } })
      t.match((await get('/download')).headers, { 'content-length': '199995', 'content-disposition': 'attachment; filename=big.bin' })
      for (const url of ['/none', '/dot', '/top', '/relative', '/root']) t.equal((await get(url)).statusCode, 404, url)
      t.strictSame((await get('/up')).json(), FORBIDDEN)
    }
  })
})

t.test('what is missing', async (t) => {
  siteTest(t, 'goes to the not-found handler', {
    ...withRoutes({
      '/': (reply) => reply.sendFile('none'),
      '/download': (reply) => reply.download('none'),
      '/no-directory': (reply) => reply.sendFile('a.txt/x'),
      '/no-root': (reply) => reply.sendFile('a.txt', '/none')
    })
  }, async (t, { get, app }) => {
    for (let round = 0; round < 2; round++) {
      for (const url of ['/', '/download', '/no-directory', '/no-root']) {
        const response = await get(url)
        t.equal(response.statusCode, 404)
        t.strictSame(response.json(), { message: `Route GET:${url} not found`, error: 'Not Found', statusCode: 404 })
        t.notOk('content-disposition' in response.headers)
      }
    }
    t.equal((await app.inject({ method: 'POST', url: '/' })).statusCode, 404)
  })

  siteTest(t, 'includes everything when there is no root', {
    files: FILES,
    register: (app, { cache: openFileCache }) => {
      app.register(cachedStatic, { serve: false, openFileCache })
      app.get('/none', (_request, reply) => { reply.sendFile('www/a.txt') })
      app.get('/call', (_request, reply) => { reply.sendFile('a.txt', ROOT) })
    }
  }, async (t, { get }) => {
    t.equal((await get('/none')).statusCode, 404)
    t.equal((await get('/call')).body, 'aaaa')
  })

  siteTest(t, 'from the not-found handler itself ends in a plain 404, without a loop', {
    files: FILES,
    before: (app) => {
      app.setNotFoundHandler((_request, reply) => { reply.code(404).sendFile('none.html') })
      app.get('/', (_request, reply) => { reply.sendFile('none') })
    },
    options: { prefix: '/static' }
  }, async (t, { get }) => {
    for (let round = 0; round < 2; round++) {
      for (const url of ['/', '/static/none', '/no-route']) t.match(await get(url), { statusCode: 404, body: '404 Not Found' }, url)
    }
  })

  siteTest(t, 'may be answered by a page of the not-found handler', {
    files: FILES,
    before: (app) => app.setNotFoundHandler((_request, reply) => { reply.code(404).sendFile('404.html') }),
    options: { prefix: '/static' }
  }, async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      for (const url of ['/static/none', '/no-route']) {
        t.match(await get(url, { 'if-none-match': '*', range: 'bytes=0-1' }), { statusCode: 404, body: FILES['404.html'] }, url)
      }
    }
  })

  siteTest(t, 'is not answered by the fallback', {
    files: FILES, options: { prefix: '/static', fallback: '404.html' }, before: (app) => app.get('/', (_request, reply) => { reply.sendFile('none') })
  }, async (t, { get }) => {
    t.equal((await get('/', { accept: 'text/html' })).statusCode, 404)
  })
})

t.test('errors go to the reply, and are never thrown', async (t) => {
  const thrown: unknown[] = []
  /** Calls it where nobody could catch what it throws. */
  const later = (call: (reply: FastifyReply) => unknown): Handler => (reply) => {
    setTimeout(() => {
      try {
        call(reply)
      } catch (error) {
        thrown.push(error)
        reply.code(500).send('thrown')
      }
    }, 0)
  }
  const untyped = (reply: FastifyReply) => reply as unknown as Record<'sendFile' | 'download', (...values: unknown[]) => void>
  const hostile = Object.create(null)

  siteTest(t, 'from the callback of a timer', withRoutes({
    '/': later((reply) => reply.sendFile('a.txt')),
    '/big': later((reply) => reply.download('big.bin')),
    '/none': later((reply) => reply.sendFile('none')),
    '/up': later((reply) => reply.sendFile('../x')),
    '/root': later((reply) => reply.sendFile('a.txt', 'relative')),
    '/option': later((reply) => reply.sendFile('a.txt', { maxAge: 'soon' })),
    '/unknown': later((reply) => untyped(reply).sendFile('a.txt', { maxage: 5 })),
    '/registered': later((reply) => untyped(reply).sendFile('a.txt', { setHeaders () {} })),
    '/array': later((reply) => untyped(reply).sendFile('a.txt', ['/x'])),
    '/text': later((reply) => untyped(reply).sendFile('a.txt', ROOT, 'x')),
    '/text-url': later((reply) => untyped(reply).sendFile('a.txt', new URL('file:///www'), 'x')),
    '/download-array': later((reply) => untyped(reply).download('a.txt', ['/x'])),
    '/number': later((reply) => untyped(reply).sendFile('a.txt', 5)),
    '/download-number': later((reply) => untyped(reply).download('a.txt', 'b.txt', 5)),
    '/download-option': later((reply) => reply.download('a.txt', 'b.txt', { dotfiles: 'x' as 'deny' }))
  }), async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      t.equal((await get('/')).body, 'aaaa')
      t.equal((await get('/big')).rawPayload.length, 200_000)
      t.equal((await get('/none')).statusCode, 404)
      t.strictSame((await get('/up')).json(), FORBIDDEN)
      for (const [url, code, message] of [
        ['/root', 'INVALID_OPTION', '"root" option must be an absolute path, but is "relative"'],
        ['/option', 'INVALID_OPTION_VALUE', /^"maxAge" option must be a duration .* but is "soon"$/],
        ['/unknown', 'INVALID_OPTION', /^"maxage" option is unknown here; a call may have: acceptRanges, /],
        ['/registered', 'INVALID_OPTION', '"setHeaders" option is for a registration, not for one call of sendFile or download'],
        ['/array', 'INVALID_OPTION_VALUE', '"options" must be an object, but is an array'],
        ['/text', 'INVALID_OPTION_VALUE', '"options" must be an object, but is "x"'],
        ['/text-url', 'INVALID_OPTION_VALUE', '"options" must be an object, but is "x"'],
        ['/download-array', 'INVALID_OPTION_VALUE', '"options" must be an object, but is an array'],
        ['/number', 'INVALID_OPTION_VALUE', '"options" must be an object, but is 5'],
        ['/download-number', 'INVALID_OPTION_VALUE', '"options" must be an object, but is 5'],
        ['/download-option', 'INVALID_OPTION_VALUE', /^"dotfiles" option must be .* but is "x"$/]
      ] as const) {
        t.match((await get(url)).json(), { statusCode: 500, code: `FST_STATIC_${code}`, message }, url)
      }
    }
    t.strictSame(thrown, [])
  })

  const values: Array<[string, unknown, string]> = [
    ['undefined', undefined, 'undefined'], ['null', null, 'null'], ['number', 5, '5'], ['object', {}, 'an object'],
    ['hostile', hostile, 'an object'], ['symbol', Symbol('x'), 'a symbol'], ['array', ['a.txt'], 'an array']
  ]
  siteTest(t, 'of a name that is none', withRoutes(Object.fromEntries(values.flatMap(([name, value]) => [
    [`/send-${name}`, later((reply) => untyped(reply).sendFile(value))],
    [`/download-${name}`, later((reply) => untyped(reply).download(value))]
  ]))), async (t, { get }) => {
    for (const [name, , shown] of values) {
      for (const [url, argument] of [[`/send-${name}`, 'filename'], [`/download-${name}`, 'filepath']] as const) {
        const response = await get(url)
        t.match(response.json(), {
          statusCode: 500, code: 'FST_STATIC_INVALID_OPTION_VALUE', message: `"${argument}" must be a text, but is ${shown}`
        }, url)
        t.notOk('content-disposition' in response.headers)
      }
    }
    t.strictSame(thrown, [])
  })

  siteTest(t, 'of null for a root or for options, which means none', withRoutes({
    '/': later((reply) => untyped(reply).sendFile('a.txt', null)),
    '/both': later((reply) => untyped(reply).sendFile('a.txt', null, null)),
    '/download': later((reply) => untyped(reply).download('a.txt', null)),
    '/all': later((reply) => untyped(reply).download('a.txt', null, null))
  }), async (t, { get }) => {
    for (const url of ['/', '/both', '/download', '/all']) t.match(await get(url), { statusCode: 200, body: 'aaaa' }, url)
    t.strictSame(thrown, [])
  })

  siteTest(t, 'of the file system', withRoutes({ '/': later((reply) => reply.download('a.txt')) }), async (t, { get, fs, cache }) => {
    for (const [call, code, statusCode] of [['open', 'EMFILE', 503], ['open', 'EIO', 500], ['open', 'EACCES', 403], ['read', 'EIO', 500]] as const) {
      fs.fail(call, code)
      const response = await get('/')
      t.equal(response.statusCode, statusCode, `${call} ${code}`)
      for (const name of ['etag', 'last-modified', 'cache-control', 'content-disposition']) t.notOk(name in response.headers)
      cache.clear()
    }
    t.strictSame(thrown, [])
  })

  siteTest(t, 'of setHeaders, which leaves no Content-Disposition either', withRoutes({
    '/': later((reply) => reply.download('a.txt')), '/big': later((reply) => reply.download('big.bin'))
  }, { setHeaders: () => { throw new Error('mine') } }), async (t, site) => {
    for (let round = 0; round < 3; round++) {
      for (const url of ['/', '/big']) {
        const response = await site.get(url)
        t.equal(response.statusCode, 500)
        t.match(response.json(), { message: 'mine' })
        for (const name of ['etag', 'last-modified', 'cache-control', 'content-disposition']) t.notOk(name in response.headers)
        t.equal((await site.held()).leases, 0)
      }
    }
    t.strictSame(thrown, [])
  })

  siteTest(t, 'and leave no lease when the reply was sent before', withRoutes({
    '/': (reply) => { reply.send('first'); reply.sendFile('a.txt') },
    '/big': (reply) => { reply.send('first'); reply.sendFile('big.bin') },
    '/late': (reply) => { reply.send('first'); setImmediate(() => setImmediate(() => reply.sendFile('big.bin'))) }
  }, {}, { minUses: 1 }), async (t, site) => {
    for (let round = 0; round < 3; round++) {
      for (const url of ['/', '/big', '/late']) {
        t.equal((await site.get(url)).body, 'first')
        for (let i = 0; i < 10; i++) await settled()
        t.equal((await site.held()).leases, 0)
      }
    }
  })

  let raw: { destroy (): void } | undefined
  siteTest(t, 'and leave no lease when the client left', withRoutes({
    '/': (reply) => {
      raw = reply.raw
      reply.sendFile('big.bin')
    }
  }), async (t, site) => {
    site.fs.isManual = true
    const request = site.get('/')
    request.catch(() => {})
    await settled()
    raw?.destroy()
    await settled()
    site.fs.isManual = false
    await deliverAll(site.fs)
    await t.rejects(request, { code: 'LIGHT_ECONNRESET' })
    t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
    t.strictSame(site.log.filter(({ level }) => level >= 40), [])
  })
})

t.test('sendFile gives back what it borrowed', async (t) => {
  siteTest(t, 'of a file that was held in memory, and changed', withRoutes({ '/': (reply) => reply.sendFile('a.txt') }, {}, { minUses: 1 }), async (t, site) => {
    await makeHot(site, '/')
    for (const text of ['second', 'third!!']) {
      put(site, '/www/a.txt', text)
      site.clock.jump(30_000)
      t.match(await site.get('/'), { statusCode: 200, body: text, headers: { etag: tagOf(text.length) } })
      t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
    }
  })

  for (const [call, code] of [['fstatSync', 'ESTALE'], ['read', 'ESTALE'], ['read', 'EIO']] as const) {
    // What is read whole is looked at by that, and not before.
    const small = call === 'read' ? [['/small', {}]] as const : []
    for (const [url, cache] of [['/', {}], ['/', { minUses: 1 }], ...small, ['/small', { minUses: 1, memory: false as const }]] as const) {
      siteTest(t, `when ${call} fails with ${code}: ${url} ${JSON.stringify(cache)}`, withRoutes({
        '/': (reply) => reply.sendFile('big.bin'), '/small': (reply) => reply.sendFile('a.txt')
      }, {}, cache), async (t, site) => {
        for (let round = 0; round < 3; round++) {
          site.fs.fail(call, code)
          t.equal((await site.get(url)).statusCode, code === 'ESTALE' ? 200 : 500)
          t.equal((await site.held()).leases, 0)
          t.equal((await site.get(url)).statusCode, 200)
          t.equal((await site.held()).leases, 0)
        }
      })
    }
  }

  for (const call of ['fstat', 'read'] as const) {
    let raw: { destroy (): void } | undefined
    siteTest(t, `when the client left during ${call}, and reads nothing more for it`, withRoutes({
      '/': (reply) => {
        raw = reply.raw
        reply.sendFile('big.bin')
      }
    }), async (t, site) => {
      site.fs.remote = true
      site.fs.isManual = true
      const request = site.get('/')
      request.catch(() => {})
      for (const name of ['open', 'fstat', 'isRemote', ...(call === 'read' ? ['fstat'] : [])]) await deliver(site.fs, name)
      t.strictSame(site.fs.pending.map(({ name }) => name), [call])
      raw?.destroy()
      await settled()
      site.fs.isManual = false
      await deliverAll(site.fs)
      await t.rejects(request, { code: 'LIGHT_ECONNRESET' })
      t.equal(site.fs.count('read'), call === 'read' ? 1 : 0)
      t.strictSame(await site.held(), { leases: 0, openFiles: 0 })
      t.strictSame(site.log.filter(({ level }) => level >= 40), [])
    })
  }
})

t.test('download', async (t) => {
  siteTest(t, 'sends the file as an attachment, by its last name or by another', withRoutes({
    '/own': (reply) => reply.download('d/index.html'),
    '/other': (reply) => reply.download('a.txt', 'b.csv'),
    '/options': (reply) => reply.download('a.txt', { maxAge: 1000, root: '/other' }),
    '/both': (reply) => reply.download('a.txt', 'b.csv', { maxAge: 1000, root: '/other' }),
    '/undefined': (reply) => reply.download('a.txt', undefined, { maxAge: 1000 })
  }), async (t, { get, head }) => {
    for (let round = 0; round < 3; round++) {
      for (const [url, disposition, body, age] of [
        ['/own', 'attachment; filename=index.html', 'index', 0], ['/other', 'attachment; filename=b.csv', 'aaaa', 0],
        ['/options', 'attachment; filename=a.txt', 'other', 1], ['/both', 'attachment; filename=b.csv', 'other', 1],
        ['/undefined', 'attachment; filename=a.txt', 'aaaa', 1]
      ] as const) {
        t.match(await get(url), { statusCode: 200, body, headers: { 'content-disposition': disposition, 'cache-control': `public, max-age=${age}` } }, url)
        t.equal((await head(url)).headers['content-disposition'], disposition)
      }
      t.equal((await get('/other')).headers['content-type'], 'text/plain; charset=utf-8', 'the type is that of the file')
    }
  })

  siteTest(t, 'has its field on 206 and 304 too', withRoutes({ '/': (reply) => reply.download('a.txt') }), async (t, { get }) => {
    for (let round = 0; round < 2; round++) {
      t.match(await get('/', { range: 'bytes=0-1' }), { statusCode: 206, headers: { 'content-disposition': 'attachment; filename=a.txt' } })
      t.match(await get('/', { 'if-none-match': '*' }), { statusCode: 304, headers: { 'content-disposition': 'attachment; filename=a.txt' } })
    }
  })

  siteTest(t, 'has its field on no error', withRoutes({
    '/none': (reply) => reply.download('none'), '/up': (reply) => reply.download('../a.txt'), '/': (reply) => reply.download('a.txt')
  }), async (t, { get }) => {
    for (const [url, statusCode, headers] of [
      ['/none', 404, {}], ['/up', 403, {}], ['/', 416, { range: 'bytes=9-' }], ['/', 412, { 'if-match': '"x"' }]
    ] as const) {
      const response = await get(url, headers)
      t.equal(response.statusCode, statusCode)
      t.notOk('content-disposition' in response.headers)
    }
  })

  siteTest(t, 'lets setHeaders choose another field', withRoutes({ '/': (reply) => reply.download('a.txt') }, {
    setHeaders: (reply) => { reply.header('content-disposition', 'inline') }
  }), async (t, { get }) => {
    t.equal((await get('/')).headers['content-disposition'], 'inline')
  })

  /** The name that a client understands (RFC 6266 4.3, RFC 8187). */
  const nameIn = (field: string): string | undefined => parse(field).parameters.filename

  const names: Array<[string, string]> = [
    ['plain.txt', 'plain.txt'],
    ['two words.txt', 'two words.txt'],
    ['naïve.txt', 'naïve.txt'],
    ['emoji 🎉.txt', 'emoji 🎉.txt'],
    ['日本語.pdf', '日本語.pdf'],
    ['a"quoted".txt', 'a"quoted".txt'],
    ['semi;colon=.txt', 'semi;colon=.txt'],
    ['100%25.txt', '100%25.txt'],
    ['line\r\nset-cookie: x=1', 'line\r\nset-cookie: x=1'],
    ['tab\tnul\0', 'tab\tnul\0'],
    ['../../etc/passwd', 'passwd'],
    ['/etc/passwd', 'passwd'],
    ['C:\\windows\\x.dll', 'x.dll'],
    ['mixed/up\\x.txt', 'x.txt'],
    ['lone \ud800 surrogate', 'lone \ufffd surrogate'],
    ['\udc00', '\ufffd']
  ]
  siteTest(t, 'tells the client any name, the last segment of it only, and never more than one line', withRoutes(
    Object.fromEntries(names.map(([name], i) => [`/${i}`, (reply: FastifyReply) => reply.download('a.txt', name)]))
  ), async (t, { get }) => {
    for (const [i, [name, expected]] of names.entries()) {
      const response = await get(`/${i}`)
      t.match(response, { statusCode: 200, body: 'aaaa' }, JSON.stringify(name))
      const field = String(response.headers['content-disposition'])
      t.match(field, /^attachment; filename/)
      t.match(field, /^[\t\x20-\x7e\x80-\xff]*$/, 'can be sent')
      t.equal(nameIn(field), expected, JSON.stringify(name))
    }
  })

  siteTest(t, 'takes an empty name for what it says', withRoutes({ '/': (reply) => reply.download('a.txt', '') }), async (t, { get }) => {
    t.equal((await get('/')).headers['content-disposition'], 'attachment; filename=""')
  })
})

t.test('an application', async (t) => {
  siteTest(t, 'may send a file from a hook, an error handler and a child context', {
    files: FILES,
    before: (app) => {
      app.addHook('preHandler', async (request, reply) => {
        if (request.headers['x-hook'] !== undefined) return reply.sendFile('a.txt')
      })
      app.setErrorHandler((_error, _request, reply) => { reply.code(500).sendFile('404.html') })
      app.get('/error', async () => { throw new Error('mine') })
      app.register(async (child) => child.get('/child', (_request, reply) => { reply.sendFile('a.txt') }))
    }
  }, async (t, site) => {
    await makeHot(site, '/a.txt')
    for (let round = 0; round < 3; round++) {
      t.equal((await site.get('/child', { 'x-hook': '1' })).body, 'aaaa')
      t.match(await site.get('/error'), { statusCode: 500, body: FILES['404.html'] })
      t.equal((await site.get('/child')).body, 'aaaa')
    }
  })
})
