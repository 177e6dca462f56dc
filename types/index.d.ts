/// <reference types="node" />
import type { FastifyError, FastifyPluginAsync, FastifyReply } from 'fastify'
import type { Stats } from 'node:fs'
import type { Duration, OpenFileCache, OpenFileCacheOptions } from './open-file-cache'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * The cache that registrations of `fastify-cached-static` below one Fastify root share, or the instance that was
     * passed. Absent where every registration has `openFileCache: false`.
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
   * once per version and registration, and by each `sendFile` or `download` that has options of its own.
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
     * `max-age` of `Cache-Control`: milliseconds, or a string such as `'1d'`; at most a year.
     * @default 0
     */
    maxAge?: Duration
    /**
     * Adds `immutable` to `Cache-Control` (RFC 8246).
     * @default false
     */
    immutable?: boolean
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
    /** Absolute path to use instead of the registration's `root`. */
    root?: string | URL
  }

  export interface CachedStaticOptions extends Omit<SendOptions, 'root'> {
    /** Absolute path, or file URL, of the directory to serve. Required unless `serve` is `false`. */
    root?: string | URL
    /**
     * Path prefix of the route; below the prefix of the surrounding context.
     * @default '/'
     */
    prefix?: string
    /**
     * `false`: no route, only `reply.sendFile` and `reply.download`.
     * @default true
     */
    serve?: boolean
    /**
     * `false`: leave `reply.sendFile` and `reply.download` to another registration.
     * @default true
     */
    decorateReply?: boolean
    /** Called with 200, 206, 304 and HEAD after the fields of the file are set; what it sets wins. */
    setHeaders?: (reply: FastifyReply, path: string, stat: Stats) => void
    /**
     * Media types by file extension, before the built-in table: `{ '.ts': 'text/plain' }`.
     * @default {}
     */
    types?: Record<string, string>
    /**
     * File below the root that is sent (200, `Cache-Control: no-cache`) for a missing path without an extension to
     * clients that accept HTML: the page of a single-page application.
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
     * Registrations that pass options share the cache that the first of them made; `valid`, `minUses` and `errors` are
     * their own.
     */
    openFileCache?: OpenFileCacheOptions | OpenFileCache | false
  }

  export interface CodedErrorConstructor {
    new (...details: unknown[]): FastifyError
    readonly prototype: FastifyError
  }

  /** Constructors of the coded errors: `error instanceof errors.FORBIDDEN_PATH`, `error.code`. */
  export interface Errors {
    /** `FST_STATIC_INVALID_OPTION`: an option is missing or must not be there. */
    readonly INVALID_OPTION: CodedErrorConstructor
    /** `FST_STATIC_INVALID_OPTION_VALUE`: an option has a value that it cannot have. */
    readonly INVALID_OPTION_VALUE: CodedErrorConstructor
    /** `FST_STATIC_CACHE_CONFLICT`: two registrations ask one cache for different capacities. */
    readonly CACHE_CONFLICT: CodedErrorConstructor
    /** `FST_STATIC_MALFORMED_PATH`, 400. */
    readonly MALFORMED_PATH: CodedErrorConstructor
    /** `FST_STATIC_FORBIDDEN_PATH`, 403. */
    readonly FORBIDDEN_PATH: CodedErrorConstructor
    /** `FST_STATIC_PRECONDITION_FAILED`, 412. */
    readonly PRECONDITION_FAILED: CodedErrorConstructor
    /** `FST_STATIC_RANGE_NOT_SATISFIABLE`, 416. */
    readonly RANGE_NOT_SATISFIABLE: CodedErrorConstructor
    /** `FST_STATIC_READ_FAILED`, 500. */
    readonly READ_FAILED: CodedErrorConstructor
    /** `FST_STATIC_EXHAUSTED`, 503: the process has no descriptors or memory left for the file. */
    readonly EXHAUSTED: CodedErrorConstructor
  }

  export const errors: Errors
  export const cachedStatic: CachedStaticPlugin
  export { cachedStatic as default }
}

/**
 * Static files for Fastify 5 from a shared cache of open descriptors, metadata, small bodies and negative entries.
 *
 * ```js
 * fastify.register(cachedStatic, { root: path.join(__dirname, 'public') })
 * ```
 * @throws (rejects with) FST_STATIC_INVALID_OPTION, FST_STATIC_INVALID_OPTION_VALUE, FST_STATIC_CACHE_CONFLICT
 */
declare function cachedStatic (...params: Parameters<CachedStaticPlugin>): ReturnType<CachedStaticPlugin>

export = cachedStatic
