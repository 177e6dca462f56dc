import t from 'tap'
import cachedStatic from '../lib/index'
import { makeHot, put, ROOT, siteTest } from './fixtures/fake-site'
import { settled } from './fixtures/fake-world'
import { siteTest as liveTest } from './fixtures/live-site'
import type { Test } from 'tap'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Engine } from './fixtures/engine'
import type { Site, SiteOptions } from './fixtures/fake-site'
import type { CachedStaticOptions } from '../types/index'
import type { OpenFileCacheOptions } from '../types/open-file-cache'

type AllowedPath = NonNullable<CachedStaticOptions['allowedPath']>
type Asked = Array<[pathname: string, root: string | undefined]>

const NOT_FOUND = (url: string) => ({ message: `Route GET:${url} not found`, error: 'Not Found', statusCode: 404 })
const BIG = Buffer.alloc(200_000, 'b')
const FILES = {
  'a.txt': 'aaaa',
  'a.txt.gz': 'gz of a',
  'big.bin': BIG,
  'page.html': 'page',
  'app.html': 'app',
  'index.html': 'home',
  'd/index.html': 'index',
  'd/index.html.gz': 'gz of index',
  'e/x': 'x',
  '.env': 'secret'
}

/** What it was asked since it was asked for that last. */
interface Record {
  readonly allowedPath: AllowedPath
  taken (): Asked
}

/** Allows all but the paths in `refused`. */
function recorded (...refused: string[]): Record {
  let asked: Asked = []
  return {
    allowedPath (pathname, root) {
      asked.push([pathname, root])
      return !refused.includes(pathname)
    },
    taken () {
      const taken = asked
      asked = []
      return taken
    }
  }
}

function allowing ({ allowedPath }: Pick<Record, 'allowedPath'>, options: Partial<CachedStaticOptions> = {}, more: SiteOptions = {}): SiteOptions {
  return { files: FILES, options: { allowedPath, ...options } as CachedStaticOptions, ...more }
}

const under = (root: string | undefined, ...paths: string[]): Asked => paths.map((path) => [path, root])

/** Refused as if it were not there, and nothing is left of it. */
async function isRefused (t: Test, site: Site, url: string, headers: { [name: string]: string } = {}): Promise<void> {
  const response = await site.get(url, headers)
  t.equal(response.statusCode, 404, url)
  t.strictSame(response.json(), NOT_FOUND(url))
  for (const name of ['etag', 'last-modified', 'cache-control', 'content-disposition']) t.notOk(name in response.headers, name)
  t.equal((await site.held()).leases, 0)
  t.equal((await site.head(url, headers)).statusCode, 404)
}

t.test('is asked on every request, whatever is known of the file', async (t) => {
  const kinds: Array<[string, OpenFileCacheOptions]> = [
    ['held in memory', { minUses: 1 }], ['kept open', { minUses: 1, memory: false }], ['known by its metadata', { minUses: 100 }], ['opened each time', { valid: 0 }]
  ]
  for (const [kind, cache] of kinds) {
    const record = recorded()
    siteTest(t, kind, allowing(record, {}, { cache }), async (t, { get, head }) => {
      for (let round = 0; round < 3; round++) {
        for (const url of ['/a.txt', '/big.bin', '/none', '/e']) {
          for (const headers of [{}, { 'if-none-match': '*' }, { range: 'bytes=0-1' }, { range: 'bytes=999999-' }]) {
            await get(url, headers)
            t.strictSame(record.taken(), under(ROOT, url))
          }
          await head(url)
          t.strictSame(record.taken(), under(ROOT, url))
        }
      }
    })

    const refusing = recorded('/a.txt', '/big.bin', '/none')
    siteTest(t, `${kind}: and refuses each time`, allowing(refusing, {}, { cache }), async (t, site) => {
      for (let round = 0; round < 3; round++) {
        for (const url of ['/a.txt', '/big.bin', '/none']) {
          await isRefused(t, site, url)
          await isRefused(t, site, url, { 'if-none-match': '*' })
        }
      }
    })
  }

  siteTest(t, 'so that no verdict outlives its request', allowing({ allowedPath: (_pathname, _root, { headers }) => headers['x-user'] === 'alice' }), async (t, site) => {
    for (let round = 0; round < 4; round++) {
      t.equal((await site.get('/a.txt', { 'x-user': 'alice' })).body, 'aaaa')
      await isRefused(t, site, '/a.txt', { 'x-user': 'bob' })
    }
  })

  const verdicts: { [name: string]: unknown } = { one: 1, zero: 0, text: 'x' }
  const untyped = (_pathname: string, _root: unknown, { headers }: FastifyRequest) => verdicts[String(headers['x-verdict'])]
  siteTest(t, 'and only what counts as true allows', allowing({ allowedPath: untyped as AllowedPath }), async (t, site) => {
    for (const [verdict, status] of [['one', 200], ['text', 200], ['zero', 404], ['other', 404]] as const) {
      t.equal((await site.get('/a.txt', { 'x-verdict': verdict })).statusCode, status, verdict)
    }
  })
})

