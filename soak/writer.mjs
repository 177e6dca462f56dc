// Changes the tree all the time, and tells when each state of each file may have been visible. All changes are made one
// after the other and without awaiting, so what was told at a moment is all that had happened by then.
import {
  chmodSync, closeSync, constants, fstatSync, ftruncateSync, futimesSync, mkdirSync, openSync, renameSync, rmSync,
  statSync, symlinkSync, unlinkSync, writeSync
} from 'node:fs'
import { dirname, join } from 'node:path'
import { now, sleep } from './lib/clock.mjs'
import { BLOCK, bytesOf } from './lib/content.mjs'
import { randomFrom } from './lib/random.mjs'
import { DIRECTORIES, FILES, HELD, MOVING, RELEASE } from './lib/site.mjs'

const [, , root, seed] = process.argv
const random = randomFrom(Number(seed))
const isSuperuser = process.getuid?.() === 0

const TELL = 50
const TICK = 4
/** Targets of links that were swapped away live on for requests that have read the link but not yet followed it. */
const AFTERLIFE = 3000
/** Times that a build gives to all that it makes: whole seconds, so that setting them twice gives the same. */
const STAMP = Math.floor(Date.now() / 1000) - 86400
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL

let told = []
let changes = 0
let versions = 0

const at = (path) => join(root, path)

const states = new Map(FILES.map((file) => [file.path, {
  ...file,
  version: 0,
  size: 0,
  pieces: [],
  state: 'missing',
  /** Whole seconds, while the modification time is set by hand. */
  stamp: undefined,
  /**
   * A large file that is being sent must not be overwritten and then grow: the README says that only a file that is cut or
   * overwritten is noticed. Which of both this one may have before it is replaced.
   */
  inPlace: undefined,
  isBusy: false,
  nextAt: 0
}]))

/** `from`: before the change, `to`: after it. `isInPlace`: of the file that others may be reading. */
function tell (file, from, to, { mtimeNs, isInPlace = false, via = 'plain' } = {}) {
  changes++
  const { id, path, size, pieces, state } = file
  told.push({ id, path, from, to, state, size, pieces: pieces.map((piece) => ({ ...piece })), mtimeNs: String(mtimeNs ?? 0), isInPlace, via })
}

/** One step, and what there is after it. */
function step (file, fd, change, isInPlace = true) {
  const from = now()
  change()
  const to = now()
  tell(file, from, to, { mtimeNs: fstatSync(fd, { bigint: true }).mtimeNs, isInPlace })
}

function withFile (file, flags, use) {
  const fd = openSync(at(file.path), flags)
  try {
    return use(fd)
  } finally {
    closeSync(fd)
  }
}

function newVersion (file) {
  versions++
  return ++file.version
}

function writeAll (fd, bytes, position) {
  for (let done = 0; done < bytes.length;) done += writeSync(fd, bytes, done, bytes.length - done, position + done)
}

function sizeFor ({ kind }) {
  if (kind === 'large') return random.integer(200 * 1024, random.chance(0.15) ? 4 * 1024 * 1024 : 800 * 1024)
  const size = random.weighted({ 0: 2, 1: 40, 2: 40, 3: 16, 4: 2 })
  return [0, random.integer(1, 2048), random.integer(2048, 20_000), random.integer(20_000, HELD), HELD][size]
}

const isAligned = ({ size }) => size % BLOCK === 0

/** A file of a new version that is not in its place yet. */
function prepare (file, path, size, stamp) {
  const version = newVersion(file)
  const fd = openSync(path, 'w', 0o644)
  try {
    writeAll(fd, bytesOf(file.id, version, 0, size), 0)
    if (stamp !== undefined) futimesSync(fd, stamp, stamp)
    return { version, size, mtimeNs: fstatSync(fd, { bigint: true }).mtimeNs }
  } finally {
    closeSync(fd)
  }
}

function become (file, { version, size }, stamp) {
  Object.assign(file, { state: 'file', size, pieces: size === 0 ? [] : [{ version, end: size }], stamp, inPlace: undefined })
}

