// Sections A7 (the rest), A9 (security), A10 (P110), A11 (Fastify life-cycle) and A12 (P123) of the public cases, over real
// sockets.
import { pbkdf2 } from 'node:crypto'
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import caching from '@fastify/caching'
import compress from '@fastify/compress'
import cors from '@fastify/cors'
import etag from '@fastify/etag'
import helmet from '@fastify/helmet'
import Fastify from 'fastify'
import t from 'tap'
import cachedStatic from '../lib/index'
import { openSite, siteTest } from './fixtures/live-site'
import type { FastifyInstance } from 'fastify'
import type { LiveSite } from './fixtures/live-site'
import type { CachedStaticOptions } from '../types/index'

type Tap = Parameters<typeof siteTest>[0]

/** Asked for twice: from the disk, and from the cache. */
async function answers (t: Tap, site: LiveSite, path: string, wanted: number | number[], body?: string): Promise<void> {
  for (const way of ['cold', 'warm']) {
    const answer = await site.request(path)
    t.ok([wanted].flat().includes(answer.status), `${way} ${path}: ${answer.status}`)
    if (body !== undefined) t.equal(answer.body.toString(), body, `${way} ${path}`)
  }
}

/** A server over roots of its own below the test's directory. */
async function serving (
  t: Tap, files: Parameters<Tap['testdir']>[0], plugin: (root: string) => CachedStaticOptions,
  body: (site: LiveSite, root: string) => Promise<void>, hooks: Pick<Parameters<typeof openSite>[2] & object, 'before' | 'after' | 'fastify'> = {}
): Promise<void> {
  const root = t.testdir(files)
  const site = await openSite(t, root, { plugin: plugin(root), ...hooks })
  try {
    await body(site, root)
  } finally {
    await site.end(t)
  }
}

t.test('P78 several roots with preCompressed: bounded, never endless', async (t) => {
  const files = { a: { 'x.js': 'plain a' }, b: { 'y.js': 'plain b', 'y.js.gz': 'gzip b' } }
  await serving(t, files, (root) => ({ root: [`${root}/a`, `${root}/b`], preCompressed: true }), async (site) => {
    for (const coding of ['br, gzip', 'gzip', 'identity']) {
      const ask = async (path: string) => await site.request(path, { 'Accept-Encoding': coding })
      t.match(await ask('/x.js'), { status: 200, body: Buffer.from('plain a') }, `${coding}: in the first, without a coding`)
      t.match(await ask('/y.js'), { status: 200, body: Buffer.from(coding === 'identity' ? 'plain b' : 'gzip b') }, `${coding}: in the second`)
      t.equal((await ask('/none.js')).status, 404, `${coding}: in neither`)
    }
  })
})

t.test('P79 options of a call hold on every way to a file', async (t) => {
  const files = { a: { 'x.html': 'x', dir: { 'index.html': 'index' } }, b: { 'y.html': 'y' } }
  const plugin = (root: string): CachedStaticOptions => ({ root: [`${root}/a`, `${root}/b`], preCompressed: true, serve: false })
  await serving(t, files, plugin, async (site) => {
    for (const path of ['/x.html', '/y.html', '/dir']) {
      for (const way of ['cold', 'warm', 'hot']) {
        const aged = await site.request(`/aged${path}`, { 'Accept-Encoding': 'br, gzip' })
        t.match(aged, { status: 200, headers: { 'cache-control': 'public, max-age=60, immutable' } }, `${way} ${path}`)
        const bare = await site.request(`/bare${path}`, { 'Accept-Encoding': 'gzip' })
        t.equal(bare.status, 200, `${way} ${path}`)
        t.equal(bare.headers['cache-control'], undefined, `${way} ${path}: cacheControl false`)
      }
    }
  }, {
    after (app) {
      app.get('/aged/*', (request, reply) => reply.sendFile((request.params as { '*': string })['*'], { maxAge: '1m', immutable: true }))
      app.get('/bare/*', (request, reply) => reply.sendFile((request.params as { '*': string })['*'], { cacheControl: false }))
    }
  })
})

