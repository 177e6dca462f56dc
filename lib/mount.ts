import { BodyFault } from './file-body'
import { toStats } from './file-system'
import { describe } from './representation'
import { refuse, respond } from './respond'
import { openBody, refuseWith, sendBody, sendBytes, setHead } from './send'
import { select, selectAgain } from './select'
import { refuse as refuseOption } from './cache-options'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { SendSettings, Settings } from './options'
import type { Representation } from './representation'
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
  readonly #fallbacks = new WeakMap<FileSnapshot, Representation>()

  constructor (settings: Settings, cache: OpenFileCache, policy: LookupPolicy) {
    this.settings = settings
    this.#cache = cache
    this.#policy = policy
  }

  select (search: Search): Selection | Promise<Selection> {
    return select(search, this.#cache, this.#policy)
  }

  /** Sends what was selected. A selection's lease becomes ours. */
  transmit (exchange: Exchange, selection: Selection): void {
    if (selection.kind === 'failed') return refuseWith(exchange.reply, refuse(selection.reason))
    const lease = selection.lease ?? this.#cache.lease(selection.path, this.#policy)
    if (lease?.bytes === undefined) {
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
    try {
      for (;;) {
        try {
          if (lease === undefined) {
            const selection = await selectAgain(search, this.#cache, this.#policy)
            if (selection.kind === 'failed') return refuseWith(reply, refuse(selection.reason))
            found = selection
            lease = selection.lease as Lease
          }
          const snapshot = await lease.current()
          const plan = this.#plan(exchange, found, snapshot)
          if (plan.kind === 'refusal') return refuseWith(reply, plan)
          const { body: range } = plan
          if (range === undefined || range.end < range.start) {
            return this.#sendInMemory(exchange, found, snapshot, plan, NO_BYTES)
          }
          if (lease.bytes !== undefined) return this.#sendInMemory(exchange, found, snapshot, plan, lease.bytes)
          if (lease.state === 'metadata-only') {
            lease = undefined
            continue
          }
          await lease.fill()
          // The bytes may be of a newer version than the plan.
          if (lease.bytes !== undefined) continue
          const body = await openBody(reply, lease, range, found.path)
          lease = undefined
          try {
            this.#setHead(exchange, found, snapshot, plan)
          } catch (error) {
            body.destroy()
            throw error
          }
          return sendBody(reply, body)
        } catch (error) {
          const code = String((error as NodeJS.ErrnoException | null)?.code)
          if (!(error instanceof BodyFault) && !/^E[A-Z0-9]+$/.test(code)) throw error
          if (!retries.delete(code)) return refuseWith(reply, refuse(error))
          this.#cache.invalidate(found.path)
          lease?.release()
          lease = undefined
        }
      }
    } finally {
      lease?.release()
    }
  }

  #plan ({ request, reply, send }: Exchange, found: Found, snapshot: FileSnapshot): ResponsePlan {
    const facts = { method: request.method, headers: request.headers, hasOwnStatus: reply.statusCode !== 200 }
    return respond(this.#representation(send, found, snapshot), facts, send.acceptRanges)
  }

  #representation (send: SendSettings, found: Found, snapshot: FileSnapshot): Representation {
    const memo = found.isFallback ? this.#fallbacks : this.#representations
    const isOwn = send === this.settings.send
    const known = isOwn ? memo.get(snapshot) : undefined
    if (known !== undefined) return known
    const etag = typeof send.etag === 'function' ? entityTag(send.etag(found.path, toStats(snapshot))) : undefined
    // The page of an application must not live as long as its hashed assets.
    const settings = found.isFallback && send.cacheControl !== undefined ? { ...send, cacheControl: 'no-cache' } : send
    const made = describe(found.path, snapshot, settings, this.settings.types, etag, Date.now())
    if (isOwn) memo.set(snapshot, made)
    return made
  }

  #setHead ({ reply, disposition }: Exchange, found: Found, snapshot: FileSnapshot, plan: FilePlan): void {
    const { setHeaders } = this.settings
    if (disposition !== undefined) reply.header('content-disposition', disposition)
    setHead(reply, plan, setHeaders && (() => setHeaders(reply, found.path, toStats(snapshot))))
  }

  #sendInMemory (exchange: Exchange, found: Found, snapshot: FileSnapshot, plan: FilePlan, bytes: Buffer): void {
    this.#setHead(exchange, found, snapshot, plan)
    if (plan.body === undefined) exchange.reply.send()
    else sendBytes(exchange.reply, bytes, plan.body, found.path)
  }
}

function entityTag (tag: string | undefined): string | undefined {
  // RFC 9110 8.8.3
  if (tag !== undefined && !/^(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"$/.test(tag)) {
    refuseOption('etag', 'a function that returns an entity-tag such as \'"abc"\' or \'W/"abc"\'', tag)
  }
  return tag
}
