import { isAbsolute, join, sep } from 'node:path'
import { BufferPool } from './buffer-pool'
import { cacheCapacity, lookupPolicy, NO_CAPACITY, shown } from './cache-options'
import { systemClock } from './clock'
import { Descriptors } from './descriptors'
import { DirectoryNames, isAt } from './directory-names'
import { EntryIndex, FileEntry, NegativeEntry } from './entry-index'
import { INVALID_ARGUMENT } from './errors'
import { nodeFileSystem } from './file-system'
import { Listings } from './listings'
import { DescriptorLease, isSameVersion, MemoryLease } from './open-file'
import { codeOf, failureOf, isRemembered, Opening, statIfThere } from './opening'
import { RevalidationTimer } from './revalidation'
import { Spelling } from './spelling'
import { Turns } from './turns'
import type { Capacity } from './cache-options'
import type { NamedDirectory } from './directory-names'
import type { OpenFile } from './open-file'
import type { Opened, Target } from './opening'
import type * as Contract from '../types/open-file-cache'
import type {
  Clock, FileSnapshot, FileSystem, Lease, LinkPolicy, ListedEntry, LookupPolicy, LookupPolicyOptions, Negative,
  OpenFileCacheOptions, OpenFileCacheStats, World
} from '../types/open-file-cache'

type Outcome = Opened | { readonly kind: 'unchanged', readonly entry: FileEntry }

interface Waiter {
  readonly policy: LookupPolicy
  readonly counts: boolean
  readonly joinedAt: number
  readonly resolve: (answer: Lease | Negative) => void
  readonly reject: (error: unknown) => void
}

/** One look at the disk, and who waits for it. */
interface Flight extends Target {
  readonly key: string
  waiters: Waiter[]
  /** `Infinity` while it waits for its turn. */
  issuedAt: number
  /** Forgotten by `invalidate` or `clear` since it was issued: answers those who wait, is not stored, nobody joins. */
  isSuperseded: boolean
  /** The one that starts when this one ends, for those who may not join this one. */
  next: Flight | undefined
}

/** Entries of one kind that one tick may drop. */
const SWEEP_AT_ONCE = 1000

/** From here on no more scopes are remembered: who has a link policy per call would make them grow without end. */
const MAX_SCOPES = 64

const ABSENT: Negative = Object.freeze({ kind: 'negative', errno: 'ENOENT' })
const NO_DIRECTORY: Negative = Object.freeze({ kind: 'negative', errno: 'ENOTDIR' })

export class OpenFileCache implements Contract.OpenFileCache {
  /** A cache that keeps nothing: each look-up asks the disk. */
  static off (world?: Partial<World>): OpenFileCache {
    return new OpenFileCache({ valid: 0, errors: false }, world, NO_CAPACITY)
  }

  readonly capacity: Capacity
  readonly buffers: BufferPool
  readonly #fs: FileSystem
  readonly #clock: Clock
  readonly #policy: LookupPolicy
  readonly #index: EntryIndex
  readonly #descriptors: Descriptors
  readonly #spelling: Spelling
  readonly #opening: Opening
  readonly #listings: Listings
  readonly #names: DirectoryNames
  readonly #timer: RevalidationTimer
  readonly #flights = new Map<string, Flight>()
  readonly #landings = new Set<Promise<void>>()
  /** For looks at files that are not hot: the rest waits here, not in the thread pool before the reads of others. */
  readonly #coldLooks = Turns.forThreads()
  /** Key suffixes of the link policies in use; `MAX_SCOPES` of them: there may be others. */
  readonly #scopes = new Set<string>([''])
  #hasWarned = false
  #closed: Promise<void> | undefined
  #hits = 0
  #misses = 0
  #negativeHits = 0
  #directoryHits = 0
  #revalidations = 0
  #evictions = 0

