import { LRUCache } from 'lru-cache'
import { MemoryLease } from './open-file'
import type { HeldBytes, OpenFile } from './open-file'
import type { FileSnapshot, LinkPolicy, LookupPolicy, Negative } from '../types/open-file-cache'

/** A file or directory. A file is *open* (`file`), *held* (`memory` with bytes) or *metadata-only* (neither). */
export class FileEntry {
  uses = 0
  windowStart: number
  /** Reached `minUses`: sticky until the entry is dropped. */
  retained: boolean
  dropped = false
  /** The descriptor that the entry keeps open. */
  file: OpenFile | undefined
  /** The lease that needs no descriptor: held bytes, or metadata alone. */
  memory: MemoryLease
  /** Whether a `stat` that agrees proves the entry; otherwise its next check opens the path again. */
  settled = true
  /** Offset in the path from which all names were spelled as they are stored, at the last check. */
  spelledFrom = 0
  /** Smallest `valid` that used the entry since its last check. */
  minValid = Infinity
  /** Among which the timer looks at the entry. */
  slot: Slot | undefined

  constructor (
    readonly key: string,
    readonly links: LinkPolicy | undefined,
    public snapshot: FileSnapshot,
    public validatedAt: number,
    public usedAt: number
  ) {
    this.windowStart = usedAt
    this.retained = snapshot.kind === 'directory'
    this.memory = new MemoryLease(snapshot, undefined)
  }

  get isHeld (): boolean {
    return this.memory.bytes !== undefined
  }

  /** Enough for a body without a look at the disk. */
  get isReadable (): boolean {
    return this.file !== undefined || this.memory.bytes !== undefined || this.snapshot.kind === 'directory'
  }
}

/** Entries that the timer looks at in one tick. */
export interface Slot {
  readonly tick: number
  readonly entries: Set<FileEntry>
  /** The tick has come: they are looked at one after the other. */
  isDue: boolean
}

export class NegativeEntry implements Negative {
  readonly kind = 'negative'

  constructor (readonly errno: Negative['errno'], readonly validatedAt: number, public usedAt: number) {}
}

const MAX_NEGATIVE_KEY_TEXT = 4 * 1024 * 1024

export interface EntryIndexOptions {
  readonly max: number
  readonly inactive: number
  readonly maxNegative: number
  readonly memoryMax: number
  /** Most descriptors that entries may keep open. */
  readonly maxOpen: number
  /** The entry left the index: whatever it keeps must go. */
  readonly onDrop: (entry: FileEntry) => void
  /** The entry must give its descriptor up, `maxOpen` being reached. */
  readonly onMaxOpen: (entry: FileEntry) => void
}

/**
 * Which entries there are, and which goes first. Files below `minUses` and the retained are two queues with one bound;
 * negative entries, held bytes and open descriptors have budgets of their own.
 */
export class EntryIndex {
  readonly #options: EntryIndexOptions
  /** The most recently used entry, in all its queues, if nothing was put there since: a look-up and its lease touch it twice. */
  #newest: FileEntry | undefined
  readonly #probation: LRUCache<string, FileEntry>
  readonly #retained: LRUCache<string, FileEntry>
  readonly #negative: LRUCache<string, NegativeEntry>
  readonly #held: LRUCache<string, FileEntry>
  readonly #open: LRUCache<string, FileEntry>