t.test('P80 the index of a directory that is asked for without its slash', async (t) => {
  const files = { only: { 'index.html.br': 'coded' }, both: { 'index.html': 'plain', 'index.html.br': 'coded' } }
  const br = { 'Accept-Encoding': 'br' }
  for (const redirect of [false, true]) {
    await t.test(`redirect ${redirect}`, async (t) => {
      await serving(t, files, (root) => ({ root, preCompressed: true, redirect }), async (site) => {
        for (const directory of ['only', 'both']) {
          const bare = await site.request(`/${directory}?a=b`, br)
          if (redirect) t.match(bare, { status: 301, headers: { location: `/${directory}/?a=b` } })
          else t.match(bare, { status: 200, headers: { 'content-encoding': 'br' }, body: Buffer.from('coded') })
          t.match(await site.request(`/${directory}/`, br), { status: 200, headers: { 'content-encoding': 'br', 'content-type': 'text/html; charset=utf-8' } })
        }
      })
    })
  }
})

const guarded = { admin: { 'secret.txt': 'secret' }, 'open.txt': 'open' }

t.test('A9 what goes around a guard, or out of the root', async (t) => {
  const paths = [
    'P93 /admin%2Fsecret.txt', 'P93 /admin%2fsecret.txt', 'P93 /admin%5Csecret.txt', 'P93 /admin%252Fsecret.txt', 'P93 /admin\\secret.txt',
    'P93 //admin/secret.txt', 'P93 /./admin/secret.txt', 'P96 /..%2f..%2fsecret', 'P96 /%2e%2e/', 'P96 /..%5c..%5c', 'P96 /%252e%252e/',
    'P97 /../private.txt', 'P98 /a//%5c../%5c../etc/passwd', 'P103 /..%2f', 'P103 /sub/../../', 'P104 /open.txt%00.html', 'P104 /%00'
  ]
  for (const list of [false, true]) {
    await t.test(`list ${list}`, async (t) => {
      await serving(t, { public: guarded, 'private.txt': 'private' }, (root) => ({ root: `${root}/public`, list, redirect: true, extensions: ['txt'] }), async (site) => {
        for (const text of paths) {
          const [id, path] = text.split(' ') as [string, string]
          for (const way of ['cold', 'warm']) {
            const { status, body, headers } = await site.request(path)
            t.ok([400, 403, 404].includes(status), `${id} ${way} ${path}: ${status}`)
            t.notMatch(body.toString(), /secret$|private|dirs/, `${id} ${way} ${path}`)
            t.equal(headers.location, undefined)
          }
        }
        t.equal((await site.request('/admin/secret.txt')).status, 401, 'the guard stands')
        t.equal((await site.request('/open.txt')).status, 200)
      }, {
        before: (app) => { app.get('/admin/*', (_request, reply) => reply.code(401).send('no')) }
      })
    })
  }
})

t.test('P95 dot segments taken by the prefix or its parameters', async (t) => {
  await serving(t, { 'secret.txt': 'secret', x: 'x' }, (root) => ({ root, prefix: '/app/:v/' }), async (site) => {
    await answers(t, site, '/app/1/x', 200, 'x')
    for (const path of ['/app/%2e%2e/secret.txt', '/app/../secret.txt', '/app/./x', '/app/1/%2e%2e/%2e%2e/x', '/app//x', '/app/%2e/x']) {
      await answers(t, site, path, [403, 404])
    }
  })
})

t.test('P96 a prefix ends at a slash', async (t) => {
  for (const prefixAvoidTrailingSlash of [false, true]) {
    await serving(t, { x: 'x', '-secret': { x: 'secret' } }, (root) => ({ root, prefix: '/static', prefixAvoidTrailingSlash }), async (site) => {
      await answers(t, site, '/static/x', 200, 'x')
      await answers(t, site, '/static-secret/x', 404)
      await answers(t, site, '/staticx', 404)
    })
  }
})

