import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Fastify from 'fastify'
import t from 'tap'
import cachedStatic from '../lib/index'
import { ROOT, siteTest } from './fixtures/fake-site'
import { openSite } from './fixtures/live-site'
import type { Test } from 'tap'
import type { FastifyInstance, RouteOptions } from 'fastify'
import type { Site, SiteOptions } from './fixtures/fake-site'
import type { LiveSite, LiveSiteOptions } from './fixtures/live-site'
import type { CachedStaticOptions } from '../types/index'

const SEMICOLON: object = { routerOptions: { useSemicolonDelimiter: true } }

const FILES = { 'index.html': 'root', 'a.txt': 'aaaa', 'd/index.html': 'index', 'd/sub/index.html': 'sub', 'e/x': 'x' }

/** What an `onRoute` hook sees. */
type SeenRoute = Pick<RouteOptions, 'url' | 'method' | 'config' | 'constraints'> & { hide: unknown }

function seeRoutes (app: FastifyInstance, routes: SeenRoute[]): void {
  app.addHook('onRoute', ({ url, method, config, constraints, schema }) => {
    routes.push({ url, method, config: { ...config } as never, constraints: constraints as never, hide: (schema as { hide?: unknown } | undefined)?.hide })
  })
}

/** What is answered: the place that is redirected to, the body, or the status. */
async function outcomes (t: Test, { get, head }: Pick<Site, 'get' | 'head'>, expected: Record<string, string | number>): Promise<void> {
  for (let round = 0; round < 2; round++) {
    for (const [url, outcome] of Object.entries(expected)) {
      const { statusCode, headers: { location }, body } = await get(url)
      t.equal(statusCode === 301 ? `-> ${location}` : statusCode === 200 ? body : statusCode, outcome, url)
      if (statusCode === 301) {
        t.equal(body, '')
        t.match(await head(url), { statusCode, headers: { location } }, `HEAD ${url}`)
      }
    }
  }
}

