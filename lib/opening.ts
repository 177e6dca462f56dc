import { relative, sep } from 'node:path'
import { OpenFile } from './open-file'
import type { Descriptors } from './descriptors'
import type { Spelling } from './spelling'
import type { Clock, FileSnapshot, FileStat, FileSystem, LinkPolicy, Negative } from '../types/open-file-cache'

export type Opened =
  | { readonly kind: 'file', readonly file: OpenFile }
  | { readonly kind: 'directory', readonly snapshot: FileSnapshot }
  | { readonly kind: 'negative', readonly errno: Negative['errno'] }
  | { readonly kind: 'failed', readonly error: unknown }

/** What is opened, and when the call was issued on whose result the answer rests. */
export interface Target {
  readonly path: string
  readonly links: LinkPolicy | undefined
  checkedAt: number
  /** Offset in `path` from which all names are spelled as they are stored; known when there is a file or directory. */
  spelledFrom: number
}

const REMEMBERED: readonly string[] = ['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM', 'ELOOP']
// What open(2) says of sockets and of devices without a driver: special files, as FIFOs are.
const SPECIAL: readonly string[] = ['ENXIO', 'ENODEV', 'EOPNOTSUPP']
const MAYBE_DIRECTORY: readonly string[] = ['EACCES', 'EPERM', 'EISDIR']

export function codeOf (error: unknown): string {
  return String((error as NodeJS.ErrnoException | null)?.code)
}

/** Whether a failure is a fact about the path rather than about the moment. */
export function isRemembered (errno: string): boolean {
  return REMEMBERED.includes(errno)
}

export function failureOf (error: unknown): Opened {
  const code = codeOf(error)
  if (isRemembered(code) || code === 'ENAMETOOLONG') return { kind: 'negative', errno: code as Negative['errno'] }
  return SPECIAL.includes(code) ? { kind: 'negative', errno: 'ENOENT' } : { kind: 'failed', error }
}

/** @throws (rejects with) the errno error when the failure may pass */
export async function statIfThere (fs: FileSystem, path: string): Promise<FileStat | undefined> {
  return await fs.stat(path).catch((error: unknown) => {
    if (failureOf(error).kind === 'failed') throw error
    return undefined
  })
}

/** Links on the way change too fast for the policy to be proven. */
class Unproven extends Error {
  readonly code = 'EAGAIN'
}

/** Failures after which a path is opened again, and how often at most. */
const RETRIES = { stale: 1, exhausted: 1, unproven: 2 }

function retryOf (outcome: Opened): keyof typeof RETRIES | undefined {
  if (outcome.kind !== 'failed') return undefined
  if (outcome.error instanceof Unproven) return 'unproven'
  const code = codeOf(outcome.error)
  if (code === 'ESTALE') return 'stale'
  return code === 'EMFILE' || code === 'ENFILE' ? 'exhausted' : undefined
}

/** Opens paths: first the descriptor, then what it is, then whether it may be used. */
export class Opening {
  readonly #fs: FileSystem
  readonly #clock: Clock
  readonly #descriptors: Descriptors
  readonly #spelling: Spelling
  readonly #remoteDevices = new Map<bigint, boolean | Promise<boolean>>()

  constructor (fs: FileSystem, clock: Clock, descriptors: Descriptors, spelling: Spelling) {
    this.#fs = fs
    this.#clock = clock
    this.#descriptors = descriptors
    this.#spelling = spelling
  }