t.test('P99 P100 names that begin with a dot', async (t) => {
  const files = { '.env': 'key', x: { '.env': 'key' }, '.git': { config: 'c' }, '.well-known': { 'acme-challenge': { t: 'token' } } }
  for (const dotfiles of ['ignore', 'deny'] as const) {
    await serving(t, files, (root) => ({ root, dotfiles, redirect: true }), async (site) => {
      for (const path of ['/.env', '/.env/.', '/./.env', '/x/%2eenv', '/.git/config', '/.git', '/.git/']) await answers(t, site, path, [403, 404])
      await answers(t, site, '/.well-known/acme-challenge/t', 200, 'token')
    })
  }
  await serving(t, files, (root) => ({ root, dotfiles: 'allow' }), async (site) => await answers(t, site, '/.env', 200, 'key'))
})

t.test('P101 links that lead out of the root', { skip: process.platform === 'win32' }, async (t) => {
  for (const [symlinks, inside, outside] of [['follow', 200, 200], ['within-root', 200, 403], ['deny', 403, 403]] as const) {
    await t.test(symlinks, async (t) => {
      const files = { public: { 'a.txt': 'a', d: { 'b.txt': 'b' } }, out: { 'c.txt': 'c', e: { 'f.txt': 'f' } } }
      await serving(t, files, (root) => ({ root: `${root}/public`, symlinks, serve: true }), async (site, root) => {
        const link = (target: string, name: string) => symlinkSync(target, join(root, 'public', name))
        link('a.txt', 'l-in')
        link('d', 'd-in')
        link('../out/c.txt', 'l-out')
        link('../out', 'd-out')
        await answers(t, site, '/a.txt', 200, 'a')
        for (const path of ['/l-in', '/d-in/b.txt']) await answers(t, site, path, inside)
        for (const path of ['/l-out', '/d-out/c.txt', '/d-out/e/f.txt', '/call']) await answers(t, site, path, outside)

        rmSync(join(root, 'public', 'a.txt'))
        link('../out/c.txt', 'a.txt')
        site.cache?.invalidate(join(root, 'public', 'a.txt'))
        await answers(t, site, '/a.txt', outside)
      }, {
        after: (app) => { app.get('/call', (_request, reply) => reply.sendFile('l-out')) }
      })
    })
  }
})

t.test('P102 a redirect stays on the server', async (t) => {
  await serving(t, { dir: { 'index.html': 'x' } }, (root) => ({ root, redirect: true }), async (site) => {
    for (const path of ['//evil.com/%2e%2e', '//dir', '/\\evil.com/..', '///dir', '/%5cevil.com/%2e%2e', '//dir/', '/dir/%2e%2e/dir']) {
      const { status, headers } = await site.request(path)
      t.ok(status >= 400 && status < 500, `${path}: ${status}`)
      t.equal(headers.location, undefined, path)
    }
    for (const way of ['cold', 'warm']) {
      t.match(await site.request('/dir?x=//y'), { status: 301, headers: { location: '/dir/?x=//y' } }, way)
    }
    const absolute = await site.request('http://evil.com/dir?x')
    t.match(absolute, { status: 301, headers: { location: '/dir/?x' } }, 'absolute-form')
  })
  await serving(t, { dir: { 'index.html': 'x' } }, (root) => ({ root, redirect: true }), async (site) => {
    t.match(await site.request('//dir'), { status: 301, headers: { location: '/dir/' } }, 'a router that ignores duplicate slashes')
  }, { fastify: { routerOptions: { ignoreDuplicateSlashes: true } } })
})