t.test('redirect', async (t) => {
  siteTest(t, 'sends a directory to its path with the slash, index or not, by 301', {
    files: FILES, options: { redirect: true, maxAge: '1d' }
  }, async (t, site) => {
    await outcomes(t, site, {
      '/': 'root',
      '/d': '-> /d/',
      '/d/': 'index',
      '/d/sub': '-> /d/sub/',
      '/d/sub/': 'sub',
      '/e': '-> /e/',
      '/e/': 404,
      '/a.txt': 'aaaa',
      '/a.txt/': 404,
      '/none': 404,
      '/d%2Fsub': 404,
      '/d//sub': 403
    })
    const { headers } = await site.get('/d')
    t.strictSame(Object.keys(headers).filter((name) => !['location', 'content-length', 'date', 'connection'].includes(name)), [],
      'with no field of a file')
  })

  siteTest(t, 'is off by default', { files: FILES, options: { prefix: '/s' } }, async (t, site) => {
    await outcomes(t, site, { '/s': 404, '/s/': 'root', '/s/d': 'index', '/s/d/': 'index', '/s/e': 404 })
  })

  siteTest(t, 'keeps the query, and cuts the fragment', { files: FILES, options: { redirect: true, prefix: '/s' } }, async (t, site) => {
    await outcomes(t, site, {
      '/s/d?a=b&c=%20/': '-> /s/d/?a=b&c=%20/', '/s/d?': '-> /s/d/?', '/s/d#x': '-> /s/d/', '/s?a': '-> /s/?a', '/s#x': '-> /s/', '/s?a#x': '-> /s/?a'
    })
  })

  siteTest(t, 'sends the prefix to the prefix with the slash', { files: FILES, options: { redirect: true, prefix: '/s' } }, async (t, site) => {
    await outcomes(t, site, { '/s': '-> /s/', '/s/': 'root', '/sfoo': 404, '/': 404, 'http://host/s': '-> /s/', 'http://host/s/d?x': '-> /s/d/?x' })
    t.equal((await site.app.inject({ method: 'POST', url: '/s' })).statusCode, 404)
  })

  siteTest(t, 'needs no route for a prefix that ends with a slash', { files: FILES, options: { redirect: true, prefix: '/s/' } }, async (t, site) => {
    await outcomes(t, site, { '/s': 404, '/s/': 'root', '/s/d': '-> /s/d/' })
  })

  for (const prefix of ['/', '']) {
    siteTest(t, `needs no route for the prefix ${JSON.stringify(prefix)}`, { files: FILES, options: { redirect: true, prefix } }, async (t, site) => {
      await outcomes(t, site, { '/': 'root', '/d': '-> /d/' })
    })
  }

  for (const [prefix, inner] of [['/inner', '/inner'], ['', '']] as const) {
    siteTest(t, `joins the prefix of the surrounding context: ${JSON.stringify(prefix)}`, {
      files: FILES,
      register: (app, { cache: openFileCache }) => {
        app.register(async (child) => {
          child.register(cachedStatic, { root: ROOT, prefix, openFileCache, redirect: true })
        }, { prefix: '/outer' })
      }
    }, async (t, site) => {
      await outcomes(t, site, {
        [`/outer${inner}?x`]: `-> /outer${inner}/?x`, [`/outer${inner}/`]: 'root', [`/outer${inner}/d?x`]: `-> /outer${inner}/d/?x`, [`/outer${inner}/d/`]: 'index'
      })
    })
  }

  siteTest(t, 'keeps the parameters of the prefix as the client wrote them', { files: FILES, options: { redirect: true, prefix: '/v/:version' } }, async (t, site) => {
    await outcomes(t, site, {
      '/v/1': '-> /v/1/',
      '/v/1/': 'root',
      '/v/1/d?x': '-> /v/1/d/?x',
      '/v/%C3%BC%20%2F%25': '-> /v/%C3%BC%20%2F%25/',
      '/v/%C3%BC%20%25/d': '-> /v/%C3%BC%20%25/d/',
      '/v/%C3%BC%2F/d': 404,
      '/v/ü': '-> /v/%C3%BC/',
      '/v/../d': 403,
      '/v/%2e%2e/d': 403,
      '/v//d': 404
    })
  })

  siteTest(t, 'leads to the same name, whatever that is', {
    files: { 'a b/x': '', 'ü/x': '', '100%/x': '', '%41/x': '', 'a;b/x': '', '"<>/x': '', '#?/x': '' }, options: { redirect: true }
  }, async (t, site) => {
    await outcomes(t, site, {
      '/a%20b': '-> /a%20b/',
      '/%C3%BC': '-> /%C3%BC/',
      '/ü': '-> /%C3%BC/',
      '/100%25': '-> /100%25/',
      '/%2541': '-> /%2541/',
      '/a;b': '-> /a;b/',
      '/%22%3C%3E': '-> /%22%3C%3E/',
      '/"<>': '-> /%22%3C%3E/',
      '/%23%3F?x': '-> /%23%3F/?x'
    })
  })

  siteTest(t, 'never leads to another host', {
    files: { 'evil.example/index.html': 'not evil', 'http:/host/x': '' }, options: { redirect: true }
  }, async (t, site) => {
    await outcomes(t, site, {
      '/evil.example': '-> /evil.example/',
      '//evil.example': 403,
      '///evil.example': 403,
      '/\\evil.example': 403,
      '/%2Fevil.example': 404,
      '/%5Cevil.example': 403,
      'http://other.example/evil.example': '-> /evil.example/',
      'http://other.example//evil.example': 403
    })
  })

  siteTest(t, 'never leads to another host, where the router overlooks slashes', {
    files: { 'evil.example/index.html': 'not evil' }, options: { redirect: true }, server: { routerOptions: { ignoreDuplicateSlashes: true } }
  }, async (t, site) => {
    await outcomes(t, site, { '//evil.example': '-> /evil.example/', '///evil.example?x': '-> /evil.example/?x', 'http://h//evil.example': '-> /evil.example/' })
  })

  siteTest(t, 'never leads to another host, where the prefix begins with a parameter', {
    files: FILES, options: { redirect: true, prefix: '/:any' }
  }, async (t, site) => {
    await outcomes(t, site, {
      '/evil.example': '-> /evil.example/', '//evil.example': 404, '/\\evil.example': '-> /evil.example/', '//evil.example/': 404, '/\\/evil.example': 403
    })
  })

  siteTest(t, 'never leads to another host, where sendFile has named the directory', {
    files: FILES,
    options: { redirect: true, serve: false },
    server: SEMICOLON,
    before: (app) => { for (const url of ['/', '/page']) app.get(url, (_request, reply) => { reply.sendFile('d') }) }
  }, async (t, site) => {
    await outcomes(t, site, { '/page?x': '-> /page/?x', '/?x': 'index', '/;.evil.example': 'index', 'http://h;.evil.example/page': 'index' })
  })

  siteTest(t, 'of what is no URL is an error', {
    files: FILES,
    options: { redirect: true },
    before: (app) => app.addHook('preHandler', async ({ raw }) => { raw.url = 'http://[/d' })
  }, async (t, { get }) => {
    for (let round = 0; round < 2; round++) {
      const response = await get('/d')
      t.equal(response.statusCode, 400)
      t.match(response.json(), { code: 'FST_STATIC_INVALID_REDIRECT_URL' })
    }
  })

  siteTest(t, 'cuts the path where the router does', {
    files: FILES, options: { redirect: true, prefix: '/s' }, server: SEMICOLON
  }, async (t, site) => {
    await outcomes(t, site, {
      '/s/d;x=/': '-> /s/d/;x=/', '/s;x': '-> /s/;x', '/s/d/;x': 'index', 'http://h;.evil.example/s': '-> /;.evil.example/s'
    })
  })

  siteTest(t, 'goes by the first root that has the directory', {
    files: { 'one/d/x': '', 'two/d/index.html': 'two', 'two/f/index.html': 'f', 'one/f': 'a file' },
    register: (app, { cache: openFileCache }) => {
      app.register(cachedStatic, { root: [`${ROOT}/one`, `${ROOT}/two`], openFileCache, redirect: true })
    }
  }, async (t, site) => {
    await outcomes(t, site, { '/d': '-> /d/', '/d/': 'two', '/f': 'a file', '/f/': 'f' })
  })
})