  constructor (options: EntryIndexOptions) {
    this.#options = options
    // lru-cache takes no bound of 0; a cache that keeps nothing never adds.
    this.#probation = new LRUCache({ max: Math.max(1, options.max) })
    this.#retained = new LRUCache({ max: Math.max(1, options.max) })
    this.#negative = new LRUCache({ max: Math.max(1, options.maxNegative), maxSize: MAX_NEGATIVE_KEY_TEXT })
    this.#held = new LRUCache({
      maxSize: Math.max(1, options.memoryMax),
      dispose: (entry, _key, reason) => { if (reason === 'evict') this.#forgetBytes(entry) }
    })
    this.#open = new LRUCache({
      max: Math.max(1, Math.min(options.maxOpen, options.max)),
      // After, not during: who closes the descriptor deletes the key, which breaks the list that is being evicted from.
      disposeAfter: (entry, _key, reason) => { if (reason === 'evict') options.onMaxOpen(entry) }
    })
  }

  get entries (): number {
    return this.#probation.size + this.#retained.size
  }

  get negativeEntries (): number {
    return this.#negative.size
  }

  get bodyBytes (): number {
    return this.#held.calculatedSize
  }

  get isEmpty (): boolean {
    return this.entries === 0 && this.#negative.size === 0
  }

  /** Makes an entry that is in the index the most recently used one. */
  touch (entry: FileEntry): void {
    if (entry === this.#newest) return
    this.#newest = entry
    this.#queueOf(entry).get(entry.key)
    if (entry.memory.bytes !== undefined) this.#held.get(entry.key)
    else if (entry.file !== undefined) this.#open.get(entry.key)
  }

  peek (key: string): FileEntry | undefined {
    return this.#retained.peek(key) ?? this.#probation.peek(key)
  }

  getNegative (key: string): NegativeEntry | undefined {
    return this.#negative.get(key)
  }

  /** Adds an entry; returns how many had to go for it. */
  add (entry: FileEntry): number {
    this.#negative.delete(entry.key)
    let evicted = 0
    while (this.entries >= this.#options.max) {
      const victim = this.#probation.pop() ?? this.#retained.pop()
      this.#dropped(victim as FileEntry)
      evicted++
    }
    this.#newest = undefined
    this.#queueOf(entry).set(entry.key, entry)
    return evicted
  }

  addNegative (key: string, entry: NegativeEntry): void {
    this.#negative.set(key, entry, { size: Math.max(1, key.length) })
  }

  deleteNegative (key: string): void {
    this.#negative.delete(key)
  }

  /** Counts a use in the tumbling window of `inactive`. */
  use (entry: FileEntry, policy: LookupPolicy, now: number): void {
    entry.usedAt = now
    if (entry.retained) return
    if (now - entry.windowStart >= this.#options.inactive) {
      entry.windowStart = now
      entry.uses = 0
    }
    entry.uses++
    if (entry.uses < policy.minUses) return
    this.#probation.delete(entry.key)
    entry.retained = true
    this.#newest = undefined
    this.#retained.set(entry.key, entry)
  }

  keepOpen (entry: FileEntry, file: OpenFile): void {
    entry.file = file
    this.#newest = undefined
    this.#open.set(entry.key, entry)
  }

  /** The entry keeps its descriptor no longer. */
  forgetFile (entry: FileEntry): void {
    entry.file = undefined
    this.#open.delete(entry.key)
  }

  hold (entry: FileEntry, bytes: HeldBytes): void {
    entry.memory = new MemoryLease(entry.snapshot, bytes.buffer)
    entry.settled &&= bytes.settled
    // lru-cache takes no size of 0, and nothing has to go for an empty file.
    this.#newest = undefined
    if (bytes.buffer.length > 0) this.#held.set(entry.key, entry, { size: bytes.buffer.length })
  }

  /** The entry is known by a newer snapshot; its bytes, if it held any, are those of an older look. */
  adopt (entry: FileEntry, snapshot: FileSnapshot): void {
    entry.snapshot = snapshot
    this.#held.delete(entry.key)
    this.#forgetBytes(entry)
  }

  #forgetBytes (entry: FileEntry): void {
    entry.memory = new MemoryLease(entry.snapshot, undefined)
  }

  drop (entry: FileEntry): void {
    this.#queueOf(entry).delete(entry.key)
    this.#dropped(entry)
  }

  #queueOf (entry: FileEntry): LRUCache<string, FileEntry> {
    return entry.retained ? this.#retained : this.#probation
  }

  #dropped (entry: FileEntry): void {
    if (entry === this.#newest) this.#newest = undefined
    entry.dropped = true
    this.#held.delete(entry.key)
    this.#forgetBytes(entry)
    this.#options.onDrop(entry)
  }

  /** Drops what was not used for `inactive`, at most `limit` of each kind. */
  dropInactive (now: number, limit: number): void {
    const isInactive = (entry: { usedAt: number }): boolean => now - entry.usedAt >= this.#options.inactive
    for (const queue of [this.#probation, this.#retained]) {
      for (const [, entry] of leastRecent(queue, limit, isInactive)) this.drop(entry)
    }
    for (const [key] of leastRecent(this.#negative, limit, isInactive)) this.#negative.delete(key)
  }

  /** Entries with an idle descriptor, least recently used first. */
  idleFiles (limit: number): FileEntry[] {
    const idle: FileEntry[] = []
    for (const entry of this.#open.rvalues()) {
      if (idle.length === limit) break
      if (entry?.file?.borrows === 0) idle.push(entry)
    }
    return idle
  }

  * keys (): Generator<string> {
    yield * this.#probation.keys()
    yield * this.#retained.keys()
    yield * this.#negative.keys()
  }
}

function leastRecent<V extends { usedAt: number }> (
  queue: LRUCache<string, V>, limit: number, matches: (value: V) => boolean
): Array<[string, V]> {
  const found: Array<[string, V]> = []
  for (const pair of queue.rentries() as Generator<[string, V]>) {
    if (found.length === limit || !matches(pair[1])) break
    found.push(pair)
  }
  return found
}
