import { NOT_DUE, QUEUED } from './entry-index'
import type { FileEntry } from './entry-index'
import type { Clock } from '../types/open-file-cache'

/** Milliseconds between two looks at what is due. */
const TICK = 500
const LEAST_VALID = 1000
/** Background checks at a time: the thread pool has four threads, and requests come first. */
const CONCURRENCY = 2

export interface RevalidationWork {
  /** Checks one entry; never rejects. */
  readonly check: (entry: FileEntry) => Promise<void>
  /** Once a tick. */
  readonly sweep: (now: number) => void
  readonly isIdle: () => boolean
}

/**
 * One timer for all entries: a wheel of ticks. An entry that is used after a check is looked at again before the
 * shortest `valid` that used it ends; one that is not used is left to go stale.
 */
export class RevalidationTimer {
  readonly #clock: Clock
  readonly #work: RevalidationWork
  readonly #wheel = new Map<number, Set<FileEntry>>()
  #backlog: FileEntry[] = []
  #nextInBacklog = 0
  #checking = 0
  #cancel: (() => void) | undefined

  constructor (clock: Clock, work: RevalidationWork) {
    this.#clock = clock
    this.#work = work
  }

  /** The timer runs only while there is something to look at. */
  start (): void {
    this.#cancel ??= this.#clock.after(TICK, () => this.#tick())
  }

  stop (): void {
    this.#cancel?.()
    this.#cancel = undefined
    this.#wheel.clear()
    this.#clearBacklog()
  }

  /** A look-up used the entry with a shorter `valid` than any since the entry's last check. */
  schedule (entry: FileEntry, valid: number): void {
    entry.minValid = valid
    if (entry.due === QUEUED || valid === Infinity) return
    const period = Math.max(valid, LEAST_VALID)
    // Early enough for a tick and a queue of others to pass before the answer goes stale.
    const lead = Math.min(period / 2, Math.max(2 * TICK, period / 8))
    const tick = Math.floor((entry.validatedAt + period - lead) / TICK)
    if (entry.due === tick) return
    this.forget(entry)
    entry.due = tick
    const slot = this.#wheel.get(tick)
    if (slot === undefined) this.#wheel.set(tick, new Set([entry]))
    else slot.add(entry)
  }

  /** The entry was checked: due again only after its next use. */
  checked (entry: FileEntry): void {
    entry.minValid = Infinity
    this.forget(entry)
  }

  /** The entry is not due any more. What is forgotten must not live on in the wheel for as long as its `valid`. */
  forget (entry: FileEntry): void {
    const slot = this.#wheel.get(entry.due)
    if (slot?.delete(entry) === true && slot.size === 0) this.#wheel.delete(entry.due)
    entry.due = NOT_DUE
  }

  #tick (): void {
    this.#cancel = undefined
    const now = this.#clock.now()
    for (const [tick, slot] of this.#wheel) {
      if (tick * TICK > now) continue
      this.#wheel.delete(tick)
      for (const entry of slot) {
        entry.due = QUEUED
        this.#backlog.push(entry)
      }
    }
    this.#work.sweep(now)
    this.#checkNext()
    if (!this.#work.isIdle()) this.start()
  }

  #checkNext (): void {
    while (this.#checking < CONCURRENCY) {
      const entry = this.#backlog[this.#nextInBacklog++]
      if (entry === undefined) return this.#clearBacklog()
      // A request may have checked it meanwhile, or somebody forgotten it.
      if (entry.due !== QUEUED) continue
      this.#checking++
      this.#work.check(entry).then(() => {
        this.#checking--
        this.#checkNext()
      })
    }
  }

  #clearBacklog (): void {
    this.#backlog = []
    this.#nextInBacklog = 0
  }
}
