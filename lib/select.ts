import { CODING_SUFFIX } from './content-coding'
import { childPath, longerPath, resolveName, withSlash } from './resolve-path'
import type { Coding } from './content-coding'
import type { Target, TargetPath } from './resolve-path'
import type { FileSnapshot, Lease, LookupPolicy, Negative, OpenFileCache } from '../types/open-file-cache'

/** RFC 9110 12: what answers a target. */
export type Selection = Found | Directory | Failed

interface Answer {
  readonly path: TargetPath
  /** Which of the roots. */
  readonly root: number
  /** Canonical path below the root, of the file without its coding, or of the directory. */
  readonly pathname: string
}

export interface Found extends Answer {
  readonly kind: 'found'
  readonly snapshot: FileSnapshot
  /** What had to be awaited: borrowed, and the selection's to release. */
  readonly lease: Lease | undefined
  /** Of the file; `path` then ends in its suffix. */
  readonly coding: Coding | undefined
  /** The file without its coding. */
  readonly plainPath: TargetPath
}

/** A directory with nothing that stands for it. */
export interface Directory extends Answer {
  readonly kind: 'directory'
}

export interface Failed {
  readonly kind: 'failed'
  /** The last root that was tried. */
  readonly root: number
  /** An errno, or the error of a call that failed. */
  readonly reason: unknown
}

export interface Root {
  readonly path: string
  /** For the application; `undefined`: it has named none. */
  readonly name: string | undefined
  readonly policy: LookupPolicy
}

export interface Search {
  /** Below the first root. */
  readonly target: Target
  /** Tried in order. */
  readonly roots: readonly Root[]
  /** Names that stand for a directory. */
  readonly index: readonly string[]
  /** Tried after a name that is missing and has none, without dot. */
  readonly extensions: readonly string[]
  /** Codings that the client accepts, in order. */
  readonly codings: readonly Coding[]
  /** A directory without slash is an answer, whatever its index is. */
  readonly stopsAtDirectory: boolean
  /** Answers when nothing else does, below the first root. */
  readonly fallback: Target | undefined
}

/** All fresh: at once, borrowing nothing. Else a promise, for a selection that may own a lease. */
export function select (search: Search, cache: OpenFileCache): Selection | Promise<Selection> {
  const candidates = new Candidates(search)
  let selection = candidates.decided
  while (selection === undefined) {
    const known = cache.lookup(candidates.path, candidates.policy)
    if (known === undefined) return selectByOpening(candidates, cache, true)
    selection = candidates.judge(known, undefined)
  }
  return selection
}

/** The same with a lease in any case, for a search whose look-ups have been counted. */
export function selectAgain (search: Search, cache: OpenFileCache): Promise<Selection> {
  return selectByOpening(new Candidates(search), cache, false)
}

async function selectByOpening (candidates: Candidates, cache: OpenFileCache, counts: boolean): Promise<Selection> {
  let selection = candidates.decided
  while (selection === undefined) {
    let answer: Lease | Negative
    try {
      answer = await cache.open(candidates.path, candidates.policy, counts)
    } catch (reason) {
      // The plain file is as good an answer as one of its codings.
      if (!candidates.isCoded) return candidates.failed(reason)
      answer = ABSENT
    }
    selection = answer.kind === 'negative'
      ? candidates.judge(answer, undefined)
      : candidates.judge(answer.snapshot, answer)
  }
  return selection
}

const ABSENT: Negative = Object.freeze({ kind: 'negative', errno: 'ENOENT' })

// Only these let the next candidate try: anything else is an answer.
function isAbsent (errno: string): boolean {
  return errno === 'ENOENT' || errno === 'ENOTDIR' || errno === 'ENAMETOOLONG'
}

function hasExtension (pathname: string): boolean {
  // A dot in front makes a hidden name, not an extension.
  return pathname.lastIndexOf('.') > pathname.lastIndexOf('/') + 1
}

type Stage = 'target' | 'extension' | 'index' | 'fallback'

/**
 * The paths that may answer, one at a time. In each root: the target itself, with each extension, or the index files of
 * a directory; of each of these first its codings, then the plain file. In the end the fallback.
 */
class Candidates {
  readonly #search: Search
  #root = 0
  /** The target below the present root. */
  #target: Target
  #stage: Stage = 'target'
  /** Of the extension or index file. */
  #item = 0
  /** Of the coding; the plain file comes after the last. */
  #coding = 0
  #plain: TargetPath
  #pathname: string
  path: TargetPath
  /** What holds without a look at any path: none is short enough. */
  readonly decided: Selection | undefined

