import { acceptableCodings } from './content-coding'
import { INVALID_OPTION_VALUE } from './errors'
import { toStats } from './file-system'
import { describe } from './representation'
import { resolveName } from './resolve-path'
import { refuse, respond } from './respond'
import { isAbandoned, openBody, refuseWith, sendBody, sendBytes, setHead, varyByAcceptEncoding } from './send'
import { select, selectAgain } from './select'
import { refuse as refuseOption } from './cache-options'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { SendSettings, Settings } from './options'
import type { Representation } from './representation'
import type { Target, TargetPath } from './resolve-path'
import type { FilePlan, ResponsePlan } from './respond'
import type { Found, Search, Selection } from './select'
import type { FileSnapshot, Lease, LookupPolicy, OpenFileCache } from '../types/open-file-cache'

/** One answer under way. */
export interface Exchange {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly search: Search
  readonly send: SendSettings
  /** Value of Content-Disposition. */
  readonly disposition: string | undefined
}

const NO_BYTES = Buffer.alloc(0)

/** A registration at work: from what was selected to what is sent. */
export class Mount {
  readonly settings: Settings
  readonly #cache: OpenFileCache
  readonly #policy: LookupPolicy
  /** Fields are made once per version of a file. */
  readonly #representations = new WeakMap<FileSnapshot, Representation>()
  /** Of files that answer as a coding of another; asked for by their own names they are the file itself. */
  readonly #codedRepresentations = new WeakMap<FileSnapshot, Representation>()
  /** The page of a single-page application. */
  readonly fallback: TargetPath | undefined

  constructor (settings: Settings, cache: OpenFileCache, policy: LookupPolicy) {
    this.settings = settings
    this.#cache = cache
    this.#policy = policy
    const { fallback, send: { root } } = settings
    this.fallback = fallback === undefined || root === undefined ? undefined : fallbackPath(fallback, root)
  }

  /** `fallback`: whether the page of the application may answer. */
  search (target: Target, request: FastifyRequest, { index }: SendSettings, fallback: boolean): Search {
    const { preCompressed } = this.settings
    return {
      target,
      index,
      codings: preCompressed.length === 0 ? preCompressed : acceptableCodings(request.headers['accept-encoding'], preCompressed),
      fallback: fallback ? this.fallback : undefined
    }
  }