t.test('where the router ignores trailing slashes', async (t) => {
  for (const [name, server] of [
    ['in routerOptions', { routerOptions: { ignoreTrailingSlash: true } }], ['beside them', { ignoreTrailingSlash: true }]
  ] as Array<[string, object]>) {
    siteTest(t, `nothing goes round in circles (${name})`, { files: FILES, options: { redirect: true }, server }, async (t, site) => {
      await outcomes(t, site, {
        '/': 'root', '/d': '-> /d/', '/d/': 'index', '/d?x/': '-> /d/?x/', '/d/?x': 'index', '/d/#x': 'index', '/d//': 403, '/e': '-> /e/', '/e/': 404, '/a.txt/': 404
      })
    })
  }

  const server: object = { routerOptions: { ignoreTrailingSlash: true } }

  siteTest(t, 'the prefix is not redirected', { files: FILES, options: { redirect: true, prefix: '/s' }, server }, async (t, site) => {
    await outcomes(t, site, { '/s': 404, '/s/d': '-> /s/d/', '/s/d/': 'index', '/s/d/sub/': 'sub' })
  })

  siteTest(t, 'the prefix answers with prefixAvoidTrailingSlash', {
    files: FILES, options: { redirect: true, prefix: '/s', prefixAvoidTrailingSlash: true }, server
  }, async (t, site) => {
    await outcomes(t, site, { '/s': 'root', '/s/': 'root', '/s/d/': 'index' })
  })

  siteTest(t, 'a semicolon ends the path, if it does for the router', {
    files: FILES, options: { redirect: true }, server: { routerOptions: { ignoreTrailingSlash: true, useSemicolonDelimiter: true } } as object
  }, async (t, site) => {
    await outcomes(t, site, { '/d;x/': '-> /d/;x/', '/d/;x': 'index', '/d/': 'index' })
  })

  siteTest(t, 'a file is not found as a directory', { files: FILES, server }, async (t, site) => {
    await outcomes(t, site, { '/a.txt': 'aaaa', '/a.txt/': 404, '/d': 'index', '/d/': 'index' })
  })
})

t.test('prefixAvoidTrailingSlash', async (t) => {
  const options: CachedStaticOptions = { prefix: '/s', prefixAvoidTrailingSlash: true }

  siteTest(t, 'lets the prefix without its slash answer, and not half of a segment', { files: FILES, options }, async (t, site) => {
    await outcomes(t, site, {
      '/s': 'root', '/s?x': 'root', '/s/': 'root', '/s/a.txt': 'aaaa', '/s/d': 'index', '/s/d/': 'index', '/sfoo': 404, '/sa.txt': 404, '/s//': 403, '/s%2Fa.txt': 404, '/': 404
    })
    t.match(await site.head('/s'), { statusCode: 200, headers: { 'content-length': '4' } })
  })

  siteTest(t, 'goes before redirect', { files: FILES, options: { ...options, redirect: true } }, async (t, site) => {
    await outcomes(t, site, { '/s': 'root', '/s/d': '-> /s/d/', '/s/d/': 'index' })
  })

  siteTest(t, 'goes well with a prefix that ends in a parameter', { files: FILES, options: { ...options, prefix: '/v/:x' } }, async (t, site) => {
    await outcomes(t, site, { '/v/1': 'root', '/v/1/': 'root', '/v/1/a.txt': 'aaaa', '/v/..': 403, '/v/.': 403, '/v/%2e%2e': 403, '/v/': 404, '/v//': 404, '/v/a%5Cb': 403 })
  })

  siteTest(t, 'means nothing where the prefix is the root of all, or ends with a slash', {
    files: FILES,
    register: (app, { cache: openFileCache }) => {
      for (const [i, prefix] of ['', '/', '/t/'].entries()) {
        app.register(async (child) => {
          child.register(cachedStatic, { root: ROOT, openFileCache, prefix, prefixAvoidTrailingSlash: true, redirect: true, constraints: { host: `${i}.example` } })
        })
      }
    }
  }, async (t, { get }) => {
    for (const [host, prefix] of [['0.example', ''], ['1.example', ''], ['2.example', '/t']] as const) {
      t.equal((await get(`${prefix}/`, { host })).body, 'root', host)
      t.equal((await get(`${prefix}/a.txt`, { host })).body, 'aaaa', host)
    }
    t.equal((await get('/t', { host: '2.example' })).statusCode, 404)
  })

  siteTest(t, 'lets the prefix of the surrounding context answer', {
    files: FILES,
    register: (app, { cache: openFileCache }) => {
      app.register(async (child) => {
        child.register(cachedStatic, { root: ROOT, openFileCache, prefix: '', prefixAvoidTrailingSlash: true })
      }, { prefix: '/outer' })
    }
  }, async (t, site) => {
    await outcomes(t, site, { '/outer': 'root', '/outer/': 'root', '/outer/a.txt': 'aaaa', '/outera.txt': 404 })
  })
})