t.test('is asked in the handler', async (t) => {
  const order: string[] = []
  const hooked = (app: FastifyInstance) => {
    for (const name of ['onRequest', 'preHandler', 'onSend'] as const) {
      app.addHook(name as 'preHandler', async (request, reply) => {
        order.push(name)
        if (name === 'preHandler' && request.headers['x-user'] === undefined) return reply.code(401).send({})
        request.headers['x-hook'] = 'seen'
      })
    }
  }
  const allowedPath: AllowedPath = (pathname, _root, { headers }) => {
    order.push(`${pathname} ${headers['x-hook']}`)
    return true
  }
  siteTest(t, 'after the preHandler hooks, with the request that they have seen', allowing({ allowedPath }, {}, { before: hooked }), async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      order.length = 0
      t.equal((await get('/a.txt', { 'x-user': 'alice' })).statusCode, 200)
      t.strictSame(order, ['onRequest', 'preHandler', '/a.txt seen', 'onSend'])
    }
  })

  siteTest(t, 'and not when a hook has answered', allowing({ allowedPath }, {}, { before: hooked }), async (t, site) => {
    for (let round = 0; round < 3; round++) {
      order.length = 0
      t.equal((await site.get('/a.txt')).statusCode, 401)
      t.strictSame(order, ['onRequest', 'preHandler', 'onSend'])
      t.equal((await site.held()).leases, 0)
    }
  })
})

t.test('is asked with the path of the request, then with that of what was selected', async (t) => {
  const record = recorded()
  const options = { extensions: ['html'], fallback: 'app.html' }
  siteTest(t, 'below the root', allowing(record, options), async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      for (const [url, body, ...paths] of [
        ['/a.txt', 'aaaa', '/a.txt'],
        ['/d', 'index', '/d', '/d/', '/d/index.html'],
        ['/d/', 'index', '/d/', '/d/index.html'],
        ['/', 'home', '/', '/index.html'],
        ['/page', 'page', '/page', '/page.html'],
        ['/page.html', 'page', '/page.html'],
        ['/missing', 'app', '/missing', '/app.html'],
        ['/e/missing', 'app', '/e/missing', '/app.html'],
        ['/a%2etxt', 'aaaa', '/a.txt']
      ] as Array<[string, string, ...string[]]>) {
        const response = await get(url, { accept: 'text/html' })
        t.match(response, { statusCode: 200, body }, url)
        t.strictSame(record.taken(), under(ROOT, ...paths), url)
      }
    }
  })

  siteTest(t, 'and not where the path itself is refused', allowing(record), async (t, { get }) => {
    for (const [url, status] of [['/.env', 404], ['/../x', 403], ['/a%00', 400]] as const) t.equal((await get(url)).statusCode, status)
    t.strictSame(record.taken(), [])
  })

  siteTest(t, 'a coded file under the name of its plain one', allowing(record, { preCompressed: true }), async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      t.match(await get('/a.txt', { 'accept-encoding': 'gzip' }), { body: 'gz of a', headers: { 'content-encoding': 'gzip' } })
      t.strictSame(record.taken(), under(ROOT, '/a.txt'))
      t.match(await get('/d', { 'accept-encoding': 'gzip' }), { body: 'gz of index', headers: { 'content-encoding': 'gzip' } })
      t.strictSame(record.taken(), under(ROOT, '/d', '/d/', '/d/index.html'))
      t.equal((await get('/a.txt.gz', { 'accept-encoding': 'gzip' })).body, 'gz of a')
      t.strictSame(record.taken(), under(ROOT, '/a.txt.gz'))
    }
  })

  for (const [refused, url] of [
    ['/d', '/d'], ['/d/', '/d'], ['/d/index.html', '/d'], ['/d/', '/d/'], ['/d/index.html', '/d/'], ['/page.html', '/page'], ['/app.html', '/missing'], ['/missing', '/missing']
  ] as const) {
    const refusing = recorded(refused)
    siteTest(t, `refusing ${refused}, no file answers ${url}`, allowing(refusing, options), async (t, site) => {
      for (let round = 0; round < 3; round++) {
        await isRefused(t, site, url, { accept: 'text/html' })
        t.strictSame(refusing.taken().at(-1), [refused, ROOT], 'nothing is asked after that')
      }
      t.equal((await site.get('/a.txt')).statusCode, 200)
    })
  }

  siteTest(t, 'a redirect by the path of the directory only', allowing(record, { redirect: true }), async (t, { get }) => {
    for (const url of ['/d', '/e']) {
      t.match(await get(url), { statusCode: 301, headers: { location: `${url}/` } })
      t.strictSame(record.taken(), under(ROOT, url))
    }
  })

  const unlisted = recorded('/e', '/d/index.json')
  siteTest(t, 'a listing by what was asked for', allowing(unlisted, { list: { names: ['/', 'index.json'] } }), async (t, site) => {
    for (let round = 0; round < 2; round++) {
      for (const url of ['/d', '/e/', '/e/index.json']) {
        t.equal((await site.get(url)).headers['content-type'], 'application/json; charset=utf-8')
        t.strictSame(unlisted.taken(), under(ROOT, url))
      }
      await isRefused(t, site, '/e')
      await isRefused(t, site, '/d/index.json')
      unlisted.taken()
    }
  })
})

