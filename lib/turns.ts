import type { Turns as Contract } from '../types/open-file-cache'

/** Once, for the timers that tests put in its place never call. */
const soon = setImmediate
/** Turns of what is done in the thread pool, whose size Node reads from the environment. */
const LEAST = 16

/** So many were passed over in the queue that it is worth to copy the rest. */
const PAST = 1024

/** Lets a few go on at a time, the others in the order in which they came. */
export class Turns implements Contract {
  #free: number
  #waiting: Array<(() => void) | undefined> = []
  /** How many of `#waiting` had their turn. */
  #past = 0

  /** As many as the thread pool has threads, sixteen at least: a mount that hangs holds up no more than it did without. */
  static forThreads ({ UV_THREADPOOL_SIZE }: NodeJS.ProcessEnv = process.env): Turns {
    return new Turns(Math.max(LEAST, Number(UV_THREADPOOL_SIZE) || 0))
  }

  constructor (atOnce: number) {
    this.#free = atOnce
  }

  take (): boolean {
    if (this.#free === 0) return false
    this.#free--
    return true
  }

  wait (callback: () => void): void {
    this.#waiting.push(callback)
  }

  done (): void {
    // Not before all that this turn of the event loop brings: one by one, each read would wake a thread.
    soon(() => this.#passOn())
  }

  #passOn (): void {
    const next = this.#waiting[this.#past]
    if (next === undefined) {
      this.#free++
      return
    }
    // What had its turn must not live as long as those who wait.
    this.#waiting[this.#past++] = undefined
    if (this.#past === this.#waiting.length || this.#past === PAST) {
      this.#waiting = this.#waiting.slice(this.#past)
      this.#past = 0
    }
    next()
  }
}