t.test('parameters in the prefix', async (t) => {
  for (const wildcard of [true, false]) {
    t.test(wildcard ? 'with a wildcard' : 'without a wildcard', async (t) => {
      const root = t.testdir({ 'a.txt': 'aaaa', d: { 'index.html': 'index' } })
      const site = await openSite(t, root, { plugin: { prefix: '/:one/:two', wildcard } })
      for (const [path, status] of [
        ['/x/y/a.txt', 200], ['/x/.../a.txt', 200], ['/x/y/d/', 200], ['/../y/a.txt', 403], ['/x/../a.txt', 403], ['/x/./a.txt', 403],
        ['/%2e/y/d/', 403], ['/x/%2e%2e/d/', 403], ['/x//a.txt', 404], ['//y/a.txt', 404], ['//../a.txt', 403]
      ] as const) t.equal((await site.request(path)).status, status, path)
      await site.end(t)
    })
  }
})

t.test('what goes into the routes', async (t) => {
  const routesOf = (site: SiteOptions): [SeenRoute[], SiteOptions] => {
    const routes: SeenRoute[] = []
    return [routes, { files: FILES, ...site, before: (app) => seeRoutes(app, routes) }]
  }

  for (const [schemaHide, hide] of [[undefined, true], [true, true], [false, false]] as const) {
    const [routes, options] = routesOf({ options: { prefix: '/s', redirect: true, ...schemaHide !== undefined && { schemaHide } } })
    siteTest(t, `schemaHide: ${schemaHide} is schema.hide: ${hide} of each`, options, async (t) => {
      t.strictSame(routes.map(({ url, hide }) => ({ url, hide })), [{ url: '/s/*', hide }, { url: '/s', hide }])
    })
  }

  const [routes, options] = routesOf({ options: { prefix: '/s', redirect: true } })
  siteTest(t, 'are GET and HEAD, and nothing that was not asked for', options, async (t) => {
    for (const route of routes) {
      t.strictSame(route.method, ['GET', 'HEAD'])
      t.equal(route.constraints, undefined)
      t.notOk('file' in (route.config as object))
    }
    t.equal(routes.length, 2)
  })

  siteTest(t, 'constraints let hosts have files of their own', {
    files: { 'one/index.html': '1', 'two/index.html': '2', 'two/d/x': '' },
    register: (app, { cache: openFileCache }) => {
      for (const [name, host] of [['one', '1.example'], ['two', '2.example']] as const) {
        app.register(cachedStatic, {
          root: `${ROOT}/${name}`, prefix: '/s', openFileCache, constraints: { host }, redirect: true, decorateReply: false
        })
      }
    }
  }, async (t, { get }) => {
    for (let round = 0; round < 2; round++) {
      t.equal((await get('/s/', { host: '1.example' })).body, '1')
      t.equal((await get('/s/', { host: '2.example' })).body, '2')
      t.equal((await get('/s/', { host: '3.example' })).statusCode, 404)
      t.equal((await get('/s', { host: '1.example' })).headers.location, '/s/')
      t.equal((await get('/s', { host: '3.example' })).statusCode, 404)
      t.equal((await get('/s/d', { host: '1.example' })).statusCode, 404)
      t.equal((await get('/s/d', { host: '2.example' })).headers.location, '/s/d/')
    }
  })

  siteTest(t, 'logLevel is that of their requests only', {
    files: FILES, options: { prefix: '/s', redirect: true, logLevel: 'warn' }, before: (app) => app.get('/own', async () => 'own')
  }, async (t, { get, log }) => {
    const linesOf = async (url: string): Promise<number> => {
      const before = log.length
      await get(url)
      return log.length - before
    }
    t.equal(await linesOf('/s/a.txt'), 0)
    t.equal(await linesOf('/s'), 0)
    t.equal(await linesOf('/own'), 2)
  })
})

/** With `wildcard: false`, over real files: `routes` are all that were added. */
function globTest (
  t: Test, name: string,
  { files, roots = [''], prepare, plugin, ...options }: LiveSiteOptions & {
    files: Parameters<Test['testdir']>[0], roots?: string[], prepare?: (root: string) => void
  },
  body: (t: Test, site: LiveSite, routes: SeenRoute[]) => Promise<void>
): void {
  t.test(name, async (t) => {
    const root = t.testdir(files)
    prepare?.(root)
    const routes: SeenRoute[] = []
    const site = await openSite(t, root, {
      ...options,
      plugin: { root: roots.map((path) => join(root, path)), wildcard: false, ...plugin },
      before: async (app) => {
        seeRoutes(app, routes)
        await options.before?.(app)
      }
    })
    try {
      await body(t, site, routes)
    } finally {
      await site.end(t)
    }
  })
}

