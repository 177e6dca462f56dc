/// <reference types="node" />

/** Milliseconds, or a string such as `'20s'`, `'500ms'`, `'1m'`; `Infinity` (or `'Infinity'`, for JSON) is "for ever". */
export type Duration = number | string

/**
 * Capacity and default policy of one cache. The names are those of nginx's `open_file_cache` directives.
 */
export interface OpenFileCacheOptions extends LookupPolicyOptions {
  /**
   * Most file and directory entries kept; the least recently used goes first, entries below `minUses` before all
   * others. (nginx: `open_file_cache max=`)
   * @default 10000
   */
  max?: number
  /**
   * An entry that was not used for this long is dropped and its descriptor closed, by a timer too, not only by
   * traffic. (nginx: `open_file_cache inactive=`)
   * @default '30s'
   */
  inactive?: Duration
  /**
   * Bytes of small files that are kept in memory beside their metadata, or `false` for none.
   * @default {} (both defaults below)
   */
  memory?: false | MemoryOptions
  /**
   * Most negative entries kept: a budget of their own, so that a flood of missing names evicts no open file.
   * Their keys hold at most 4 MiB of text besides.
   * @default 10000
   */
  maxNegative?: number
  /**
   * Names of directories below which different paths are missing again and again, or `false` for none: what is not among
   * them is not there, whatever it is called, and one `stat` of the directory per `errors` holds for all of them. Where
   * look-ups say `spelledBelow`, on Linux, on file systems that keep the times of directories (ext, XFS, Btrfs, ZFS,
   * tmpfs, overlayfs, NTFS).
   * @default {} (both defaults below)
   */
  directories?: false | DirectoryOptions
}

export interface DirectoryOptions {
  /**
   * Most directories whose names are kept; that which was read the longest ago goes first.
   * @default 1000
   */
  max?: number
  /**
   * Most names kept in all; a directory with more is never read to its end.
   * @default 100000
   */
  maxNames?: number
}

export interface MemoryOptions {
  /**
   * Bytes kept in all; when the budget is full the least recently used bytes go and their entry stays.
   * @default 67108864 (64 MiB)
   */
  max?: number
  /**
   * Largest file, in bytes, that is kept in memory; a larger one is read from its descriptor.
   * @default 131072 (128 KiB), or `max` if that is smaller
   */
  maxFileSize?: number
}

/** What travels with each look-up, so that several users of one cache may differ. */
export interface LookupPolicyOptions {
  /**
   * Longest time that an answer may rest on an old check of the disk. `0` checks on every look-up, `Infinity` never
   * again. (nginx: `open_file_cache_valid`)
   * @default '20s'
   */
  valid?: Duration
  /**
   * Uses within `inactive` from which a file stays open, or its bytes held, after the request.
   * (nginx: `open_file_cache_min_uses`)
   * @default 2
   */
  minUses?: number
  /**
   * Remember that a path is missing or forbidden: `true` for `valid`, a duration for that long, `false` never.
   * (nginx: `open_file_cache_errors`)
   * @default '1s', but no longer than a `valid` given beside it
   */
  errors?: boolean | Duration
  /**
   * Which symbolic links may be followed on the way to the file; part of the cache key. For look-ups of your own; the
   * plugin sets it, from its option `symlinks`.
   * @default undefined (all)
   */
  links?: LinkPolicy
  /**
   * Absolute path of a directory below which names must be spelled as they are stored: a file or directory that is found
   * by another spelling, on a file system that ignores case, normalises Unicode or has short names, is `ENOENT`. The
   * names of this directory itself, and those above it, may be spelled in any way that leads there. Not part of the
   * cache key. For look-ups of your own; the plugin sets it, to each of its roots.
   * @default undefined (any spelling that the file system accepts)
   */
  spelledBelow?: string
}

/** Proven on the opened descriptor, against the real path that `root` has at that moment. */
export interface LinkPolicy {
  /** `'within-root'`: links may lead anywhere below `root`; `'deny'`: no link below `root` is followed. */
  readonly symlinks: 'within-root' | 'deny'
  /** Absolute path. */
  readonly root: string
}

/** A complete, checked policy, as `OpenFileCache.policy()` makes it. Durations in milliseconds. */
export interface LookupPolicy {
  readonly valid: number
  readonly minUses: number
  /** 0: negative entries are neither stored nor used. */
  readonly errors: number
  readonly links: LinkPolicy | undefined
  readonly spelledBelow: string | undefined
}

/**
 * Immutable identity, size and times of one version of a file or directory. A new object appears only when the file
 * changed, so it can key a `WeakMap`.
 */
export interface FileSnapshot {
  readonly kind: 'file' | 'directory'
  readonly dev: bigint
  readonly ino: bigint
  /** Bytes. */
  readonly size: number
  readonly mtimeNs: bigint
  readonly ctimeNs: bigint
  readonly atimeNs: bigint
  readonly birthtimeNs: bigint
  readonly mode: number
  readonly nlink: number
  readonly uid: number
  readonly gid: number
  readonly rdev: number
  readonly blksize: number
  readonly blocks: number
}

