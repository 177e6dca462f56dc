import { join } from 'node:path'
import Fastify from 'fastify'
import t from 'tap'
import cachedStatic from '../lib/index'
import { CACHE_CONFLICT } from '../lib/errors'
import { OpenFileCache } from '../lib/open-file-cache'
import { joinCache } from '../lib/shared-cache'
import { descriptorsUnder, hasProcfs, until } from './fixtures/files'
import { fakeWorld } from './fixtures/fake-world'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { CachedStaticOptions } from '../types/index'
import type { OpenFileCacheOptions } from '../types/open-file-cache'

const FILES = { one: { 'a.txt': '1', 'big.bin': 'b'.repeat(200_000) }, two: { 'a.txt': '2' } }

/** An application with a mount for each of these options, at `/0/`, `/1/`, … */
function mounted (t: Test, ...mounts: CachedStaticOptions[]): { app: FastifyInstance, root: string } {
  const root = t.testdir(FILES)
  const app: FastifyInstance = Fastify()
  for (const [i, options] of mounts.entries()) {
    app.register(cachedStatic, { root: join(root, 'one'), prefix: `/${i}/`, decorateReply: i === 0, ...options })
  }
  t.teardown(() => app.close())
  return { app, root }
}

/** As much of an application as is asked: contexts of one application have one server. */
const context = (server = {}) => ({ server }) as FastifyInstance

t.test('registrations below one application', async (t) => {
  t.test('share the cache that the first of them made', async (t) => {
    const { app, root } = mounted(t, {}, {}, { root: '/', dotfiles: 'allow' })
    await app.ready()
    const { openFileCache } = app
    t.ok(openFileCache instanceof OpenFileCache)
    t.equal((await app.inject('/0/a.txt')).body, '1')
    t.match(openFileCache.stats(), { misses: 1, hits: 0, entries: 1 })
    t.equal((await app.inject('/1/a.txt')).body, '1')
    t.equal((await app.inject(`/2${root}/one/a.txt`)).body, '1', 'by path, whatever the root')
    t.match(openFileCache.stats(), { misses: 1, hits: 2, entries: 1 })
  })

  t.test('share it in contexts that are siblings too, and each context sees it', async (t) => {
    const root = t.testdir(FILES)
    const app: FastifyInstance = Fastify()
    t.teardown(() => app.close())
    const seen: unknown[] = []
    for (const prefix of ['/x', '/y']) {
      app.register(async (child) => {
        await child.register(cachedStatic, { root: join(root, 'one') })
        seen.push(child.openFileCache)
      }, { prefix })
    }
    await app.ready()
    t.equal(seen.length, 2)
    t.ok(seen[0] instanceof OpenFileCache)
    t.equal(seen[0], seen[1])
    t.notOk(app.hasDecorator('openFileCache'), 'but not the context above')
    await app.inject('/x/a.txt')
    t.equal((await app.inject('/y/a.txt')).body, '1')
    t.match((seen[0] as OpenFileCache).stats(), { misses: 1, hits: 1 })
  })

  t.test('share none with those of another application', async (t) => {
    const one = mounted(t, {}).app
    const two = mounted(t, {}).app
    await one.ready()
    await two.ready()
    t.not(one.openFileCache, two.openFileCache)
  })

  t.test('may ask for the capacity that is there, in any words, or for none', async (t) => {
    for (const openFileCache of [
      {}, { max: 50 }, { inactive: 60_000 }, { memory: { max: 1000, maxFileSize: 1000 } }, { memory: { max: 1000 } }, { maxNegative: 10_000 }
    ]) {
      const { app } = mounted(t, { openFileCache: { max: 50, inactive: '1m', memory: { max: 1000 } } }, { openFileCache })
      await t.resolves(async () => { await app.ready() })
    }
  })

  t.test('may not ask for another capacity: the error names it, and what to do', async (t) => {
    const cases: Array<[OpenFileCacheOptions, string]> = [
      [{ max: 51 }, '"openFileCache.max"'],
      [{ inactive: '2m' }, '"openFileCache.inactive"'],
      [{ maxNegative: 5 }, '"openFileCache.maxNegative"'],
      [{ memory: false }, '"openFileCache.memory"'],
      [{ memory: { max: 999 } }, '"openFileCache.memory"'],
      [{ memory: { max: 1000, maxFileSize: 10 } }, '"openFileCache.memory"'],
      [{ max: 1, memory: false, valid: 0 }, '"openFileCache.max", "openFileCache.memory"']
    ]
    for (const [openFileCache, names] of cases) {
      const { app } = mounted(t, { openFileCache: { max: 50, inactive: '1m', memory: { max: 1000 } } }, { openFileCache })
      await t.rejects(async () => { await app.ready() }, {
        code: 'FST_STATIC_CACHE_CONFLICT',
        statusCode: 500,
        message: `the cache that an earlier registration made has another ${names}; leave it out here, or pass one ` +
          'OpenFileCache instance as "openFileCache" to both'
      })
    }
  })

  t.test('are refused for a wrong option of the cache, whether they make it or join it', async (t) => {
    for (const [openFileCache, message] of [
      [{ max: 0 }, '"openFileCache.max" option must be a whole number >= 1, but is 0'],
      [{ valid: 'x' }, '"openFileCache.valid" option must be a duration (milliseconds >= 0, or a text such as ' +
        '\'20s\', \'500ms\', \'1m\'), but is "x"'],
      [{ minUses: 0 }, '"openFileCache.minUses" option must be a whole number >= 1, but is 0'],
      [{ maximum: 5 }, '"openFileCache.maximum" option is unknown; "openFileCache" may have: max, inactive, valid, ' +
        'minUses, errors, memory, maxNegative, directories'],
      [[], '"openFileCache" option must be an object, but is an array']
    ] as Array<[OpenFileCacheOptions, string]>) {
      for (const mounts of [[{ openFileCache }], [{}, { openFileCache }]]) {
        const { app } = mounted(t, ...mounts)
        await t.rejects(async () => { await app.ready() }, { code: 'FST_STATIC_INVALID_OPTION_VALUE', message })
      }
    }
  })
})