async function answers (t: Test, site: LiveSite, expected: Record<string, string | number>): Promise<void> {
  for (let round = 0; round < 2; round++) {
    for (const [path, outcome] of Object.entries(expected)) {
      const { status, headers, body } = await site.request(path)
      t.equal(status === 301 ? `-> ${headers.location}` : status === 200 ? body.toString() : status, outcome, path)
    }
  }
}

const urlsOf = (routes: SeenRoute[]): string[] => routes.map(({ url }) => url)
const warningsOf = ({ log }: LiveSite): unknown[] => log.filter(({ level }) => level >= 40).map(({ msg }) => msg)

t.test('wildcard: false', async (t) => {
  const files = {
    'index.html': 'root', 'a.txt': 'aaaa', d: { 'index.html': 'index', 'b.txt': 'bbbb', sub: { 'index.html': 'sub' } }, e: { x: 'x' }, empty: {}
  }

  globTest(t, 'makes a route for each file, and for each directory with an index', { files }, async (t, site, routes) => {
    t.strictSame(urlsOf(routes).sort(), ['/', '/a.txt', '/d/', '/d/b.txt', '/d/index.html', '/d/sub/', '/d/sub/index.html', '/e/x', '/index.html'])
    for (const { method, hide } of routes) t.strictSame({ method, hide }, { method: ['GET', 'HEAD'], hide: true })
    await answers(t, site, {
      '/': 'root',
      '/index.html': 'root',
      '/a.txt': 'aaaa',
      '/a.txt?x': 'aaaa',
      '/d/b.txt': 'bbbb',
      '/d/': 'index',
      '/d/sub/': 'sub',
      '/e/x': 'x',
      '/d': 404,
      '/d/sub': 404,
      '/e': 404,
      '/e/': 404,
      '/empty/': 404,
      '/a.txt/': 404,
      '/none': 404
    })
    t.match(await site.request('/a.txt', {}, 'HEAD'), { status: 200, headers: { 'content-length': '4' } })
    t.equal((await site.request('/a.txt', {}, 'POST')).status, 404)
    t.match(await site.request('/a.txt', { range: 'bytes=1-2' }), { status: 206, headers: { 'content-range': 'bytes 1-2/4' } })
    t.strictSame(warningsOf(site), [])
  })

  globTest(t, 'tells onRoute hooks the file and the root', { files, plugin: { prefix: '/s', schemaHide: false, redirect: true } }, async (t, site, routes) => {
    const rootPath = `${site.root}/`
    for (const [url, config] of [
      ['/s/a.txt', { file: '/a.txt', rootPath }], ['/s/d/b.txt', { file: '/d/b.txt', rootPath }], ['/s/', { file: '/', rootPath }],
      ['/s/d/', { file: '/d/', rootPath }], ['/s/d', { file: '/d', rootPath }], ['/s', {}]
    ] as const) t.match(routes.find((route) => route.url === url), { config, hide: false }, url)
  })

  globTest(t, 'gives a path to the first root that has it', {
    files: { a: { '1.txt': 'a1', d: { 'index.html': 'ad' }, f: 'file' }, b: { '1.txt': 'b1', '2.txt': 'b2', d: { 'index.html': 'bd', x: 'bx' }, f: { 'index.html': 'bf' } } },
    roots: ['a', 'b']
  }, async (t, site, routes) => {
    await answers(t, site, {
      '/1.txt': 'a1', '/2.txt': 'b2', '/d/': 'ad', '/d/index.html': 'ad', '/d/x': 'bx', '/f': 'file', '/f/': 'bf', '/f/index.html': 'bf'
    })
    const urls = urlsOf(routes)
    t.equal(new Set(urls).size, urls.length)
    t.match(routes.find(({ url }) => url === '/2.txt')?.config, { file: '/2.txt', rootPath: join(site.root, 'b/') })
  })

  globTest(t, 'leaves a path to the root that had it, when the file is gone', {
    files: { a: { '1.txt': 'a1' }, b: { '1.txt': 'b1' } }, roots: ['a', 'b']
  }, async (t, site) => {
    rmSync(join(site.root, 'a/1.txt'))
    t.equal((await site.request('/1.txt')).status, 404)
  })

  const seen: unknown[] = []
  globTest(t, 'tells allowedPath and setHeaders of the file of the route', {
    files: { a: { 'a.txt': 'aaaa' }, b: { 'b.txt': 'bbbb' } },
    roots: ['a', 'b'],
    plugin: {
      allowedPath: (pathname, root) => {
        seen.push([pathname, root])
        return true
      },
      setHeaders: (_reply, path) => { seen.push(path) }
    }
  }, async (t, site) => {
    await site.request('/b.txt')
    t.strictSame(seen, [['/b.txt', `${site.root}/b/`], `${site.root}/b/b.txt`])
  })

  globTest(t, 'does not see files that are made later', { files }, async (t, site) => {
    writeFileSync(join(site.root, 'new.txt'), 'new')
    writeFileSync(join(site.root, 'e/index.html'), 'new')
    await answers(t, site, { '/new.txt': 404, '/e/': 404, '/e/index.html': 404 })
  })

  globTest(t, 'sees what files have become', { files, cache: { valid: 0 } }, async (t, site) => {
    await answers(t, site, { '/a.txt': 'aaaa' })
    writeFileSync(join(site.root, 'a.txt'), 'changed')
    await answers(t, site, { '/a.txt': 'changed' })
  })

  globTest(t, 'leaves files that are deleted to the not-found handler', {
    files, cache: { valid: 0 }, before: (app) => { app.setNotFoundHandler((_request, reply) => { reply.code(404).send('mine') }) }
  }, async (t, site) => {
    await answers(t, site, { '/a.txt': 'aaaa', '/d/': 'index' })
    rmSync(join(site.root, 'a.txt'))
    rmSync(join(site.root, 'd/index.html'))
    for (const path of ['/a.txt', '/d/', '/none']) {
      const { status, body } = await site.request(path)
      t.match({ status, body: body.toString() }, { status: 404, body: 'mine' }, path)
    }
    mkdirSync(join(site.root, 'a.txt'))
    t.equal((await site.request('/a.txt')).status, 404)
  })

  globTest(t, 'leaves other paths to a wildcard route of the application', {
    files,
    before: (app) => { app.get('/*', async (request) => `mine: ${request.url}`) }
  }, async (t, site) => {
    await answers(t, site, { '/a.txt': 'aaaa', '/': 'root', '/d/': 'index', '/d': 'mine: /d', '/none': 'mine: /none', '/e/': 'mine: /e/' })
  })

  globTest(t, 'leaves out what globIgnore says', { files, plugin: { globIgnore: ['d/**', '**/*.txt'] } }, async (t, site, routes) => {
    t.strictSame(urlsOf(routes).sort(), ['/', '/e/x', '/index.html'])
    await answers(t, site, { '/': 'root', '/d/': 404, '/a.txt': 404 })
  })

  globTest(t, 'leaves out what a single pattern of globIgnore says', { files, plugin: { globIgnore: '**/index.html' } }, async (t, _site, routes) => {
    t.strictSame(urlsOf(routes).sort(), ['/a.txt', '/d/b.txt', '/e/x'])
  })

  globTest(t, 'knows the names of the index option', { files, plugin: { index: ['b.txt', 'x'] } }, async (t, site, routes) => {
    t.strictSame(urlsOf(routes).filter((url) => url.endsWith('/')).sort(), ['/d/', '/e/'])
    await answers(t, site, { '/d/': 'bbbb', '/e/': 'x' })
  })

  globTest(t, 'has no directory with index: false', { files, plugin: { index: false, redirect: true, prefix: '/s' } }, async (t, site, routes) => {
    t.strictSame(urlsOf(routes).filter((url) => url.endsWith('/')), [])
    await answers(t, site, { '/s/': 404, '/s/d': 404, '/s/d/index.html': 'index' })
  })

  t.test('joins the prefix of the surrounding context', async (t) => {
    const app = Fastify()
    const root = t.testdir(files)
    app.register(async (child) => { child.register(cachedStatic, { root, prefix: '/inner', wildcard: false, redirect: true }) }, { prefix: '/outer' })
    for (const [url, expected] of [
      ['/outer/inner/a.txt', { body: 'aaaa' }], ['/outer/inner/', { body: 'root' }], ['/outer/inner', { headers: { location: '/outer/inner/' } }],
      ['/outer/inner/d', { headers: { location: '/outer/inner/d/' } }], ['/inner/a.txt', { statusCode: 404 }], ['/outer/a.txt', { statusCode: 404 }]
    ] as const) t.match(await app.inject(url), expected, url)
    await app.close()
  })
})

