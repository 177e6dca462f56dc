import { sep } from 'node:path'
import { OpenFile } from './open-file'
import type { Descriptors } from './descriptors'
import type { Clock, FileSnapshot, FileSystem, LinkPolicy, Negative } from '../types/open-file-cache'

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

/** Opens paths: first the descriptor, then what it is, then whether it may be used. */
export class Opening {
  readonly #fs: FileSystem
  readonly #clock: Clock
  readonly #descriptors: Descriptors
  readonly #remoteDevices = new Map<bigint, boolean | Promise<boolean>>()

  constructor (fs: FileSystem, clock: Clock, descriptors: Descriptors) {
    this.#fs = fs
    this.#clock = clock
    this.#descriptors = descriptors
  }

  /** `wantsBytes`: a small file is read whole at once. */
  async open (target: Target, wantsBytes: () => boolean): Promise<Opened> {
    const retries = new Set(['descriptors', 'stale', 'links'])
    for (;;) {
      target.checkedAt = this.#clock.now()
      const outcome = await this.#openOnce(target, wantsBytes)
      if (outcome === 'outside') {
        // The root, or a link on the way, may have been swapped between two calls.
        if (retries.delete('links')) continue
        return { kind: 'negative', errno: 'ELOOP' }
      }
      if (outcome.kind === 'failed') {
        const code = codeOf(outcome.error)
        if (code === 'ESTALE' && retries.delete('stale')) continue
        const isExhausted = code === 'EMFILE' || code === 'ENFILE'
        if (isExhausted && retries.delete('descriptors') && await this.#descriptors.reclaim()) continue
      }
      return outcome
    }
  }

  async #openOnce ({ path, links }: Target, wantsBytes: () => boolean): Promise<Opened | 'outside'> {
    let fd: number
    try {
      fd = await this.#descriptors.open(path)
    } catch (error) {
      return this.#refused(path, links, error)
    }
    let isKept = false
    try {
      const stat = await this.#fs.fstat(fd)
      if (stat.kind === 'other') return { kind: 'negative', errno: 'ENOENT' }
      if (links !== undefined && !await this.#isAllowed(fd, path, links)) return 'outside'
      if (stat.kind === 'directory') return { kind: 'directory', snapshot: stat as FileSnapshot }
      const file = new OpenFile(this.#descriptors, fd, await this.#isRemote(path, stat.dev), stat as FileSnapshot)
      if (wantsBytes()) await this.#descriptors.readWhole(file)
      isKept = true
      return { kind: 'file', file }
    } catch (error) {
      return failureOf(error)
    } finally {
      if (!isKept) this.#descriptors.close(fd)
    }
  }

  /** A directory that may be entered but not read (on Windows, any directory) is a directory all the same. */
  async #refused (path: string, links: LinkPolicy | undefined, error: unknown): Promise<Opened> {
    if (links === undefined && MAYBE_DIRECTORY.includes(codeOf(error))) {
      const stat = await this.#fs.stat(path).catch(() => undefined)
      if (stat?.kind === 'directory') return { kind: 'directory', snapshot: stat as FileSnapshot }
    }
    return failureOf(error)
  }

  async #isAllowed (fd: number, path: string, links: LinkPolicy): Promise<boolean> {
    const [root, real] = await Promise.all([this.#fs.realpath(links.root), this.#fs.realpathOf(fd, path)])
    const below = root.endsWith(sep) ? root : root + sep
    if (links.symlinks === 'within-root') return real === root || real.startsWith(below)
    const relative = path.slice(links.root.length).replace(/^[\\/]/, '')
    return real === (relative === '' ? root : below + relative)
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
