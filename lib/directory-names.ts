import { sep } from 'node:path'
import { debuglog } from 'node:util'
import { isSameVersion, isSettled } from './open-file'
import { codeOf, isRemembered } from './opening'
import type { DirectoryCapacity } from './cache-options'
import type { Clock, FileStat, FileSystem } from '../types/open-file-cache'

/** Misses below a directory from which on reading it is worth while. */
const REPEATED = 3
/** Directories whose misses are counted; that of the oldest miss goes first. */
const MAX_COUNTED = 1000
/** Milliseconds for which one that cannot be kept is left alone. */
const LEFT_ALONE = 60_000
/** The same for one that changed just now: what changes again in the same tick of its times would not show. */
const SETTLING = 2000

const debug = debuglog('fastify-cached-static')

/** A directory whose names are known. */
export interface NamedDirectory {
  readonly path: string
  readonly names: ReadonlySet<string>
  readonly stat: FileStat
  /** When the last look that found these names was issued. */
  checkedAt: number
  usedAt: number
  checking: Promise<void> | undefined
}

interface Misses {
  count: number
  /** No read before. */
  notBefore: number
}

/**
 * Names of directories in which misses repeat. What is not among them is not there, however often and by however many
 * names it is asked for; one `stat` of the directory holds for all of them.
 */
export class DirectoryNames {
  readonly #fs: FileSystem
  readonly #clock: Clock
  readonly #capacity: DirectoryCapacity
  readonly #onAdd: () => void
  /** The least recently read first. */
  readonly #directories = new Map<string, NamedDirectory>()
  readonly #misses = new Map<string, Misses>()
  /** Looks under way. */
  readonly #looks = new Set<Promise<unknown>>()
  /** Grows with whatever is forgotten: a look that was issued before is not kept. */
  #generation = 0
  #isReading = false
  #hasDistrusted = false
  /** Of all directories. */
  names = 0

  /** `onAdd`: something may become inactive from now on. */
  constructor (fs: FileSystem, clock: Clock, capacity: DirectoryCapacity, onAdd: () => void) {
    this.#fs = fs
    this.#clock = clock
    this.#capacity = capacity
    this.#onAdd = onAdd
  }

  get size (): number {
    return this.#directories.size
  }

  /** The directory, `top` or below, that has no name for the way to `path`: nothing is at `path` if it is fresh. */
  lacking (path: string, top: string): NamedDirectory | undefined {
    if (this.#directories.size === 0) return undefined
    for (const [directory, start, end] of waysTo(path, top)) {
      const known = this.#directories.get(directory)
      if (known !== undefined) return known.names.has(path.slice(start, end)) ? undefined : known
    }
    return undefined
  }

  /** Nothing was found at `path`: when that repeats, a directory on the way is read. */
  missed (path: string, top: string): void {
    if (this.#capacity.maxDirectories === 0) return
    const now = this.#clock.now()
    for (const [directory] of waysTo(path, top)) {
      if (this.#directories.has(directory)) return
      const misses = this.#misses.get(directory) ?? { count: 0, notBefore: 0 }
      this.#misses.delete(directory)
      this.#misses.set(directory, misses)
      misses.count++
      if (misses.count >= REPEATED && now >= misses.notBefore && !this.#isReading) this.#startReading(directory, misses)
    }
    while (this.#misses.size > MAX_COUNTED) this.#misses.delete(this.#misses.keys().next().value as string)
  }

  /** Looks at the directory once for all who ask meanwhile; afterwards it is fresh, or its names are not known any more. */
  check (directory: NamedDirectory): Promise<void> {
    directory.checking ??= this.#tracked(this.#check(directory)).finally(() => { directory.checking = undefined })
    return directory.checking
  }

  async #check (directory: NamedDirectory): Promise<void> {
    const issuedAt = this.#clock.now()
    try {
      const stat = await this.#fs.stat(directory.path)
      if (isSameVersion(stat, directory.stat)) directory.checkedAt = issuedAt
      else this.#drop(directory)
    } catch (error) {
      if (isRemembered(codeOf(error))) this.#drop(directory)
    }
  }

  #startReading (path: string, misses: Misses): void {
    this.#isReading = true
    this.#tracked(this.#read(path)).then((wait) => { misses.notBefore = this.#clock.now() + wait }, () => {}).finally(() => {
      this.#isReading = false
    })
  }

  /** How long to leave the directory alone, in milliseconds. */
  async #read (path: string): Promise<number> {
    const generation = this.#generation
    if (!await this.#fs.keepsDirectoryTimes(path)) {
      if (!this.#hasDistrusted) debug('no names of %s are kept: its file system may not keep the times of directories', path)
      this.#hasDistrusted = true
      return LEFT_ALONE
    }
    const lookedAt = this.#clock.wall()
    const before = await this.#fs.stat(path)
    if (before.kind !== 'directory') return 0
    if (!isSettled(before, lookedAt)) return SETTLING
    const names = await this.#fs.names(path, this.#capacity.maxNames)
    if (names === undefined) return LEFT_ALONE
    const issuedAt = this.#clock.now()
    const after = await this.#fs.stat(path)
    if (generation !== this.#generation || !isSameVersion(before, after)) return SETTLING
    this.#add({ path, names: new Set(names), stat: after, checkedAt: issuedAt, usedAt: issuedAt, checking: undefined })
    return 0
  }

  #add (directory: NamedDirectory): void {
    const known = this.#directories.get(directory.path)
    if (known !== undefined) this.#drop(known)
    this.#directories.set(directory.path, directory)
    this.names += directory.names.size
    this.#onAdd()
    for (const oldest of this.#directories.values()) {
      if (this.#directories.size <= this.#capacity.maxDirectories && this.names <= this.#capacity.maxNames) break
      this.#drop(oldest)
    }
  }

  #drop (directory: NamedDirectory): void {
    if (this.#directories.get(directory.path) !== directory) return
    this.#directories.delete(directory.path)
    this.names -= directory.names.size
  }

  dropInactive (now: number): void {
    for (const directory of this.#directories.values()) {
      if (now - directory.usedAt >= this.#capacity.inactive) this.#drop(directory)
    }
  }

  /** Something may have changed at the paths that match, and so in the directories that they are in. */
  forget (matches: (path: string) => boolean): void {
    this.#generation++
    for (const directory of this.#directories.values()) {
      if (matches(directory.path)) this.#drop(directory)
    }
  }

  /** Resolves when no look is under way. */
  async idle (): Promise<void> {
    await Promise.allSettled(this.#looks)
  }

  #tracked<T> (look: Promise<T>): Promise<T> {
    const tracked: Promise<unknown> = look.finally(() => this.#looks.delete(tracked))
    this.#looks.add(tracked)
    return look
  }
}

/** The directories on the way to `path`, `top` or below, the last first, and where the next name begins and ends. */
function * waysTo (path: string, top: string): Generator<[directory: string, start: number, end: number]> {
  const least = top.endsWith(sep) ? top.length - 1 : top.length
  let end = path.length
  for (let slash = path.lastIndexOf(sep); slash >= least; slash = path.lastIndexOf(sep, slash - 1)) {
    yield [slash === 0 ? sep : path.slice(0, slash), slash + 1, end]
    if (slash === 0) return
    end = slash
  }
}
