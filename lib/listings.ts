import type { FileEntry } from './entry-index'
import type { Clock, FileSnapshot, FileStat, FileSystem, ListedEntry } from '../types/open-file-cache'

/** Looks of one listing at a time: the thread pool has four threads, and other requests want some. */
const CONCURRENCY = 2
/** A longer listing is made anew each time: it would outweigh thousands of entries. */
const MAX_KEPT = 1000

/** What a name in the directory stands for: nothing that can be served, if it rejects. */
export type Look = (name: string) => Promise<FileStat | undefined>

interface Known {
  readonly snapshot: FileSnapshot
  /** When the read was issued. */
  readonly listedAt: number
  readonly entries: Promise<readonly ListedEntry[]>
}

/** What is in directories, kept with their entries for as long as these stand for the same version. */
export class Listings {
  readonly #fs: FileSystem
  readonly #clock: Clock
  readonly #known = new WeakMap<FileEntry, Known>()

  constructor (fs: FileSystem, clock: Clock) {
    this.#fs = fs
    this.#clock = clock
  }

  /**
   * `entry`: that of the directory, if there is one to keep the listing with.
   * @throws the errno error of `readdir`
   */
  list (path: string, valid: number, entry: FileEntry | undefined, look: Look): Promise<readonly ListedEntry[]> {
    if (entry === undefined) return this.#read(path, look)
    const now = this.#clock.now()
    const known = this.#known.get(entry)
    if (known?.snapshot === entry.snapshot && now - known.listedAt < valid) return known.entries
    const entries = this.#read(path, look)
    this.#known.set(entry, { snapshot: entry.snapshot, listedAt: now, entries })
    const forget = (): void => {
      if (this.#known.get(entry)?.entries === entries) this.#known.delete(entry)
    }
    entries.then(({ length }) => { if (length > MAX_KEPT) forget() }, forget)
    return entries
  }

  async #read (path: string, look: Look): Promise<readonly ListedEntry[]> {
    const names = await this.#fs.readdir(path)
    const left = names.entries()
    const found: Array<ListedEntry | undefined> = []
    const worker = async (): Promise<void> => {
      for (const [index, { name }] of left) {
        const stat = await look(name).catch(() => undefined)
        if (stat !== undefined && stat.kind !== 'other') found[index] = { name, snapshot: stat as FileSnapshot }
      }
    }
    await Promise.all(Array.from({ length: CONCURRENCY }, worker))
    const entries = found.filter((entry) => entry !== undefined)
    return Object.freeze(entries.sort((a, b) => a.name.localeCompare(b.name)))
  }
}