t.test('P105 names in Location are escaped', { skip: process.platform === 'win32' }, async (t) => {
  const names = ['<img src=x>', 'a b', 'a\r\nb', 'grün', '"', 'a%b']
  await serving(t, {}, (root) => ({ root, redirect: true }), async (site, root) => {
    for (const name of names) {
      mkdirSync(join(root, name))
      const path = `/${encodeURIComponent(name)}`
      t.match(await site.request(path), { status: 301, headers: { location: `${path}/` } }, JSON.stringify(name))
    }
    // As a careless client writes it.
    t.match(await site.request('/<img%20src=x>'), { status: 301, headers: { location: '/%3Cimg%20src=x%3E/' } })
  })
})

t.test('P106 a guard sees the path that is opened', async (t) => {
  const seen: string[] = []
  const allowedPath = (pathname: string): boolean => {
    seen.push(pathname)
    return !pathname.startsWith('/admin/')
  }
  await serving(t, guarded, (root) => ({ root, allowedPath }), async (site) => {
    await answers(t, site, '/%61dmin/secret.txt', 404)
    await answers(t, site, '/admin/secret.txt', 404)
    await answers(t, site, '/%6Fpen.txt', 200, 'open')
  })
  t.strictSame([...new Set(seen)], ['/admin/secret.txt', '/open.txt'])
})

t.test('P110 the root', async (t) => {
  await t.test('with a slash, as a URL, as several', async (t) => {
    const forms: Array<(root: string) => CachedStaticOptions['root']> = [
      (root) => `${root}/`, (root) => pathToFileURL(root), (root) => pathToFileURL(`${root}/`), (root) => [root, pathToFileURL(`${root}/b`)]
    ]
    for (const form of forms) {
      await serving(t, { x: 'x', b: {} }, (root) => ({ root: form(root) as string }), async (site) => await answers(t, site, '/x', 200, 'x'))
    }
  })
  await t.test('missing at the start: warned of, and served once it is there', async (t) => {
    await serving(t, {}, (root) => ({ root: `${root}/later`, openFileCache: { errors: false } }), async (site, root) => {
      t.match(site.log.filter(({ level }) => level === 40), [{ msg: `"root" path "${join(root, 'later')}" must exist` }])
      await answers(t, site, '/x', 404)
      mkdirSync(join(root, 'later'))
      writeFileSync(join(root, 'later', 'x'), 'x')
      await answers(t, site, '/x', 200, 'x')
    })
  })
  await t.test('none, when nothing is served', async (t) => {
    const app = Fastify()
    t.teardown(() => app.close())
    app.register(cachedStatic, { serve: false })
    app.get('/', (_request, reply) => reply.sendFile('x'))
    t.equal((await app.inject('/')).statusCode, 404)
  })
  await t.test('relative: refused', async (t) => {
    const app = Fastify()
    t.teardown(() => app.close())
    app.register(cachedStatic, { root: 'public' })
    await t.rejects(async () => await app.ready(), { code: 'FST_STATIC_INVALID_OPTION', message: /"root" option must be an absolute path/ })
  })
})

t.test('P111 two registrations', async (t) => {
  const files = { a: { x: 'a' }, b: { x: 'b' } }
  await t.test('in one context: the second says what to set', async (t) => {
    const root = t.testdir(files)
    const app = Fastify()
    t.teardown(() => app.close())
    app.register(cachedStatic, { root: `${root}/a`, prefix: '/a' })
    app.register(cachedStatic, { root: `${root}/b`, prefix: '/b' })
    await t.rejects(async () => await app.ready(), { code: 'FST_STATIC_INVALID_OPTION', message: /"decorateReply" option must be false here/ })
  })
  await t.test('in one context, with decorateReply false, and in child contexts with their own', async (t) => {
    await serving(t, files, (root) => ({ root: `${root}/a`, prefix: '/a' }), async (site) => {
      await answers(t, site, '/a/x', 200, 'a')
      await answers(t, site, '/b/x', 200, 'b')
      await answers(t, site, '/send', 200, 'a')
    }, {
      async after (app) {
        await app.register(cachedStatic, { root: `${t.testdirName}/b`, prefix: '/b', decorateReply: false })
        app.get('/send', (_request, reply) => reply.sendFile('x'))
      }
    })
    const root = t.testdirName
    const app = Fastify()
    t.teardown(() => app.close())
    for (const name of ['a', 'b']) {
      app.register(async (child: FastifyInstance) => {
        child.register(cachedStatic, { root: `${root}/${name}`, prefix: `/${name}` })
        child.get(`/send-${name}`, (_request, reply) => reply.sendFile('x'))
      })
    }
    for (const name of ['a', 'b']) t.equal((await app.inject(`/send-${name}`)).body, name)
  })
})