t.test('valid, minUses and errors are each registration\'s own', async (t) => {
  t.test('and not those of the first', async (t) => {
    const fastify = context()
    const first = joinCache(fastify, { valid: 0, minUses: 7, errors: false })
    const second = joinCache(fastify, {})
    const third = joinCache(fastify, { valid: '5s', minUses: 1, errors: true })
    t.equal(second.cache, first.cache)
    t.equal(third.cache, first.cache)
    t.strictSame(first.policy, { valid: 0, minUses: 7, errors: 0, links: undefined, spelledBelow: undefined })
    t.strictSame(second.policy, { valid: 20_000, minUses: 2, errors: 1000, links: undefined, spelledBelow: undefined })
    t.strictSame(third.policy, { valid: 5000, minUses: 1, errors: 5000, links: undefined, spelledBelow: undefined })
    for (const { leave } of [first, second, third]) await leave()
  })

  t.test('an option of value undefined means its default here too', async (t) => {
    const fastify = context()
    const options = { valid: undefined, minUses: undefined, errors: undefined, max: undefined, memory: undefined }
    const first = joinCache(fastify, { valid: 5, max: 3 })
    const second = joinCache(fastify, options as unknown as OpenFileCacheOptions)
    t.strictSame(second.policy, { valid: 20_000, minUses: 2, errors: 1000, links: undefined, spelledBelow: undefined })
    await first.leave()
    await second.leave()
  })

  t.test('so that one mount may check each time beside one that does not', async (t) => {
    const { app } = mounted(t, { openFileCache: { valid: 0 } }, {})
    await app.ready()
    for (let i = 0; i < 3; i++) await app.inject('/0/a.txt')
    const { revalidations } = app.openFileCache.stats()
    t.ok(revalidations >= 2)
    for (let i = 0; i < 3; i++) await app.inject('/1/a.txt')
    t.equal(app.openFileCache.stats().revalidations, revalidations)
  })
})

t.test('a cache that was passed', async (t) => {
  t.test('is used with its own policy, seen by the application, and not closed', async (t) => {
    const openFileCache = new OpenFileCache({ valid: 7, minUses: 1 })
    t.teardown(() => openFileCache.close())
    const { app } = mounted(t, { openFileCache })
    await app.ready()
    t.equal(app.openFileCache, openFileCache)
    await app.inject('/0/a.txt')
    t.match(openFileCache.stats(), { misses: 1, entries: 1 })
    t.equal(joinCache(context(), openFileCache).policy.valid, 7)
    await app.close()
    t.equal(openFileCache.stats().entries, 1)
  })

  t.test('may be shared by applications, and stand beside the shared one', async (t) => {
    const openFileCache = new OpenFileCache({ minUses: 1 })
    t.teardown(() => openFileCache.close())
    const { app } = mounted(t, { openFileCache }, { openFileCache: { max: 3 } }, {})
    await app.ready()
    t.equal(app.openFileCache, openFileCache, 'the first one is seen')
    await app.inject('/1/a.txt')
    await app.inject('/2/a.txt')
    t.equal(openFileCache.stats().entries, 0)
    await app.inject('/0/a.txt')
    t.equal(openFileCache.stats().entries, 1)
  })

  t.test('is known by its shape, as one of another copy of this package', async (t) => {
    const cache = new OpenFileCache({}, fakeWorld())
    const other = { lookup () {}, policy: () => cache.policy() } as unknown as OpenFileCache
    t.equal(joinCache(context(), other).cache, other)
  })

  t.test('is left open when the registration leaves', async (t) => {
    const world = fakeWorld()
    world.fileSystem.write('/a', 'a')
    const cache = new OpenFileCache({ minUses: 1 }, world)
    const { leave } = joinCache(context(), cache)
    await leave()
    const lease = await cache.open('/a')
    if (lease.kind !== 'negative') lease.release()
    t.equal(cache.stats().entries, 1)
    await cache.close()
  })
})

