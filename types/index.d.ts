/// <reference types="node" />
import type { FastifyError, FastifyPluginAsync, FastifyReply, FastifyRequest, RegisterOptions, RouteOptions } from 'fastify'
import type { Stats } from 'node:fs'
import type { Duration, OpenFileCache, OpenFileCacheOptions } from './open-file-cache'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * The cache that registrations of `fastify-cached-static` below one Fastify root share, or the instance that was
     * passed. `undefined` where every registration has `openFileCache: false`.
     */
    openFileCache: OpenFileCache
  }

  interface FastifyReply {
    /**
     * Sends a file below the root, through the cache, on any method. `filename` is a file name: it is not decoded.
     * A status set before (`reply.code(404).sendFile('404.html')`) stays, and switches conditions and ranges off.
     * @param rootPath absolute path or file URL to use instead of the `root` option
     */
    sendFile (filename: string, rootPath?: string | URL): FastifyReply
    sendFile (filename: string, options?: cachedStatic.SendOptions): FastifyReply
    sendFile (filename: string, rootPath?: string | URL, options?: cachedStatic.SendOptions): FastifyReply

    /**
     * As `sendFile`, with a `Content-Disposition: attachment` field (RFC 6266).
     * @param filename what the client should call the file; default: the last part of `filepath`
     */
    download (filepath: string, options?: cachedStatic.SendOptions): FastifyReply
    download (filepath: string, filename?: string): FastifyReply
    download (filepath: string, filename?: string, options?: cachedStatic.SendOptions): FastifyReply
  }
}

type CachedStaticPlugin = FastifyPluginAsync<cachedStatic.CachedStaticOptions>

declare namespace cachedStatic {
  /**
   * An entity-tag (RFC 9110 8.8.3) for one version of a file, such as `"abc"` or `W/"abc"`; `undefined` for none. Called
   * once per version and registration, and by each `sendFile` or `download` that has options of its own. `path` is absolute:
   * that of the file that is sent, which may be a compressed form.
   */
  export type EtagFunction = (path: string, stat: Stats) => string | undefined

  export type Coding = 'br' | 'zstd' | 'gzip' | 'deflate'

  /** What may be chosen for a registration, and again for one `sendFile` or `download`. */
  export interface SendOptions {
    /**
     * Whether to answer `Range` requests (RFC 9110 14) and say so in `Accept-Ranges`.
     * @default true
     */
    acceptRanges?: boolean
    /**
     * Whether to send `Cache-Control: public, max-age=…`.
     * @default true
     */
    cacheControl?: boolean
    /**
     * `max-age` of `Cache-Control`: milliseconds, or a string such as `'1d'`; more than a year is a year.
     * @default 0
     */
    maxAge?: Duration
    /**
     * Adds `immutable` to `Cache-Control` (RFC 8246).
     * @default false
     */
    immutable?: boolean
    /**
     * Whether to send `Content-Type`.
     * @default true
     */
    contentType?: boolean
    /**
     * Names that begin with a dot: `'ignore'` answers 404, `'deny'` 403, `'allow'` serves them. A leading
     * `.well-known/` (RFC 8615) is served always.
     * @default 'ignore'
     */
    dotfiles?: 'allow' | 'deny' | 'ignore'
    /**
     * `true`: a weak tag of size and modification time, the same as that of `@fastify/static`. `false`: none. Or a function.
     * @default true
     */
    etag?: boolean | EtagFunction
    /**
     * Extensions, without dot, tried in order after a name that is missing and has none: `['html']` serves `/page.html`
     * for `/page`.
     * @default []
     */
    extensions?: string[] | string | false
    /**
     * File names that stand for a directory, tried in order; `false` for none.
     * @default 'index.html'
     */
    index?: string | string[] | false
    /**
     * Whether to send `Last-Modified`.
     * @default true
     */
    lastModified?: boolean
    /**
     * Most bytes that one 206 carries; `Content-Range` says which.
     * @default undefined (as many as were asked for)
     */
    maxContentRangeChunkSize?: number
    /**
     * Called with the file that was selected before anything is sent, and awaited; when it throws, the error is sent
     * instead.
     */
    onFile?: (path: string, stat: Stats) => void | Promise<void>
    /**
     * Bytes read at a time from a file that is not held in memory. With a value, the pool of buffers is not used.
     * @default undefined (256 KiB from the pool of buffers on HTTP/1.1, 64 KiB elsewhere)
     */
    highWaterMark?: number
    /** @deprecated Ignored in a call: it has a meaning at registration only. */
    serveDotFiles?: boolean
    /** Absolute path or paths to use instead of the registration's `root`. */
    root?: Root
    /**
     * For one call: the first byte of the file that is sent, as if the file began there.
     * @default 0
     */
    start?: number
    /**
     * For one call: the last byte of the file that is sent, inclusive.
     * @default undefined (the file's last)
     */
    end?: number
  }