t.test('P112 several roots', async (t) => {
  const files = { a: { both: 'a' }, b: { both: 'b', 'only-b': 'b' } }
  await serving(t, files, (root) => ({ root: [`${root}/a`, `${root}/b`] }), async (site, root) => {
    for (const path of ['/', '/send/']) {
      await answers(t, site, `${path}both`, 200, 'a')
      await answers(t, site, `${path}only-b`, 200, 'b')
      await answers(t, site, `${path}none`, 404)
    }
    // A negative entry for the first root must not hide the second, nor the second what appears in the first.
    writeFileSync(join(root, 'a', 'only-b'), 'a now')
    site.cache?.invalidate(join(root, 'a', 'only-b'))
    await answers(t, site, '/only-b', 200, 'a now')
  }, {
    after: (app) => { app.get('/send/*', (request, reply) => reply.sendFile((request.params as { '*': string })['*'])) }
  })
  const app = Fastify()
  t.teardown(() => app.close())
  app.register(cachedStatic, { root: [`${t.testdirName}/a`, `${t.testdirName}/b`], list: true })
  await t.rejects(async () => await app.ready(), { code: 'FST_STATIC_MULTIROOT_LIST_CONFLICT' })
})

t.test('P113 prefixes with parameters, and in a prefix', async (t) => {
  const root = t.testdir({ 'x.txt': 'x', d: { 'y.txt': 'y' } })
  const app = Fastify()
  t.teardown(() => app.close())
  app.register(cachedStatic, { root, prefix: '/app/:version' })
  app.register(async (v1: FastifyInstance) => {
    v1.register(cachedStatic, { root, prefix: '/files', decorateReply: false })
    v1.register(cachedStatic, { root, prefix: '/:tenant/files', decorateReply: false })
  }, { prefix: '/v1' })
  app.register(cachedStatic, { root, prefix: '/hosted', constraints: { host: 'example.com' }, decorateReply: false })
  for (const prefix of ['/app/1.2', '/app/a%20b', '/v1/files', '/v1/t/files']) {
    for (const [path, body] of [['/x.txt', 'x'], ['/d/y.txt', 'y']] as const) {
      t.match(await app.inject(prefix + path), { statusCode: 200, body }, prefix + path)
    }
  }
  t.match(await app.inject({ url: '/hosted/x.txt', headers: { host: 'example.com' } }), { statusCode: 200, body: 'x' })
  t.equal((await app.inject({ url: '/hosted/x.txt', headers: { host: 'example.org' } })).statusCode, 404)
})

t.test('P114 a prefix without slash', async (t) => {
  const files = { 'index.html': 'index', 'foo.html': 'foo' }
  for (const [prefixAvoidTrailingSlash, bare] of [[false, 404], [true, 200]] as const) {
    await serving(t, files, (root) => ({ root, prefix: '/tmp', prefixAvoidTrailingSlash }), async (site) => {
      await answers(t, site, '/tmp', bare)
      await answers(t, site, '/tmp/', 200, 'index')
      await answers(t, site, '/tmp/foo.html', 200, 'foo')
      await answers(t, site, '/tmpfoo.html', 404)
    })
  }
})