/** One name in a directory, and what it stands for. */
export interface ListedEntry {
  /** As stored, whatever file system. */
  readonly name: string
  /** Of what a link leads to, for a link. */
  readonly snapshot: FileSnapshot
}

/** The path has no servable file. All but `ENAMETOOLONG` may be remembered. Special files count as `ENOENT`. */
export interface Negative {
  readonly kind: 'negative'
  readonly errno: 'ENOENT' | 'ENOTDIR' | 'EACCES' | 'EPERM' | 'ELOOP' | 'ENAMETOOLONG'
}

/**
 * One counted borrow of a file: `release()` it exactly when you are done; releasing twice is harmless.
 *
 * - `open`: `read()` works until `release()`.
 * - `held`: `bytes` is the whole file, one consistent version.
 * - `metadata-only`: a directory.
 */
export interface Lease {
  readonly kind: 'file' | 'directory'
  readonly state: 'open' | 'held' | 'metadata-only'
  readonly snapshot: FileSnapshot
  /** The whole file, when held: never write into it. */
  readonly bytes: Buffer | undefined
  /** Whether `fill()` would read the file, by the size of `snapshot`. */
  readonly isFillable: boolean
  /**
   * The snapshot, after one `fstat` of an open descriptor (synchronous on local file systems, a promise on network
   * ones): decide length and validators from this, then read.
   * @throws the errno error of `fstat`; `ESTALE` asks for one more `open()`
   */
  current (): FileSnapshot | Promise<FileSnapshot>
  /**
   * Reads a file of at most `memory.maxFileSize` bytes whole, between two `fstat`s that agree: afterwards `bytes` and
   * `snapshot` are one version. Concurrent calls share one read. Resolves without `bytes` when the file is too large,
   * `memory` is `false`, or the file would not hold still.
   */
  fill (): Promise<void>
  /** Positional read from the open descriptor, as `fs.read`. */
  read (
    buffer: Buffer, offset: number, length: number, position: number,
    callback: (error: Error | null, bytesRead: number) => void
  ): void
  release (): void
}

export interface OpenFileCacheStats {
  /** Look-ups answered from a fresh file or directory entry. */
  hits: number
  /** Look-ups that had to ask the file system. */
  misses: number
  /** Look-ups answered from a fresh negative entry. */
  negativeHits: number
  /** Look-ups answered by the names of a directory. */
  directoryHits: number
  /** Known entries that were checked again, by a request or by the timer. */
  revalidations: number
  /** Entries dropped because `max` was reached. */
  evictions: number
  /** Descriptors opened, and closed, since the start. */
  opens: number
  closes: number
  /** File and directory entries now. */
  entries: number
  negativeEntries: number
  /** Directories whose names are kept now, and their names. */
  directories: number
  names: number
  /** Every descriptor open now, those of dropped entries that are still being read included. */
  openFiles: number
  /** Borrows of descriptors not yet released. */
  leases: number
  /** Bytes of files held in memory. */
  bodyBytes: number
  /** Bytes of free buffers of the pool. */
  poolBytes: number
}

/**
 * nginx's `open_file_cache` for Node: open descriptors, metadata, bytes of small files and negative entries by absolute
 * path, with revalidation. Knows nothing of HTTP.
 *
 * ```js
 * const cache = new OpenFileCache({ valid: '5s' })
 * const answer = await cache.open(path)
 * if (answer.kind === 'negative') … else try { … } finally { answer.release() }
 * ```
 */
export class OpenFileCache {
  /**
   * @throws FST_STATIC_INVALID_OPTION_VALUE names the option, what it may be, and what came
   */
  constructor (options?: OpenFileCacheOptions, world?: Partial<World>)

  /**
   * A complete policy from some of its parts; the rest as this cache's options say. Make it once and reuse it.
   * @throws FST_STATIC_INVALID_OPTION_VALUE
   */
  policy (options?: LookupPolicyOptions): LookupPolicy

  /** What is known and fresh about a path, synchronously and without borrowing anything. One use when it answers. */
  lookup (path: string, policy?: LookupPolicy): FileSnapshot | Negative | undefined

  /**
   * A lease of a fresh entry that is open or held (or a directory), synchronously; `undefined` when there is none. Not a
   * use: `lookup` or `open` counts it.
   */
  lease (path: string, policy?: LookupPolicy): Lease | undefined

  /**
   * A lease of the file at `path`, open or held (a directory: metadata-only), or why there is none. Concurrent calls
   * for one path share one look at the disk. One use, unless `counts` is `false` (a look-up already counted it).
   * @throws (rejects with) the errno error when the failure may pass: `EMFILE`, `ENFILE`, `ENOMEM`, `EIO`, …
   */
  open (path: string, policy?: LookupPolicy, counts?: boolean): Promise<Lease | Negative>