  export type Root = string | URL | Array<string | URL>

  /** What `extendedFolderInfo` tells of a directory. */
  export interface ExtendedInformation {
    /** Files in it. */
    fileCount: number
    /** Files in it and below. */
    totalFileCount: number
    /** Directories in it. */
    folderCount: number
    /** Directories in it and below. */
    totalFolderCount: number
    /** Bytes of all files. */
    totalSize: number
    /** Newest modification time of all files, in milliseconds; 0 without files. */
    lastModified: number
  }

  export interface ListFile {
    /** Path for a link: percent-encoded, with the prefix. */
    href: string
    name: string
    stats: Stats
  }

  export interface ListDir extends ListFile {
    /** With `extendedFolderInfo`. */
    extendedInfo?: ExtendedInformation
  }

  /** Makes the page of a directory. Names are whatever the file system has: escape them. */
  export interface ListRender {
    (dirs: ListDir[], files: ListFile[]): string
  }

  export interface ListOptions {
    /**
     * Names that ask for the listing of their directory where no such file is, such as `'index.json'`; `'/'` for
     * directories without index.
     * @default []
     */
    names?: string[]
    /**
     * Count what is below each directory of a listing, at most 100 000 names.
     * @default false
     */
    extendedFolderInfo?: boolean
    /**
     * `'names'`: lists of names. `'extended'`: with `stats`, and `extendedInfo` if asked for.
     * @default 'names'
     */
    jsonFormat?: 'names' | 'extended'
  }

  export interface ListOptionsJsonFormat extends ListOptions {
    /** The query `?format=html` or `?format=json` overrides it. */
    format: 'json'
    /** For `?format=html`. Default: a plain page. */
    render?: ListRender
  }

  export interface ListOptionsHtmlFormat extends ListOptions {
    /** The query `?format=html` or `?format=json` overrides it. */
    format: 'html'
    /** Default: a plain page. */
    render?: ListRender
  }

  interface Serving {
    /**
     * `false`: no route, only `reply.sendFile` and `reply.download`.
     * @default true
     */
    serve?: boolean
    /** Absolute path, or file URL, of the directory to serve, or several that are tried in order. */
    root: Root
  }

  interface NotServing {
    /** No route, only `reply.sendFile` and `reply.download`. */
    serve?: false
    /** Absolute path, or file URL, for relative names, or several that are tried in order. */
    root?: Root
  }

  export type CachedStaticOptions = Omit<RegisterOptions, 'logLevel'> & (Serving | NotServing) & RegistrationOptions

  /** The same, by the name that it has in `@fastify/static`. */
  export type FastifyStaticOptions = CachedStaticOptions

