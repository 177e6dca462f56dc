import type { Stats } from 'node:fs'
import fastify from 'fastify'
import type { FastifyReply } from 'fastify'
import { describe, expect, test } from 'tstyche'
import plugin, { cachedStatic, errors } from 'fastify-cached-static'
import type { CachedStaticOptions, Errors, EtagFunction, SendOptions } from 'fastify-cached-static'
import { OpenFileCache } from 'fastify-cached-static/open-file-cache'
import type {
  Clock, Duration, FileSnapshot, FileSystem, Lease, LookupPolicy, Negative, OpenFileCacheOptions, OpenFileCacheStats
} from 'fastify-cached-static/open-file-cache'

const app = fastify()
const reply = {} as FastifyReply

describe('the plugin', () => {
  test('is the default export and a named one', () => {
    expect(plugin).type.toBeAssignableTo<typeof cachedStatic>()
    expect(plugin.cachedStatic).type.toBe<typeof cachedStatic>()
    expect(plugin.default).type.toBeAssignableTo<typeof cachedStatic>()
    expect(plugin.errors).type.toBe<Errors>()
    expect(errors).type.toBe<Errors>()
  })

  test('is registered with its options', () => {
    expect(app.register).type.toBeCallableWith(plugin, { root: '/srv' })
    expect(app.register).type.toBeCallableWith(cachedStatic, { root: new URL('file:///srv/'), prefix: '/assets/' })
    expect(app.register).type.toBeCallableWith(plugin, () => ({ root: '/srv' }))
    expect(app.register).type.not.toBeCallableWith(plugin, { root: 1 })
    expect(app.register).type.not.toBeCallableWith(plugin, { root: '/srv', maxAges: 1 })
  })

  test('also in a server of HTTP/2', () => {
    expect(fastify({ http2: true }).register).type.toBeCallableWith(plugin, { root: '/srv' })
  })
})

describe('options', () => {
  test('all of them together', () => {
    expect<CachedStaticOptions>().type.toBeAssignableFrom({
      root: '/srv',
      prefix: '/',
      serve: true,
      decorateReply: false,
      acceptRanges: true,
      cacheControl: true,
      maxAge: '1d',
      immutable: true,
      dotfiles: 'deny' as const,
      etag: false,
      index: ['index.html', 'index.htm'],
      lastModified: false,
      maxContentRangeChunkSize: 4096,
      preCompressed: ['zstd' as const, 'br' as const],
      types: { '.ts': 'text/plain' },
      fallback: 'index.html',
      openFileCache: { max: 10, inactive: '1m', valid: 0, minUses: 1, errors: true, memory: false as const, maxNegative: 1, directories: { max: 1, maxNames: 1 } }
    })
    expect<CachedStaticOptions>().type.toBeAssignableFrom({})
  })

  test('a duration is milliseconds or a string', () => {
    expect<Duration>().type.toBe<number | string>()
    expect<CachedStaticOptions['maxAge']>().type.toBe<Duration | undefined>()
    expect<CachedStaticOptions>().type.not.toBeAssignableFrom({ maxAge: true })
  })

  test('dotfiles is one of three words', () => {
    expect<CachedStaticOptions['dotfiles']>().type.toBe<'allow' | 'deny' | 'ignore' | undefined>()
  })

  test('index is a name, several, or false', () => {
    expect<CachedStaticOptions['index']>().type.toBe<string | string[] | false | undefined>()
    expect<CachedStaticOptions>().type.not.toBeAssignableFrom({ index: true as const })
  })

  test('etag is a switch or a function of a path and its stat', () => {
    expect<CachedStaticOptions['etag']>().type.toBe<boolean | EtagFunction | undefined>()
    expect<EtagFunction>().type.toBe<(path: string, stat: Stats) => string | undefined>()
    expect<CachedStaticOptions>().type.not.toBeAssignableFrom({ etag: async () => 'W/"1"' })
  })

  test('setHeaders is given the reply, the path and the stat', () => {
    expect<NonNullable<CachedStaticOptions['setHeaders']>>().type.toBe<(reply: FastifyReply, path: string, stat: Stats) => void>()
  })

  test('openFileCache is options, an instance, or false', () => {
    expect<CachedStaticOptions['openFileCache']>().type.toBe<OpenFileCacheOptions | OpenFileCache | false | undefined>()
    expect<CachedStaticOptions>().type.toBeAssignableFrom({ openFileCache: new OpenFileCache() })
    expect<CachedStaticOptions>().type.not.toBeAssignableFrom({ openFileCache: true as const })
    expect<CachedStaticOptions>().type.toBeAssignableFrom({ openFileCache: { directories: false as const } })
    expect<CachedStaticOptions>().type.not.toBeAssignableFrom({ openFileCache: { directories: true as const } })
  })

  test('an option of one reply does not reach the routes', () => {
    expect<SendOptions>().type.toBeAssignableFrom({ maxAge: 1000, root: '/other' })
    expect<SendOptions>().type.not.toHaveProperty('prefix')
    expect<SendOptions>().type.not.toHaveProperty('openFileCache')
    expect<SendOptions>().type.not.toHaveProperty('setHeaders')
  })
})

