import t from 'tap'
import { OpenFileCache } from '../lib/open-file-cache'
import type { FileSnapshot, Lease, LookupPolicy, Negative } from '../types/open-file-cache'
import { fakeWorld, settled } from './fixtures/fake-world'
import { isOf, NaiveOracle, tell, type Question } from './fixtures/naive-oracle'
import { Random } from './fixtures/random'

const ROOT = '/srv/current'

const FILES = [
  '/srv/releases/1/a', '/srv/releases/1/b', '/srv/releases/1/sub/c', '/srv/releases/2/a', '/srv/releases/2/b',
  '/srv/releases/2/sub/c', '/out/x', '/flat/e1', '/flat/e2', '/flat/f', '/flat/f/g', '/flat/new', '/flat/big'
]

const PATHS = [
  `${ROOT}/a`, `${ROOT}/a`, `${ROOT}/b`, `${ROOT}/sub/c`, `${ROOT}/sub`, `${ROOT}/l`, `${ROOT}/up`, ROOT,
  '/srv/releases/1/a', '/flat/e', '/flat/e', '/flat/e1', '/flat/f', '/flat/f/g', '/flat/new', '/flat/big', '/out/x'
]

const LINK_TARGETS = [`${ROOT}/a`, '/srv/releases/1/b', '/out/x', '/nowhere', '/srv/releases/1/l', '/srv/releases/2/l']

const TRANSIENT = ['EMFILE', 'ENFILE', 'ENOMEM', 'EIO', 'EAGAIN', 'ESTALE']

/** Milliseconds at a time. */
const PACES = [
  [0.25, 1, 10, 100],
  [0.25, 10, 100, 500, 900],
  [0.25, 100, 500, 1000, 1500, 5000],
  [0.25, 10, 500, 1000, 2500, 5000, 20_000, 60_000]
]

/** How many of the last operations a failure shows. */
const LOG = Number(process.env['MODEL_LOG'] ?? 30)

const OPERATIONS = {
  change: 20,
  advance: 10,
  lookup: 10,
  lease: 10,
  open: 14,
  use: 14,
  deliver: 24,
  drain: 2,
  forget: 2,
  fault: 2,
  flood: 0.5
}

const CHANGES = {
  inPlace: 20,
  sameLength: 10,
  sameTimes: 8,
  rename: 12,
  renameSame: 6,
  unlink: 8,
  chmod: 8,
  search: 3,
  current: 8,
  twin: 6,
  link: 6,
  directory: 3,
  special: 1,
  utimes: 3,
  deploy: 5,
  twins: 3,
  move: 2
}

interface Borrowed {
  readonly lease: Lease
  readonly question: Question
  readonly label: string
  /** Bodies, fills and currents that are not over. */
  busy: number
  isReleased: boolean
}

/** What happened, over all runs: a model that never gets anywhere proves nothing. */
const reached: Record<string, number> = {}

function count (what: string): void {
  reached[what] = (reached[what] ?? 0) + 1
}

class Model {
  readonly #random: Random
  readonly #world = fakeWorld()
  readonly #oracle: NaiveOracle
  readonly #cache: OpenFileCache
  readonly #max: number
  readonly #maxNegative: number
  readonly #memory: false | { max: number, maxFileSize: number }
  readonly #inactive: number
  readonly #policies: LookupPolicy[]
  readonly #operations: typeof OPERATIONS
  readonly #changes: typeof CHANGES
  readonly #paths: string[]
  readonly #pace: number[]
  readonly #isCoarse: boolean
  readonly #hasFaults: boolean
  readonly #seed: number
  #isClosed = false
  #step = 0
  #log: string[] = []
  #failure: Error | undefined
  #borrowed: Borrowed[] = []
  #waiting = 0
  /** Failures and changes until the last time that nothing was under way. */
  #failuresBefore = 0
  #momentBefore = 0
  #labels = 0
  #uses = new Map<string, number>()