  /**
   * The files and directories in the directory at `path`, links followed as the policy allows, by name
   * (`localeCompare`); or why there is no such directory (a file: `ENOTDIR`). Special files, and names that are gone or
   * cannot be looked at, are left out. Kept with the entry of the directory, while that is fresh and stands for the same
   * version, for at most `valid`; more than 1000 names are read each time. Concurrent calls share one read. Not a use.
   * @throws (rejects with) the errno error when the failure may pass: `EMFILE`, `ENFILE`, `ENOMEM`, `EIO`, …
   */
  list (path: string, policy?: LookupPolicy): Promise<readonly ListedEntry[] | Negative>

  /**
   * Forgets a path, or a directory and all below it: absolute, spelled as it is looked up. Looks under way are answered
   * but not remembered.
   * @throws FST_STATIC_INVALID_OPTION_VALUE also for a path that is not absolute
   */
  invalidate (path: string | { under: string }): void

  /** Forgets everything. */
  clear (): void

  /**
   * Forgets everything, stops the timer and closes every descriptor that is not leased; resolves when they are closed.
   * A closed cache still answers, from the disk each time.
   */
  close (): Promise<void>

  stats (): OpenFileCacheStats

  readonly buffers: BufferPool
}

/** Memory for bytes that are read from descriptors, used again: at most 16 MiB, given up after `inactive`. */
export interface BufferPool {
  /** Bytes of each buffer. */
  readonly size: number
  /** A buffer, with any content; `undefined`: all are lent. */
  take (): Buffer | undefined
  /** Takes it back. Nobody may read it, or write into it, any more. */
  give (buffer: Buffer): void
  /** The pool has one less: somebody may read it still. */
  drop (): void
  /**
   * Whose turn it is to take a buffer and read into it: 16 at a time, or UV_THREADPOOL_SIZE. Buffers that were just given
   * back are in the cache of the processor, and what waits here does not wait in the thread pool before others.
   */
  readonly reads: Turns
}

export interface Turns {
  /** Takes a turn, if there is one now. */
  take (): boolean
  /** Calls back when there is a turn again, which then is taken. Only after `take` was refused. */
  wait (callback: () => void): void
  /** A turn that was taken is over. */
  done (): void
}

/** Clock, timer and file system of a cache: injected together in tests. */
export interface World {
  readonly clock: Clock
  readonly fileSystem: FileSystem
}

export interface Clock {
  /** Monotonic milliseconds. */
  now (): number
  /** Wall-clock milliseconds, comparable to the times of files. */
  wall (): number
  /** Calls once after `delay` milliseconds; must not keep the process alive. Returns its cancellation. */
  after (delay: number, callback: () => void): () => void
}

/** The calls that the cache makes. Errors carry `code` as those of `node:fs`. */
export interface FileSystem {
  /** Read-only, without blocking on a FIFO. */
  open (path: string): Promise<number>
  close (fd: number): Promise<void>
  fstat (fd: number): Promise<FileStat>
  fstatSync (fd: number): FileStat
  /** Follows links. */
  stat (path: string): Promise<FileStat>
  read (
    fd: number, buffer: Buffer, offset: number, length: number, position: number,
    callback: (error: Error | null, bytesRead: number) => void
  ): void
  /**
   * The names in a directory, and what that directory was before they were read: of one and the same, wherever the path
   * leads meanwhile. `undefined` when there are more than `limit`.
   */
  names (path: string, limit: number): Promise<{ readonly names: readonly string[], readonly stat: FileStat } | undefined>
  /**
   * Whether the times of the directory change with each of its names, on the file system that it is on. Where this is
   * not known: `false`.
   */
  keepsDirectoryTimes (path: string): Promise<boolean>
  realpath (path: string): Promise<string>
  /** The real path of what `fd`, opened as `path`, refers to now. */
  realpathOf (fd: number, path: string): Promise<string>
  /** The names in a directory as they are stored, `.` and `..` left out; in any order. */
  readdir (path: string): Promise<readonly string[]>
  /**
   * Whether a name may be found by another spelling than the stored one (other case, other Unicode form, short name):
   * `'certain'` reads directories to find out, `'possible'` tries another spelling first, once a minute per directory.
   */
  readonly nameFolding: 'none' | 'possible' | 'certain'
  /** Whether calls on this path may take network time (NFS, SMB, FUSE, 9P, Ceph, …). */
  isRemote (path: string): Promise<boolean>
  /** How many descriptors the process may open. */
  descriptorLimit (): number
}

/** As `FileSnapshot`; special files too. */
export interface FileStat extends Omit<FileSnapshot, 'kind'> {
  readonly kind: 'file' | 'directory' | 'other'
}
