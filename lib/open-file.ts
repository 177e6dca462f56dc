import type { FileSnapshot, FileStat, Lease } from '../types/open-file-cache'
import type { Descriptors } from './descriptors'
import type { FileEntry } from './entry-index'

/** Bytes of one version, and whether a later write in the same clock tick could still hide behind its times. */
export interface HeldBytes {
  readonly buffer: Buffer
  /** When reading began. */
  readonly readAt: number
  readonly settled: boolean
}

/** One descriptor: closed when nobody leases it and no entry keeps it, never before. */
export class OpenFile {
  /** Leases, and reads under way: closed only at 0. */
  borrows = 0
  /** The entry that this descriptor was opened for, while that entry still stands for the same version. */
  entry: FileEntry | undefined
  bytes: HeldBytes | undefined
  filling: Promise<void> | undefined

  constructor (
    readonly owner: Descriptors,
    readonly fd: number,
    readonly isRemote: boolean,
    public snapshot: FileSnapshot,
    /** Whether `snapshot` shows no change since the path was opened: one may have been of the permissions. */
    public settled: boolean
  ) {}
}

/** A lease of a descriptor. Counted from its construction. */
export class DescriptorLease implements Lease {
  readonly kind = 'file'
  snapshot: FileSnapshot
  bytes: Buffer | undefined
  readonly #file: OpenFile
  #released = false

  /** `bytes`: those that were read at the look that the lease stands for. Older ones may not be what the disk has now. */
  constructor (file: OpenFile, bytes?: Buffer) {
    this.#file = file
    this.snapshot = file.snapshot
    this.bytes = bytes
    file.owner.leased(file)
  }

  get state (): 'open' | 'held' {
    return this.bytes === undefined ? 'open' : 'held'
  }

  get isFillable (): boolean {
    return this.bytes === undefined && this.snapshot.size <= this.#file.owner.maxFileSize
  }

  current (): FileSnapshot | Promise<FileSnapshot> {
    if (this.bytes !== undefined) return this.snapshot
    this.#mustNotBeReleased()
    const current = this.#file.owner.current(this.#file)
    if (current instanceof Promise) return current.then((snapshot) => this.#known(snapshot))
    return this.#known(current)
  }

  /** Filled while a slow `fstat` was under way: the snapshot of the bytes stands. */
  #known (snapshot: FileSnapshot): FileSnapshot {
    if (this.bytes === undefined) this.snapshot = snapshot
    return this.snapshot
  }

  async fill (): Promise<void> {
    if (this.bytes !== undefined) return
    this.#mustNotBeReleased()
    await this.#file.owner.fill(this.#file)
    if (this.bytes !== undefined) return
    this.snapshot = this.#file.snapshot
    this.bytes = this.#file.bytes?.buffer
  }

  read (
    buffer: Buffer, offset: number, length: number, position: number,
    callback: (error: Error | null, bytesRead: number) => void
  ): void {
    this.#mustNotBeReleased()
    this.#file.owner.read(this.#file, buffer, offset, length, position, callback)
  }

  release (): void {
    if (this.#released) return
    this.#released = true
    this.#file.owner.released(this.#file)
  }

  // The number may belong to another file by now.
  #mustNotBeReleased (): void {
    if (this.#released) throw new Error('this lease was released: its descriptor must not be used any more')
  }
}

/** A lease that borrows no descriptor: bytes in memory, or metadata only. Shared by all who ask. */
export class MemoryLease implements Lease {
  constructor (readonly snapshot: FileSnapshot, readonly bytes: Buffer | undefined) {}

  get kind (): 'file' | 'directory' {
    return this.snapshot.kind
  }

  get state (): 'held' | 'metadata-only' {
    return this.bytes === undefined ? 'metadata-only' : 'held'
  }

  get isFillable (): boolean {
    return false
  }

  current (): FileSnapshot {
    return this.snapshot
  }

  async fill (): Promise<void> {}

  read (): void {
    throw new Error(`a ${this.state} lease has no descriptor to read from`)
  }

  release (): void {}
}

export function isSameFile (a: FileStat, b: FileStat): boolean {
  return a.ino === b.ino && a.dev === b.dev
}

export function isSameVersion (a: FileStat, b: FileStat): boolean {
  return isSameFile(a, b) && a.size === b.size && a.mtimeNs === b.mtimeNs && a.ctimeNs === b.ctimeNs &&
    a.kind === b.kind && a.mode === b.mode && a.uid === b.uid && a.gid === b.gid
}

const SETTLING_NS = 2_000_000_000n

/**
 * Whether every write so far must show in these times: clocks of file systems tick as coarsely as 2 s (FAT), and two
 * writes in one tick look like one. Times in the future never settle.
 */
export function isSettled (stat: FileStat, wallMs: number): boolean {
  const latest = stat.mtimeNs > stat.ctimeNs ? stat.mtimeNs : stat.ctimeNs
  return BigInt(Math.floor(wallMs)) * 1_000_000n - latest >= SETTLING_NS
}