t.test('with several roots, is asked for each that was looked into', async (t) => {
  const roots = ['/one', '/two', '/three']
  const before = (app: FastifyInstance, engine: Engine) => {
    put(engine, '/one/x', 'x of one')
    put(engine, '/two/y', 'y of two')
    put(engine, '/two/d/index.html', 'd of two')
    put(engine, '/three/z', 'z of three')
    put(engine, '/three/w', 'w of three')
    app.get('/call/:name', (request, reply) => { reply.sendFile((request.params as { name: string }).name) })
  }
  const record = recorded()
  siteTest(t, 'in their order, up to the one that has the file', allowing(record, { root: roots }, { files: {}, before }), async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      for (const [url, body, asked] of [
        ['/x', 'x of one', [['/x', '/one']]],
        ['/y', 'y of two', [['/y', '/one'], ['/y', '/two']]],
        ['/d', 'd of two', [['/d', '/one'], ['/d', '/two'], ['/d/', '/two'], ['/d/index.html', '/two']]],
        ['/z', 'z of three', [['/z', '/one'], ['/z', '/two'], ['/z', '/three']]],
        ['/call/y', 'y of two', [['y', '/one'], ['y', '/two']]]
      ] as const) {
        t.match(await get(url), { statusCode: 200, body }, url)
        t.strictSame(record.taken(), asked, url)
      }
      t.equal((await get('/none')).statusCode, 404)
      t.strictSame(record.taken(), [['/none', '/one'], ['/none', '/two'], ['/none', '/three']])
    }
  })

  siteTest(t, 'and one refusal is enough', allowing({ allowedPath: (pathname, root) => !(pathname === '/z' && root === '/two') }, { root: roots }, { files: {}, before }), async (t, site) => {
    for (let round = 0; round < 3; round++) {
      await isRefused(t, site, '/z')
      t.equal((await site.get('/w')).body, 'w of three')
    }
  })
})

