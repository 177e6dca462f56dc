import { CODING_SUFFIX } from './content-coding'
import { childPath, longerPath } from './resolve-path'
import type { Coding } from './content-coding'
import type { Target, TargetPath } from './resolve-path'
import type { FileSnapshot, Lease, LookupPolicy, Negative, OpenFileCache } from '../types/open-file-cache'

/** RFC 9110 12: what answers a target. */
export type Selection = Found | Failed

export interface Found {
  readonly kind: 'found'
  readonly path: TargetPath
  readonly snapshot: FileSnapshot
  /** What had to be awaited: borrowed, and the selection's to release. */
  readonly lease: Lease | undefined
  /** Of the file; `path` then ends in its suffix. */
  readonly coding: Coding | undefined
  /** The file without its coding. */
  readonly plainPath: TargetPath
}

export interface Failed {
  readonly kind: 'failed'
  /** An errno, or the error of a call that failed. */
  readonly reason: unknown
}

export interface Search {
  readonly target: Target
  /** Names that stand for a directory. */
  readonly index: readonly string[]
  /** Codings that the client accepts and that may lie beside a file, in order. */
  readonly codings: readonly Coding[]
  /** Answers when nothing else does. */
  readonly fallback: TargetPath | undefined
}

/** All fresh: at once, borrowing nothing. Else a promise, for a selection that may own a lease. */
export function select (search: Search, cache: OpenFileCache, policy: LookupPolicy): Selection | Promise<Selection> {
  const candidates = new Candidates(search)
  for (;;) {
    const known = cache.lookup(candidates.path, policy)
    if (known === undefined) return selectByOpening(candidates, cache, policy, true)
    const selection = candidates.judge(known, undefined)
    if (selection !== undefined) return selection
  }
}

/** The same with a lease in any case, for a search whose look-ups have been counted. */
export function selectAgain (search: Search, cache: OpenFileCache, policy: LookupPolicy): Promise<Selection> {
  return selectByOpening(new Candidates(search), cache, policy, false)
}

async function selectByOpening (
  candidates: Candidates, cache: OpenFileCache, policy: LookupPolicy, counts: boolean
): Promise<Selection> {
  for (;;) {
    let answer: Lease | Negative
    try {
      answer = await cache.open(candidates.path, policy, counts)
    } catch (error) {
      // The plain file is as good an answer as one of its codings.
      if (!candidates.isCoded) return failed(error)
      answer = ABSENT
    }
    const selection = answer.kind === 'negative'
      ? candidates.judge(answer, undefined)
      : candidates.judge(answer.snapshot, answer)
    if (selection !== undefined) return selection
  }
}

const ABSENT: Negative = Object.freeze({ kind: 'negative', errno: 'ENOENT' })

// Only these let the next candidate try: anything else is an answer.
function isAbsent (errno: string): boolean {
  return errno === 'ENOENT' || errno === 'ENOTDIR' || errno === 'ENAMETOOLONG'
}

/**
 * The paths that may answer a target, one at a time: the target itself, the index files of a directory, the fallback; of
 * each first its codings, then the plain file.
 */
class Candidates {
  readonly #search: Search
  #stage: 'target' | 'index' | 'fallback'
  #nextIndex = 0
  #nextCoding = 0
  #coding: Coding | undefined
  #plainPath: TargetPath
  path: TargetPath

  constructor (search: Search) {
    const { target, index } = search
    this.#search = search
    this.#stage = 'target'
    this.#plainPath = this.path = target.path
    if (!target.trailingSlash) {
      this.#toFile(target.path)
    // A directory is asked for: its index answers or nothing does, so there is no need to look at the directory.
    } else if (index.length > 0) {
      this.#stage = 'index'
      // No name of an index file fits: only the target itself can tell what is missing.
      if (this.#toNextIndex() !== undefined) this.#stage = 'target'
    }
  }

  get isCoded (): boolean {
    return this.#coding !== undefined
  }

  /** What the present candidate decides; `undefined`: look at the next one. */
  judge (known: FileSnapshot | Negative, lease: Lease | undefined): Selection | undefined {
    if (this.#coding !== undefined) return known.kind === 'file' ? this.#found(known, lease) : this.#toNextCoding()
    switch (this.#stage) {
      case 'target':
        if (known.kind === 'negative') return isAbsent(known.errno) ? this.#absent() : failed(known.errno)
        if (known.kind === 'file') {
          if (!this.#search.target.trailingSlash) return this.#found(known, lease)
          lease?.release()
          return this.#absent()
        }
        if (this.#search.index.length === 0) return this.#search.target.trailingSlash ? failed('EISDIR') : this.#absent()
        this.#stage = 'index'
        return this.#toNextIndex()
      case 'index':
        if (known.kind === 'file') return this.#found(known, lease)
        if (known.kind === 'negative' && !isAbsent(known.errno)) return failed(known.errno)
        return this.#toNextIndex()
      case 'fallback':
        if (known.kind === 'file') return this.#found(known, lease)
        return failed('ENOENT')
    }
  }

  #toNextIndex (): Selection | undefined {
    for (;;) {
      const name = this.#search.index[this.#nextIndex++]
      if (name === undefined) return this.#absent()
      const path = childPath(this.#search.target.path, name)
      if (path === undefined) continue
      return this.#toFile(path)
    }
  }

  #absent (): Selection | undefined {
    if (this.#search.fallback === undefined) return failed('ENOENT')
    this.#stage = 'fallback'
    return this.#toFile(this.#search.fallback)
  }

  #toFile (path: TargetPath): undefined {
    this.#plainPath = path
    this.#nextCoding = 0
    return this.#toNextCoding()
  }

  #toNextCoding (): undefined {
    for (;;) {
      this.#coding = this.#search.codings[this.#nextCoding++]
      const path = this.#coding === undefined ? this.#plainPath : longerPath(this.#plainPath, CODING_SUFFIX[this.#coding])
      if (path === undefined) continue
      this.path = path
      return
    }
  }

  #found (snapshot: FileSnapshot, lease: Lease | undefined): Found {
    return { kind: 'found', path: this.path, snapshot, lease, coding: this.#coding, plainPath: this.#plainPath }
  }
}

function failed (reason: unknown): Failed {
  return { kind: 'failed', reason }
}