t.test('wildcard: false and names that begin with a dot', async (t) => {
  const files = {
    '.env': 'secret',
    '.git': { config: 'config' },
    d: { '.hidden': 'hidden', '.well-known': { x: 'x' } },
    '.well-known': { 'security.txt': 'contact', '.hidden': 'hidden', deep: { 'index.html': 'deep' } }
  }

  globTest(t, 'leaves them out but for .well-known/', { files }, async (t, site, routes) => {
    t.strictSame(urlsOf(routes).sort(), ['/.well-known/deep/', '/.well-known/deep/index.html', '/.well-known/security.txt'])
    await answers(t, site, { '/.env': 404, '/.git/config': 404, '/.well-known/security.txt': 'contact', '/.well-known/deep/': 'deep', '/d/.well-known/x': 404 })
  })

  globTest(t, 'serves them with serveDotFiles', { files, plugin: { serveDotFiles: true } }, async (t, site, routes) => {
    t.equal(new Set(urlsOf(routes)).size, urlsOf(routes).length)
    await answers(t, site, { '/.env': 'secret', '/.git/config': 'config', '/d/.hidden': 'hidden', '/.well-known/security.txt': 'contact', '/.well-known/.hidden': 'hidden' })
  })

  globTest(t, 'says what dotfiles says, where that is given', { files, plugin: { serveDotFiles: true, dotfiles: 'deny' } }, async (t, site) => {
    await answers(t, site, { '/.env': 403, '/d/.hidden': 403, '/.well-known/security.txt': 'contact' })
  })

  globTest(t, 'can leave .well-known/ out', { files, plugin: { globIgnore: '.well-known/**' } }, async (t, _site, routes) => {
    t.strictSame(urlsOf(routes), [])
  })
})

