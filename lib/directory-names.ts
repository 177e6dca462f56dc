import { dirname, sep } from 'node:path'
import { debuglog } from 'node:util'
import { isSameVersion, isSettled } from './open-file'
import { codeOf, isRemembered } from './opening'
import type { DirectoryCapacity } from './cache-options'
import type { Clock, FileStat, FileSystem } from '../types/open-file-cache'

/** Misses below a directory from which on reading it is worth while. */
const REPEATED = 3
/** Directories whose misses are counted; that of the oldest miss goes first. */
const MAX_COUNTED = 1000
/** Directories on the way to one path, from the top: a path may have thousands of names, and cost no more for it. */
const MAX_DEPTH = 16
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
  readonly path: string
  count: number
  /** No read before. */
  notBefore: number
  /** There was no such directory at the last read: whatever is missing below is missing in one above. */
  isMissing: boolean
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
  /** Looks under way. None rejects. */
  readonly #looks = new Set<Promise<void>>()
  /** One at a time. What was forgotten since it began is not kept. */
  #reading: { readonly path: string, isForgotten: boolean } | undefined
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

  /** A directory, `top` or below, that has no name for the way to `path`: nothing is at `path` if it is fresh. */
  lacking (path: string, top: string): NamedDirectory | undefined {
    if (this.#directories.size === 0) return undefined
    // As `waysTo`, without making anything: this is asked at each look-up of a name that is not there.
    let slash = path.indexOf(sep, lengthOf(top))
    for (let depth = 0; slash !== -1 && depth < MAX_DEPTH; depth++) {
      const end = path.indexOf(sep, slash + 1)
      const known = this.#directories.get(path.slice(0, slash) || sep)
      if (known !== undefined && lacks(known, path.slice(slash + 1, end === -1 ? undefined : end))) return known
      slash = end
    }
    return undefined
  }

  /** Nothing was found at `path`: when that repeats, the last directory on the way is read. */
  missed (path: string, top: string): void {
    if (this.#capacity.maxDirectories === 0) return
    const now = this.#clock.now()
    let last: Misses | undefined
    for (const [directory] of waysTo(path, top)) {
      last = this.#directories.has(directory) ? undefined : this.#repeated(directory, now) ?? last
    }
    if (last !== undefined && now >= last.notBefore && this.#reading === undefined) this.#startReading(last)
  }

  /** One more; the misses in the directory if they repeat and it may be there. */
  #repeated (path: string, now: number): Misses | undefined {
    const misses = this.#misses.get(path) ?? { path, count: 0, notBefore: 0, isMissing: false }
    this.#misses.delete(path)
    this.#misses.set(path, misses)
    if (this.#misses.size > MAX_COUNTED) this.#misses.delete(this.#misses.keys().next().value as string)
    misses.count++
    return misses.count < REPEATED || (misses.isMissing && now < misses.notBefore) ? undefined : misses
  }

  /** Looks at the directory once for all who ask meanwhile; afterwards it is fresh, or its names are not known any more. */
  check (directory: NamedDirectory): Promise<void> {
    directory.checking ??= this.#tracked(this.#check(directory).finally(() => { directory.checking = undefined }))
    return directory.checking
  }

  async #check (directory: NamedDirectory): Promise<void> {
    const issuedAt = this.#clock.now()
    try {
      const stat = await this.#fs.stat(directory.path)
      if (isSameVersion(stat, directory.stat)) directory.checkedAt = issuedAt
      else this.#drop(directory)
    } catch (error) {
      // After a failure that may pass they are known, but not fresh.
      if (isRemembered(codeOf(error))) this.#drop(directory)
    }
  }

  #startReading (misses: Misses): void {
    const reading = this.#reading = { path: misses.path, isForgotten: false }
    this.#tracked(this.#finish(misses, this.#read(reading)).finally(() => { this.#reading = undefined }))
  }

  async #finish (misses: Misses, reading: Promise<number>): Promise<void> {
    let wait: number
    try {
      wait = await reading
      misses.isMissing = false
    } catch (error) {
      const code = codeOf(error)
      wait = isRemembered(code) ? LEFT_ALONE : SETTLING
      misses.isMissing = code === 'ENOENT' || code === 'ENOTDIR'
    }
    misses.notBefore = this.#clock.now() + wait
    // The one above may have been known to have it: then nobody else would look whether it still has.
    const above = misses.isMissing ? this.#directories.get(dirname(misses.path)) : undefined
    if (above !== undefined) await this.check(above)
  }

  /** How long to leave the directory alone, in milliseconds. */
  async #read (reading: { readonly path: string, readonly isForgotten: boolean }): Promise<number> {
    const { path } = reading
    const lookedAt = this.#clock.wall()
    // By its `.`: where a directory may not be searched, what is not in it is EACCES.
    const before = await this.#fs.stat(path + sep + '.')
    if (!isSettled(before, lookedAt)) return SETTLING
    if (!await this.#fs.keepsDirectoryTimes(path)) {
      if (!this.#hasDistrusted) debug('no names of %s are kept: its file system may not keep the times of directories', path)
      this.#hasDistrusted = true
      return LEFT_ALONE
    }
    const read = await this.#fs.names(path, this.#capacity.maxNames)
    if (read === undefined) return LEFT_ALONE
    const issuedAt = this.#clock.now()
    const after = await this.#fs.stat(path)
    if (reading.isForgotten || !isSameVersion(before, read.stat) || !isSameVersion(before, after)) return SETTLING
    this.#add({ path, names: new Set(read.names), stat: after, checkedAt: issuedAt, usedAt: issuedAt, checking: undefined })
    return 0
  }

  #add (directory: NamedDirectory): void {
    this.#directories.set(directory.path, directory)
    this.names += directory.names.size
    this.#onAdd()
    for (const oldest of this.#directories.values()) {
      if (this.#directories.size <= this.#capacity.maxDirectories && this.names <= this.#capacity.maxNames) break
      this.#drop(oldest)
      // Else two that have no room beside each other would be read in turns, without end.
      const misses = this.#misses.get(oldest.path)
      if (misses !== undefined) misses.notBefore = this.#clock.now() + LEFT_ALONE
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

  /** Something may have changed at `path`: whatever says that it is not there, and its own names, are not known any more. */
  forget (path: string): void {
    if (this.#reading !== undefined && isAt(path, this.#reading.path)) this.#reading.isForgotten = true
    for (const directory of this.#directories.values()) {
      if (directory.path === path || lacksWayTo(directory, path)) this.#drop(directory)
    }
  }

  /** The same of all below it. `''`: everything. */
  forgetUnder (path: string): void {
    this.forget(path)
    if (this.#reading !== undefined && isAt(this.#reading.path, path)) this.#reading.isForgotten = true
    for (const directory of this.#directories.values()) {
      if (isAt(directory.path, path)) this.#drop(directory)
    }
  }

  clear (): void {
    this.forgetUnder('')
    this.#misses.clear()
  }

  /** Resolves when no look is under way. */
  async idle (): Promise<void> {
    await Promise.all(this.#looks)
  }

  #tracked (look: Promise<void>): Promise<void> {
    const tracked = look.finally(() => this.#looks.delete(tracked))
    this.#looks.add(tracked)
    return tracked
  }
}

/** The directories on the way to `path` from `top` on, as they are spelled in it, and the name that comes next. */
function * waysTo (path: string, top: string): Generator<[directory: string, name: string]> {
  let slash = path.indexOf(sep, lengthOf(top))
  for (let depth = 0; slash !== -1 && depth < MAX_DEPTH; depth++) {
    const end = path.indexOf(sep, slash + 1)
    yield [path.slice(0, slash) || sep, path.slice(slash + 1, end === -1 ? undefined : end)]
    slash = end
  }
}

/** Without a slash at its end. */
function lengthOf (top: string): number {
  return top.endsWith(sep) ? top.length - 1 : top.length
}

/** Some names lead somewhere without being listed. */
function lacks ({ names }: NamedDirectory, name: string): boolean {
  return !names.has(name) && name !== '' && name !== '.' && name !== '..'
}

function lacksWayTo ({ path: directory, names }: NamedDirectory, path: string): boolean {
  const start = startOf(directory)
  if (!path.startsWith(start)) return false
  const end = path.indexOf(sep, start.length)
  return !names.has(path.slice(start.length, end === -1 ? undefined : end))
}

/** Whether `path` is the directory or below it. */
export function isAt (path: string, directory: string): boolean {
  return path === directory || path.startsWith(startOf(directory))
}

/** Of the paths below it. */
function startOf (directory: string): string {
  return directory.endsWith(sep) ? directory : directory + sep
}