  select (search: Search): Selection | Promise<Selection> {
    return select(search, this.#cache, this.#policy)
  }

  /** Sends what was selected. A selection's lease becomes ours. */
  transmit (exchange: Exchange, selection: Selection): void {
    if (selection.kind === 'failed') return refuseWith(exchange.reply, refuse(selection.reason))
    if (isAbandoned(exchange.reply)) return selection.lease?.release()
    const lease = selection.lease ?? this.#cache.lease(selection.path, this.#policy)
    if (lease?.bytes === undefined) {
      // What the look-up said of it is enough for HEAD, 304, 412 and 416.
      if (lease === undefined && this.#sendWithoutBody(exchange, selection)) return
      this.#transmitSlowly(exchange, selection, lease).catch((error) => exchange.reply.send(error))
      return
    }
    try {
      const plan = this.#plan(exchange, selection, lease.snapshot)
      if (plan.kind === 'refusal') refuseWith(exchange.reply, plan)
      else this.#sendInMemory(exchange, selection, lease.snapshot, plan, lease.bytes)
    } finally {
      lease.release()
    }
  }

  async #transmitSlowly (exchange: Exchange, selected: Found, leased: Lease | undefined): Promise<void> {
    const { reply, search } = exchange
    const retries = new Set(['ESTALE', 'ERR_FILE_CHANGED'])
    let found = selected
    let lease = leased
    let filled: Lease | undefined
    try {
      for (;;) {
        try {
          if (lease === undefined) {
            const selection = await selectAgain(search, this.#cache, this.#policy)
            if (selection.kind === 'failed') return refuseWith(reply, refuse(selection.reason))
            found = selection
            lease = selection.lease as Lease
          }
          const borrowed = lease
          const snapshot = await reading(() => borrowed.current())
          if (isAbandoned(reply)) return
          const plan = this.#plan(exchange, found, snapshot)
          if (plan.kind === 'refusal') return refuseWith(reply, plan)
          const { body: range } = plan
          if (range === undefined) return this.#sendInMemory(exchange, found, snapshot, plan, NO_BYTES)
          if (borrowed.bytes !== undefined) return this.#sendInMemory(exchange, found, snapshot, plan, borrowed.bytes)
          if (filled !== borrowed) {
            filled = borrowed
            await reading(() => borrowed.fill())
            // Bytes or descriptor may be of a newer version than the plan.
            if (borrowed.bytes !== undefined || borrowed.snapshot !== snapshot) continue
          }
          if (range.end < range.start) return this.#sendInMemory(exchange, found, snapshot, plan, Buffer.alloc(0))
          const body = await reading(() => openBody(reply, borrowed, range, found.path))
          lease = undefined
          try {
            this.#setHead(exchange, found, snapshot, plan)
          } catch (error) {
            body.destroy()
            throw error
          }
          return sendBody(reply, body)
        } catch (error) {
          if (!(error instanceof ReadFailure)) throw error
          if (isAbandoned(reply)) return
          const cause = error.cause as NodeJS.ErrnoException
          if (!retries.delete(String(cause.code))) return refuseWith(reply, refuse(cause))
          this.#cache.invalidate(found.path)
          lease?.release()
          lease = undefined
        }
      }
    } finally {
      lease?.release()
    }
  }

  #sendWithoutBody (exchange: Exchange, found: Found): boolean {
    const plan = this.#plan(exchange, found, found.snapshot)
    if (plan.kind === 'file' && plan.body !== undefined) return false
    if (plan.kind === 'refusal') refuseWith(exchange.reply, plan)
    else this.#sendInMemory(exchange, found, found.snapshot, plan, NO_BYTES)
    return true
  }

  #plan ({ request, reply, send }: Exchange, found: Found, snapshot: FileSnapshot): ResponsePlan {
    const facts = { method: request.method, headers: request.headers, hasOwnStatus: reply.statusCode !== 200 }
    return respond(this.#representation(send, found, snapshot), facts, send)
  }

  #representation (send: SendSettings, found: Found, snapshot: FileSnapshot): Representation {
    const isOwn = send === this.settings.send
    const memo = found.coding === undefined ? this.#representations : this.#codedRepresentations
    const known = isOwn ? memo.get(snapshot) : undefined
    if (known !== undefined) return known
    const etag = typeof send.etag === 'function' ? entityTag(send.etag(found.path, toStats(snapshot))) : undefined
    // The page of an application must not live as long as its hashed assets, by whatever path it was reached.
    const isPage = isOwn && found.plainPath === this.fallback && send.cacheControl !== undefined
    const settings = isPage ? { ...send, cacheControl: 'no-cache' } : send
    const made = describe(found, snapshot, settings, this.settings.types, etag, Date.now())
    if (isOwn) memo.set(snapshot, made)
    return made
  }

  #setHead ({ reply, disposition }: Exchange, found: Found, snapshot: FileSnapshot, plan: FilePlan): void {
    const { setHeaders, preCompressed } = this.settings
    setHead(reply, plan, disposition, setHeaders && (() => setHeaders(reply, found.path, toStats(snapshot))))
    // On the plain file too: which one is sent depends on the request all the same (RFC 9110 12.5.5).
    if (preCompressed.length > 0) varyByAcceptEncoding(reply)
  }

  #sendInMemory (exchange: Exchange, found: Found, snapshot: FileSnapshot, plan: FilePlan, bytes: Buffer): void {
    this.#setHead(exchange, found, snapshot, plan)
    if (plan.body === undefined) exchange.reply.send()
    else sendBytes(exchange.reply, bytes, plan.body, found.path)
  }
}

/** Told from what a function of the application throws, which may look like an errno too. */
class ReadFailure extends Error {}

async function reading<T> (call: () => T | Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (cause) {
    throw new ReadFailure('the file cannot be read', { cause })
  }
}

function fallbackPath (name: string, root: string): TargetPath {
  const target = resolveName(name, root, 'allow')
  if (typeof target === 'string') refuseOption('fallback', 'a file name below "root"', name)
  return target.path
}

function entityTag (tag: string | undefined): string | undefined {
  // RFC 9110 8.8.3
  if (tag !== undefined && !/^(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"$/.test(tag)) {
    // A client may see this: not what the function made of the path.
    throw new INVALID_OPTION_VALUE('etag', 'must return an entity-tag such as \'"abc"\' or \'W/"abc"\', or undefined')
  }
  return tag
}
