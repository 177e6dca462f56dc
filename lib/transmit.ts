import { INVALID_OPTION_VALUE } from './errors'
import { toStats } from './file-system'
import { describe } from './representation'
import { refuse, respond } from './respond'
import {
  isAbandoned, openBody, refuseWith, sendBody, sendBytes, sendStream, setHead, varyByAcceptEncoding
} from './send'
import { selectAgain } from './select'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { SendSettings, Settings } from './options'
import type { Representation } from './representation'
import type { FilePlan, ResponsePlan } from './respond'
import type { Found, Root, Search, Selection } from './select'
import type { ByteRange } from './range'
import type { FileSnapshot, Lease, OpenFileCache } from '../types/open-file-cache'

/** One answer under way. */
export interface Exchange {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly search: Search
  readonly send: SendSettings
  /** Not a call of `sendFile` or `download` from elsewhere. */
  readonly isOwnRoute: boolean
  /** The call named its file without a slash in front: so does `allowedPath`. */
  readonly isRelative: boolean
  /** Value of Content-Disposition. */
  readonly disposition: string | undefined
}

const NO_BYTES = Buffer.alloc(0)
const NOTHING: ByteRange = Object.freeze({ start: 0, end: -1 })

/** From the file that was selected to the bytes that are sent. */
export class Transmitter {
  readonly #settings: Settings
  readonly #cache: OpenFileCache
  /** The page of a single-page application. */
  readonly #page: string | undefined
  readonly #answer: (exchange: Exchange, selection: Selection) => void
  /** Fields are made once per version of a file. */
  readonly #representations = new WeakMap<FileSnapshot, Representation>()
  /** Of files that answer as a coding of another; asked for by their own names they are the file itself. */
  readonly #codedRepresentations = new WeakMap<FileSnapshot, Representation>()

  /**
   * @param page path of the file that clients must not keep for long, by whatever path it was reached
   * @param answer for what turns out to be another file meanwhile, or none
   */
  constructor (
    settings: Settings, cache: OpenFileCache, page: string | undefined,
    answer: (exchange: Exchange, selection: Selection) => void
  ) {
    this.#settings = settings
    this.#cache = cache
    this.#page = page
    this.#answer = answer
  }

  /** Its lease becomes ours. */
  transmit (exchange: Exchange, found: Found): void {
    if (isAbandoned(exchange.reply)) return found.lease?.release()
    const lease = found.lease ?? this.#cache.lease(found.path, rootOf(exchange, found).policy)
    if (lease?.bytes === undefined) {
      // What the look-up said of it is enough for HEAD, 304, 412 and 416.
      if (lease === undefined && this.#sendWithoutBody(exchange, found)) return
      this.#transmitSlowly(exchange, found, lease).catch((error) => exchange.reply.send(error))
      return
    }
    try {
      const plan = this.#plan(exchange, found, lease.snapshot)
      if (plan.kind === 'refusal') refuseWith(exchange.reply, plan)
      else this.#sendInMemory(exchange, found, lease.snapshot, plan, lease.bytes)
    } finally {
      lease.release()
    }
  }

  async #transmitSlowly (exchange: Exchange, selected: Found, leased: Lease | undefined): Promise<void> {
    const { reply, search, send: { highWaterMark } } = exchange
    const retries = new Set(['ESTALE', 'ERR_FILE_CHANGED'])
    let found = selected
    let lease = leased
    let filled: Lease | undefined
    try {
      for (;;) {
        try {
          if (lease === undefined) {
            const selection = await selectAgain(search, this.#cache)
            // Only the file that was selected has been allowed.
            if (selection.kind !== 'found' || selection.plainPath !== found.plainPath) return this.#answer(exchange, selection)
            found = selection
            lease = selection.lease as Lease
          }
          const borrowed = lease
          // Who is filled next is looked at by that.
          const isLookedAt = filled !== borrowed && borrowed.isFillable
          const snapshot = isLookedAt ? borrowed.snapshot : await reading(() => borrowed.current())
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
          const body = await reading(() => openBody(reply, borrowed, range, found.path, { chunkSize: highWaterMark, pool: this.#cache.buffers }))
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
    const isOwn = send === this.#settings.send
    const memo = found.coding === undefined ? this.#representations : this.#codedRepresentations
    const known = isOwn ? memo.get(snapshot) : undefined
    if (known !== undefined) return known
    const etag = typeof send.etag === 'function' ? entityTag(send.etag(found.path, toStats(snapshot))) : undefined
    // The page of an application must not live as long as its hashed assets.
    const isPage = isOwn && found.plainPath === this.#page && send.cacheControl !== undefined
    const settings = isPage ? { ...send, cacheControl: 'no-cache' } : send
    const made = describe(found, snapshot, settings, this.#settings.types, etag, Date.now())
    if (isOwn) memo.set(snapshot, made)
    return made
  }

  #setHead ({ reply, disposition }: Exchange, found: Found, snapshot: FileSnapshot, plan: FilePlan): void {
    const { setHeaders, preCompressed } = this.#settings
    setHead(reply, plan, disposition, setHeaders && (() => setHeaders(reply, found.path, toStats(snapshot))))
    // On the plain file too: which one is sent depends on the request all the same (RFC 9110 12.5.5).
    if (preCompressed.length > 0) varyByAcceptEncoding(reply)
  }

  #sendInMemory (exchange: Exchange, found: Found, snapshot: FileSnapshot, plan: FilePlan, bytes: Buffer): void {
    this.#setHead(exchange, found, snapshot, plan)
    const { reply, request: { method }, isOwnRoute, send: { contentType } } = exchange
    if (plan.body !== undefined) {
      if (contentType || reply.hasHeader('content-type')) sendBytes(reply, bytes, plan.body, found.path)
      else sendStream(reply, bytes, plan.body, found.path)
    } else if (isOwnRoute || method !== 'HEAD') {
      reply.send()
    } else {
      // The HEAD route that Fastify makes of a GET route counts the bytes of any payload but a stream.
      sendStream(reply, NO_BYTES, NOTHING, found.path)
    }
  }
}

export function rootOf ({ search }: Exchange, { root }: { readonly root: number }): Root {
  return search.roots[root] as Root
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

function entityTag (tag: string | undefined): string | undefined {
  // RFC 9110 8.8.3
  if (tag !== undefined && !/^(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"$/.test(tag)) {
    // A client may see this: not what the function made of the path.
    throw new INVALID_OPTION_VALUE('etag', 'must return an entity-tag such as \'"abc"\' or \'W/"abc"\', or undefined')
  }
  return tag
}