const SPARE = at('tmp/spare')

const OPERATIONS = {
  rename (file) {
    const stamp = file.ops === 'stamped' || (file.kind === 'small' && random.chance(0.3)) ? STAMP : undefined
    // Of two versions with one size and one modification time only the change time tells.
    const size = stamp !== undefined && file.state === 'file' && random.chance(0.5) ? file.size : sizeFor(file)
    const made = prepare(file, SPARE, size, stamp)
    const from = now()
    renameSync(SPARE, at(file.path))
    const to = now()
    become(file, made, stamp)
    tell(file, from, to, made)
  },

  create (file) {
    const size = sizeFor(file)
    const version = newVersion(file)
    let from = now()
    const fd = openSync(at(file.path), CREATE, 0o644)
    try {
      become(file, { version, size: 0 })
      tell(file, from, now(), { mtimeNs: fstatSync(fd, { bigint: true }).mtimeNs })
      from = now()
      writeAll(fd, bytesOf(file.id, version, 0, size), 0)
      const to = now()
      become(file, { version, size })
      file.inPlace = 'grow'
      tell(file, from, to, { mtimeNs: fstatSync(fd, { bigint: true }).mtimeNs, isInPlace: true })
    } finally {
      closeSync(fd)
    }
  },

  remove (file) {
    const from = now()
    unlinkSync(at(file.path))
    const to = now()
    Object.assign(file, { state: 'missing', size: 0, pieces: [], stamp: undefined, inPlace: undefined })
    tell(file, from, to)
  },

  overwrite (file) {
    const version = newVersion(file)
    const size = random.chance(0.5) ? file.size : sizeFor(file)
    withFile(file, 'r+', (fd) => {
      const old = file.size
      step(file, fd, () => {
        writeAll(fd, bytesOf(file.id, version, 0, size), 0)
        file.stamp = undefined
        file.pieces = [{ version, end: size }, ...file.pieces.filter(({ end }) => end > size)].filter(({ end }) => end > 0)
        file.size = Math.max(old, size)
      })
      if (size >= old) return
      step(file, fd, () => {
        ftruncateSync(fd, size)
        become(file, { version, size })
      })
    })
  },

  /** What no more than the change time shows. */
  disguise (file) {
    const version = newVersion(file)
    const { stamp } = file
    withFile(file, 'r+', (fd) => {
      step(file, fd, () => {
        writeAll(fd, bytesOf(file.id, version, 0, file.size), 0)
        become(file, { version, size: file.size })
      })
      step(file, fd, () => {
        futimesSync(fd, stamp, stamp)
        file.stamp = stamp
      })
    })
  },

  emptyAndWrite (file) {
    const version = newVersion(file)
    const size = sizeFor(file)
    withFile(file, 'r+', (fd) => {
      step(file, fd, () => {
        ftruncateSync(fd, 0)
        become(file, { version, size: 0 })
      })
      step(file, fd, () => {
        writeAll(fd, bytesOf(file.id, version, 0, size), 0)
        become(file, { version, size })
      })
    })
  },

  append (file) {
    const version = newVersion(file)
    const end = file.size + random.integer(1, file.kind === 'large' ? 4000 : 200) * BLOCK
    withFile(file, 'r+', (fd) => step(file, fd, () => {
      writeAll(fd, bytesOf(file.id, version, file.size, end), file.size)
      Object.assign(file, { size: end, pieces: [...file.pieces, { version, end }], stamp: undefined, inPlace: 'grow' })
    }))
  },

  truncate (file) {
    const size = random.integer(0, file.size)
    withFile(file, 'r+', (fd) => step(file, fd, () => {
      ftruncateSync(fd, size)
      const kept = file.pieces.filter(({ end }, index) => index === 0 || file.pieces[index - 1].end < size)
      const pieces = size === 0 ? [] : kept.map((piece) => ({ ...piece, end: Math.min(piece.end, size) }))
      Object.assign(file, { size, pieces, stamp: undefined, inPlace: 'change' })
    }))
  },

  /** A large file, part by part: each part makes a state that is seen by those who come in between. */
  overwriteSlowly (file) {
    file.isBusy = true
    file.inPlace = 'change'
    overwriteByParts(file).catch(fail)
  },

  chmod (file) {
    chmodSync(at(file.path), random.of([0o600, 0o640, 0o644]))
    changes++
  },

  /** The superuser may read it all the same. */
  deny (file) {
    const { mtimeNs } = statSync(at(file.path), { bigint: true })
    const from = now()
    chmodSync(at(file.path), 0)
    file.state = 'denied'
    tell(file, from, now(), { mtimeNs })
  },

  allow (file) {
    const { mtimeNs } = statSync(at(file.path), { bigint: true })
    const from = now()
    chmodSync(at(file.path), 0o644)
    file.state = 'file'
    tell(file, from, now(), { mtimeNs })
  },

  /** A plain file becomes a link to one below the root, or to one outside, or the other way round. */
  relink (file) {
    const via = random.of(['plain', 'inner', 'outer'])
    const name = `${file.path.slice(file.path.lastIndexOf('/') + 1)}-${file.version}`
    const target = at({ plain: 'tmp/spare', inner: `links/.store/${name}`, outer: `outside/${name}` }[via])
    const made = prepare(file, target, sizeFor(file))
    const replaced = file.target
    if (via !== 'plain') {
      symlinkSync(via === 'inner' ? `.store/${name}` : target, SPARE)
      file.target = target
    } else {
      file.target = undefined
    }
    const from = now()
    renameSync(SPARE, at(file.path))
    const to = now()
    become(file, made)
    tell(file, from, to, { ...made, via })
    if (replaced !== undefined) setTimeout(() => rmSync(replaced, { force: true }), AFTERLIFE)
  }
}