t.test('of a call of sendFile or download', async (t) => {
  const record = recorded('secret', '/secret')
  const routes = (app: FastifyInstance, engine: Engine) => {
    put(engine, '/other/b.txt', 'other')
    const reply = (url: string, ...call: [string, ...never[]]) => app.get(url, (_request, reply) => { reply.sendFile(...call) })
    reply('/relative', 'a.txt')
    reply('/absolute', '/a.txt')
    reply('/directory', 'd')
    reply('/slash', '/d/')
    reply('/none', 'none')
    reply('/empty', '')
    reply('/refused', 'secret')
    reply('/root', 'b.txt', '/other' as never)
    reply('/roots', 'b.txt', { root: [ROOT, '/other'] } as never)
    app.get('/download', (_request, reply) => { reply.download('a.txt', 'b.txt') })
    app.get('/download-refused', (_request, reply) => { reply.download('/secret') })
  }
  siteTest(t, 'is asked with the name as the call has it, and with its root', allowing(record, { serve: false }, {
    files: { ...FILES, secret: 's' }, before: routes
  }), async (t, site) => {
    for (let round = 0; round < 3; round++) {
      for (const [url, statusCode, asked] of [
        ['/relative', 200, under(ROOT, 'a.txt')],
        ['/absolute', 200, under(ROOT, '/a.txt')],
        ['/directory', 200, under(ROOT, 'd', 'd/', 'd/index.html')],
        ['/slash', 200, under(ROOT, '/d/', '/d/index.html')],
        ['/none', 404, under(ROOT, 'none')],
        ['/empty', 200, under(ROOT, '', 'index.html')],
        ['/root', 200, under('/other', 'b.txt')],
        ['/roots', 200, [['b.txt', ROOT], ['b.txt', '/other']]],
        ['/download', 200, under(ROOT, 'a.txt')]
      ] as const) {
        t.equal((await site.get(url)).statusCode, statusCode, url)
        t.strictSame(record.taken(), asked, url)
      }
      for (const url of ['/refused', '/download-refused']) await isRefused(t, site, url)
      record.taken()
    }
  })

  siteTest(t, 'is asked without a root for an absolute path without any', {
    files: FILES,
    register: (app, { cache: openFileCache }) => {
      app.register(cachedStatic, { serve: false, openFileCache, allowedPath: record.allowedPath })
      for (const name of ['a.txt', 'd', 'none']) app.get(`/${name}`, (_request, reply) => { reply.sendFile(`${ROOT}/${name}`) })
      app.get('/relative', (_request, reply) => { reply.sendFile('www/a.txt') })
    }
  }, async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      t.equal((await get('/a.txt')).body, 'aaaa')
      t.strictSame(record.taken(), under(undefined, '/www/a.txt'))
      t.equal((await get('/d')).body, 'index')
      t.strictSame(record.taken(), under(undefined, '/www/d', '/www/d/', '/www/d/index.html'))
      t.equal((await get('/none')).statusCode, 404)
      t.strictSame(record.taken(), under(undefined, '/www/none'))
      t.equal((await get('/relative')).statusCode, 404)
      t.strictSame(record.taken(), [])
    }
  })
})

t.test('with a route for each file, is asked for the file, and for the index of a directory', async (t) => {
  const record = recorded('/b.txt')
  liveTest(t, 'below the root with its slash', {
    files: { 'a.txt': 'a', 'b.txt': 'b', d: { 'index.html': 'index' } },
    plugin: { wildcard: false, redirect: true, allowedPath: record.allowedPath }
  }, async (t, site) => {
    const root = `${site.root}/`
    for (let round = 0; round < 2; round++) {
      for (const [url, status, ...paths] of [
        ['/a.txt', 200, '/a.txt'], ['/b.txt', 404, '/b.txt'], ['/d/', 200, '/d/', '/d/index.html'], ['/d', 301, '/d'], ['/none', 404]
      ] as Array<[string, number, ...string[]]>) {
        t.equal((await site.request(url)).status, status, url)
        t.strictSame(record.taken(), under(root, ...paths), url)
      }
    }
  })
})

t.test('may not', async (t) => {
  const call = (app: FastifyInstance) => {
    app.setErrorHandler((error: { message: string, code?: string }, _request, reply) => { reply.code(500).send({ code: error.code, message: error.message }) })
    app.get('/call', (_request, reply) => { reply.sendFile('/a.txt') })
  }
  const urls = ['/a.txt', '/big.bin', '/none', '/d', '/call']
  for (const [name, allowedPath] of [
    ['a promise', async () => true], ['a promise of false', async () => false], ['a promise that fails', async () => { throw new Error('mine') }],
    ['what is like a promise', () => ({ then () {} })]
  ] as Array<[string, unknown]>) {
    siteTest(t, `return ${name}: that would count as true`, allowing({ allowedPath: allowedPath as AllowedPath }, {}, { before: call }), async (t, site) => {
      for (let round = 0; round < 3; round++) {
        for (const url of urls) {
          const response = await site.get(url)
          t.equal(response.statusCode, 500, url)
          t.strictSame(response.json(), {
            code: 'FST_STATIC_INVALID_OPTION_VALUE', message: '"allowedPath" option must return true or false at once, but returned a promise'
          })
          t.notOk('etag' in response.headers)
          t.equal((await site.held()).leases, 0)
        }
      }
    })
  }

  siteTest(t, 'throw without an answer of the error handler', allowing({ allowedPath: () => { throw Object.assign(new Error('mine'), { code: 'EACCES' }) } }, {}, { before: call }), async (t, site) => {
    for (let round = 0; round < 3; round++) {
      for (const url of urls) {
        const response = await site.get(url)
        t.equal(response.statusCode, 500, url)
        t.strictSame(response.json(), { code: 'EACCES', message: 'mine' })
        t.equal((await site.held()).leases, 0)
      }
    }
  })
})