t.test('wildcard: false and symbolic links', async (t) => {
  const files = { 'a.txt': 'aaaa', d: { 'index.html': 'index' } }
  const prepare = (root: string): void => {
    symlinkSync('a.txt', join(root, 'file-link.txt'))
    symlinkSync('d', join(root, 'dir-link'))
    symlinkSync('..', join(root, 'd/up'))
    symlinkSync('.', join(root, 'self'))
    symlinkSync('none', join(root, 'dangling'))
    symlinkSync('loop', join(root, 'loop'))
  }

  globTest(t, 'follows them, and ends where they go round in circles', { files, prepare }, async (t, site, routes) => {
    await answers(t, site, { '/a.txt': 'aaaa', '/file-link.txt': 'aaaa', '/dir-link/': 'index', '/dir-link/index.html': 'index', '/d/': 'index', '/dangling': 404, '/loop': 404 })
    t.ok(routes.length < 50, `${routes.length} routes`)
  })

  globTest(t, 'has none of them with symlinks: \'deny\'', { files, prepare, plugin: { symlinks: 'deny' }, cache: { valid: 0 } }, async (t, site, routes) => {
    t.strictSame(urlsOf(routes).sort(), ['/a.txt', '/d/', '/d/index.html'])
    await answers(t, site, { '/a.txt': 'aaaa', '/d/': 'index', '/file-link.txt': 404, '/dir-link/': 404, '/dir-link/index.html': 404, '/self/a.txt': 404 })
    rmSync(join(site.root, 'a.txt'))
    symlinkSync('d/index.html', join(site.root, 'a.txt'))
    t.equal((await site.request('/a.txt')).status, 403, 'nor one that takes the place of a file')
  })

  globTest(t, 'with symlinks: \'within-root\' serves those that stay below the root', {
    files: { in: files, out: { 'b.txt': 'bbbb' } },
    roots: ['in'],
    plugin: { symlinks: 'within-root' },
    prepare: (root) => {
      symlinkSync('../a.txt', join(root, 'in/d/inside.txt'))
      symlinkSync('../out/b.txt', join(root, 'in/outside.txt'))
      symlinkSync('../out', join(root, 'in/outside'))
    }
  }, async (t, site) => {
    await answers(t, site, { '/a.txt': 'aaaa', '/d/inside.txt': 'aaaa', '/outside.txt': 403, '/outside/b.txt': 403 })
  })
})

t.test('wildcard: false and names', async (t) => {
  const names = [
    'a:b.txt', ':param', 'x::y', '100%.txt', '%41.txt', 'a&b.txt', 'a b.txt', 'ü.txt', 'u\u0308.txt', '日本.txt', '🎉.txt', 'it\'s (1) [x] {y}!.txt',
    'a+b=c,d;e@f$.txt', '~tilde^|`', '"quoted"<tag>', 'no-extension', '(x)', '[id].js', '{a,b}', '!not', 'a.txt.'
  ]
  const files = Object.fromEntries([...names.map((name) => [name, `is ${name}`]), [':dir', Object.fromEntries(names.map((name) => [name, `in ${name}`]))]])

  globTest(t, 'serves whatever a file may be called', { files }, async (t, site, routes) => {
    t.equal(routes.length, 2 * names.length)
    await answers(t, site, Object.fromEntries(names.map((name) => [`/${encodeURI(name)}`, `is ${name}`])))
    await answers(t, site, Object.fromEntries(names.map((name) => [`/:dir/${encodeURI(name)}`, `in ${name}`])))
    for (const path of ['/other', '/a%3Axb.txt', '/aXb.txt', '/other/no-extension', '/A.txt', '/%2541', '/not', '/a']) {
      t.equal((await site.request(path)).status, 404, path)
    }
    t.strictSame(warningsOf(site), [])
  })

  globTest(t, 'warns of names that the router cannot have, and leaves them out', {
    files: { 'a#b.txt': '', 'what?': '', 'star*.txt': '', '*': '', ok: 'ok', 'd#': { 'index.html': 'index' } }
  }, async (t, site, routes) => {
    t.strictSame(urlsOf(routes), ['/ok'])
    t.strictSame(warningsOf(site), ['"wildcard: false" has no route for names with "#", "?" or "*": *, a#b.txt, d#/index.html, star*.txt, what?'])
    await answers(t, site, { '/ok': 'ok', '/other': 404, '/a': 404, '/star': 404, '/starry.txt': 404, '/a%23b.txt': 404 })
  })

  globTest(t, 'warns of ten of them at most', {
    files: Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`${String(i).padStart(2, '0')}#`, '']))
  }, async (t, site) => {
    t.strictSame(warningsOf(site), [`"wildcard: false" has no route for names with "#", "?" or "*": ${Array.from({ length: 10 }, (_, i) => `0${i}#`).join(', ')}`])
  })

  globTest(t, 'finds the files of a root that is named like a pattern', {
    files: { '[a] (b) {c,d} *!': { 'x.txt': 'x', d: { 'index.html': 'index' } } }, roots: ['[a] (b) {c,d} *!']
  }, async (t, site) => {
    await answers(t, site, { '/x.txt': 'x', '/d/': 'index' })
  })
})

