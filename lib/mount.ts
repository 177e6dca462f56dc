import { refuse as refuseOption } from './cache-options'
import { CodingNegotiator } from './content-coding'
import { encodePath, listContent, readDirectory } from './directory-list'
import { INVALID_OPTION_VALUE } from './errors'
import { toStats } from './file-system'
import { requestTarget } from './request-target'
import { parentPath, resolveName, withSlash } from './resolve-path'
import { refuse } from './respond'
import { isAbandoned, onClose, refuseWith } from './send'
import { select } from './select'
import { rootOf, Transmitter } from './transmit'
import type { FastifyRequest } from 'fastify'
import type { Listing } from './directory-list'
import type { ListSettings } from './option-values'
import type { SendSettings, Settings } from './options'
import type { RequestTarget } from './request-target'
import type { Target } from './resolve-path'
import type { Directory, Found, Root, Search, Selection } from './select'
import type { Exchange } from './transmit'
import type { LookupPolicy, Negative, OpenFileCache } from '../types/open-file-cache'

export interface MountContext {
  readonly cache: OpenFileCache
  readonly policy: LookupPolicy
  /** With that of the surrounding context. */
  readonly prefix: string
  /** The router's option `useSemicolonDelimiter`. */
  readonly cutsAtSemicolon: boolean
}

/** A registration at work: from a target to the answer. */
export class Mount {
  readonly settings: Settings
  readonly #context: MountContext
  readonly #roots: readonly Root[]
  readonly #codings: CodingNegotiator
  readonly #transmitter: Transmitter
  /** The page of a single-page application. */
  readonly fallback: Target | undefined

