import { Turns } from './turns'
import type { BufferPool as Contract, Clock } from '../types/open-file-cache'

const SIZE = 256 * 1024
/** Buffers, lent and free: 16 MiB. */
const MAX = 64

/** Memory for the bytes of files that are read from their descriptors, used again instead of collected. */
export class BufferPool implements Contract {
  readonly size = SIZE
  readonly reads = Turns.forThreads()
  readonly #clock: Clock
  /** Milliseconds after which buffers that nobody took go. */
  readonly #inactive: number
  readonly #onFree: () => void
  #free: Buffer[] = []
  #lent = 0
  #max = MAX
  #takenAt = 0

  /** `onFree`: buffers may become inactive from now on. */
  constructor (clock: Clock, inactive: number, onFree: () => void) {
    this.#clock = clock
    this.#inactive = inactive
    this.#onFree = onFree
  }

  /** Of free buffers. */
  get bytes (): number {
    return this.#free.length * SIZE
  }

  take (): Buffer | undefined {
    if (this.#lent >= this.#max) return undefined
    const buffer = this.#free.pop() ?? newBuffer()
    if (buffer !== undefined) this.#lent++
    this.#takenAt = this.#clock.now()
    return buffer
  }

  give (buffer: Buffer): void {
    this.#lent--
    if (this.#max === 0) return
    this.#free.push(buffer)
    this.#onFree()
  }

  drop (): void {
    this.#lent--
  }

  dropInactive (now: number): void {
    if (now - this.#takenAt >= this.#inactive) this.#free = []
  }

  /** Lends nothing any more, and keeps nothing that comes back. */
  close (): void {
    this.#max = 0
    this.#free = []
  }
}

function newBuffer (): Buffer | undefined {
  try {
    return Buffer.allocUnsafeSlow(SIZE)
  } catch {
    // As when all are lent.
    return undefined
  }
}