  interface RegistrationOptions extends Omit<SendOptions, 'root' | 'start' | 'end' | 'serveDotFiles'> {
    /**
     * Path prefix of the route; below the prefix of the surrounding context.
     * @default '/'
     */
    prefix?: string
    /**
     * `true`: the prefix without its trailing slash answers, too.
     * @default false
     */
    prefixAvoidTrailingSlash?: boolean
    /**
     * `true`: one route for all paths. `false`: one for each file that is there at registration; other paths, and files
     * that appear later, are left to other routes.
     * @default true
     */
    wildcard?: boolean
    /**
     * With `wildcard: false`: glob patterns, below `root`, of files that get no route.
     * @default []
     */
    globIgnore?: string[] | string
    /**
     * Makes `dotfiles` `'allow'` by default, and with `wildcard: false` gives files whose names begin with a dot routes.
     * @default false
     */
    serveDotFiles?: boolean
    /**
     * Answer a directory without trailing slash, and the bare prefix, by 301 to the path with it.
     * @default false
     */
    redirect?: boolean
    /**
     * List directories: `true` for JSON, or how.
     * @default false
     */
    list?: boolean | ListOptionsJsonFormat | ListOptionsHtmlFormat | (ListOptions & { format?: undefined, render?: ListRender })
    /**
     * Asked in the handler, on every request, with the path below `root` and again with that of the file that was
     * selected; `false` answers 404. Not asynchronous: a promise is refused. `root` is `undefined` for an absolute path
     * without any root.
     */
    allowedPath?: (pathName: string, root: string | undefined, request: FastifyRequest) => boolean
    /**
     * Which symbolic links may lead to a file: all, those that stay below `root`, or none. Others answer 403. Proven on
     * the opened file.
     * @default 'follow'
     */
    symlinks?: 'follow' | 'within-root' | 'deny'
    /**
     * `false`: leave `reply.sendFile` and `reply.download` to another registration.
     * @default true
     */
    decorateReply?: boolean
    /**
     * Do not warn of a `root` that is missing, nor of names of options that are unknown.
     * @default false
     */
    suppressWarning?: boolean
    /**
     * `schema.hide` of the routes: leave them out of the documentation that `@fastify/swagger` makes.
     * @default true
     */
    schemaHide?: boolean
    /** Constraints of the routes, such as `{ host: 'example.com' }`. */
    constraints?: RouteOptions['constraints']
    /** Log level of the routes. */
    logLevel?: NonNullable<RouteOptions['logLevel']>
    /**
     * Called with 200, 206, 304 and HEAD after the fields of the file are set; what it sets wins. `path` is absolute: that
     * of the file that is sent, which may be a compressed form.
     */
    setHeaders?: (reply: FastifyReply, path: string, stat: Stats) => void
    /**
     * Media types by file extension, before the built-in table: `{ '.ts': 'text/plain' }`.
     * @default {}
     */
    types?: Record<string, string>
    /**
     * File below the root that is sent (200, `Cache-Control: no-cache`) for missing paths without an extension, and for
     * directories without index, to clients whose `Accept` names `text/html`: the page of a single-page application.
     */
    fallback?: string
    /**
     * Look for compressed forms beside a file and send one that the client accepts (RFC 9110 12.5.3): `true` for `.br`,
     * `.zst`, `.gz` and `.deflate`, or a list of codings, the first preferred. Adds `Vary: accept-encoding`.
     * @default false
     */
    preCompressed?: boolean | Coding[]
    /**
     * Options of the cache, an instance to share, or `false` for none: each request then opens, checks, sends, closes.
     * Registrations without an instance share the cache that the first of them made; `valid`, `minUses` and `errors` are
     * their own.
     * @default {}
     */
    openFileCache?: Omit<OpenFileCacheOptions, 'links' | 'spelledBelow'> | OpenFileCache | false
  }

  export interface CodedErrorConstructor {
    new (...details: unknown[]): FastifyError
    readonly prototype: FastifyError
  }

  /** Constructors of the coded errors: `error instanceof errors.FST_STATIC_FORBIDDEN_PATH`; `error.code` is that name. */
  export interface Errors {
    /** An option is missing, unknown, must not be there, or is a root that cannot be one. */
    readonly FST_STATIC_INVALID_OPTION: CodedErrorConstructor
    /** An option, or an argument of a call, has a value that it cannot have. */
    readonly FST_STATIC_INVALID_OPTION_VALUE: CodedErrorConstructor
    /** `list` with several roots. */
    readonly FST_STATIC_MULTIROOT_LIST_CONFLICT: CodedErrorConstructor
    /** Two registrations ask one cache for different capacities. */
    readonly FST_STATIC_CACHE_CONFLICT: CodedErrorConstructor
    /** 400 */
    readonly FST_STATIC_MALFORMED_PATH: CodedErrorConstructor
    /** 400 */
    readonly FST_STATIC_INVALID_REDIRECT_URL: CodedErrorConstructor
    /** 403 */
    readonly FST_STATIC_FORBIDDEN_PATH: CodedErrorConstructor
    /** 412 */
    readonly FST_STATIC_PRECONDITION_FAILED: CodedErrorConstructor
    /** 416 */
    readonly FST_STATIC_RANGE_NOT_SATISFIABLE: CodedErrorConstructor
    /** 500 */
    readonly FST_STATIC_READ_FAILED: CodedErrorConstructor
    /** 503: the process has no descriptors or memory left for the file. */
    readonly FST_STATIC_EXHAUSTED: CodedErrorConstructor
  }

  export const errors: Errors
  export const cachedStatic: CachedStaticPlugin
  /** The same, by the name that it has in `@fastify/static`. */
  export const fastifyStatic: CachedStaticPlugin
  export { cachedStatic as default }
}

/**
 * Static files for Fastify 5 from a shared cache of open descriptors, metadata, small bodies and negative entries.
 *
 * ```js
 * fastify.register(cachedStatic, { root: path.join(__dirname, 'public') })
 * ```
 * @throws (rejects with) FST_STATIC_INVALID_OPTION, FST_STATIC_INVALID_OPTION_VALUE,
 * FST_STATIC_MULTIROOT_LIST_CONFLICT, FST_STATIC_CACHE_CONFLICT
 */
declare function cachedStatic (...params: Parameters<CachedStaticPlugin>): ReturnType<CachedStaticPlugin>

export = cachedStatic