describe('decorators', () => {
  test('the shared cache', () => {
    expect(app.openFileCache).type.toBe<OpenFileCache>()
    expect(app.openFileCache.stats()).type.toBe<OpenFileCacheStats>()
    expect(app.openFileCache.stats()).type.toBeAssignableTo<Record<'directories' | 'names' | 'directoryHits' | 'negativeHits', number>>()
  })

  test('reply.sendFile', () => {
    expect(reply.sendFile('a.txt')).type.toBe<FastifyReply>()
    expect(reply.sendFile('a.txt', new URL('file:///other'))).type.toBe<FastifyReply>()
    expect(reply.sendFile('a.txt', '/other')).type.toBe<FastifyReply>()
    expect(reply.sendFile('a.txt', { maxAge: '1h' })).type.toBe<FastifyReply>()
    expect(reply.sendFile('a.txt', '/other', { immutable: true })).type.toBe<FastifyReply>()
    expect(reply.code(404).sendFile('404.html')).type.toBe<FastifyReply>()
    expect(reply.sendFile).type.not.toBeCallableWith()
    expect(reply.sendFile).type.not.toBeCallableWith('a.txt', { prefix: '/' })
    expect(reply.sendFile).type.not.toBeCallableWith('a.txt', { maxAge: '1h' }, '/other')
  })

  test('reply.download', () => {
    expect(reply.download('a.txt')).type.toBe<FastifyReply>()
    expect(reply.download('a.txt', 'b.txt')).type.toBe<FastifyReply>()
    expect(reply.download('a.txt', { maxAge: 0 })).type.toBe<FastifyReply>()
    expect(reply.download('a.txt', 'b.txt', { dotfiles: 'allow' })).type.toBe<FastifyReply>()
    expect(reply.download).type.not.toBeCallableWith('a.txt', 1)
  })
})

describe('errors', () => {
  test('are constructors', () => {
    expect(new errors.FORBIDDEN_PATH()).type.toBeAssignableTo<Error>()
    expect<keyof Errors>().type.toBe<
      'INVALID_OPTION' | 'INVALID_OPTION_VALUE' | 'CACHE_CONFLICT' | 'MALFORMED_PATH' | 'FORBIDDEN_PATH' |
      'PRECONDITION_FAILED' | 'RANGE_NOT_SATISFIABLE' | 'READ_FAILED' | 'EXHAUSTED'
    >()
  })

  test('cannot be replaced', () => {
    expect<Errors>().type.toBe<Readonly<Errors>>()
  })
})

describe('the cache alone', () => {
  const cache = new OpenFileCache({ valid: '5s', memory: { max: 1024, maxFileSize: 64 } })

  test('is made from options, and a world for tests', () => {
    expect(OpenFileCache).type.toBeConstructableWith()
    expect(OpenFileCache).type.toBeConstructableWith({ links: { symlinks: 'deny', root: '/srv' } })
    expect(OpenFileCache).type.toBeConstructableWith({}, { clock: {} as Clock })
    expect(OpenFileCache).type.toBeConstructableWith({}, { fileSystem: {} as FileSystem })
    expect(OpenFileCache).type.not.toBeConstructableWith({ maximum: 1 })
    expect(OpenFileCache).type.not.toBeConstructableWith({ memory: true })
    expect(OpenFileCache).type.not.toBeConstructableWith({ links: { symlinks: 'allow', root: '/srv' } })
  })

  test('looks up, leases and opens', () => {
    expect(cache.policy({ valid: 0 })).type.toBe<LookupPolicy>()
    expect(cache.policy).type.not.toBeCallableWith({ max: 1 })
    expect(cache.lookup('/a')).type.toBe<FileSnapshot | Negative | undefined>()
    expect(cache.lease('/a', cache.policy())).type.toBe<Lease | undefined>()
    expect(cache.open('/a')).type.toBe<Promise<Lease | Negative>>()
    expect(cache.lease).type.not.toBeCallableWith('/a', { valid: '5s' })
  })

  test('forgets and closes', () => {
    expect(cache.invalidate).type.toBeCallableWith('/a')
    expect(cache.invalidate).type.toBeCallableWith({ under: '/a' })
    expect(cache.clear()).type.toBe<void>()
    expect(cache.close()).type.toBe<Promise<void>>()
  })

  test('a snapshot is told from a negative entry by its kind', () => {
    const known = cache.lookup('/a')
    if (known?.kind === 'negative') expect(known).type.toBe<Negative>()
    else expect(known).type.toBe<FileSnapshot | undefined>()
  })

  test('a lease is told from a negative entry by its errno', () => {
    const answer = {} as Lease | Negative
    if ('errno' in answer) expect(answer).type.toBe<Negative>()
    else expect(answer).type.toBe<Lease>()
  })

  test('a lease tells what it holds', () => {
    expect<Lease['state']>().type.toBe<'open' | 'held' | 'metadata-only'>()
    expect<Lease['bytes']>().type.toBe<Buffer | undefined>()
    expect<ReturnType<Lease['current']>>().type.toBe<FileSnapshot | Promise<FileSnapshot>>()
  })

  test('nothing of it can be written to', () => {
    expect<FileSnapshot>().type.toBe<Readonly<FileSnapshot>>()
    expect<LookupPolicy>().type.toBe<Readonly<LookupPolicy>>()
    expect<Negative>().type.toBe<Readonly<Negative>>()
  })
})