  constructor (
    options: OpenFileCacheOptions = {}, world: Partial<World> = {}, capacity: Capacity = cacheCapacity(options)
  ) {
    this.capacity = capacity
    this.#policy = lookupPolicy(options)
    this.#fs = world.fileSystem ?? nodeFileSystem()
    this.#clock = world.clock ?? systemClock
    this.buffers = new BufferPool(this.#clock, capacity.inactive, () => this.#timer.start())
    this.#index = new EntryIndex({
      ...capacity,
      maxOpen: Math.max(1, Math.floor(this.#fs.descriptorLimit() / 2)),
      onDrop: (entry) => {
        this.#timer.forget(entry)
        this.#descriptors.orphan(entry)
      },
      onMaxOpen: (entry) => {
        this.#descriptors.orphan(entry)
        this.#warnOfLimit()
      }
    })
    this.#descriptors = new Descriptors(this.#fs, this.#clock, this.#index, capacity.memoryMaxFileSize)
    this.#spelling = new Spelling(this.#fs, this.#clock)
    this.#opening = new Opening(this.#fs, this.#clock, this.#descriptors, this.#spelling)
    this.#listings = new Listings(this.#fs, this.#clock)
    this.#names = new DirectoryNames(this.#fs, this.#clock, capacity, () => this.#timer.start())
    this.#timer = new RevalidationTimer(this.#clock, {
      check: (entry) => this.#checkInBackground(entry),
      sweep: (now) => {
        this.#index.dropInactive(now, SWEEP_AT_ONCE)
        this.#names.dropInactive(now)
        this.buffers.dropInactive(now)
      },
      isIdle: () => this.#index.isEmpty && this.#names.size === 0 && this.buffers.bytes === 0
    })
  }

  policy (options?: LookupPolicyOptions): LookupPolicy {
    return lookupPolicy(options, this.#policy)
  }

  lookup (path: string, policy = this.#policy): FileSnapshot | Negative | undefined {
    const key = keyOf(path, policy.links)
    const now = this.#clock.now()
    const entry = this.#freshEntry(key, policy, now)
    if (entry === undefined) {
      return this.#freshNegative(key, policy, now) ?? this.#freshAbsence(this.#lacking(key, path, policy), policy, now)
    }
    this.#hits++
    if (isMisspelled(entry, policy)) return ABSENT
    this.#index.use(entry, policy, now)
    return entry.snapshot
  }

  lease (path: string, policy = this.#policy): Lease | undefined {
    const now = this.#clock.now()
    const entry = this.#freshEntry(keyOf(path, policy.links), policy, now)
    if (entry?.isReadable !== true || isMisspelled(entry, policy)) return undefined
    entry.usedAt = now
    return leaseOf(entry)
  }

  async open (path: string, policy = this.#policy, counts = true): Promise<Lease | Negative> {
    const key = keyOf(path, policy.links)
    const now = this.#clock.now()
    const entry = this.#freshEntry(key, policy, now)
    if (entry !== undefined && isMisspelled(entry, policy)) {
      if (counts) this.#hits++
      return ABSENT
    }
    if (entry?.isReadable === true) {
      if (counts) {
        this.#hits++
        this.#index.use(entry, policy, now)
      }
      return leaseOf(entry)
    }
    const negative = entry === undefined ? this.#freshNegative(key, policy, now) : undefined
    if (negative !== undefined) return negative
    const lacking = this.#lacking(key, path, policy)
    if (lacking !== undefined) {
      const absent = this.#freshAbsence(lacking, policy, now) ?? await this.#checkedAbsence(lacking, key, path, policy, now)
      if (absent !== undefined) return absent
    }
    if (counts) this.#misses++
    return await new Promise((resolve, reject) => {
      this.#join(key, path, { policy, counts, joinedAt: now, resolve, reject })
    })
  }

  async list (path: string, policy = this.#policy): Promise<readonly ListedEntry[] | Negative> {
    const directory = await this.open(path, policy, false)
    if (directory.kind === 'negative') return directory
    if (directory.kind === 'file') {
      directory.release()
      return NO_DIRECTORY
    }
    const entry = this.#index.peek(keyOf(path, policy.links))
    try {
      return await this.#listings.list(path, policy.valid, entry, async (name) => {
        const child = join(path, name)
        // The directory was proven, but the path may lead to another one when its names are read: each is proven too.
        return policy.links === undefined ? await statIfThere(this.#fs, child) : await this.#proven(child, policy)
      })
    } catch (error) {
      const failure = failureOf(error)
      if (failure.kind === 'negative') return failure
      throw error
    }
  }

  /** What a path leads to, if the policy allows it. */
  async #proven (path: string, policy: LookupPolicy): Promise<FileSnapshot | undefined> {
    const answer = await this.open(path, policy, false)
    if (answer.kind === 'negative') return undefined
    answer.release()
    return answer.snapshot
  }

  #freshEntry (key: string, policy: LookupPolicy, now: number): FileEntry | undefined {
    const entry = this.#index.peek(key)
    if (entry === undefined) return undefined
    const isFresh = now - entry.validatedAt < policy.valid
    if (!isMisspelled(entry, policy)) {
      this.#index.touch(entry)
      if (isFresh && policy.valid < entry.minValid) this.#timer.schedule(entry, policy.valid)
    }
    return isFresh ? entry : undefined
  }

  #freshNegative (key: string, policy: LookupPolicy, now: number): NegativeEntry | undefined {
    if (policy.errors === 0) return undefined
    const entry = this.#index.getNegative(key)
    if (entry === undefined || now - entry.validatedAt >= policy.errors) return undefined
    entry.usedAt = now
    this.#negativeHits++
    return entry
  }

  /** A directory whose names lack the way to `path`. */
  #lacking (key: string, path: string, { errors, spelledBelow }: LookupPolicy): NamedDirectory | undefined {
    // By another spelling than the stored one a name may be there all the same: only who refuses that may trust names.
    if (errors === 0 || spelledBelow === undefined) return undefined
    const lacking = this.#names.lacking(path, spelledBelow)
    // What was there is looked at itself, so that its entry does not outlive it.
    return lacking === undefined || this.#index.peek(key) !== undefined ? undefined : lacking
  }

  #freshAbsence (lacking: NamedDirectory | undefined, policy: LookupPolicy, now: number): Negative | undefined {
    if (lacking === undefined || now - lacking.checkedAt >= policy.errors) return undefined
    // Under a link policy the way to the directory may be what is refused.
    const isProven = policy.links === undefined || this.#freshEntry(keyOf(lacking.path, policy.links), policy, now) !== undefined
    return isProven ? this.#absent(lacking, now) : undefined
  }

  /** The same after a look at the directory. `undefined` also when that failed: then the path itself must be looked at. */
  async #checkedAbsence (
    lacking: NamedDirectory, key: string, path: string, policy: LookupPolicy, now: number
  ): Promise<Negative | undefined> {
    if (now - lacking.checkedAt >= policy.errors) await this.#names.check(lacking)
    const isProven = policy.links === undefined || await this.#proven(lacking.path, policy).catch(() => undefined) !== undefined
    const isStill = this.#lacking(key, path, policy) === lacking && now - lacking.checkedAt < policy.errors
    return isProven && isStill ? this.#absent(lacking, now) : undefined
  }

  #absent (lacking: NamedDirectory, now: number): Negative {
    lacking.usedAt = now
    this.#directoryHits++
    return ABSENT
  }

  #join (key: string, path: string, waiter: Waiter): void {
    const running = this.#flights.get(key)
    if (running === undefined) {
      const flight = newFlight(key, path, waiter.policy.links)
      flight.waiters.push(waiter)
      this.#start(flight)
    } else if (!running.isSuperseded && waiter.joinedAt - running.issuedAt < waiter.policy.valid) {
      running.waiters.push(waiter)
    } else {
      running.next ??= newFlight(key, path, waiter.policy.links)
      running.next.waiters.push(waiter)
    }
  }

  #start (flight: Flight): Promise<void> {
    if (flight.links !== undefined && this.#scopes.size < MAX_SCOPES) this.#scopes.add(scopeOf(flight.links))
    this.#flights.set(flight.key, flight)
    // Nobody waits for those of the timer, which makes a few at a time.
    const mayGo = flight.waiters.length === 0 || this.#index.peek(flight.key)?.isReadable === true
    const landing = (mayGo ? this.#fly(flight) : this.#flyInTurn(flight)).finally(() => this.#landings.delete(landing))
    this.#landings.add(landing)
    return landing
  }

  async #flyInTurn (flight: Flight): Promise<void> {
    if (!this.#coldLooks.take()) await new Promise<void>((resolve) => { this.#coldLooks.wait(resolve) })
    try {
      await this.#fly(flight)
    } finally {
      this.#coldLooks.done()
    }
  }

  async #fly (flight: Flight): Promise<void> {
    flight.issuedAt = this.#clock.now()
    let outcome = await this.#check(flight)
    // No await between this decision and the landing: nobody can join, evict or invalidate in between.
    if (outcome === undefined || (outcome.kind === 'unchanged' && !isStillEnough(flight, outcome.entry))) {
      // Hot bytes are replaced by bytes, so that no request waits for them.
      outcome = await this.#opening.open(flight, () => this.#index.peek(flight.key)?.isHeld === true)
    }
    this.#land(flight, outcome)
  }

  /** Looks again at a known entry by `stat`, when that can be enough. `undefined`: the path must be opened. */
  async #check (flight: Flight): Promise<Outcome | undefined> {
    const entry = this.#index.peek(flight.key)
    if (entry === undefined) return undefined
    this.#revalidations++
    // Under a link policy the way to the file matters, not only where it ends.
    if (flight.links !== undefined || !isStillEnough(flight, entry)) return undefined
    flight.checkedAt = this.#clock.now()
    try {
      const stat = await this.#fs.stat(flight.path)
      flight.spelledFrom = await this.#spelling.spelledFrom(flight.path)
      return entry.settled && isSameVersion(stat, entry.snapshot) ? { kind: 'unchanged', entry } : undefined
    } catch (error) {
      return codeOf(error) === 'ESTALE' ? undefined : failureOf(error)
    }
  }

  #land (flight: Flight, outcome: Outcome): void {
    this.#flights.delete(flight.key)
    const isStored = !flight.isSuperseded && this.#closed === undefined && this.capacity.max > 0
    if (outcome.kind !== 'negative' && outcome.kind !== 'failed') answerMisspelled(flight)
    switch (outcome.kind) {
      case 'unchanged':
        outcome.entry.validatedAt = flight.checkedAt
        outcome.entry.spelledFrom = flight.spelledFrom
        this.#timer.checked(outcome.entry)
        this.#countUses(flight, outcome.entry)
        for (const waiter of flight.waiters) waiter.resolve(leaseOf(outcome.entry))
        break
      case 'file':
        this.#landFile(flight, outcome.file, isStored)
        break
      case 'directory': {
        const entry = isStored ? this.#store(flight, outcome.snapshot) : undefined
        if (entry !== undefined) this.#countUses(flight, entry)
        const lease = entry?.memory ?? new MemoryLease(outcome.snapshot, undefined)
        for (const waiter of flight.waiters) waiter.resolve(lease)
        break
      }
      case 'negative':
        this.#landNegative(flight, outcome.errno, isStored)
        break
      case 'failed':
        for (const waiter of flight.waiters) waiter.reject(outcome.error)
    }
    if (flight.next !== undefined) this.#start(flight.next)
  }

  #landFile (flight: Flight, file: OpenFile, isStored: boolean): void {
    if (isStored) {
      const wasReadable = this.#index.peek(flight.key)?.isReadable === true
      const entry = this.#store(flight, file.snapshot, file.bytes?.buffer)
      entry.settled = file.settled
      file.snapshot = entry.snapshot
      file.entry = entry
      this.#countUses(flight, entry)
      if (entry.retained && (wasReadable || flight.waiters.length > 0)) this.#keep(entry, file)
    }
    for (const waiter of flight.waiters) waiter.resolve(new DescriptorLease(file, file.bytes?.buffer))
    this.#descriptors.closeIfUnused(file)
  }

  /** The entry stays readable: by bytes where there are some, else by the descriptor. */
  #keep (entry: FileEntry, file: OpenFile): void {
    if (file.bytes === undefined) this.#index.keepOpen(entry, file)
    else this.#index.hold(entry, file.bytes)
  }

  #landNegative (flight: Flight, errno: Negative['errno'], isStored: boolean): void {
    const known = this.#index.peek(flight.key)
    if (known !== undefined && !flight.isSuperseded) this.#index.drop(known)
    const now = this.#clock.now()
    const entry = new NegativeEntry(errno, flight.checkedAt, now)
    if (isStored && isRemembered(errno) && flight.waiters.some((waiter) => waiter.policy.errors > 0)) {
      this.#index.addNegative(flight.key, entry)
      this.#timer.start()
    } else if (!flight.isSuperseded) {
      this.#index.deleteNegative(flight.key)
    }
    if (isStored && errno === 'ENOENT') this.#countMiss(flight)
    for (const waiter of flight.waiters) {
      const age = waiter.joinedAt - flight.checkedAt
      if (age > 0 && age >= waiter.policy.errors) {
        // The look was issued before this caller came, longer ago than it accepts for a "not there".
        flight.next ??= newFlight(flight.key, flight.path, flight.links)
        flight.next.waiters.push(waiter)
      } else {
        waiter.resolve(entry)
      }
    }
  }

  #countMiss ({ path, waiters }: Flight): void {
    const policy = waiters.map((waiter) => waiter.policy).find(({ errors, spelledBelow }) => errors > 0 && spelledBelow !== undefined)
    if (policy?.spelledBelow !== undefined) this.#names.missed(path, policy.spelledBelow)
  }

  /** The entry of the flight's key, brought to `snapshot`, without descriptor or bytes. */
  #store (flight: Flight, snapshot: FileSnapshot, bytes?: Buffer): FileEntry {
    let entry = this.#index.peek(flight.key)
    if (entry !== undefined && entry.snapshot.kind !== snapshot.kind) {
      this.#index.drop(entry)
      entry = undefined
    }
    if (entry === undefined) {
      entry = new FileEntry(flight.key, flight.links, snapshot, flight.checkedAt, this.#clock.now())
      entry.spelledFrom = flight.spelledFrom
      this.#evictions += this.#index.add(entry)
      this.#timer.start()
      return entry
    }
    this.#descriptors.orphan(entry)
    const before = entry.memory.bytes
    const isOther = before !== undefined && bytes?.equals(before) === false
    this.#index.adopt(entry, !isOther && isSameVersion(snapshot, entry.snapshot) ? entry.snapshot : snapshot)
    entry.validatedAt = flight.checkedAt
    entry.spelledFrom = flight.spelledFrom
    this.#timer.checked(entry)
    return entry
  }

  #countUses (flight: Flight, entry: FileEntry): void {
    const now = this.#clock.now()
    for (const waiter of flight.waiters) {
      if (waiter.counts) this.#index.use(entry, waiter.policy, now)
    }
  }

  async #checkInBackground (entry: FileEntry): Promise<void> {
    // A flight under way is a check as good as any.
    if (this.#flights.has(entry.key)) return
    await this.#start(newFlight(entry.key, pathOf(entry.key), entry.links))
  }

  #warnOfLimit (): void {
    if (this.#hasWarned) return
    this.#hasWarned = true
    process.emitWarning(
      'fastify-cached-static: half of the descriptors that this process may open are cached files; the least recently ' +
      'used are closed. Raise the limit (ulimit -n, LimitNOFILE=) or lower "openFileCache.max".'
    )
  }

  invalidate (path: string | { under: string }): void {
    const under = typeof path === 'string' ? undefined : path?.under
    const named: unknown = under ?? path
    // A relative path is no key: nothing would be forgotten.
    if (typeof named !== 'string' || !isAbsolute(named)) {
      const got = under === undefined ? shown(path) : `{ under: ${shown(under)} }`
      throw new INVALID_ARGUMENT(`invalidate() needs an absolute path or { under: path }, but got ${got}`)
    }
    if (typeof path === 'string') {
      if (this.#scopes.size < MAX_SCOPES) for (const scope of this.#scopes) this.#forget(path + scope)
      else this.#forgetAll((key) => pathOf(key) === path)
      this.#names.forget(path)
      return
    }
    const directory = named.endsWith(sep) ? named.slice(0, -1) : named
    this.#forgetAll((key) => isAt(pathOf(key), directory))
    this.#names.forgetUnder(directory)
  }

  clear (): void {
    this.#forgetAll(() => true)
    this.#names.clear()
  }

  #forgetAll (matches: (key: string) => boolean): void {
    for (const key of [...this.#index.keys(), ...this.#flights.keys()]) {
      if (matches(key)) this.#forget(key)
    }
  }

  #forget (key: string): void {
    const entry = this.#index.peek(key)
    if (entry !== undefined) this.#index.drop(entry)
    this.#index.deleteNegative(key)
    const flight = this.#flights.get(key)
    // What has not looked yet will see what is there by then.
    if (flight !== undefined && flight.issuedAt !== Infinity) flight.isSuperseded = true
  }

  close (): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close (): Promise<void> {
    this.clear()
    this.buffers.close()
    this.#timer.stop()
    await Promise.all(this.#landings)
    await this.#names.idle()
    await this.#descriptors.closed()
  }

  stats (): OpenFileCacheStats {
    return {
      hits: this.#hits,
      misses: this.#misses,
      negativeHits: this.#negativeHits,
      directoryHits: this.#directoryHits,
      revalidations: this.#revalidations,
      evictions: this.#evictions,
      opens: this.#descriptors.opens,
      closes: this.#descriptors.closes,
      entries: this.#index.entries,
      negativeEntries: this.#index.negativeEntries,
      directories: this.#names.size,
      names: this.#names.names,
      openFiles: this.#descriptors.opens - this.#descriptors.closes,
      leases: this.#descriptors.leases,
      bodyBytes: this.#index.bodyBytes,
      poolBytes: this.buffers.bytes
    }
  }
}