t.test('is asked again when another file answers than the one that was selected', async (t) => {
  interface Meanwhile { happen: (engine: Engine) => void }
  const files = { 'd/one.html': BIG, 'd/two.html': 'two', 'd/three.html': 'three' }
  const index = ['one.html', 'two.html', 'three.html']
  const slowly = (meanwhile: Meanwhile, record: Record, cache: OpenFileCacheOptions): SiteOptions => allowing(record, { index }, {
    files,
    cache,
    before: (app, engine) => app.addHook('preHandler', async (request) => {
      await settled()
      if (request.headers['x-meanwhile'] !== undefined) meanwhile.happen(engine)
    })
  })
  const GONE: Array<[string, Meanwhile['happen']]> = [
    ['all were forgotten', ({ cache, fs }) => {
      fs.unlink('/www/d/one.html')
      cache.clear()
    }],
    ['its descriptor turned out stale', ({ fs }) => {
      fs.unlink('/www/d/one.html')
      fs.fail('fstatSync', 'ESTALE')
    }]
  ]
  for (const [name, happen] of GONE) {
    const meanwhile = { happen }
    const refusing = recorded('/d/two.html')
    siteTest(t, `${name}: and may refuse it`, slowly(meanwhile, refusing, { minUses: 1, memory: false }), async (t, site) => {
      meanwhile.happen = (engine) => {
        meanwhile.happen = () => {}
        happen(engine)
      }
      await makeHot(site, '/d/')
      refusing.taken()
      const response = await site.get('/d/', { 'x-meanwhile': '1' })
      t.equal(response.statusCode, 404)
      t.strictSame(refusing.taken(), under(ROOT, '/d/', '/d/one.html', '/d/', '/d/two.html'))
      t.equal((await site.held()).leases, 0)
      t.strictSame(site.log.filter(({ level }) => level >= 40), [])
    })

    const record = recorded()
    siteTest(t, `${name}: and may allow it`, slowly(meanwhile, record, { minUses: 1, memory: false }), async (t, site) => {
      meanwhile.happen = happen
      await makeHot(site, '/d/')
      record.taken()
      t.match(await site.get('/d/', { 'x-meanwhile': '1' }), { statusCode: 200, body: 'two' })
      t.strictSame(record.taken(), under(ROOT, '/d/', '/d/one.html', '/d/', '/d/two.html'))
    })

    let asked = 0
    siteTest(t, `${name}: and may throw`, slowly(meanwhile, { allowedPath: (path) => { if (path === '/d/two.html') throw new Error(`mine ${++asked}`); return true }, taken: () => [] }, {
      minUses: 1, memory: false
    }), async (t, site) => {
      meanwhile.happen = happen
      await makeHot(site, '/d/')
      const response = await site.get('/d/', { 'x-meanwhile': '1' })
      t.equal(response.statusCode, 500)
      t.equal(response.json().message, 'mine 1')
      t.equal((await site.held()).leases, 0)
    })
  }

  const meanwhile: Meanwhile = { happen: () => {} }
  const record = recorded()
  siteTest(t, 'the same file is not asked about twice', slowly(meanwhile, record, { minUses: 1, memory: false }), async (t, site) => {
    await makeHot(site, '/d/')
    record.taken()
    meanwhile.happen = ({ fs }) => fs.fail('fstatSync', 'ESTALE')
    t.ok((await site.get('/d/', { 'x-meanwhile': '1' })).rawPayload.equals(BIG))
    t.strictSame(record.taken(), under(ROOT, '/d/', '/d/one.html'))
  })
})
