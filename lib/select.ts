import { childPath } from './resolve-path'
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
}

export interface Failed {
  readonly kind: 'failed'
  /** A rejection of `resolve-path`, an errno, or the error of a call that failed. */
  readonly reason: unknown
}

export interface Search {
  readonly target: Target
  /** Names that stand for a directory. */
  readonly index: readonly string[]
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
  try {
    for (;;) {
      const answer = await cache.open(candidates.path, policy, counts)
      const selection = answer.kind === 'negative'
        ? candidates.judge(answer, undefined)
        : candidates.judge(answer.snapshot, answer)
      if (selection !== undefined) return selection
    }
  } catch (error) {
    return { kind: 'failed', reason: error }
  }
}

// Only these let the next candidate try: anything else is an answer.
function isAbsent (errno: string): boolean {
  return errno === 'ENOENT' || errno === 'ENOTDIR' || errno === 'ENAMETOOLONG'
}

/** The paths that may answer a target, one at a time: the target itself, the index files of a directory, the fallback. */
class Candidates {
  readonly #search: Search
  #stage: 'target' | 'index' | 'fallback'
  #nextIndex = 0
  path: TargetPath

  constructor (search: Search) {
    this.#search = search
    this.#stage = 'target'
    this.path = search.target.path
    // A directory is asked for: its index answers or nothing does, so there is no need to look at the directory.
    if (search.target.trailingSlash && search.index.length > 0) {
      this.#stage = 'index'
      // No name of an index file fits: only the target itself can tell what is missing.
      if (this.#toNextIndex() !== undefined) this.#stage = 'target'
    }
  }

  /** What the present candidate decides; `undefined`: look at the next one. */
  judge (known: FileSnapshot | Negative, lease: Lease | undefined): Selection | undefined {
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
      this.path = path
      return undefined
    }
  }

  #absent (): Selection | undefined {
    if (this.#search.fallback === undefined) return failed('ENOENT')
    this.#stage = 'fallback'
    this.path = this.#search.fallback
    return undefined
  }

  #found (snapshot: FileSnapshot, lease: Lease | undefined): Found {
    return { kind: 'found', path: this.path, snapshot, lease }
  }
}

function failed (reason: unknown): Failed {
  return { kind: 'failed', reason }
}
