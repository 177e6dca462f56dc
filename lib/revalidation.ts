import type { FileEntry, Slot } from './entry-index'
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
  readonly #wheel = new Map<number, Slot>()
  /** What is left of the slots that are due. */
  #due: Array<IterableIterator<FileEntry>> = []
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
    this.#due = []
  }

  /** A look-up used the entry with a shorter `valid` than any since the entry's last check. */
  schedule (entry: FileEntry, valid: number): void {
    entry.minValid = valid
    if (entry.slot?.isDue === true || valid === Infinity) return
    const period = Math.max(valid, LEAST_VALID)
    // Early enough for a tick and a queue of others to pass before the answer goes stale.
    const lead = Math.min(period / 2, Math.max(2 * TICK, period / 8))
    const tick = Math.floor((entry.validatedAt + period - lead) / TICK)
    if (entry.slot?.tick === tick) return
    this.forget(entry)
    let slot = this.#wheel.get(tick)
    if (slot === undefined) {
      slot = { tick, entries: new Set(), isDue: false }
      this.#wheel.set(tick, slot)
    }
    slot.entries.add(entry)
    entry.slot = slot
  }

  /** The entry was checked: due again only after its next use. */
  checked (entry: FileEntry): void {
    entry.minValid = Infinity
    this.forget(entry)
  }

  /** The entry is not due any more. What is forgotten must not live on in the wheel for as long as its `valid`. */
  forget (entry: FileEntry): void {
    const { slot } = entry
    if (slot === undefined) return
    entry.slot = undefined
    slot.entries.delete(entry)
    if (slot.entries.size === 0 && !slot.isDue) this.#wheel.delete(slot.tick)
  }

  /** Takes no longer for many entries than for few. */
  #tick (): void {
    this.#cancel = undefined
    const now = this.#clock.now()
    for (const [tick, slot] of this.#wheel) {
      if (tick * TICK > now) continue
      this.#wheel.delete(tick)
      slot.isDue = true
      // It passes over what is forgotten meanwhile.
      this.#due.push(slot.entries.values())
    }
    this.#work.sweep(now)
    this.#checkNext()
    if (!this.#work.isIdle()) this.start()
  }

  #checkNext (): void {
    while (this.#checking < CONCURRENCY) {
      const entry = this.#nextDue()
      if (entry === undefined) return
      this.#checking++
      this.#work.check(entry).then(() => {
        this.#checking--
        this.#checkNext()
      })
    }
  }

  #nextDue (): FileEntry | undefined {
    for (;;) {
      const [entries] = this.#due
      const next = entries?.next()
      if (next?.done !== true) return next?.value
      this.#due.shift()
    }
  }
}