t.test('P115 a not-found handler that sends a file', async (t) => {
  let calls = 0
  await serving(t, { 'index.html': 'app' }, (root) => ({ root, openFileCache: { errors: false, valid: 0 } }), async (site, root) => {
    t.match(await site.request('/none'), { status: 404, body: Buffer.from('app') })
    t.equal(calls, 1)
    rmSync(join(root, 'index.html'))
    t.equal((await site.request('/none')).status, 404, 'without the file: a plain 404')
    t.equal(calls, 2, 'the handler once for each')
  }, {
    before (app) {
      app.setNotFoundHandler((_request, reply) => {
        calls++
        return reply.code(404).sendFile('index.html')
      })
    }
  })
})

t.test('P116 a status that was set', async (t) => {
  await serving(t, { '404.html': 'not here' }, (root) => ({ root, serve: false }), async (site) => {
    const first = await site.request('/')
    const fields: Array<Record<string, string>> = [
      {}, { Range: 'bytes=0-1' }, { 'If-None-Match': String(first.headers.etag) }, { 'If-None-Match': '*', Range: 'bytes=99-' }, { 'If-Match': '"none"' }
    ]
    for (const headers of fields) {
      for (const way of ['cold', 'warm']) {
        const answer = await site.request('/', headers)
        t.match(answer, { status: 404, body: Buffer.from('not here'), headers: { 'content-length': '8' } }, `${way} ${JSON.stringify(headers)}`)
        t.equal(answer.headers['content-range'], undefined)
      }
    }
  }, {
    after: (app) => { app.get('/', (_request, reply) => reply.code(404).sendFile('404.html')) }
  })
})

t.test('P117 what setHeaders sets wins on the wire', async (t) => {
  const setHeaders: CachedStaticOptions['setHeaders'] = (reply) => {
    reply.headers({ 'cache-control': 'private', etag: '"theirs"', 'content-type': 'text/x-own' })
  }
  await serving(t, { 'a.txt': 'a' }, (root) => ({ root, setHeaders }), async (site) => {
    for (const way of ['cold', 'warm', 'hot']) {
      t.match(await site.request('/a.txt'), { status: 200, headers: { 'cache-control': 'private', etag: '"theirs"', 'content-type': 'text/x-own' } }, way)
    }
    t.equal((await site.request('/a.txt', { 'If-None-Match': '"theirs"' })).status, 200, 'judged by our tag')
  })
})