t.test('openFileCache: false', async (t) => {
  t.test('remembers nothing, and shows no cache', async (t) => {
    const use = joinCache(context(), false)
    t.equal(use.isPublic, false)
    t.strictSame(use.policy, { valid: 0, minUses: 2, errors: 0, links: undefined, spelledBelow: undefined })
    const { app } = mounted(t, { openFileCache: false })
    await app.ready()
    t.notOk(app.hasDecorator('openFileCache'))
    await use.leave()
  })

  t.test('opens, sends and closes for each request', { skip: !hasProcfs && 'needs /proc' }, async (t) => {
    const { app, root } = mounted(t, { openFileCache: false })
    for (let i = 0; i < 4; i++) {
      for (const [url, length] of [['/0/a.txt', 1], ['/0/big.bin', 200_000]] as const) {
        const response = await app.inject(url)
        t.match(response, { statusCode: 200, headers: { 'content-length': String(length) } })
        t.equal((await app.inject({ method: 'HEAD', url })).statusCode, 200)
        t.equal((await app.inject('/0/none')).statusCode, 404)
      }
    }
    await app.close()
    t.ok(await until(() => descriptorsUnder(root).length === 0))
  })

  t.test('leaves no descriptor when a hook answers 401', { skip: !hasProcfs && 'needs /proc' }, async (t) => {
    const root = t.testdir(FILES)
    const app: FastifyInstance = Fastify()
    t.teardown(() => app.close())
    app.addHook('preHandler', async (_request, reply) => await reply.code(401).send('who?'))
    app.register(cachedStatic, { root, openFileCache: false })
    for (const url of ['/one/a.txt', '/one/big.bin', '/none']) t.equal((await app.inject(url)).statusCode, 401)
    await app.close()
    t.ok(await until(() => descriptorsUnder(root).length === 0))
  })

  t.test('beside others leaves them their cache', async (t) => {
    const { app } = mounted(t, { openFileCache: false }, {})
    await app.ready()
    await app.inject('/0/a.txt')
    t.equal(app.openFileCache.stats().misses, 0)
    await app.inject('/1/a.txt')
    t.equal(app.openFileCache.stats().misses, 1)
  })
})

t.test('the end', async (t) => {
  const isOpen = async (cache: ReturnType<typeof joinCache>['cache'], path: string): Promise<boolean> => {
    const lease = await cache.open(path)
    if (lease.kind !== 'negative') lease.release()
    // A closed cache answers, and keeps nothing.
    return cache.stats().entries > 0
  }

  t.test('comes with the last registration, not before', async (t) => {
    const path = join(t.testdir(FILES), 'one/a.txt')
    const server = {}
    const uses = [joinCache(context(server), {}), joinCache(context(server), {}), joinCache(context(server), { valid: 5 })]
    const [{ cache }] = uses as [typeof uses[0] & {}]
    for (const { leave } of uses) {
      t.equal(await isOpen(cache, path), true)
      await leave()
    }
    t.equal(await isOpen(cache, path), false)
  })

  t.test('does not wait for a registration that was refused', async (t) => {
    const path = join(t.testdir(FILES), 'one/a.txt')
    const fastify = context()
    const { cache, leave } = joinCache(fastify, {})
    for (const wrong of [{ max: 5 }, { valid: 'x' }, { links: 5 }, { maximum: 5 }]) {
      t.throws(() => joinCache(fastify, wrong as unknown as OpenFileCacheOptions))
    }
    t.throws(() => joinCache(fastify, { max: 5 }), CACHE_CONFLICT)
    await leave()
    t.equal(await isOpen(cache, path), false)
  })

  t.test('gives every descriptor back', { skip: !hasProcfs && 'needs /proc' }, async (t) => {
    const { app, root } = mounted(t, { openFileCache: { minUses: 1 } }, {})
    for (let i = 0; i < 3; i++) await app.inject('/0/big.bin')
    t.ok(await until(() => descriptorsUnder(root).length === 1))
    await app.close()
    t.ok(await until(() => descriptorsUnder(root).length === 0))
  })

  t.test('may come before a request is answered, which is served all the same', { skip: !hasProcfs && 'needs /proc' }, async (t) => {
    for (const url of ['/one/a.txt', '/one/big.bin', '/one/none']) {
      for (const openFileCache of [{ minUses: 1 }, false as const]) {
        const root = t.testdir(FILES)
        const app: FastifyInstance = Fastify()
        app.register(cachedStatic, { root, openFileCache })
        let isLast = false
        app.addHook('preHandler', async () => { if (isLast) await app.close() })
        await app.inject(url)
        await app.inject(url)
        isLast = true
        const response = await app.inject(url)
        const length = { '/one/a.txt': 1, '/one/big.bin': 200_000 }[url]
        t.equal(response.statusCode, length === undefined ? 404 : 200, url)
        if (length !== undefined) t.equal(response.rawPayload.length, length)
        t.ok(await until(() => descriptorsUnder(root).length === 0), 'and every descriptor was closed')
      }
    }
  })
})