  constructor (seed: number) {
    const random = this.#random = new Random(seed)
    this.#seed = seed
    const { fileSystem } = this.#world
    this.#isCoarse = random.chance(0.4)
    if (this.#isCoarse) fileSystem.tickNs = random.pick([10_000_000n, 100_000_000n, 1_000_000_000n, 2_000_000_000n])
    fileSystem.remote = random.chance(0.2)
    fileSystem.reusesInodes = random.chance(0.5)
    fileSystem.maxRead = random.pick([Infinity, Infinity, 7, 16])
    fileSystem.limit = random.pick([1_000_000, 1_000_000, 24, 6])
    this.#hasFaults = random.chance(0.7)
    // Each run does some things often and others never: what needs three rare events in a row comes up in one of them.
    this.#operations = swarm(random, OPERATIONS, [0.3, 1, 1, 3])
    this.#changes = swarm(random, CHANGES, [0, 1, 1, 4])
    const some = random.int(2, PATHS.length)
    this.#paths = [PATHS[0] as string, ...Array.from({ length: some }, () => random.pick(PATHS))]
    this.#pace = random.pick(PACES)
    this.#max = random.pick([2, 4, 8, 20])
    this.#maxNegative = random.pick([1, 2, 4])
    this.#memory = random.pick([false, { max: 60, maxFileSize: 48 }, { max: 200, maxFileSize: 48 }, { max: 1000, maxFileSize: 48 }])
    this.#inactive = random.pick([3000, 30_000])
    this.#oracle = new NaiveOracle(this.#world)
    this.#cache = new OpenFileCache({
      max: this.#max,
      maxNegative: this.#maxNegative,
      memory: this.#memory,
      inactive: this.#inactive
    }, this.#world)
    const links = [undefined, undefined, { symlinks: 'within-root', root: ROOT }, { symlinks: 'deny', root: ROOT }] as const
    const isWithoutErrors = random.chance(0.1)
    this.#policies = Array.from({ length: random.int(1, 5) }, () => this.#cache.policy({
      valid: random.pick([0, 1000, 1000, 20_000, Infinity]),
      minUses: random.pick([1, 1, 2, 3]),
      errors: isWithoutErrors ? false : random.pick([false, 1000, true]),
      ...(random.chance(0.5) ? { links: random.pick(links.slice(1)) as NonNullable<typeof links[2]> } : {})
    }))
    this.#build()
    fileSystem.isManual = random.chance(0.8)
  }

  #told (): string {
    const { fileSystem } = this.#world
    return `MODEL_SEED=${this.#seed}, step ${this.#step}; max ${this.#max}, maxNegative ${this.#maxNegative}, memory ${
      JSON.stringify(this.#memory)}, inactive ${this.#inactive}, tick ${fileSystem.tickNs} ns, maxRead ${fileSystem.maxRead
      }, limit ${fileSystem.limit}, remote ${fileSystem.remote}, policies ${
      this.#policies.map(tellPolicy).join(' ')}\n  ${this.#log.slice(-LOG).join('\n  ')}`
  }

  #fail (message: string): void {
    this.#failure ??= new Error(`${message}\n${this.#told()}`)
  }

  #check (fault: string | undefined): void {
    if (fault !== undefined) this.#fail(fault)
  }

  #note (what: string): void {
    this.#log.push(`${this.#step} @${this.#world.clock.now()}: ${what}`)
    if (this.#log.length > 2 * LOG) this.#log = this.#log.slice(-LOG)
  }

  async run (operations: number): Promise<void> {
    for (this.#step = 1; this.#step <= operations && this.#failure === undefined; this.#step++) {
      await this.#operate(this.#random.weighted(this.#operations))
      if (this.#random.chance(0.7)) await this.#settle()
      this.#checkInvariants()
    }
    if (this.#failure === undefined) await this.#end()
    if (this.#failure !== undefined) throw this.#failure
  }

  async #operate (operation: keyof typeof OPERATIONS): Promise<void> {
    switch (operation) {
      case 'change': return this.#change()
      case 'advance': return this.#advance()
      case 'lookup': return this.#lookup()
      case 'lease': return this.#lease()
      case 'open': return this.#open()
      case 'use': return this.#use()
      case 'deliver': return this.#deliver(this.#random.int(1, 4))
      case 'drain': return this.#drain()
      case 'forget': return this.#forget()
      case 'fault': return this.#fault()
      case 'flood': return this.#flood()
    }
  }

  // The tree

  #content (size: number): Buffer {
    return this.#random.bytes(size)
  }

  #size (): number {
    return this.#random.pick([0, 1, 8, 8, 20, 30, 48, 70])
  }

  #build (): void {
    const { fileSystem } = this.#world
    for (const directory of ['/srv', '/srv/releases', '/out', '/flat']) fileSystem.mkdir(directory)
    // Two devices with the same inode numbers: only `dev` tells the releases apart.
    for (const release of ['1', '2']) {
      fileSystem.mkdir(`/srv/releases/${release}`, BigInt(release) + 1n)
      fileSystem.mkdir(`/srv/releases/${release}/sub`)
    }
    this.#deploy()
    this.#twins()
    for (const release of ['1', '2']) {
      fileSystem.link(`/srv/releases/${release}/l`, this.#random.pick(LINK_TARGETS))
      fileSystem.link(`/srv/releases/${release}/up`, `${ROOT}/sub`)
    }
    fileSystem.link(ROOT, '/srv/releases/1')
    fileSystem.link('/flat/e', '/flat/e1')
    fileSystem.write('/out/x', this.#content(8))
    fileSystem.write('/flat/big', this.#content(70))
    this.#oracle.changed()
  }

  /** Replaces all files of both releases in one instant: same sizes, same times. */
  #deploy (): void {
    const { fileSystem } = this.#world
    for (const name of ['a', 'b', 'sub/c']) {
      const size = this.#size()
      for (const release of ['1', '2']) this.#replace(`/srv/releases/${release}/${name}`, size, fileSystem.clockNs())
    }
  }

  /** Two files of one device that only `ino` tells apart. */
  #twins (): void {
    const size = this.#size()
    for (const path of ['/flat/e1', '/flat/e2']) this.#replace(path, size, this.#world.fileSystem.clockNs())
  }

  #replace (path: string, size: number, mtimeNs: bigint): void {
    const { fileSystem } = this.#world
    const temporary = `${path.slice(0, path.lastIndexOf('/'))}/tmp`
    fileSystem.write(temporary, this.#content(size))
    fileSystem.utimes(temporary, mtimeNs)
    fileSystem.rename(temporary, path)
  }

  async #change (): Promise<void> {
    const { fileSystem, clock } = this.#world
    // Without a coarse clock no two changes have the same time.
    if (!this.#isCoarse || this.#random.chance(0.3)) await clock.advance(0.25)
    try {
      this.#note(this.#changeTree())
    } catch (error) {
      if (!isErrno(error, ['ENOENT', 'ENOTDIR', 'EACCES', 'ELOOP'])) throw error
    }
    this.#oracle.changed()
    if (this.#isCoarse && fileSystem.tickNs >= 1_000_000_000n && this.#random.chance(0.05)) await clock.advance(1999)
  }

  #changeTree (): string {
    const { fileSystem } = this.#world
    const random = this.#random
    const path = random.pick(FILES)
    const release = random.pick(['1', '2'])
    const kind = random.weighted(this.#changes)
    switch (kind) {
      case 'inPlace': {
        const content = this.#content(this.#size())
        fileSystem.write(path, content)
        return `write ${path} in place, ${content.length} bytes`
      }
      case 'sameLength':
        fileSystem.write(path, this.#content(fileSystem.resolve(path).content.length))
        return `write ${path} in place, same length`
      case 'sameTimes': {
        const { content, mtimeNs } = fileSystem.resolve(path)
        fileSystem.write(path, this.#content(content.length))
        fileSystem.utimes(path, mtimeNs)
        return `write ${path} in place, same length, mtime restored`
      }
      case 'rename': {
        const size = this.#size()
        this.#replace(path, size, fileSystem.clockNs())
        return `rename another file over ${path}, ${size} bytes`
      }
      case 'renameSame': {
        const { content, mtimeNs } = fileSystem.resolve(path)
        this.#replace(path, content.length, mtimeNs)
        return `rename another file over ${path}, same length and mtime`
      }
      case 'unlink':
        fileSystem.unlink(path)
        return `unlink ${path}`
      case 'chmod': {
        const { isReadable, kind } = fileSystem.resolve(path)
        if (kind === 'directory') return 'nothing'
        fileSystem.chmod(path, !isReadable)
        return `chmod ${path} ${isReadable ? '000' : '644'}`
      }
      case 'search': {
        const directory = `/srv/releases/${release}/sub`
        const { isSearchable } = fileSystem.resolve(directory)
        fileSystem.chmodSearch(directory, !isSearchable)
        return `chmod ${directory} ${isSearchable ? '644' : '755'}`
      }
      case 'current':
        fileSystem.link(ROOT, `/srv/releases/${release}`)
        return `swap ${ROOT} to ${release}`
      case 'twin': {
        const target = random.pick(['/flat/e1', '/flat/e2'])
        fileSystem.link('/flat/e', target)
        return `swap /flat/e to ${target}`
      }
      case 'link': {
        const target = random.pick(LINK_TARGETS)
        fileSystem.link(`/srv/releases/${release}/l`, target)
        return `swap /srv/releases/${release}/l to ${target}`
      }
      case 'directory':
        fileSystem.mkdir(random.pick(['/flat/f', '/flat/new', path]))
        return `mkdir /flat/f, /flat/new or ${path}`
      case 'special':
        fileSystem.special(path)
        return `mkfifo ${path}`
      case 'utimes': {
        const mtimeNs = fileSystem.clockNs() + BigInt(random.pick([-3600, 0, 3600])) * 1_000_000_000n
        fileSystem.utimes(path, mtimeNs)
        return `utimes ${path} ${mtimeNs}`
      }
      case 'deploy':
        this.#deploy()
        return 'deploy both releases in one instant'
      case 'twins':
        this.#twins()
        return 'replace both twins in one instant'
      case 'move': {
        const [from, to] = random.chance(0.5) ? [path, '/out/x'] : ['/out/x', path]
        fileSystem.rename(from, to)
        return `rename ${from} to ${to}`
      }
    }
  }

  // The world

  async #advance (): Promise<void> {
    const ms = this.#random.pick(this.#pace)
    this.#note(`advance ${ms}`)
    const { clock } = this.#world
    const before = this.#cache.stats()
    let timers = 0
    await clock.advance(ms, async () => {
      timers++
      if (this.#random.chance(0.5)) await settled()
      if (this.#random.chance(0.3)) await this.#deliver(this.#random.int(1, 3))
      this.#checkInvariants()
    })
    if (timers > 2 + ms / 100) this.#fail(`${timers} timers called in ${ms} ms`)
    if (this.#cache.stats().revalidations > before.revalidations) count('revalidations by the timer')
  }

  async #settle (): Promise<void> {
    await settled()
    if (this.#world.fileSystem.pending.length > 0) return
    this.#failuresBefore = this.#world.fileSystem.failures.length
    this.#momentBefore = this.#oracle.moment
  }

  async #deliver (calls: number): Promise<void> {
    const { pending } = this.#world.fileSystem
    for (let rest = calls; rest > 0 && pending.length > 0; rest--) {
      const call = this.#random.pick(pending)
      if (this.#random.chance(0.3)) {
        this.#note(`perform ${call.name} ${call.argument}`)
        call.perform()
      } else {
        this.#note(`deliver ${call.name} ${call.argument}`)
        call.deliver()
      }
      if (this.#random.chance(0.7)) await settled()
    }
  }

  /** Until nothing is under way any more. */
  async #drain (): Promise<void> {
    this.#note('drain')
    const { fileSystem } = this.#world
    for (let rounds = 0; ; rounds++) {
      await settled()
      if (fileSystem.pending.length === 0) break
      if (rounds > 10_000) return this.#fail('calls without end')
      await this.#deliver(fileSystem.pending.length)
    }
    await settled()
    if (this.#waiting > 0) this.#fail(`nothing is under way, but ${this.#waiting} callers wait`)
    this.#checkInvariants()
    const stats = this.#cache.stats()
    const leased = this.#borrowed.filter(({ lease }) => lease.state !== 'metadata-only').length
    if (stats.openFiles !== fileSystem.openDescriptors) this.#fail(`openFiles ${stats.openFiles}, but ${fileSystem.openDescriptors} are open`)
    if (stats.openFiles > stats.entries + leased) this.#fail(`${stats.openFiles} open for ${stats.entries} entries and ${leased} leases`)
    if (leased === 0) {
      if (stats.leases !== 0) this.#fail(`leases ${stats.leases}, but all are released`)
      if (stats.openFiles > fileSystem.limit / 2) this.#fail(`${stats.openFiles} idle descriptors of ${fileSystem.limit}`)
      const often = [...this.#uses.values()].filter((uses) => uses >= Math.min(...this.#policies.map(({ minUses }) => minUses)))
      if (stats.openFiles > often.length) this.#fail(`${stats.openFiles} open, but only ${often.length} were used enough`)
    }
  }

  #fault (): void {
    if (!this.#hasFaults) return
    const name = this.#random.pick(['open', 'open', 'fstat', 'fstatSync', 'stat', 'stat', 'read', 'read', 'close', 'realpath', 'realpathOf'] as const)
    const code = name === 'open'
      ? this.#random.pick(TRANSIENT)
      : name === 'close' ? 'EIO' : this.#random.pick(['EIO', 'ESTALE', 'ENOMEM'])
    const times = this.#random.pick([1, 1, 2, 3])
    this.#note(`the next ${times} ${name} fail with ${code}`)
    this.#world.fileSystem.fail(name, code, times)
  }

  // Questions and answers

  #ask (): { path: string, policy: LookupPolicy, question: Question } {
    const policy = this.#random.pick(this.#policies)
    const path = this.#random.chance(0.04)
      ? `/flat/missing-${this.#random.int(0, 20)}`
      : this.#random.pick(policy.links === undefined ? this.#paths : this.#paths.filter((path) => path.startsWith(`${ROOT}/`)))
    const question = this.#oracle.ask(path, policy)
    return { path, policy, question }
  }

  #checkAnswer (question: Question, answer: FileSnapshot | Negative): void {
    if (answer.kind === 'negative') {
      count(`negative ${answer.errno}`)
      this.#check(this.#oracle.faultOfNegative(question, answer.errno))
    } else {
      count(answer.kind)
      this.#check(this.#oracle.faultOfFile(question, answer))
    }
  }

  #checkLease (question: Question, lease: Lease): void {
    this.#checkAnswer(question, lease.snapshot)
    count(`lease ${lease.state}`)
    if (lease.snapshot.kind === 'directory' && lease.state !== 'metadata-only') this.#fail(`a directory is ${lease.state}`)
    if ((lease.state === 'held') !== (lease.bytes !== undefined)) this.#fail(`${lease.state}, bytes ${lease.bytes?.length}`)
    if (lease.bytes !== undefined) this.#checkBytes(question, lease.snapshot, lease.bytes)
  }

  #checkBytes (question: Question, snapshot: FileSnapshot, bytes: Buffer): void {
    count('bytes')
    this.#check(this.#oracle.faultOfBytes(question, snapshot, bytes))
    if (this.#memory === false || bytes.length > this.#memory.maxFileSize) this.#fail(`${bytes.length} bytes held`)
  }

  #lookup (): void {
    const { path, policy, question } = this.#ask()
    const answer = this.#cache.lookup(path, policy)
    this.#note(`lookup ${path} ${tellPolicy(policy)}: ${tellAnswer(answer)}`)
    if (answer === undefined) return
    if (this.#isClosed) this.#fail('a closed cache remembers')
    if (answer.kind === 'negative' && policy.errors === 0) this.#fail('a negative entry for a caller without errors')
    this.#used(path, policy)
    this.#checkAnswer(question, answer)
  }

  #lease (): void {
    const { path, policy, question } = this.#ask()
    const lease = this.#cache.lease(path, policy)
    this.#note(`lease ${path} ${tellPolicy(policy)}: ${tellLease(lease)}`)
    if (lease === undefined) return
    if (this.#isClosed) this.#fail('a closed cache remembers')
    this.#checkLease(question, lease)
    this.#borrow(lease, question)
  }

  #used (path: string, policy: LookupPolicy): void {
    const key = `${path} ${policy.links?.symlinks}`
    this.#uses.set(key, (this.#uses.get(key) ?? 0) + 1)
  }

  #open (): void {
    const { path, policy, question } = this.#ask()
    const label = `open ${++this.#labels}`
    this.#note(`${label} ${path} ${tellPolicy(policy)}`)
    const before = this.#failuresBefore
    const momentBefore = this.#momentBefore
    const counts = this.#random.chance(0.8)
    if (counts) this.#used(path, policy)
    const isBrief = this.#random.chance(0.5)
    this.#waiting++
    this.#cache.open(path, policy, counts).then((answer) => {
      this.#waiting--
      if ('errno' in answer) {
        this.#note(`${label} ${path}: ${answer.errno}`)
        this.#checkAnswer(question, answer)
        return
      }
      this.#note(`${label} ${path}: ${tellLease(answer)}`)
      this.#checkLease(question, answer)
      if (answer.snapshot.kind === 'file' && answer.state === 'metadata-only') this.#fail('open() gave neither descriptor nor bytes')
      const borrowed = this.#borrow(answer, question)
      if (isBrief) this.#release(borrowed)
    }, (error) => {
      this.#waiting--
      this.#note(`${label} ${path}: rejected ${error}`)
      // Links on the way changed between the calls, each time.
      const isUnproven = policy.links !== undefined && isErrno(error, ['EAGAIN']) && this.#oracle.moment > momentBefore
      if (!isUnproven) this.#checkRejection(error, before)
    })
  }

  /** Only for a failure that its flight met, and never for one that says that there is no file. */
  #checkRejection (error: unknown, before: number): void {
    const { code } = error as NodeJS.ErrnoException
    count(`rejected ${code}`)
    const { failures } = this.#world.fileSystem
    if (!failures.slice(before).some((failure) => failure.code === code)) this.#fail(`rejected by ${error}, which did not happen`)
  }

  // Leases

  #borrow (lease: Lease, question: Question): Borrowed {
    const borrowed = { lease, question, label: `lease ${++this.#labels}`, busy: 0, isReleased: false }
    this.#borrowed.push(borrowed)
    return borrowed
  }

  #release (borrowed: Borrowed): void {
    this.#note(`release ${borrowed.label} of ${borrowed.question.path}`)
    borrowed.isReleased = true
    this.#borrowed = this.#borrowed.filter((other) => other !== borrowed)
    borrowed.lease.release()
    if (this.#random.chance(0.2)) borrowed.lease.release()
  }

  #use (): void {
    if (this.#borrowed.length === 0) return
    const borrowed = this.#random.pick(this.#borrowed)
    switch (this.#random.weighted({ release: 8, current: 3, fill: 5, body: 4 })) {
      case 'release':
        // Whoever reads a body has its last read answered first; a fill may be left alone.
        if (borrowed.busy === 0) this.#release(borrowed)
        break
      case 'current':
        this.#current(borrowed, () => {})
        break
      case 'fill':
        this.#fill(borrowed)
        break
      case 'body':
        this.#current(borrowed, (snapshot) => this.#body(borrowed, snapshot))
    }
  }

  #current (borrowed: Borrowed, next: (snapshot: FileSnapshot) => void): void {
    const { lease, question } = borrowed
    const { fileSystem } = this.#world
    const { moment } = this.#oracle
    const before = this.#failuresBefore
    const calls = fileSystem.count('fstat') + fileSystem.count('fstatSync') + fileSystem.pending.length
    const isOpen = lease.state === 'open'
    const answered = (snapshot: FileSnapshot): void => {
      this.#note(`current of ${borrowed.label}: ${tell(snapshot)}`)
      if (isOpen && lease.bytes !== undefined) {
        if (snapshot !== lease.snapshot) this.#fail('current() of what was filled meanwhile is not the snapshot of its bytes')
      } else if (isOpen) {
        count('current')
        const versions = this.#oracle.versionsSince(snapshot, moment)
        if (!versions.some((version) => isOf(version, snapshot))) this.#fail(`current() of ${question.path} was not ${tell(snapshot)}`)
      } else {
        if (snapshot !== lease.snapshot) this.#fail('current() of what is not open gave another snapshot')
        if (calls !== fileSystem.count('fstat') + fileSystem.count('fstatSync') + fileSystem.pending.length) this.#fail('current() of what is not open asked the file system')
      }
      next(snapshot)
    }
    const failed = (error: unknown): void => {
      this.#note(`current of ${borrowed.label}: ${error}`)
      this.#checkRejection(error, before)
    }
    this.#note(`current of ${borrowed.label} of ${question.path}, ${lease.state}`)
    let current
    try {
      current = lease.current()
    } catch (error) {
      return failed(error)
    }
    if (!(current instanceof Promise)) return answered(current)
    borrowed.busy++
    this.#waiting++
    current.then((snapshot) => {
      borrowed.busy--
      this.#waiting--
      answered(snapshot)
    }, (error) => {
      borrowed.busy--
      this.#waiting--
      failed(error)
    })
  }

  #fill (borrowed: Borrowed): void {
    const { lease, question } = borrowed
    const before = this.#failuresBefore
    this.#note(`fill of ${borrowed.label} of ${question.path}, ${lease.state}`)
    this.#waiting++
    lease.fill().then(() => {
      this.#waiting--
      this.#note(`filled ${borrowed.label}: ${tellLease(lease)}`)
      if (lease.bytes === undefined) return
      count('filled')
      if (!borrowed.isReleased) this.#checkLease(question, lease)
    }, (error) => {
      this.#waiting--
      this.#note(`fill of ${borrowed.label}: ${error}`)
      this.#checkRejection(error, before)
    })
  }

  #body (borrowed: Borrowed, snapshot: FileSnapshot): void {
    const { lease, question } = borrowed
    if (borrowed.isReleased || lease.state !== 'open' || snapshot.kind !== 'file') return
    const { moment } = this.#oracle
    const body = Buffer.alloc(snapshot.size)
    const before = this.#failuresBefore
    this.#note(`body of ${borrowed.label} of ${question.path}, ${snapshot.size} bytes`)
    borrowed.busy++
    this.#waiting++
    const end = (length: number): void => {
      borrowed.busy--
      this.#waiting--
      count('body')
      const [version, ...others] = this.#oracle.versionsSince(snapshot, moment)
      if (version === undefined || others.length > 0) return
      // Changed before the first read, after a slow fstat: then it is of the promised length at most.
      if (!version.content.subarray(0, snapshot.size).equals(body.subarray(0, length))) {
        this.#fail(`the body of ${question.path} has ${length} bytes, which are not those of ${tell(snapshot)}`)
      }
    }
    const read = (position: number): void => {
      if (position === snapshot.size) return end(position)
      lease.read(body, position, snapshot.size - position, position, (error, bytesRead) => {
        if (error === null) return bytesRead === 0 ? end(position) : read(position + bytesRead)
        borrowed.busy--
        this.#waiting--
        this.#checkRejection(error, before)
      })
    }
    read(0)
  }

  // The cache

  #forget (): void {
    const path = this.#random.pick(this.#paths)
    switch (this.#random.weighted({ path: 4, under: 3, clear: 1, close: this.#step > 1500 && !this.#isClosed ? 0.1 : 0 })) {
      case 'path':
        this.#note(`invalidate ${path}`)
        this.#cache.invalidate(path)
        this.#oracle.forget((other) => other === path)
        if (this.#policies.some((policy) => this.#cache.lookup(path, policy) !== undefined)) this.#fail(`${path} is known after invalidate`)
        break
      case 'under': {
        const under = this.#random.pick(['/', '/srv', ROOT, `${ROOT}/sub`, '/flat', '/flat/f', '/srv/cur', path])
        this.#note(`invalidate under ${under}`)
        this.#cache.invalidate({ under })
        this.#oracle.forget((other) => `${other}/`.startsWith(under === '/' ? '/' : `${under}/`))
        break
      }
      case 'clear':
        this.#clear()
        break
      case 'close':
        this.#note('close')
        this.#isClosed = true
        this.#cache.close().catch((error) => this.#fail(`close() rejected: ${error}`))
        this.#oracle.forget(() => true)
    }
  }

  #clear (): void {
    this.#note('clear')
    this.#cache.clear()
    this.#oracle.forget(() => true)
    const { entries, negativeEntries, bodyBytes } = this.#cache.stats()
    if (entries + negativeEntries + bodyBytes !== 0) this.#fail(`after clear: ${entries} entries, ${negativeEntries} negative, ${bodyBytes} bytes`)
  }

  /** Names that do not exist push no file out. */
  async #flood (): Promise<void> {
    const policy = this.#random.pick(this.#policies)
    const { fileSystem } = this.#world
    const failures = fileSystem.failures.length
    if (policy.links !== undefined || fileSystem.pending.length > 0) return
    await this.#drain()
    const { entries, evictions, bodyBytes, openFiles } = this.#cache.stats()
    this.#note(`flood ${tellPolicy(policy)}`)
    for (let missing = 0; missing < 2 * this.#max + this.#maxNegative; missing++) {
      this.#cache.open(`/flat/missing-${missing}`, policy).catch(() => {})
    }
    await this.#drain()
    const after = this.#cache.stats()
    // A descriptor is worth less than an answer: EMFILE closes idle ones.
    if (fileSystem.failures.length > failures) return
    if (after.entries !== entries || after.evictions !== evictions || after.bodyBytes !== bodyBytes || after.openFiles !== openFiles) {
      this.#fail(`a flood of missing names left ${JSON.stringify(after)} of ${entries} entries, ${openFiles} open, ${bodyBytes} bytes, ${evictions} evictions`)
    }
    count('flood')
  }

  #checkInvariants (): void {
    const { fileSystem, clock } = this.#world
    const stats = this.#cache.stats()
    if (fileSystem.violations.length > 0) this.#fail(`violations: ${fileSystem.violations.join('; ')}`)
    if (stats.entries > this.#max) this.#fail(`${stats.entries} entries, max ${this.#max}`)
    if (stats.negativeEntries > this.#maxNegative) this.#fail(`${stats.negativeEntries} negative entries, maxNegative ${this.#maxNegative}`)
    if (stats.negativeEntries > 0 && this.#policies.every(({ errors }) => errors === 0)) this.#fail('a negative entry, but nobody wants any')
    const most = this.#memory === false ? 0 : this.#memory.max
    if (stats.bodyBytes > most || stats.bodyBytes < 0) this.#fail(`${stats.bodyBytes} bytes held of ${most}`)
    if (stats.opens - stats.closes !== stats.openFiles) this.#fail(`opens ${stats.opens}, closes ${stats.closes}, openFiles ${stats.openFiles}`)
    if (clock.timers > 1) this.#fail(`${clock.timers} timers`)
    const open = this.#borrowed.filter(({ lease }) => lease.state === 'open').length
    if (stats.leases < open) this.#fail(`leases ${stats.leases}, but ${open} are out`)
    if (this.#isClosed && stats.entries + stats.negativeEntries + stats.bodyBytes + clock.timers !== 0) this.#fail(`closed, but ${JSON.stringify(stats)} and ${clock.timers} timers`)
  }

  async #end (): Promise<void> {
    const { fileSystem, clock } = this.#world
    await this.#drain()
    for (const borrowed of [...this.#borrowed]) this.#release(borrowed)
    await this.#drain()
    if (this.#random.chance(0.5)) {
      this.#note('idle')
      for (let rest = 2 * this.#inactive + 60_000; rest > 0; rest -= 1000) {
        await clock.advance(1000)
        await this.#drain()
      }
      const { entries, openFiles, bodyBytes } = this.#cache.stats()
      if (entries + openFiles + bodyBytes !== 0) this.#fail(`idle, but ${entries} entries, ${openFiles} open, ${bodyBytes} bytes`)
    }
    this.#note('close')
    let isClosed = false
    this.#cache.close().then(() => { isClosed = true }, (error) => this.#fail(`close() rejected: ${error}`))
    this.#isClosed = true
    await this.#drain()
    if (!isClosed) this.#fail('close() is pending')
    const stats = this.#cache.stats()
    for (const name of ['hits', 'misses', 'negativeHits', 'revalidations', 'evictions', 'opens'] as const) {
      reached[name] = (reached[name] ?? 0) + stats[name]
    }
    if (stats.opens !== stats.closes || stats.opens < 1) this.#fail(`opens ${stats.opens}, closes ${stats.closes}`)
    if (stats.leases !== 0 || stats.openFiles !== 0) this.#fail(`at the end: ${JSON.stringify(stats)}`)
    if (fileSystem.openDescriptors !== 0) this.#fail(`${fileSystem.openDescriptors} descriptors are open at the end`)
    if (clock.timers !== 0) this.#fail(`${clock.timers} timers at the end`)
  }
}

function swarm<Name extends string> (random: Random, weights: Record<Name, number>, factors: number[]): Record<Name, number> {
  return Object.fromEntries(Object.entries<number>(weights).map(([name, weight]) =>
    [name, weight * random.pick(factors)])) as Record<Name, number>
}

function isErrno (error: unknown, codes: string[]): boolean {
  return codes.includes((error as NodeJS.ErrnoException).code ?? '')
}

function tellPolicy ({ valid, minUses, errors, links }: LookupPolicy): string {
  return `(valid ${valid}, minUses ${minUses}, errors ${errors}${links === undefined ? '' : `, ${links.symlinks}`})`
}

function tellAnswer (answer: FileSnapshot | Negative | undefined): string {
  return answer === undefined ? 'nothing' : answer.kind === 'negative' ? answer.errno : `${answer.kind} ${tell(answer)}`
}

function tellLease (lease: Lease | undefined): string {
  return lease === undefined ? 'nothing' : `${lease.state} ${tellAnswer(lease.snapshot)}`
}

const environment = (name: string, otherwise: number): number => Number(process.env[name] ?? otherwise)

const OPS = environment('MODEL_OPS', 2000)
const FIRST_SEED = environment('MODEL_SEED', 1)
const RUNS = environment('MODEL_RUNS', process.env['MODEL_SEED'] === undefined ? 100 : 1)

t.test('every answer was true of the disk, and nothing leaks, whatever happens in whatever order', async (t) => {
  const rejections: unknown[] = []
  const reject = (reason: unknown): void => { rejections.push(reason) }
  process.on('unhandledRejection', reject)
  t.teardown(() => process.off('unhandledRejection', reject))
  for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed++) {
    t.comment(`MODEL_SEED=${seed} MODEL_OPS=${OPS}`)
    const model = new Model(seed)
    const failure = await model.run(OPS).then(() => undefined, (error: Error) => error)
    if (failure !== undefined) {
      t.fail(failure.message)
      continue
    }
    await settled()
    t.equal(rejections.length, 0, `${OPS} operations from seed ${seed}`)
  }
  t.comment(JSON.stringify(reached))
})