async function overwriteByParts (file) {
  const version = newVersion(file)
  const { size } = file
  const part = Math.ceil(size / random.integer(3, 10) / 4096) * 4096
  const fd = openSync(at(file.path), 'r+')
  try {
    for (let start = 0; start < size; start += part) {
      const end = Math.min(start + part, size)
      step(file, fd, () => {
        writeAll(fd, bytesOf(file.id, version, start, end), start)
        file.pieces = [{ version, end }, ...file.pieces.filter((piece) => piece.end > end)]
      })
      await sleep(random.integer(4, 12))
    }
  } finally {
    closeSync(fd)
    file.isBusy = false
  }
}

/** What may happen to a file as it is now, by weight. */
function possible (file) {
  if (file.ops === 'link') return { relink: 1 }
  if (file.ops === 'rename') return { rename: 1 }
  if (file.ops === 'vanishing') return file.state === 'missing' ? { rename: 1, create: 1 } : { remove: 1 }
  if (file.ops === 'stamped') return { rename: 1, ...file.size > 0 && { disguise: 3 } }
  if (file.state === 'denied') return { allow: 1 }
  if (file.state === 'missing') return file.ops === 'moving' ? {} : { rename: 2, create: 1 }
  const removable = { remove: file.vanishes ? 12 : file.ops === 'moving' ? 0 : 3 }
  if (file.kind === 'large') {
    return {
      ...removable,
      rename: 6,
      ...isAligned(file) && file.inPlace !== 'change' && { append: 4 },
      ...file.inPlace !== 'grow' && { truncate: 2, overwriteSlowly: 4 }
    }
  }
  return {
    ...removable,
    rename: 6,
    overwrite: 4,
    emptyAndWrite: 3,
    truncate: 2,
    chmod: 2,
    ...!isSuperuser && { deny: 1 },
    // Larger, it would be sent from its descriptor, and be overwritten there by something longer.
    ...isAligned(file) && file.size + 200 * BLOCK <= HELD && { append: 3 },
    ...file.stamp !== undefined && file.size > 0 && { disguise: 12 }
  }
}