function newFlight (key: string, path: string, links: LinkPolicy | undefined): Flight {
  return { key, path, links, waiters: [], issuedAt: Infinity, checkedAt: 0, spelledFrom: 0, isSuperseded: false, next: undefined }
}

/** Whether an unchanged entry answers all who wait: it must still be there, and readable for a request. */
function isStillEnough (flight: Flight, entry: FileEntry): boolean {
  return !entry.dropped && (entry.isReadable || flight.waiters.length === 0)
}

function isMisspelled ({ spelledFrom }: { spelledFrom: number }, { spelledBelow }: LookupPolicy): boolean {
  return spelledBelow !== undefined && spelledFrom > spelledBelow.length
}

/** What was found is not there for those who want its name spelled as it is stored: they wait for nothing more. */
function answerMisspelled (flight: Flight): void {
  const isRefused = (waiter: Waiter): boolean => isMisspelled(flight, waiter.policy)
  for (const waiter of flight.waiters.filter(isRefused)) waiter.resolve(ABSENT)
  flight.waiters = flight.waiters.filter((waiter) => !isRefused(waiter))
}

function leaseOf (entry: FileEntry): Lease {
  return entry.file === undefined ? entry.memory : new DescriptorLease(entry.file)
}

/** The path, alone for those who follow every link, so that the hot key is no new string. */
function keyOf (path: string, links: LinkPolicy | undefined): string {
  return links === undefined ? path : path + scopeOf(links)
}

function scopeOf (links: LinkPolicy): string {
  return `\0${links.symlinks}\0${links.root}`
}

function pathOf (key: string): string {
  const end = key.indexOf('\0')
  return end === -1 ? key : key.slice(0, end)
}
