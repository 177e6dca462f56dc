import { isAbsolute, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { duration, refuse } from './cache-options'
import { CODING_SUFFIX } from './content-coding'
import { INVALID_OPTION } from './errors'
import { childPath } from './resolve-path'
import type { CachedStaticOptions, EtagFunction, SendOptions } from '../types/index'
import type { OpenFileCache as Cache } from '../types/open-file-cache'
import type { Coding } from './content-coding'
import type { DotfilesPolicy, TargetPath } from './resolve-path'

/** What holds for one response: a registration's options, or those with a call's own over them. */
export interface SendSettings {
  readonly root: string | undefined
  readonly acceptRanges: boolean
  /** Value of the Cache-Control field. */
  readonly cacheControl: string | undefined
  readonly dotfiles: DotfilesPolicy
  readonly etag: boolean | EtagFunction
  /** Names that stand for a directory, in order. */
  readonly index: readonly string[]
  readonly lastModified: boolean
  /** Most bytes of one 206. */
  readonly maxContentRangeChunkSize: number | undefined
}

export interface Settings {
  readonly send: SendSettings
  readonly prefix: string
  readonly serve: boolean
  readonly decorateReply: boolean
  readonly setHeaders: CachedStaticOptions['setHeaders']
  /** Media type by extension, in lower case without dot. */
  readonly types: ReadonlyMap<string, string>
  readonly fallback: string | undefined
  /** Codings that are looked for beside a file, the server's favourite first. */
  readonly preCompressed: readonly Coding[]
  readonly openFileCache: NonNullable<CachedStaticOptions['openFileCache']>
}

const YEAR = 365 * 24 * 60 * 60 * 1000

const DEFAULTS = Object.freeze({
  acceptRanges: true,
  cacheControl: true,
  maxAge: 0,
  immutable: false,
  dotfiles: 'ignore',
  etag: true,
  index: 'index.html',
  lastModified: true,
  prefix: '/',
  serve: true,
  decorateReply: true,
  preCompressed: false
} satisfies CachedStaticOptions)

const SEND_OPTIONS = [
  'acceptRanges', 'cacheControl', 'dotfiles', 'etag', 'immutable', 'index', 'lastModified', 'maxAge',
  'maxContentRangeChunkSize', 'root'
]

/** Options of @fastify/static that are not built yet, and the value that asks for what is done anyway. */
const UNBUILT = new Map<string, unknown>([
  ['allowedPath', undefined],
  ['constraints', undefined],
  ['contentType', true],
  ['extensions', undefined],
  ['globIgnore', undefined],
  ['list', false],
  ['logLevel', undefined],
  ['onFile', undefined],
  ['prefixAvoidTrailingSlash', false],
  ['redirect', false],
  ['schemaHide', true],
  ['serveDotFiles', false],
  ['suppressWarning', false],
  ['wildcard', true]
])

/** @throws INVALID_OPTION, INVALID_OPTION_VALUE */
export function readOptions (options: CachedStaticOptions): Settings {
  const given = { ...DEFAULTS, ...withoutUndefined(options) }
  refuseUnbuilt(given)
  const serve = boolean('serve', given.serve)
  if (serve && given.root === undefined) throw new INVALID_OPTION('root', 'is required, unless "serve" is false')
  if (given.setHeaders !== undefined && typeof given.setHeaders !== 'function') {
    refuse('setHeaders', 'a function', given.setHeaders)
  }
  const openFileCache = given.openFileCache === undefined ? {} : given.openFileCache
  if (openFileCache !== false && (typeof openFileCache !== 'object' || openFileCache === null)) {
    refuse('openFileCache', 'an object of options, an OpenFileCache, or false', openFileCache)
  }
  return Object.freeze({
    send: readSendSettings(given),
    prefix: readPrefix(given.prefix),
    serve,
    decorateReply: boolean('decorateReply', given.decorateReply),
    setHeaders: given.setHeaders,
    types: readTypes(given.types),
    fallback: given.fallback === undefined ? undefined : readFallback(given.fallback),
    preCompressed: readPreCompressed(given.preCompressed),
    openFileCache
  })
}

/** The settings for one `sendFile` or `download`: a call's options over those of the registration. */
export function readSendOptions (options: SendOptions, registered: CachedStaticOptions): SendSettings {
  if (typeof options !== 'object') refuse('options', 'an object', options)
  const own = withoutUndefined(options)
  refuseUnbuilt(own)
  for (const name of Object.keys(own)) {
    if (!SEND_OPTIONS.includes(name)) throw new INVALID_OPTION(name, `is unknown here; a call may have: ${SEND_OPTIONS.join(', ')}`)
  }
  return readSendSettings({ ...DEFAULTS, ...withoutUndefined(registered), ...own })
}

function readSendSettings (given: SendOptions): SendSettings {
  const immutable = boolean('immutable', given.immutable)
  const maxAge = duration('maxAge', given.maxAge)
  const cacheControl = boolean('cacheControl', given.cacheControl)
  return Object.freeze({
    root: given.root === undefined ? undefined : readRoot(given.root),
    acceptRanges: boolean('acceptRanges', given.acceptRanges),
    cacheControl: cacheControl ? cacheControlField(maxAge, immutable) : undefined,
    dotfiles: readDotfiles(given.dotfiles),
    etag: typeof given.etag === 'function' ? given.etag : boolean('etag', given.etag, ' or a function'),
    index: readIndex(given.index),
    lastModified: boolean('lastModified', given.lastModified),
    maxContentRangeChunkSize: readChunkSize(given.maxContentRangeChunkSize)
  })
}

function cacheControlField (maxAge: number, immutable: boolean): string {
  const seconds = Math.floor(Math.min(maxAge, YEAR) / 1000)
  return `public, max-age=${seconds}${immutable ? ', immutable' : ''}`
}

function readRoot (root: unknown): string {
  if (root instanceof URL) return readRoot(pathOf(root))
  if (Array.isArray(root)) throw new INVALID_OPTION('root', 'is an array, but several roots are not supported yet')
  if (typeof root !== 'string') refuse('root', 'an absolute path or a file URL', root)
  if (!isAbsolute(root) || root.includes('\0')) refuse('root', 'an absolute path', root)
  // Not realpath: releases are swapped by link.
  return resolve(root)
}

function pathOf (url: URL): string {
  try {
    return fileURLToPath(url)
  } catch {
    // Not of a file, or with a host, or with an encoded slash.
    refuse('root', 'an absolute path or a file URL', url.href)
  }
}

function readPrefix (prefix: unknown): string {
  // @fastify/autoload makes '' of '/'.
  if (typeof prefix !== 'string' || !/^(?:\/|$)/.test(prefix)) refuse('prefix', "a text that begins with '/'", prefix)
  return prefix.endsWith('/') ? prefix : prefix + '/'
}

function readDotfiles (value: unknown): DotfilesPolicy {
  if (value === 'allow' || value === 'deny' || value === 'ignore') return value
  refuse('dotfiles', "'allow', 'deny' or 'ignore'", value)
}

function readIndex (value: unknown): readonly string[] {
  if (value === false) return []
  const names = Array.isArray(value) ? value : [value]
  return Object.freeze(names.map((name) => {
    if (typeof name !== 'string' || childPath('/' as TargetPath, name) === undefined) {
      refuse('index', 'a file name, a list of them, or false', name)
    }
    return name
  }))
}

function readPreCompressed (value: unknown): readonly Coding[] {
  if (value === false) return []
  const codings = value === true ? Object.keys(CODING_SUFFIX) : value
  if (!Array.isArray(codings) || !codings.every((coding) => Object.hasOwn(CODING_SUFFIX, coding))) {
    refuse('preCompressed', "true, false or a list of 'br', 'zstd', 'gzip', 'deflate'", value)
  }
  return Object.freeze([...codings])
}

function readTypes (value: unknown): ReadonlyMap<string, string> {
  const types = new Map<string, string>()
  if (value === undefined) return types
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    refuse('types', "an object such as { '.ts': 'text/plain' }", value)
  }
  for (const [extension, type] of Object.entries(value)) {
    if (!/^\.[^./\\]+$/.test(extension)) refuse(`types['${extension}']`, "named by an extension such as '.ts'", type)
    if (typeof type !== 'string' || !/^[\w.+-]+\/[\w.+-]+(?:[\t ]*;[\t\x20-\x7e]*)?$/.test(type)) {
      refuse(`types['${extension}']`, "a media type such as 'text/plain'", type)
    }
    types.set(extension.slice(1).toLowerCase(), type)
  }
  return types
}

function readChunkSize (value: unknown): number | undefined {
  if (value === undefined) return undefined
  if (!Number.isSafeInteger(value) || (value as number) < 1) {
    refuse('maxContentRangeChunkSize', 'a whole number of bytes >= 1', value)
  }
  return value as number
}

function boolean (name: string, value: unknown, orElse = ''): boolean {
  if (typeof value !== 'boolean') refuse(name, `true or false${orElse}`, value)
  return value
}

function readFallback (value: unknown): string {
  if (typeof value !== 'string' || value === '' || value.endsWith('/')) refuse('fallback', 'a file name', value)
  return value
}

function refuseUnbuilt (given: object): void {
  for (const [name, value] of Object.entries(given)) {
    if (UNBUILT.has(name) && value !== UNBUILT.get(name)) {
      throw new INVALID_OPTION(name, 'of @fastify/static is not supported yet')
    }
  }
}

// An option of value `undefined` means its default, as in every plugin of Fastify.
function withoutUndefined<T extends object> (options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T
}

/** By shape: an instance made by another copy of this package is as good. */
export function isOpenFileCache (value: Settings['openFileCache']): value is Cache {
  return value !== false && typeof (value as Cache).lookup === 'function'
}
