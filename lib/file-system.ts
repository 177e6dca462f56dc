import fs from 'node:fs'
import { promisify } from 'node:util'
import { toMilliseconds } from './file-times'
import type { FileSnapshot, FileStat, FileSystem } from '../types/open-file-cache'

// O_NONBLOCK: opening a FIFO without a writer must not hang a thread of the pool. Windows has neither flag.
const OPEN_FLAGS = fs.constants.O_RDONLY | (fs.constants.O_NONBLOCK ?? 0) | (fs.constants.O_NOCTTY ?? 0)

// statfs(2) f_type of file systems whose calls may wait for a network or for another process.
const REMOTE_TYPES = new Set([
  0x6969, // NFS
  0x517b, 0xff534d42, 0xfe534d42, // SMB, CIFS, SMB2
  0x65735546, // FUSE
  0x01021997, // 9P
  0x00c36400, // Ceph
  0x5346414f, 0x6b414653, // AFS
  0x0bd00bd0, // Lustre
  0x786f4256 // VirtualBox shared folders
])

// The same of file systems of Linux on which a directory's times change with each of its names, seen from this machine.
const DIRECTORY_TIMES_TYPES = new Set([
  0xef53, // ext2, ext3, ext4
  0x58465342, // XFS
  0x9123683e, // Btrfs
  0x2fc12fc1, // ZFS
  0x01021994, // tmpfs
  0x794c7630, // overlayfs
  0x7366746e // NTFS
])

const DEFAULT_DESCRIPTOR_LIMIT = 1024
/** Names of a directory that are read at a time. */
const NAMES_AT_A_TIME = 1024

const open = promisify(fs.open)
const close = promisify(fs.close)
const realpath = promisify(fs.realpath.native)
const readlink = promisify(fs.readlink)
const statfs = promisify(fs.statfs)
const stat = promisify(fs.stat)
const fstat = promisify(fs.fstat)
const readdir = promisify(fs.readdir)
const opendir = promisify(fs.opendir)

function toFileStat (stats: fs.BigIntStats): FileStat {
  return Object.freeze({
    kind: stats.isFile() ? 'file' : stats.isDirectory() ? 'directory' : 'other',
    dev: stats.dev,
    ino: stats.ino,
    size: Number(stats.size),
    mtimeNs: stats.mtimeNs,
    ctimeNs: stats.ctimeNs,
    atimeNs: stats.atimeNs,
    birthtimeNs: stats.birthtimeNs,
    mode: Number(stats.mode),
    nlink: Number(stats.nlink),
    uid: Number(stats.uid),
    gid: Number(stats.gid),
    rdev: Number(stats.rdev),
    blksize: Number(stats.blksize),
    blocks: Number(stats.blocks)
  })
}

// Where names are found by other spellings as a rule. Elsewhere it is a matter of the directory: ext4 and f2fs with
// casefold, vfat, CIFS, ZFS.
const FOLDING_PLATFORMS: readonly string[] = ['darwin', 'win32']

/**
 * The file system of this process. `procfs`: where Linux shows what a descriptor refers to; other systems resolve the
 * path instead and compare what they find with the descriptor.
 */
export function nodeFileSystem (procfs = '/proc/self', platform: string = process.platform): FileSystem {
  return {
    nameFolding: FOLDING_PLATFORMS.includes(platform) ? 'certain' : 'possible',
    open: (path) => open(path, OPEN_FLAGS),
    close: (fd) => close(fd),
    fstat: async (fd) => toFileStat(await fstat(fd, { bigint: true })),
    fstatSync: (fd) => toFileStat(fs.fstatSync(fd, { bigint: true })),
    stat: async (path) => toFileStat(await stat(path, { bigint: true })),
    read: (fd, buffer, offset, length, position, callback) => {
      fs.read(fd, buffer, offset, length, position, callback)
    },
    realpath: (path) => realpath(path),

    readdir: (path) => readdir(path),

    async names (path, limit) {
      const fd = await open(path, OPEN_FLAGS)
      try {
        const stat = toFileStat(await fstat(fd, { bigint: true }))
        const names: string[] = []
        // By the descriptor: the path may lead to another directory by now, and back before anybody looks.
        for await (const { name } of await opendir(`${procfs}/fd/${fd}`, { bufferSize: NAMES_AT_A_TIME })) {
          if (names.length === limit) return undefined
          names.push(name)
        }
        return { names, stat }
      } finally {
        await close(fd)
      }
    },

    async keepsDirectoryTimes (path) {
      return DIRECTORY_TIMES_TYPES.has((await statfs(path)).type)
    },

    async realpathOf (fd, path) {
      try {
        return await readlink(`${procfs}/fd/${fd}`)
      } catch {
        const real = await realpath(path)
        const there = await stat(real, { bigint: true })
        const opened = await fstat(fd, { bigint: true })
        if (there.dev === opened.dev && there.ino === opened.ino) return real
        // Replaced between the two looks: an answer that is inside no root, so that the caller looks again.
        return ''
      }
    },

    async isRemote (path) {
      try {
        return REMOTE_TYPES.has((await statfs(path)).type)
      } catch {
        // Unknown counts as slow: a wrong guess costs a thread-pool job, not a stalled event loop.
        return true
      }
    },

    descriptorLimit () {
      let limits: string
      try {
        limits = fs.readFileSync(`${procfs}/limits`, 'latin1')
      } catch {
        return DEFAULT_DESCRIPTOR_LIMIT
      }
      // Node has raised the soft limit to the hard one at start.
      const soft = /^Max open files\s+(\d+|unlimited)/m.exec(limits)?.[1]
      return soft === undefined ? DEFAULT_DESCRIPTOR_LIMIT : soft === 'unlimited' ? Infinity : Number(soft)
    }
  }
}

// From Node 22 on the prototype makes them of the times in milliseconds, and JSON leaves them out.
const OWN_DATES = (['atime', 'mtime', 'ctime', 'birthtime'] as const).filter((name) => !(name in fs.Stats.prototype))

/** A snapshot as the `fs.Stats` that user callbacks expect. */
export function toStats (snapshot: FileSnapshot): fs.Stats {
  const stats: fs.Stats = Object.create(fs.Stats.prototype)
  const times = {
    atimeMs: toMilliseconds(snapshot.atimeNs),
    mtimeMs: toMilliseconds(snapshot.mtimeNs),
    ctimeMs: toMilliseconds(snapshot.ctimeNs),
    birthtimeMs: toMilliseconds(snapshot.birthtimeNs)
  }
  Object.assign(stats, {
    dev: Number(snapshot.dev),
    mode: snapshot.mode,
    nlink: snapshot.nlink,
    uid: snapshot.uid,
    gid: snapshot.gid,
    rdev: snapshot.rdev,
    blksize: snapshot.blksize,
    ino: Number(snapshot.ino),
    size: snapshot.size,
    blocks: snapshot.blocks,
    ...times
  })
  for (const name of OWN_DATES) stats[name] = new Date(Math.round(times[`${name}Ms`]))
  return stats
}
