import { checkRegistrationOptions, refuse, refuseArgument } from './cache-options'
import { INVALID_OPTION } from './errors'
import {
  readBoolean, readBytes, readCacheControl, readDotfiles, readEtag, readExtensions, readFallback, readFunction, readGlobIgnore,
  readIndex, readList, readPreCompressed, readPrefix, readRoots, readSymlinks, readTypes
} from './option-values'
import type { CachedStaticOptions, EtagFunction, SendOptions } from '../types/index'
import type { OpenFileCache as Cache } from '../types/open-file-cache'
import type { Coding } from './content-coding'
import type { ListSettings } from './option-values'
import type { DotfilesPolicy } from './resolve-path'

/** What holds for one response: a registration's options, or those with a call's own over them. */
export interface SendSettings {
  /** Tried in order. */
  readonly roots: readonly string[]
  readonly acceptRanges: boolean
  /** Value of the Cache-Control field. */
  readonly cacheControl: string | undefined
  readonly contentType: boolean
  readonly dotfiles: DotfilesPolicy
  readonly etag: boolean | EtagFunction
  /** Tried after a name that is missing and has none, in order, without dot. */
  readonly extensions: readonly string[]
  /** Names that stand for a directory, in order. */
  readonly index: readonly string[]
  readonly lastModified: boolean
  readonly onFile: SendOptions['onFile']
  /** First and last byte of the file that are sent as if they were all. */
  readonly start: number
  readonly end: number
  /** Most bytes of one 206. */
  readonly maxContentRangeChunkSize: number | undefined
  /** Bytes read at a time. */
  readonly highWaterMark: number | undefined
}

export interface Settings {
  readonly send: SendSettings
  readonly prefix: string
  readonly prefixAvoidTrailingSlash: boolean
  readonly serve: boolean
  /** One route for all paths, or one for each file that is there at registration. */
  readonly wildcard: boolean
  readonly globIgnore: readonly string[]
  readonly serveDotFiles: boolean
  readonly redirect: boolean
  readonly decorateReply: boolean
  readonly suppressWarning: boolean
  readonly route: RouteSettings
  readonly symlinks: 'follow' | 'within-root' | 'deny'
  readonly setHeaders: CachedStaticOptions['setHeaders']
  readonly allowedPath: CachedStaticOptions['allowedPath']
  /** Media type by extension, in lower case without dot. */
  readonly types: ReadonlyMap<string, string>
  readonly fallback: string | undefined
  readonly list: ListSettings | undefined
  /** Codings that are looked for beside a file, the server's favourite first. */
  readonly preCompressed: readonly Coding[]
  readonly openFileCache: NonNullable<CachedStaticOptions['openFileCache']>
}

/** What goes into the routes as it is. */
export interface RouteSettings {
  readonly constraints: CachedStaticOptions['constraints']
  readonly logLevel: CachedStaticOptions['logLevel']
  readonly schemaHide: boolean
}

const DEFAULTS = Object.freeze({
  acceptRanges: true,
  cacheControl: true,
  contentType: true,
  maxAge: 0,
  immutable: false,
  etag: true,
  extensions: [] as string[],
  index: 'index.html',
  lastModified: true,
  prefix: '/',
  prefixAvoidTrailingSlash: false,
  serve: true,
  wildcard: true,
  serveDotFiles: false,
  redirect: false,
  decorateReply: true,
  suppressWarning: false,
  schemaHide: true,
  symlinks: 'follow',
  preCompressed: false
} satisfies Partial<CachedStaticOptions>)

const SEND_OPTIONS = [
  'acceptRanges', 'cacheControl', 'contentType', 'dotfiles', 'end', 'etag', 'extensions', 'highWaterMark', 'immutable',
  'index', 'lastModified', 'maxAge', 'maxContentRangeChunkSize', 'onFile', 'root', 'serveDotFiles', 'start'
]

/** Those of a registration besides. Fastify itself reads some, also for plugins that do not. */
const REGISTRATION_OPTIONS: readonly string[] = [
  'allowedPath', 'constraints', 'decorateReply', 'fallback', 'globIgnore', 'list', 'logLevel', 'logSerializers', 'openFileCache',
  'preCompressed', 'prefix', 'prefixAvoidTrailingSlash', 'redirect', 'schemaHide', 'serve', 'setHeaders', 'suppressWarning',
  'symlinks', 'types', 'wildcard'
] satisfies Array<keyof CachedStaticOptions>