t.test('wildcard: false and redirect', async (t) => {
  const files = { 'index.html': 'root', d: { 'index.html': 'index', 'ü b': { 'index.html': 'sub' } }, e: { x: 'x' } }

  globTest(t, 'sends each directory with an index to its path with the slash', { files, plugin: { redirect: true } }, async (t, site) => {
    await answers(t, site, {
      '/': 'root', '/d': '-> /d/', '/d?x': '-> /d/?x', '/d/': 'index', '/d/%C3%BC%20b?x': '-> /d/%C3%BC%20b/?x', '/d/%C3%BC%20b/': 'sub', '/e': 404, '/e/': 404
    })
  })

  globTest(t, 'sends the prefix to the prefix with the slash', { files, plugin: { redirect: true, prefix: '/s' } }, async (t, site) => {
    await answers(t, site, { '/s': '-> /s/', '/s?x': '-> /s/?x', '/s/': 'root', '/s/d': '-> /s/d/', '/s/d/': 'index', '/sfoo': 404 })
  })

  globTest(t, 'is off by default', { files, plugin: { prefix: '/s' } }, async (t, site) => {
    await answers(t, site, { '/s': 404, '/s/': 'root', '/s/d': 404, '/s/d/': 'index' })
  })

  globTest(t, 'prefixAvoidTrailingSlash lets the prefix answer', {
    files, plugin: { redirect: true, prefix: '/s', prefixAvoidTrailingSlash: true }
  }, async (t, site, routes) => {
    t.match(routes.find(({ url }) => url === '/s')?.config, { file: '/', rootPath: `${site.root}/` })
    await answers(t, site, { '/s': 'root', '/s/': 'root', '/s/d': '-> /s/d/', '/s/d/': 'index', '/sfoo': 404, '/sindex.html': 404 })
  })

  globTest(t, 'prefixAvoidTrailingSlash means nothing for a prefix with a slash, or without an index', {
    files: { a: files, b: { x: 'x' } },
    roots: ['a'],
    plugin: { prefix: '/s/', prefixAvoidTrailingSlash: true }
  }, async (t, site) => {
    await answers(t, site, { '/s': 404, '/s/': 'root' })
  })

  globTest(t, 'prefixAvoidTrailingSlash means nothing without an index', {
    files: { x: 'x' }, plugin: { prefix: '/s', prefixAvoidTrailingSlash: true, redirect: true }
  }, async (t, site) => {
    await answers(t, site, { '/s': 404, '/s/': 404, '/s/x': 'x' })
  })

  globTest(t, 'there are no circles where the router ignores trailing slashes', {
    files, plugin: { redirect: true, prefix: '/s', prefixAvoidTrailingSlash: true }, fastify: { routerOptions: { ignoreTrailingSlash: true } }
  }, async (t, site) => {
    await answers(t, site, { '/s': 'root', '/s/': 'root', '/s/d': 'index', '/s/d/': 'index', '/s/e/x/': 'x' })
  })

  globTest(t, 'the first root has the path with and without slash where the router ignores it', {
    files: { a: { d: { 'index.html': 'index' } }, b: { d: 'file' } },
    roots: ['a', 'b'],
    plugin: { redirect: true, prefix: '/s' },
    fastify: { routerOptions: { ignoreTrailingSlash: true } }
  }, async (t, site) => {
    await answers(t, site, { '/s/d': 'index', '/s/d/': 'index', '/s': 404 })
  })
})

t.test('a root that is missing', async (t) => {
  const missing = (plugin: CachedStaticOptions): LiveSiteOptions & { files: object } => ({ files: {}, cache: { valid: 0, errors: false }, plugin })

  t.test('is warned of, and served when it appears', async (t) => {
    const directory = t.testdir()
    const root = join(directory, 'later')
    const site = await openSite(t, root, missing({}))
    t.strictSame(warningsOf(site), [`"root" path "${root}" must exist`])
    await answers(t, site, { '/': 404, '/a.txt': 404 })
    mkdirSync(root)
    writeFileSync(join(root, 'a.txt'), 'now')
    writeFileSync(join(root, 'index.html'), 'index')
    await answers(t, site, { '/': 'index', '/a.txt': 'now' })
    await site.end(t)
  })

  t.test('has no routes with wildcard: false, and is not warned of with suppressWarning', async (t) => {
    const root = join(t.testdir(), 'later')
    const site = await openSite(t, root, missing({ wildcard: false, suppressWarning: true }))
    t.strictSame(warningsOf(site), [])
    mkdirSync(root)
    writeFileSync(join(root, 'a.txt'), 'now')
    await answers(t, site, { '/a.txt': 404 })
    await site.end(t)
  })
})
