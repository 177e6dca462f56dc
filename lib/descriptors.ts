import { isSameFile, isSameVersion, isSettled } from './open-file'
import type { EntryIndex, FileEntry } from './entry-index'
import type { OpenFile } from './open-file'
import type { Clock, FileSnapshot, FileStat, FileSystem } from '../types/open-file-cache'

const FILL_ATTEMPTS = 3
const RECLAIM_AT_ONCE = 32

/** Every descriptor from its `open` to its one `close`: who borrows it, and what is read through it. */
export class Descriptors {
  readonly #fs: FileSystem
  readonly #clock: Clock
  readonly #index: EntryIndex
  /** Bytes of the largest file that is read whole. */
  readonly maxFileSize: number
  readonly #closings = new Set<Promise<void>>()
  opens = 0
  closes = 0
  leases = 0

  constructor (fs: FileSystem, clock: Clock, index: EntryIndex, maxFileSize: number) {
    this.#fs = fs
    this.#clock = clock
    this.#index = index
    this.maxFileSize = maxFileSize
  }

  async open (path: string): Promise<number> {
    const fd = await this.#fs.open(path)
    this.opens++
    return fd
  }

  close (fd: number): void {
    // A descriptor is gone whatever close(2) says.
    const closing = this.#fs.close(fd).catch(() => {}).then(() => {
      this.closes++
      this.#closings.delete(closing)
    })
    this.#closings.add(closing)
  }

  async closed (): Promise<void> {
    await Promise.all(this.#closings)
  }

  /** The entry keeps its descriptor no longer: closed now, or when its last borrow ends. */
  orphan (entry: FileEntry): void {
    const file = entry.file
    if (file === undefined) return
    this.#index.forgetFile(entry)
    file.entry = undefined
    if (file.borrows === 0) this.close(file.fd)
  }

  /** Closes idle descriptors for one that is needed now; whether there were any. */
  async reclaim (): Promise<boolean> {
    const entries = this.#index.idleFiles(RECLAIM_AT_ONCE)
    for (const entry of entries) this.orphan(entry)
    await this.closed()
    return entries.length > 0
  }

  leased (file: OpenFile): void {
    this.leases++
    file.borrows++
  }

  released (file: OpenFile): void {
    this.leases--
    const entry = file.entry
    if (entry?.dropped === false) {
      entry.usedAt = this.#clock.now()
      this.#index.touch(entry)
    }
    this.#giveBack(file)
  }

  #giveBack (file: OpenFile): void {
    file.borrows--
    this.closeIfUnused(file)
  }

  closeIfUnused (file: OpenFile): void {
    if (file.borrows === 0 && file.entry?.file !== file) this.close(file.fd)
  }

  read (
    file: OpenFile, buffer: Buffer, offset: number, length: number, position: number,
    callback: (error: Error | null, bytesRead: number) => void
  ): void {
    // Borrowed by the read itself: a lease released meanwhile must not close under it.
    file.borrows++
    this.#fs.read(file.fd, buffer, offset, length, position, (error, bytesRead) => {
      if (error !== null) this.#dropEntryOf(file)
      this.#giveBack(file)
      callback(error, bytesRead)
    })
  }

  /** `fstat`, adopted into the file and its entry. */
  current (file: OpenFile): FileSnapshot | Promise<FileSnapshot> {
    if (file.isRemote) return this.#currentRemote(file)
    try {
      return this.#adopt(file, this.#fs.fstatSync(file.fd))
    } catch (error) {
      this.#dropEntryOf(file)
      throw error
    }
  }

  #currentRemote (file: OpenFile): Promise<FileSnapshot> {
    file.borrows++
    const known = file.snapshot
    return this.#fs.fstat(file.fd).then((stat) => {
      // A newer answer may have overtaken this one: it is still the caller's, but says nothing about now.
      return file.snapshot === known || isSameVersion(stat, file.snapshot) ? this.#adopt(file, stat) : stat as FileSnapshot
    }).catch((error: unknown) => {
      this.#dropEntryOf(file)
      throw error
    }).finally(() => this.#giveBack(file))
  }

  #adopt (file: OpenFile, stat: FileStat): FileSnapshot {
    const known = file.snapshot
    if (!isSameFile(stat, known)) {
      throw Object.assign(new Error('the descriptor refers to another file than the one that was opened'), { code: 'EBADF' })
    }
    if (isSameVersion(stat, known)) return known
    file.snapshot = stat as FileSnapshot
    file.bytes = undefined
    file.settled = false
    const entry = file.entry
    if (entry?.dropped === false && entry.snapshot === known && !entry.isHeld) {
      this.#index.adopt(entry, file.snapshot)
      // What changed may be the permissions, which a descriptor does not show: the next check opens the path again.
      entry.settled = false
    }
    return file.snapshot
  }

  #dropEntryOf (file: OpenFile): void {
    if (file.entry?.dropped === false) this.#index.drop(file.entry)
  }

  /** Reads a small file whole, once for all who ask meanwhile; its entry holds the bytes from then on, if retained. */
  async fill (file: OpenFile): Promise<void> {
    file.filling ??= this.#fill(file).finally(() => { file.filling = undefined })
    await file.filling
  }

  async #fill (file: OpenFile): Promise<void> {
    file.borrows++
    try {
      await this.readWhole(file)
      const entry = file.entry
      if (file.bytes === undefined || entry === undefined || entry.dropped || !entry.retained) return
      if (entry.isHeld || entry.snapshot !== file.snapshot) return
      // Checked by another descriptor since: these bytes would count as fresh for longer than they are.
      if (!file.bytes.settled && file.bytes.readAt < entry.validatedAt) return
      this.orphan(entry)
      this.#index.hold(entry, file.bytes)
    } catch (error) {
      this.#dropEntryOf(file)
      throw error
    } finally {
      this.#giveBack(file)
    }
  }

  /** `file.bytes`, read between two `fstat`s that agree; left out when the file is too large or will not hold still. */
  async readWhole (file: OpenFile): Promise<void> {
    for (let attempt = 0; attempt < FILL_ATTEMPTS; attempt++) {
      const before = file.snapshot
      if (before.size > this.maxFileSize) return
      const startedAt = this.#clock.wall()
      const readAt = this.#clock.now()
      // Not from Node's shared pool: a small slice would keep 8 KiB alive.
      const buffer = Buffer.allocUnsafeSlow(before.size)
      const length = await this.#readFully(file.fd, buffer)
      const after = this.#adopt(file, await this.#fs.fstat(file.fd))
      if (after !== before || length !== before.size) continue
      file.bytes = { buffer, readAt, settled: isSettled(before, startedAt) }
      return
    }
  }

  async #readFully (fd: number, buffer: Buffer): Promise<number> {
    let length = 0
    while (length < buffer.length) {
      const bytesRead = await new Promise<number>((resolve, reject) => {
        this.#fs.read(fd, buffer, length, buffer.length - length, length, (error, bytesRead) => {
          if (error === null) resolve(bytesRead)
          else reject(error)
        })
      })
      if (bytesRead === 0) break
      length += bytesRead
    }
    return length
  }
}