  constructor (search: Search) {
    this.#search = search
    this.#target = search.target
    this.#plain = this.path = search.target.path
    this.#pathname = search.target.pathname
    this.decided = this.#startInRoot()
  }

  get policy (): LookupPolicy {
    return (this.#search.roots[this.#root] as Root).policy
  }

  get isCoded (): boolean {
    return this.path !== this.#plain
  }

  failed (reason: unknown): Failed {
    return { kind: 'failed', root: this.#root, reason }
  }

  /** What the present candidate decides; `undefined`: look at the next one. */
  judge (known: FileSnapshot | Negative, lease: Lease | undefined): Selection | undefined {
    if (this.isCoded) {
      if (known.kind === 'file') return this.#found(known, lease)
      lease?.release()
      this.#coding++
      return this.#toCoding()
    }
    if (known.kind === 'negative' && !isAbsent(known.errno)) return this.failed(known.errno)
    switch (this.#stage) {
      case 'target':
        return this.#judgeTarget(known, lease)
      case 'extension':
      case 'index':
        if (known.kind === 'file') return this.#found(known, lease)
        lease?.release()
        this.#item++
        return this.#toItem()
      case 'fallback':
        if (known.kind === 'file') return this.#found(known, lease)
        lease?.release()
        return this.failed('ENOENT')
    }
  }

  #judgeTarget (known: FileSnapshot | Negative, lease: Lease | undefined): Selection | undefined {
    const { trailingSlash } = this.#target
    if (known.kind === 'file' && !trailingSlash) return this.#found(known, lease)
    lease?.release()
    if (known.kind !== 'directory') {
      return trailingSlash || hasExtension(this.#target.pathname) ? this.#toNextRoot() : this.#toStage('extension')
    }
    if (trailingSlash || this.#search.stopsAtDirectory) {
      return { kind: 'directory', path: this.#target.path, root: this.#root, pathname: this.#target.pathname }
    }
    return this.#toStage('index')
  }

  #startInRoot (): Selection | undefined {
    // A directory is asked for: its index answers or nothing does, so there is no need to look at the directory.
    if (this.#target.trailingSlash) {
      return this.#search.index.length > 0 ? this.#toStage('index') : this.#toPlain(this.#target.path, this.#target.pathname)
    }
    return this.#toBase(this.#target.path, this.#target.pathname)
  }

  #toStage (stage: Stage): Selection | undefined {
    this.#stage = stage
    this.#item = 0
    return this.#toItem()
  }

  #toItem (): Selection | undefined {
    const { index, extensions } = this.#search
    for (;; this.#item++) {
      const name = (this.#stage === 'index' ? index : extensions)[this.#item]
      if (name === undefined) return this.#toNextRoot()
      const { path, pathname } = this.#target
      const base = this.#stage === 'index' ? childPath(path, name) : longerPath(path, `.${name}`)
      if (base === undefined) continue
      return this.#toBase(base, this.#stage === 'index' ? withSlash(pathname) + name : `${pathname}.${name}`)
    }
  }

  #toBase (path: TargetPath, pathname: string): undefined {
    this.#plain = path
    this.#pathname = pathname
    this.#coding = 0
    return this.#toCoding()
  }

  #toCoding (): undefined {
    const { codings } = this.#search
    for (; this.#coding < codings.length; this.#coding++) {
      const path = longerPath(this.#plain, CODING_SUFFIX[codings[this.#coding] as Coding])
      if (path === undefined) continue
      this.path = path
      return
    }
    this.path = this.#plain
  }

  #toPlain (path: TargetPath, pathname: string): undefined {
    this.#plain = this.path = path
    this.#pathname = pathname
  }

  #toNextRoot (): Selection | undefined {
    for (;;) {
      const root = this.#search.roots[this.#root + 1]
      if (root === undefined) return this.#toFallback()
      this.#root++
      const target = resolveName(this.#search.target.pathname, root.path, 'allow')
      if (typeof target === 'string') continue
      this.#target = target
      this.#stage = 'target'
      return this.#startInRoot()
    }
  }

  #toFallback (): Selection | undefined {
    const { fallback } = this.#search
    if (fallback === undefined) return this.failed('ENOENT')
    this.#root = 0
    this.#stage = 'fallback'
    return this.#toBase(fallback.path, fallback.pathname)
  }

  #found (snapshot: FileSnapshot, lease: Lease | undefined): Found {
    return {
      kind: 'found',
      path: this.path,
      root: this.#root,
      pathname: this.#pathname,
      plainPath: this.#plain,
      snapshot,
      lease,
      coding: this.isCoded ? this.#search.codings[this.#coding] : undefined
    }
  }
}
