import { parse, sep } from 'node:path'
import { isSameVersion, isSettled } from './open-file'
import { codeOf, isRemembered } from './opening'
import type { Clock, FileStat, FileSystem } from '../types/open-file-cache'

const PROBE_VALID = 60_000
const MAX_REMEMBERED = 1000
/** Without letters to swap the case of, and nothing that a file system strips, maps or makes short names with. */
const ONE_SPELLING = /^[\d._-]*[\d_-]$/

/** What a directory may not tell apart. */
type Difference = 'case' | 'form'

/** Whether paths that were found are spelled as they are stored. */
export class Spelling {
  readonly #fs: FileSystem
  readonly #clock: Clock
  /** When directories were found to tell spellings apart, the longest ago first. */
  readonly #toldApart = new Map<string, number>()
  /** Directories, by the path of a name that was read in them, as they were then; the least recently used first. */
  readonly #listed = new Map<string, FileStat>()

  constructor (fs: FileSystem, clock: Clock) {
    this.#fs = fs
    this.#clock = clock
  }

  /**
   * The offset in `path`, under which something was found, from which all names are spelled as they are stored in their
   * directories: 0 if all are, else the end of the last one that is not. A promise when the disk must be asked.
   * @throws (rejects with) the errno error when the failure may pass, or when nothing is under `path` any more
   */
  spelledFrom (path: string): number | Promise<number> {
    if (this.#fs.nameFolding === 'none') return 0
    const end = this.#firstUnknown(path, path.length)
    return end === 0 ? 0 : this.#look(path, end)
  }

  async #look (path: string, end: number): Promise<number> {
    while (end > 0) {
      const start = startOf(path, end)
      if (!await this.#isExact(path.slice(0, start), path.slice(start, end))) return end
      end = this.#firstUnknown(path, start - 1)
    }
    return 0
  }

  /** End of the last name before `end` of which the disk must be asked; 0: none. */
  #firstUnknown (path: string, end: number): number {
    const { length: top } = parse(path).root
    while (end > top) {
      const start = startOf(path, end)
      if (start < end && !this.#isKnown(path.slice(0, start), path.slice(start, end))) return end
      end = start - 1
    }
    return 0
  }

  #isKnown (directory: string, name: string): boolean {
    if (this.#fs.nameFolding === 'certain') return false
    const others = otherSpellings(name)
    return others !== undefined && others.every(([difference]) => this.#isToldApart(difference, directory))
  }

  #isToldApart (difference: Difference, directory: string): boolean {
    const toldAt = this.#toldApart.get(difference + directory)
    return toldAt !== undefined && this.#clock.now() - toldAt < PROBE_VALID
  }

  async #isExact (directory: string, name: string): Promise<boolean> {
    try {
      return await this.#hasNoOther(directory, name) || await this.#isListed(directory, name)
    } catch (error) {
      const code = codeOf(error)
      // Gone since it was found, it is missing, not misspelled.
      if (code !== 'ENOENT' && code !== 'ENOTDIR' && isRemembered(code)) return false
      throw error
    }
  }

  /** Whether the directory tells apart all spellings that it might take for `name`. */
  async #hasNoOther (directory: string, name: string): Promise<boolean> {
    const others = this.#fs.nameFolding === 'possible' ? otherSpellings(name) : undefined
    if (others === undefined) return false
    for (const [difference, other] of others) {
      if (this.#isToldApart(difference, directory)) continue
      const issuedAt = this.#clock.now()
      const isMissing = await this.#fs.stat(directory + other).then(() => false, (error) => codeOf(error) === 'ENOENT')
      if (!isMissing) return false
      // Gone since it was found? Then that the other spelling is missing says nothing.
      await this.#fs.stat(directory + name)
      remember(this.#toldApart, difference + directory, issuedAt)
    }
    return true
  }

  /** Whether the directory has the name, read when it changed since it was read last. */
  async #isListed (directory: string, name: string): Promise<boolean> {
    const lookedAt = this.#clock.wall()
    const stat = await this.#fs.stat(directory)
    const listed = this.#listed.get(directory + name)
    const isListed = (listed !== undefined && isSameVersion(stat, listed)) ||
      (await this.#fs.readdir(directory)).includes(name)
    if (!isListed) await this.#fs.stat(directory + name)
    else if (isSettled(stat, lookedAt)) remember(this.#listed, directory + name, stat)
    return isListed
  }
}

function startOf (path: string, end: number): number {
  return path.lastIndexOf(sep, end - 1) + 1
}

/**
 * Spellings by which a directory that does not tell them apart finds the same thing, one per difference; `undefined`:
 * only reading the directory can show. ASCII only: what else counts as the same letter depends on the file system.
 */
function otherSpellings (name: string): Array<[Difference, string]> | undefined {
  const others: Array<[Difference, string]> = []
  const swapped = name.replace(/[a-z]/gi, (letter) => letter < 'a' ? letter.toLowerCase() : letter.toUpperCase())
  if (swapped !== name) others.push(['case', swapped])
  else if (!ONE_SPELLING.test(name)) return undefined
  const composed = name.normalize('NFC')
  const otherForm = composed === name ? name.normalize('NFD') : composed
  if (otherForm !== name) others.push(['form', otherForm])
  return others
}

function remember<V> (map: Map<string, V>, key: string, value: V): void {
  map.delete(key)
  map.set(key, value)
  if (map.size > MAX_REMEMBERED) map.delete(map.keys().next().value as string)
}