t.test('P118 names for download', async (t) => {
  const names = ['отчёт "1".pdf', 'a\r\nb.pdf', '😀.pdf', '100%.pdf', 'x;y.pdf', '\ud800.pdf', 'naïve.pdf', '']
  await serving(t, { 'x.pdf': 'pdf' }, (root) => ({ root, serve: false }), async (site) => {
    for (const [i, name] of names.entries()) {
      const { status, headers } = await site.request(`/${i}`)
      t.equal(status, 200, JSON.stringify(name))
      const field = String(headers['content-disposition'])
      t.match(field, /^attachment(?:;|$)/)
      t.notMatch(field, /[^\x20-\x7e\xa0-\xff]/, `${JSON.stringify(name)}: ${field}`)
      if (/[^\0-\xff]/.test(name)) t.match(field, /filename\*=UTF-8''[\w!#$%&+.^`|~-]+$/)
    }
  }, {
    after (app) {
      for (const [i, name] of names.entries()) app.get(`/${i}`, (_request, reply) => reply.download('x.pdf', name))
    }
  })
})

t.test('P119 beside plugins that change answers', async (t) => {
  const plugins = [[caching], [etag], [helmet], [cors], [compress]] as const
  for (const order of ['before', 'after'] as const) {
    const register = async (app: FastifyInstance): Promise<void> => {
      for (const [plugin] of plugins) await app.register(plugin as typeof cors)
    }
    await serving(t, { 'a.txt': 'text '.repeat(1000) }, (root) => ({ root }), async (site) => {
      for (const way of ['cold', 'warm', 'hot']) {
        for (const coding of ['identity', 'gzip']) {
          const answer = await site.request('/a.txt', { 'Accept-Encoding': coding })
          t.equal(answer.status, 200, `${order} ${way} ${coding}`)
          t.equal(String(answer.headers.etag).split(',').length, 1, 'one entity-tag')
          const again = await site.request('/a.txt', { 'Accept-Encoding': coding, 'If-None-Match': String(answer.headers.etag) })
          t.match(again, { status: 304, body: Buffer.alloc(0) }, `${order} ${way} ${coding}`)
        }
      }
    }, { [order]: register })
  }
})

t.test('P120 asynchronous handlers', async (t) => {
  const handlers: Record<string, (app: FastifyInstance) => void> = {
    'that return': (app) => {
      app.setNotFoundHandler(async (_request, reply) => { reply.code(404); return 'ours' })
      app.setErrorHandler(async (_error, _request, reply) => { reply.code(403); return 'ours' })
    },
    'that throw': (app) => {
      app.setNotFoundHandler(async () => { throw Object.assign(new Error('ours'), { statusCode: 404 }) })
      app.setErrorHandler(async () => { throw Object.assign(new Error('ours'), { statusCode: 403 }) })
    }
  }
  for (const [name, before] of Object.entries(handlers)) {
    await t.test(name, async (t) => {
      const root = t.testdir({})
      const log: Array<{ level: number, msg: string }> = []
      const app = Fastify({ logger: { stream: { write: (line: string) => { log.push(JSON.parse(line)) } } } }) as unknown as FastifyInstance
      t.teardown(() => app.close())
      before(app)
      await app.register(cachedStatic, { root, index: false })
      for (const way of ['cold', 'warm']) {
        t.match((await app.inject('/none')).body, 'ours', way)
        t.match((await app.inject('/')).body, 'ours', way)
      }
      t.strictSame(log.filter(({ msg }) => /already sent/.test(msg)), [], 'one reply each')
    })
  }
})

t.test('P121 a directory without index, in several roots', async (t) => {
  for (const [redirect, status] of [[false, 404], [true, 301]] as const) {
    await serving(t, { a: { css: { x: 'x' } }, b: {} }, (root) => ({ root: [`${root}/a`, `${root}/b`], redirect }), async (site) => {
      await answers(t, site, '/css', status)
      await answers(t, site, '/css/', 404)
    })
  }
})

t.test('P122 fields that hooks set', async (t) => {
  await serving(t, { 'a.txt': 'a' }, (root) => ({ root, contentType: false }), async (site) => {
    for (const way of ['cold', 'warm', 'hot']) {
      t.match(await site.request('/a.txt'), { status: 200, headers: { 'x-a': 'early', 'x-b': 'late', 'content-type': 'text/x-own' } }, way)
    }
  }, {
    before (app) {
      app.addHook('onRequest', async (_request, reply) => { reply.headers({ 'x-a': 'early', 'content-type': 'text/x-own' }) })
      app.addHook('onSend', async (_request, reply) => { reply.header('x-b', 'late') })
    }
  })
})

t.test('P123 all threads of the pool are busy', async (t) => {
  siteTest(t, 'what is hot is answered before any of them is free', {
    files: { 'a.css': 'a{}' }, plugin: { openFileCache: { errors: '1m' } }
  }, async (t, site) => {
    for (let round = 0; round < 3; round++) for (const path of ['/a.css', '/none']) await site.request(path)
    let free = 0
    const jobs = Array.from({ length: 16 }, () => new Promise<void>((resolve, reject) => {
      pbkdf2('', '', 400_000, 64, 'sha512', (error) => {
        free++
        if (error === null) resolve()
        else reject(error)
      })
    }))
    t.match(await site.request('/a.css'), { status: 200 })
    t.match(await site.request('/none'), { status: 404 })
    t.equal(free, 0)
    await Promise.all(jobs)
  })
})
