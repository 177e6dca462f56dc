import type { Stats } from 'node:fs'
import fastify from 'fastify'
import type { FastifyError, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type released from '@fastify/static'
import { describe, expect, test } from 'tstyche'
import plugin, { cachedStatic, errors, fastifyStatic } from 'fastify-cached-static'
import type {
  CachedStaticOptions, CodedErrorConstructor, Coding, Errors, EtagFunction, ExtendedInformation, FastifyStaticOptions,
  ListDir, ListFile, ListOptions, ListOptionsHtmlFormat, ListOptionsJsonFormat, ListRender, Root, SendOptions
} from 'fastify-cached-static'
import { OpenFileCache } from 'fastify-cached-static/open-file-cache'
import type {
  Clock, Duration, FileSnapshot, FileSystem, Lease, LookupPolicy, Negative, OpenFileCacheOptions, OpenFileCacheStats
} from 'fastify-cached-static/open-file-cache'

const app = fastify()
const reply = {} as FastifyReply

describe('the plugin', () => {
  test('is the default export and a named one, also by the name of the one in @fastify/static', () => {
    expect(plugin).type.toBeAssignableTo<typeof cachedStatic>()
    expect(plugin.cachedStatic).type.toBe<typeof cachedStatic>()
    expect(fastifyStatic).type.toBe<typeof cachedStatic>()
    expect(plugin.fastifyStatic).type.toBe<typeof cachedStatic>()
    expect(cachedStatic).type.toBe<FastifyPluginAsync<CachedStaticOptions>>()
    expect(plugin.default).type.toBeAssignableTo<typeof cachedStatic>()
    expect(plugin.errors).type.toBe<Errors>()
    expect(errors).type.toBe<Errors>()
  })

  test('is registered with its options', () => {
    expect(app.register).type.toBeCallableWith(plugin, { root: '/srv' })
    expect(app.register).type.toBeCallableWith(cachedStatic, { root: new URL('file:///srv/'), prefix: '/assets/' })
    expect(app.register).type.toBeCallableWith(plugin, () => ({ root: '/srv' }))
    expect(app.register).type.not.toBeCallableWith(plugin, { root: 1 })
    expect(app.register).type.toBeCallableWith(fastifyStatic, { root: ['/srv', new URL('file:///more')], list: false })
    expect(app.register).type.toBeCallableWith(plugin, { serve: false })
    expect(app.register).type.not.toBeCallableWith(plugin, { serve: true })
    expect(app.register).type.not.toBeCallableWith(plugin, { root: '/srv', maxAges: 1 })
    expect(app.register).type.not.toBeCallableWith(plugin, { root: '/srv', start: 1 })
    expect(app.register).type.not.toBeCallableWith(plugin, { root: '/srv', end: 1 })
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
      prefixAvoidTrailingSlash: true,
      serve: true,
      wildcard: false,
      globIgnore: ['**/*.map'],
      serveDotFiles: true,
      redirect: true,
      list: { format: 'html' as const, names: ['index', '/'], render: () => '', extendedFolderInfo: true, jsonFormat: 'extended' as const },
      allowedPath: (pathName: string) => pathName !== '/secret',
      symlinks: 'within-root' as const,
      decorateReply: false,
      suppressWarning: true,
      schemaHide: false,
      constraints: { host: 'example.com' },
      logLevel: 'warn' as const,
      setHeaders: (reply: FastifyReply) => { reply.header('x', '1') },
      onFile: async () => {},
      acceptRanges: true,
      cacheControl: true,
      contentType: false,
      maxAge: '1d',
      immutable: true,
      dotfiles: 'deny' as const,
      etag: false,
      extensions: ['html'],
      index: ['index.html', 'index.htm'],
      lastModified: false,
      maxContentRangeChunkSize: 4096,
      highWaterMark: 4096,
      preCompressed: ['zstd' as const, 'br' as const],
      types: { '.ts': 'text/plain' },
      fallback: 'index.html',
      openFileCache: { max: 10, inactive: '1m', valid: 0, minUses: 1, errors: true, memory: false as const, maxNegative: 1, directories: { max: 1, maxNames: 1 } }
    })
    expect<CachedStaticOptions>().type.toBeAssignableFrom({})
  })

  test('root is a path, a file URL, or several of them; only without routes may it be left out', () => {
    expect<Root>().type.toBe<string | URL | Array<string | URL>>()
    expect<CachedStaticOptions['root']>().type.toBeAssignableFrom<Root | undefined>()
    expect<CachedStaticOptions['root']>().type.toBeAssignableTo<Root | undefined>()
    expect<CachedStaticOptions>().type.toBeAssignableFrom({ serve: true, root: ['/srv', '/more'] })
    expect<CachedStaticOptions>().type.toBeAssignableFrom({ serve: false as const })
    expect<CachedStaticOptions>().type.not.toBeAssignableFrom({ serve: true })
    expect<CachedStaticOptions>().type.not.toBeAssignableFrom({ root: [1] })
  })

  test('a switch is true or false', () => {
    type Switch =
      | 'acceptRanges' | 'cacheControl' | 'contentType' | 'decorateReply' | 'immutable' | 'lastModified'
      | 'prefixAvoidTrailingSlash' | 'redirect' | 'schemaHide' | 'serve' | 'serveDotFiles' | 'suppressWarning' | 'wildcard'
    expect<CachedStaticOptions[Switch]>().type.toBe<boolean | undefined>()
    expect<Pick<CachedStaticOptions, 'redirect'>>().type.not.toBeAssignableFrom({ redirect: 'yes' })
    expect<Pick<CachedStaticOptions, 'wildcard'>>().type.not.toBeAssignableFrom({ wildcard: '**' })
  })

  test('extensions and globIgnore are one or several', () => {
    expect<CachedStaticOptions['extensions']>().type.toBe<string | string[] | false | undefined>()
    expect<CachedStaticOptions['globIgnore']>().type.toBe<string | string[] | undefined>()
  })

  test('symlinks is one of three words', () => {
    expect<CachedStaticOptions['symlinks']>().type.toBe<'follow' | 'within-root' | 'deny' | undefined>()
  })

  test('preCompressed is a switch or a list of codings', () => {
    expect<Coding>().type.toBe<'br' | 'zstd' | 'gzip' | 'deflate'>()
    expect<CachedStaticOptions['preCompressed']>().type.toBe<boolean | Coding[] | undefined>()
  })

  test('allowedPath answers at once, and may be asked of no root', () => {
    expect<NonNullable<CachedStaticOptions['allowedPath']>>().type.toBe<
      (pathName: string, root: string | undefined, request: FastifyRequest) => boolean
    >()
    expect<CachedStaticOptions>().type.not.toBeAssignableFrom({ allowedPath: async () => true })
  })

  test('onFile is given the path and the stat, and may be awaited', () => {
    expect<NonNullable<CachedStaticOptions['onFile']>>().type.toBe<(path: string, stat: Stats) => void | Promise<void>>()
  })

  test('list is a switch, or says how', () => {
    expect<CachedStaticOptions>().type.toBeAssignableFrom({ list: true })
    expect<CachedStaticOptions>().type.toBeAssignableFrom({ list: { names: ['/'] } })
    expect<CachedStaticOptions>().type.toBeAssignableFrom({ list: { render: () => '' } })
    expect<CachedStaticOptions>().type.toBeAssignableFrom({ list: { format: 'json' as const } })
    expect<CachedStaticOptions>().type.toBeAssignableFrom({ list: { format: 'html' as const } })
    expect<CachedStaticOptions>().type.not.toBeAssignableFrom({ list: { format: 'xml' as const } })
    expect<CachedStaticOptions>().type.not.toBeAssignableFrom({ list: { names: 'index.json' } })
    expect<CachedStaticOptions>().type.not.toBeAssignableFrom({ list: { jsonFormat: 'long' as const } })
    expect<CachedStaticOptions>().type.not.toBeAssignableFrom({ list: { render: () => 1 } })
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
    expect<CachedStaticOptions['openFileCache']>().type.toBe<
      Omit<OpenFileCacheOptions, 'links' | 'spelledBelow'> | OpenFileCache | false | undefined
    >()
    expect<CachedStaticOptions['openFileCache']>().type.toBeAssignableFrom<OpenFileCacheOptions>()
    expect(app.register).type.not.toBeCallableWith(plugin, { root: '/srv', openFileCache: { links: { symlinks: 'deny', root: '/srv' } } })
    expect(app.register).type.not.toBeCallableWith(plugin, { root: '/srv', openFileCache: { spelledBelow: '/srv' } })
    expect<CachedStaticOptions>().type.toBeAssignableFrom({ openFileCache: new OpenFileCache() })
    expect<CachedStaticOptions>().type.not.toBeAssignableFrom({ openFileCache: true as const })
    expect<CachedStaticOptions>().type.toBeAssignableFrom({ openFileCache: { directories: false as const } })
    expect<CachedStaticOptions>().type.not.toBeAssignableFrom({ openFileCache: { directories: true as const } })
  })

  test('an option of one reply does not reach the routes', () => {
    expect<keyof SendOptions>().type.toBe<
      'acceptRanges' | 'cacheControl' | 'contentType' | 'dotfiles' | 'end' | 'etag' | 'extensions' | 'highWaterMark' |
      'immutable' | 'index' | 'lastModified' | 'maxAge' | 'maxContentRangeChunkSize' | 'onFile' | 'root' | 'serveDotFiles' |
      'start'
    >()
    expect<SendOptions>().type.toBeAssignableFrom({ maxAge: 1000, root: ['/other', new URL('file:///more')] })
    expect<SendOptions>().type.toBeAssignableFrom({ start: 1, end: 2 })
    expect<SendOptions>().type.not.toBeAssignableFrom({ start: '1' })
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

  // With something in each that @fastify/static, whose overloads are here too, does not take.
  test('reply.sendFile', () => {
    expect(reply.sendFile('a.txt')).type.toBe<FastifyReply>()
    expect(reply.sendFile('a.txt', '/other' as string | URL)).type.toBe<FastifyReply>()
    expect(reply.sendFile('a.txt', new URL('file:///other'))).type.toBe<FastifyReply>()
    expect(reply.sendFile('a.txt', { start: 1, end: 5, root: ['/other'] })).type.toBe<FastifyReply>()
    expect(reply.sendFile('a.txt', {} as SendOptions)).type.toBe<FastifyReply>()
    expect(reply.sendFile('a.txt', '/other', { highWaterMark: 1 })).type.toBe<FastifyReply>()
    expect(reply.sendFile('a.txt', undefined, {} as SendOptions)).type.toBe<FastifyReply>()
    expect(reply.sendFile('a.txt', new URL('file:///other'), {} as SendOptions)).type.toBe<FastifyReply>()
    expect(reply.code(404).sendFile('404.html')).type.toBe<FastifyReply>()
    expect(reply.sendFile).type.not.toBeCallableWith()
    expect(reply.sendFile).type.not.toBeCallableWith(1)
    expect(reply.sendFile).type.not.toBeCallableWith(new URL('file:///a.txt'))
    expect(reply.sendFile).type.not.toBeCallableWith('a.txt', ['/other'])
    expect(reply.sendFile).type.not.toBeCallableWith('a.txt', { prefix: '/' })
    expect(reply.sendFile).type.not.toBeCallableWith('a.txt', '/other', { list: true })
    expect(reply.sendFile).type.not.toBeCallableWith('a.txt', { maxAge: '1h' }, '/other')
  })

  test('reply.download', () => {
    expect(reply.download('a.txt')).type.toBe<FastifyReply>()
    expect(reply.download('a.txt', 'b.txt')).type.toBe<FastifyReply>()
    expect(reply.download('a.txt', { start: 1, end: 5, root: new URL('file:///other') })).type.toBe<FastifyReply>()
    expect(reply.download('a.txt', {} as SendOptions)).type.toBe<FastifyReply>()
    expect(reply.download('a.txt', 'b.txt', { highWaterMark: 1 })).type.toBe<FastifyReply>()
    expect(reply.download('a.txt', undefined, {} as SendOptions)).type.toBe<FastifyReply>()
    expect(reply.download).type.not.toBeCallableWith()
    expect(reply.download).type.not.toBeCallableWith('a.txt', 1)
    expect(reply.download).type.not.toBeCallableWith('a.txt', new URL('file:///b.txt'))
    expect(reply.download).type.not.toBeCallableWith('a.txt', { filename: 'b.txt' })
    expect(reply.download).type.not.toBeCallableWith('a.txt', { maxAge: 0 }, 'b.txt')
  })
})

describe('listings', () => {
  test('are made from directories and files', () => {
    expect<Parameters<ListRender>>().type.toBe<[dirs: ListDir[], files: ListFile[]]>()
    expect<ReturnType<ListRender>>().type.toBe<string>()
    expect<ListRender>().type.not.toBeAssignableFrom(async () => '')
    expect<ListFile>().type.toBe<{ href: string, name: string, stats: Stats }>()
    expect<ListDir>().type.toBeAssignableTo<ListFile>()
    expect<ListDir['extendedInfo']>().type.toBe<ExtendedInformation | undefined>()
    expect<ExtendedInformation>().type.toBe<Record<
      'fileCount' | 'totalFileCount' | 'folderCount' | 'totalFolderCount' | 'totalSize' | 'lastModified', number
    >>()
  })

  test('have options, and more of them by format', () => {
    expect<ListOptions>().type.toBe<{ names?: string[], extendedFolderInfo?: boolean, jsonFormat?: 'names' | 'extended' }>()
    expect<ListOptionsJsonFormat>().type.toBeAssignableTo<ListOptions>()
    expect<ListOptionsHtmlFormat>().type.toBeAssignableTo<ListOptions>()
    expect<ListOptionsJsonFormat['format']>().type.toBe<'json'>()
    expect<ListOptionsHtmlFormat['format']>().type.toBe<'html'>()
    expect<ListOptionsJsonFormat['render']>().type.toBe<ListRender | undefined>()
    expect<ListOptionsHtmlFormat['render']>().type.toBe<ListRender | undefined>()
  })
})

describe('what was written for @fastify/static', () => {
  test('may be registered with this plugin instead, under the same names', () => {
    expect<typeof plugin>().type.toBeAssignableTo<typeof released>()
    expect<FastifyStaticOptions>().type.toBe<CachedStaticOptions>()
    expect(app.register).type.toBeCallableWith(plugin, {} as released.FastifyStaticOptions)
  })

  test('is options of ours', () => {
    expect<FastifyStaticOptions>().type.toBeAssignableFrom<released.FastifyStaticOptions>()
    expect<SendOptions>().type.toBeAssignableFrom<released.SendOptions>()
    expect<ListOptions>().type.toBeAssignableFrom<released.ListOptions>()
    expect<ListOptionsJsonFormat>().type.toBeAssignableFrom<released.ListOptionsJsonFormat>()
    expect<ListOptionsHtmlFormat>().type.toBeAssignableFrom<released.ListOptionsHtmlFormat>()
  })

  test('is of the same types where ours give and theirs take', () => {
    expect<ListRender>().type.toBe<released.ListRender>()
    expect<ListDir>().type.toBe<released.ListDir>()
    expect<ListFile>().type.toBe<released.ListFile>()
    expect<ExtendedInformation>().type.toBe<released.ExtendedInformation>()
  })

  test('finds no option missing', () => {
    expect<keyof FastifyStaticOptions>().type.toBeAssignableFrom<keyof released.FastifyStaticOptions>()
    expect<keyof SendOptions>().type.toBeAssignableFrom<keyof released.SendOptions>()
  })
})

describe('errors', () => {
  test('are constructors, by their codes', () => {
    expect(new errors.FST_STATIC_FORBIDDEN_PATH()).type.toBe<FastifyError>()
    expect({} as unknown instanceof errors.FST_STATIC_INVALID_OPTION).type.toBe<boolean>()
    expect<Errors[keyof Errors]>().type.toBe<CodedErrorConstructor>()
    expect<keyof Errors>().type.toBe<
      'FST_STATIC_INVALID_OPTION' | 'FST_STATIC_INVALID_OPTION_VALUE' | 'FST_STATIC_MULTIROOT_LIST_CONFLICT' |
      'FST_STATIC_CACHE_CONFLICT' | 'FST_STATIC_MALFORMED_PATH' | 'FST_STATIC_INVALID_REDIRECT_URL' |
      'FST_STATIC_FORBIDDEN_PATH' | 'FST_STATIC_PRECONDITION_FAILED' | 'FST_STATIC_RANGE_NOT_SATISFIABLE' |
      'FST_STATIC_READ_FAILED' | 'FST_STATIC_EXHAUSTED'
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
