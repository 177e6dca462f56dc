import type { FileEntry } from './entry-index'
import type { Clock, FileSnapshot, FileStat, FileSystem, ListedEntry } from '../types/open-file-cache'

/** Looks of one listing at a time: the thread pool has four threads, and other requests want some. */
const CONCURRENCY = 2
/** A longer listing is made anew each time: it would outweigh thousands of entries. */
const MAX_KEPT = 1000

/** What a name in the directory stands for; `undefined`: nothing that can be served. Rejects when that may pass. */
export type Look = (name: string) => Promise<FileStat | undefined>

interface Listing {
  readonly entries: readonly ListedEntry[]
  /** No name was left out that may be there at the next look. */
  readonly isWhole: boolean
}

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
    if (entry === undefined) return this.#read(path, look).then(entriesOf)
    const now = this.#clock.now()
    const known = this.#known.get(entry)
    if (known?.snapshot === entry.snapshot && now - known.listedAt < valid) return known.entries
    const reading = this.#read(path, look)
    const entries = reading.then(entriesOf)
    this.#known.set(entry, { snapshot: entry.snapshot, listedAt: now, entries })
    const forget = (): void => {
      if (this.#known.get(entry)?.entries === entries) this.#known.delete(entry)
    }
    reading.then(({ isWhole, entries: { length } }) => { if (!isWhole || length > MAX_KEPT) forget() }, forget)
    return entries
  }

  async #read (path: string, look: Look): Promise<Listing> {
    const names = await this.#fs.readdir(path)
    const left = names.entries()
    const found: Array<ListedEntry | undefined> = []
    let isWhole = true
    const worker = async (): Promise<void> => {
      for (const [index, name] of left) {
        const stat = await look(name).catch(() => { isWhole = false })
        if (stat !== undefined && stat.kind !== 'other') found[index] = { name, snapshot: stat as FileSnapshot }
      }
    }
    await Promise.all(Array.from({ length: CONCURRENCY }, worker))
    const entries = found.filter((entry) => entry !== undefined)
    return { entries: Object.freeze(entries.sort((a, b) => a.name.localeCompare(b.name))), isWhole }
  }
}

function entriesOf ({ entries }: Listing): readonly ListedEntry[] {
  return entries
}