  constructor (settings: Settings, context: MountContext) {
    this.settings = settings
    this.#context = context
    this.#codings = new CodingNegotiator(settings.preCompressed)
    this.#roots = settings.send.roots.map((path) => this.root(path, path))
    const { fallback, send: { roots: [first] } } = settings
    this.fallback = fallback === undefined || first === undefined ? undefined : fallbackTarget(fallback, first)
    this.#transmitter = new Transmitter(
      settings, context.cache, this.fallback?.path, (exchange, selection) => this.answer(exchange, selection)
    )
  }

  /** What holds for look-ups below `path`, which the application calls `name`. */
  root (path: string, name: string | undefined): Root {
    const { symlinks } = this.settings
    const links = symlinks === 'follow' ? undefined : { symlinks, root: path }
    return { path, name, policy: Object.freeze({ ...this.#context.policy, links, spelledBelow: path }) }
  }

  /** The roots of the registration, or those of a call. */
  roots ({ roots }: SendSettings): readonly Root[] {
    return roots === this.settings.send.roots ? this.#roots : roots.map((path) => this.root(path, path))
  }

  /** `fallsBack`: whether the page of the application may answer. */
  search (target: Target, roots: readonly Root[], request: FastifyRequest, send: SendSettings, fallsBack: boolean): Search {
    const { list, redirect } = this.settings
    return {
      target,
      roots,
      index: send.index,
      extensions: send.extensions,
      codings: this.#codings.acceptable(request.headers['accept-encoding']),
      stopsAtDirectory: redirect || list !== undefined,
      fallback: fallsBack ? this.fallback : undefined
    }
  }

  select (search: Search): Selection | Promise<Selection> {
    return select(search, this.#context.cache)
  }

  /** Sends what was selected, or says why not. A selection's lease becomes ours. */
  answer (exchange: Exchange, selection: Selection): void {
    const { reply, search: { target } } = exchange
    try {
      if (!this.#isAllowed(exchange, selection)) {
        releaseOf(selection)
        return refuseWith(reply, refuse('not-found'))
      }
      if (selection.kind === 'found') {
        const { onFile } = exchange.send
        if (onFile === undefined) this.#transmitter.transmit(exchange, selection)
        else this.#announce(onFile, exchange, selection).catch((error) => reply.send(error))
        return
      }
    } catch (error) {
      releaseOf(selection)
      throw error
    }
    if (selection.kind === 'directory') {
      if (this.settings.list !== undefined) this.#startList(exchange, selection, target.pathname)
      else if (target.trailingSlash) refuseWith(reply, refuse('EISDIR'))
      else this.#redirect(exchange)
      return
    }
    const listed = this.#listedBy(exchange, selection.reason)
    if (listed === undefined) refuseWith(reply, refuse(selection.reason))
    else this.#startList(exchange, { path: listed.path, root: 0 }, listed.pathname)
  }

  #redirect (exchange: Exchange): void {
    const { reply, request, search } = exchange
    const target = this.#requestTarget(request)
    if (!target.path.endsWith('/')) {
      reply.redirect(locationOf(target), 301)
      return
    }
    // The slash is there, and `sendFile` was called without: one more would lead round in circles.
    const onward: Exchange = { ...exchange, search: { ...search, stopsAtDirectory: false } }
    Promise.resolve(this.select(onward.search))
      .then((selection) => this.answer(onward, selection))
      .catch((error) => reply.send(error))
  }

  /** Where the directory lies that was named without its slash. */
  directoryLocation (request: FastifyRequest): string {
    return locationOf(this.#requestTarget(request))
  }

  #requestTarget ({ raw }: FastifyRequest): RequestTarget {
    return requestTarget(raw.url as string, this.#context.cutsAtSemicolon)
  }

  /** What was asked for, below each root that was looked into, and what is to be sent. */
  #isAllowed ({ request, isRelative, search: { target, roots } }: Exchange, selection: Selection): boolean {
    if (this.settings.allowedPath === undefined) return true
    const isAllowed = (pathname: string, root: Root): boolean => {
      const verdict: unknown = this.settings.allowedPath?.(isRelative ? pathname.slice(1) : pathname, root.name, request)
      if (isThenable(verdict)) {
        verdict.then(undefined, () => {})
        // It would count as "yes", whatever it resolves to.
        throw new INVALID_OPTION_VALUE('allowedPath', 'must return true or false at once, but returned a promise')
      }
      return Boolean(verdict)
    }
    if (!roots.slice(0, selection.root + 1).every((root) => isAllowed(target.pathname, root))) return false
    if (selection.kind !== 'found' || selection.pathname === target.pathname) return true
    const root = roots[selection.root] as Root
    // An index file that was reached without the slash.
    const directory = `${target.pathname}/`
    if (selection.pathname.startsWith(directory) && !isAllowed(directory, root)) return false
    return isAllowed(selection.pathname, root)
  }

  async #announce (onFile: NonNullable<SendSettings['onFile']>, exchange: Exchange, found: Found): Promise<void> {
    const { lease } = found
    // It may never settle. A route has seen to that already.
    if (lease !== undefined && !exchange.isOwnRoute) onClose(exchange.reply, () => lease.release())
    try {
      await onFile(found.path, toStats(found.snapshot))
    } catch (error) {
      lease?.release()
      throw error
    }
    this.#transmitter.transmit(exchange, found)
  }

  /** The directory whose listing has the name that was asked for. */
  #listedBy ({ search }: Exchange, reason: unknown): Pick<Target, 'path' | 'pathname'> | undefined {
    const { list } = this.settings
    const { target } = search
    if (list === undefined || reason !== 'ENOENT') return undefined
    if (target.trailingSlash) return list.names.includes('/') ? target : undefined
    const slash = target.pathname.lastIndexOf('/') + 1
    return list.names.includes(target.pathname.slice(slash))
      ? { path: parentPath(target.path), pathname: target.pathname.slice(0, slash) }
      : undefined
  }

  #startList (exchange: Exchange, directory: Pick<Directory, 'path' | 'root'>, pathname: string): void {
    this.#list(exchange, directory, pathname).catch((error) => exchange.reply.send(error))
  }

  async #list (exchange: Exchange, directory: Pick<Directory, 'path' | 'root'>, pathname: string): Promise<void> {
    const { reply, send } = exchange
    const list = this.settings.list as ListSettings
    let listing: Listing | Negative
    try {
      listing = await readDirectory(this.#context.cache, directory.path, rootOf(exchange, directory).policy, list, send.dotfiles)
    } catch (error) {
      return refuseWith(reply, refuse(error))
    }
    if (isAbandoned(reply)) return
    if (listing.kind === 'negative') return refuseWith(reply, refuse(listing.errno))
    const place = { base: this.#base(exchange, pathname), isRoot: pathname === '/' }
    const { format } = exchange.request.query as { format?: unknown }
    const { fields, content } = listContent(listing, list, format, place)
    reply.headers(fields).send(content)
  }

  /** The path of a directory as the client has to write it. */
  #base ({ request, isOwnRoute, search: { target } }: Exchange, pathname: string): string {
    const { prefix } = this.#context
    if (!isOwnRoute) return withSlash(encodePath(prefix + pathname.slice(1)))
    const { path } = this.#requestTarget(request)
    return pathname === target.pathname ? withSlash(path) : path.slice(0, path.lastIndexOf('/') + 1)
  }
}

function locationOf ({ path, query }: RequestTarget): string {
  return withSlash(path) + query
}

function isThenable (value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | null)?.then === 'function'
}

function releaseOf (selection: Selection): void {
  if (selection.kind === 'found') selection.lease?.release()
}

function fallbackTarget (name: string, root: string): Target {
  const target = resolveName(name, root, 'allow')
  if (typeof target === 'string') refuseOption('fallback', 'a file name below "root"', name)
  return target
}