  /** `wantsBytes`: a small file is read whole at once. */
  async open (target: Target, wantsBytes: () => boolean): Promise<Opened> {
    const left = { ...RETRIES }
    let outcome = await this.#openOnce(target, wantsBytes)
    for (let retry = retryOf(outcome); retry !== undefined && left[retry]-- > 0; retry = retryOf(outcome)) {
      if (retry === 'exhausted' && !await this.#descriptors.reclaim()) break
      outcome = await this.#openOnce(target, wantsBytes)
    }
    return outcome
  }

  async #openOnce (target: Target, wantsBytes: () => boolean): Promise<Opened> {
    target.checkedAt = this.#clock.now()
    const openedAt = this.#clock.wall()
    let fd: number
    try {
      fd = await this.#descriptors.open(target.path)
    } catch (error) {
      return await this.#refused(target, error).catch(failureOf)
    }
    const outcome = await this.#examined(fd, openedAt, target, wantsBytes).catch(failureOf)
    if (outcome.kind !== 'file') this.#descriptors.close(fd)
    return outcome
  }

  async #examined (fd: number, openedAt: number, target: Target, wantsBytes: () => boolean): Promise<Opened> {
    const { path, links } = target
    const stat = await this.#fs.fstat(fd)
    if (stat.kind === 'other') return { kind: 'negative', errno: 'ENOENT' }
    if (links !== undefined && !await this.#isAllowed(fd, path, links)) {
      if (await this.#leadsOut(path, links)) return { kind: 'negative', errno: 'ELOOP' }
      throw new Unproven('links on the way keep changing')
    }
    target.spelledFrom = await this.#spelling.spelledFrom(path)
    if (stat.kind === 'directory') return { kind: 'directory', snapshot: stat as FileSnapshot }
    const isRemote = await this.#isRemote(path, stat.dev)
    const isUnchanged = stat.ctimeNs <= BigInt(Math.round(openedAt * 1e6))
    const file = new OpenFile(this.#descriptors, fd, isRemote, stat as FileSnapshot, isUnchanged)
    if (wantsBytes()) await this.#descriptors.readWhole(file)
    return { kind: 'file', file }
  }

  /** A directory that may be entered but not read (on Windows, any directory) is a directory all the same. */
  async #refused (target: Target, error: unknown): Promise<Opened> {
    if (target.links === undefined && MAYBE_DIRECTORY.includes(codeOf(error))) {
      // Not known at the moment, it may be a directory: "forbidden" would be remembered.
      const stat = await statIfThere(this.#fs, target.path)
      if (stat?.kind === 'directory') {
        target.spelledFrom = await this.#spelling.spelledFrom(target.path)
        return { kind: 'directory', snapshot: stat as FileSnapshot }
      }
    }
    return failureOf(error)
  }

  async #isAllowed (fd: number, path: string, links: LinkPolicy): Promise<boolean> {
    const looks = [this.#fs.realpath(links.root), this.#fs.realpathOf(fd, path)] as const
    // When one fails the caller closes `fd`: not while the other still looks at it.
    await Promise.allSettled(looks)
    const [root, real] = await Promise.all(looks)
    return isWithin(root, real, path, links)
  }

  /**
   * Whether the path leads where its policy forbids while the root stands still. That the descriptor is elsewhere proves
   * nothing: its file may have been renamed or unlinked, or the root swapped, since it was opened.
   */
  async #leadsOut (path: string, links: LinkPolicy): Promise<boolean> {
    try {
      const root = await this.#fs.realpath(links.root)
      const real = await this.#fs.realpath(path)
      return !isWithin(root, real, path, links) && await this.#fs.realpath(links.root) === root
    } catch {
      return false
    }
  }

  /** Asked once per device. */
  #isRemote (path: string, dev: bigint): boolean | Promise<boolean> {
    const known = this.#remoteDevices.get(dev)
    if (known !== undefined) return known
    const asked = this.#fs.isRemote(path)
    this.#remoteDevices.set(dev, asked)
    asked.then((isRemote) => this.#remoteDevices.set(dev, isRemote), () => this.#remoteDevices.delete(dev))
    return asked
  }
}

function isWithin (root: string, real: string, path: string, { root: givenRoot, symlinks }: LinkPolicy): boolean {
  const below = root.endsWith(sep) ? root : root + sep
  if (symlinks === 'within-root') return real === root || real.startsWith(below)
  const way = relative(givenRoot, path)
  return real === (way === '' ? root : below + way)
}