/** @throws INVALID_OPTION, INVALID_OPTION_VALUE, MULTIROOT_LIST_CONFLICT */
export function readOptions (options: CachedStaticOptions): Settings {
  const given = { ...DEFAULTS, ...withoutUndefined(options) }
  const serve = readBoolean('serve', given.serve)
  if (serve && given.root === undefined) throw new INVALID_OPTION('root', 'is required, unless "serve" is false')
  for (const name of ['start', 'end']) {
    if (Object.hasOwn(given, name)) throw new INVALID_OPTION(name, 'is for one call of sendFile or download, not for a registration')
  }
  const wildcard = readBoolean('wildcard', given.wildcard)
  const fallback = readFallback(given.fallback)
  if (fallback !== undefined && !wildcard) throw new INVALID_OPTION('fallback', 'needs "wildcard": without it no route has the missing paths')
  const openFileCache = given.openFileCache === undefined ? {} : given.openFileCache
  if (openFileCache !== false && (typeof openFileCache !== 'object' || openFileCache === null)) {
    refuse('openFileCache', 'an object of options, an OpenFileCache, or false', openFileCache)
  }
  if (openFileCache !== false && !isOpenFileCache(openFileCache)) checkRegistrationOptions(openFileCache)
  const send = readSendSettings(given)
  return Object.freeze({
    send,
    prefix: readPrefix(given.prefix),
    prefixAvoidTrailingSlash: readBoolean('prefixAvoidTrailingSlash', given.prefixAvoidTrailingSlash),
    serve,
    wildcard,
    globIgnore: readGlobIgnore(given.globIgnore),
    serveDotFiles: readBoolean('serveDotFiles', given.serveDotFiles),
    redirect: readBoolean('redirect', given.redirect),
    decorateReply: readBoolean('decorateReply', given.decorateReply),
    suppressWarning: readBoolean('suppressWarning', given.suppressWarning),
    route: Object.freeze({
      constraints: given.constraints,
      logLevel: given.logLevel,
      schemaHide: readBoolean('schemaHide', given.schemaHide)
    }),
    symlinks: readSymlinks(given.symlinks),
    setHeaders: readFunction('setHeaders', given.setHeaders),
    allowedPath: readFunction('allowedPath', given.allowedPath),
    types: readTypes(given.types),
    fallback,
    list: readList(given.list, send.roots),
    preCompressed: readPreCompressed(given.preCompressed),
    openFileCache
  })
}

/** Warnings of names that no registration knows. Errors they cannot be: what is spread into options may be for others. */
export function unknownOptions (options: CachedStaticOptions): string[] {
  const known = [...SEND_OPTIONS, ...REGISTRATION_OPTIONS]
  return Object.keys(withoutUndefined(options)).filter((name) => !known.includes(name)).map((name) => {
    const meant = known.find((other) => other.toLowerCase() === name.toLowerCase())
    return `"${name}" option is unknown and ignored${meant === undefined ? '' : `; did you mean "${meant}"?`}`
  })
}

/**
 * The settings for one `sendFile` or `download`: a call's options over those of the registration.
 * @param root what `sendFile` was given beside its options
 */
export function readSendOptions (options: SendOptions, registered: CachedStaticOptions, root?: string | URL): SendSettings {
  if (typeof options !== 'object' || Array.isArray(options)) refuseArgument('options', 'an object', options)
  // That is about routes: what a call carries along must not open the dotfiles to it.
  const { serveDotFiles: _, ...own } = withoutUndefined(root === undefined ? options : { ...options, root })
  for (const name of Object.keys(own)) {
    if (REGISTRATION_OPTIONS.includes(name)) {
      throw new INVALID_OPTION(name, 'is for a registration, not for one call of sendFile or download')
    }
    if (!SEND_OPTIONS.includes(name)) throw new INVALID_OPTION(name, `is unknown here; a call may have: ${SEND_OPTIONS.join(', ')}`)
  }
  return readSendSettings({ ...DEFAULTS, ...withoutUndefined(registered), ...own })
}

function readSendSettings (given: SendOptions): SendSettings {
  const start = readBytes('start', given.start, 0) ?? 0
  // Who asks for routes for them wants them served.
  const { dotfiles = given.serveDotFiles === true ? 'allow' : 'ignore' } = given
  return Object.freeze({
    roots: readRoots(given.root),
    acceptRanges: readBoolean('acceptRanges', given.acceptRanges),
    cacheControl: readCacheControl(given.cacheControl, given.maxAge, given.immutable),
    contentType: readBoolean('contentType', given.contentType),
    dotfiles: readDotfiles(dotfiles),
    etag: readEtag(given.etag),
    extensions: readExtensions(given.extensions),
    index: readIndex(given.index),
    lastModified: readBoolean('lastModified', given.lastModified),
    onFile: readFunction('onFile', given.onFile),
    start,
    end: readBytes('end', given.end, start, start === 0 ? '0' : `"start" (${start})`) ?? Infinity,
    maxContentRangeChunkSize: readBytes('maxContentRangeChunkSize', given.maxContentRangeChunkSize, 1),
    highWaterMark: readBytes('highWaterMark', given.highWaterMark, 1)
  })
}

// An option of value `undefined` means its default, as in every plugin of Fastify.
function withoutUndefined<T extends object> (options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T
}

/** By shape: an instance made by another copy of this package is as good. */
export function isOpenFileCache (value: Settings['openFileCache']): value is Cache {
  return value !== false && typeof (value as Cache).lookup === 'function'
}