function change (file) {
  const operations = possible(file)
  if (Object.keys(operations).length > 0) OPERATIONS[random.weighted(operations)](file)
}

/** A release: all files anew in a directory of its own, and then the link that is the root. */
const releases = []
let release = 0
function swapRelease () {
  const directory = at(`releases/r${++release}`)
  mkdirSync(directory)
  const members = [...states.values()].filter(({ ops }) => ops === 'release')
  const made = members.map((file) => prepare(file, join(directory, file.path.slice('current/'.length)), sizeFor(file)))
  symlinkSync(`releases/r${release}`, SPARE)
  const from = now()
  renameSync(SPARE, at('current'))
  const to = now()
  members.forEach((file, index) => {
    become(file, made[index])
    tell(file, from, to, made[index])
  })
  releases.push(directory)
  if (releases.length > Math.ceil(AFTERLIFE / RELEASE)) rmSync(releases.shift(), { recursive: true })
}

/** Directories that are moved away and back, with all that is in them. */
const away = new Map()
function move (directory) {
  const members = [...states.values()].filter(({ path }) => path.startsWith(`${directory}/`))
  const hidden = at(`tmp/${directory.replaceAll('/', '-')}`)
  const isAway = away.has(directory)
  const from = now()
  renameSync(isAway ? hidden : at(directory), isAway ? at(directory) : hidden)
  const to = now()
  tell({ path: directory, state: isAway ? 'directory' : 'missing', size: 0, pieces: [] }, from, to)
  if (!isAway) {
    away.set(directory, new Map(members.map((file) => [file, { ...file }])))
    for (const file of members) {
      Object.assign(file, { state: 'missing', size: 0, pieces: [], isBusy: true })
      tell(file, from, to)
    }
  } else {
    for (const [file, { state, size, pieces }] of away.get(directory)) {
      Object.assign(file, { state, size, pieces, isBusy: false })
      const { mtimeNs } = statSync(at(file.path), { bigint: true })
      tell(file, from, to, { mtimeNs })
    }
    away.delete(directory)
  }
}

function fail (error) {
  process.send({ failure: String(error.stack) }, () => process.exit(1))
}

for (const directory of ['a', 'b', 'list', 'spa', 'links', 'outside', 'releases', 'large', 'dots', 'calm', 'tmp', ...DIRECTORIES]) {
  mkdirSync(at(directory), { recursive: true })
  if (DIRECTORIES.includes(directory)) tell({ path: directory, state: 'directory', size: 0, pieces: [] }, 0, now())
}
swapRelease()
for (const file of states.values()) {
  if (file.ops === 'release') continue
  mkdirSync(at(dirname(file.path)), { recursive: true })
  if (file.ops === 'link') OPERATIONS.relink(file)
  else OPERATIONS.rename(file)
}

let isRunning = false
let releaseAt = 0
let moveAt = 0

function tick () {
  const time = now()
  for (const file of states.values()) {
    if (file.ops === 'release' || file.isBusy || time < file.nextAt) continue
    file.nextAt = time + file.period * (0.4 + 1.2 * random.next())
    change(file)
  }
  if (time >= releaseAt) {
    releaseAt = time + RELEASE * (0.5 + random.next())
    swapRelease()
  }
  if (time >= moveAt) {
    moveAt = time + 800 * (0.5 + random.next())
    move(random.of(MOVING))
  }
}

function report () {
  process.send({ events: told, until: now(), changes, versions })
  told = []
}

setInterval(() => {
  if (!isRunning) return
  try {
    tick()
  } catch (error) {
    fail(error)
  }
}, TICK)
setInterval(report, TELL)
process.on('message', (message) => {
  if (message === 'start') {
    for (const file of states.values()) file.nextAt = now() + file.period * random.next()
    isRunning = true
  } else {
    isRunning = false
  }
})
process.on('disconnect', () => process.exit())
report()
process.send({ isReady: true })
