import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { nodeFileSystem, toStats } from '../lib/file-system'
import { listeningSocket } from './fixtures/engine'
import type { Test } from 'tap'
import type * as FileSystemModule from '../lib/file-system'
import type { FileSnapshot, FileStat, FileSystem } from '../types/open-file-cache'

const isLinux = process.platform === 'linux'
const onWindows = process.platform === 'win32' && 'Windows has none of this'
const notOnLinux = !isLinux && 'of Linux'

function codeOf (error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code
}

async function withOpen<T> (port: FileSystem, path: string, use: (fd: number) => T | Promise<T>): Promise<T> {
  const fd = await port.open(path)
  try {
    return await use(fd)
  } finally {
    await port.close(fd)
  }
}

/** Asks the port about a path that is on file systems of these types, in turn. */
async function askOfTypes (
  t: Test, rows: Array<[type: number, name: string, expected: boolean]>, ask: (port: FileSystem, path: string) => Promise<boolean>
): Promise<void> {
  let type = 0
  const statfs = (path: string, callback: (error: null, stats: { type: number }) => void): void => {
    t.equal(path, '/mnt/a')
    callback(null, { type })
  }
  const mocked = t.mockRequire<typeof FileSystemModule>('../lib/file-system', { 'node:fs': { ...fs, statfs } })
  const port = mocked.nodeFileSystem()
  for (const row of rows) {
    type = row[0]
    t.equal(await ask(port, '/mnt/a'), row[2], row[1])
  }
}

t.test('open()', async (t) => {
  const port = nodeFileSystem()

  t.test('is read-only and does not block', { skip: notOnLinux }, async (t) => {
    const dir = t.testdir({ a: 'abc' })
    await withOpen(port, `${dir}/a`, (fd) => {
      const flags = Number.parseInt(/flags:\s+(\d+)/.exec(fs.readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1] ?? '', 8)
      t.equal(flags & (fs.constants.O_WRONLY | fs.constants.O_RDWR | fs.constants.O_APPEND), 0)
      t.equal(flags & fs.constants.O_NONBLOCK, fs.constants.O_NONBLOCK)
      t.throws(() => fs.writeSync(fd, 'x'), { code: 'EBADF' })
    })
  })

  t.test('P36 of a FIFO without a writer returns', { skip: onWindows }, async (t) => {
    const path = join(t.testdir(), 'fifo')
    execFileSync('mkfifo', [path])
    // More than there are threads in the pool: if one hung, so would the next tests.
    const fds = await Promise.all(Array.from({ length: 8 }, () => port.open(path)))
    for (const fd of fds) {
      t.equal(port.fstatSync(fd).kind, 'other')
      await port.close(fd)
    }
  })

  t.test('of a unix socket is ENXIO', { skip: onWindows }, async (t) => {
    const path = await listeningSocket(t)
    await t.rejects(port.open(path), { code: isLinux ? 'ENXIO' : /ENXIO|EOPNOTSUPP/ })
    t.equal((await port.stat(path)).kind, 'other')
  })

  t.test('rejects with the errno of the system', async (t) => {
    const dir = t.testdir({ a: '', loop: t.fixture('symlink', 'loop') })
    await t.rejects(port.open(`${dir}/none`), { code: 'ENOENT' })
    await t.rejects(port.open(`${dir}/a/b`), { code: onWindows ? 'ENOENT' : 'ENOTDIR' })
    await t.rejects(port.open(`${dir}/loop`), { code: 'ELOOP' })
    await t.rejects(port.open(`${dir}/${'n'.repeat(300)}`), { code: onWindows ? 'ENOENT' : 'ENAMETOOLONG' })
    await t.rejects(port.stat(`${dir}/none`), { code: 'ENOENT' })
    await t.rejects(port.realpath(`${dir}/none`), { code: 'ENOENT' })
  })
})

t.test('stat(), fstat() and fstatSync() tell the same, exact to the nanosecond', async (t) => {
  const port = nodeFileSystem()
  const dir = t.testdir({ a: 'abcde', empty: '', d: {}, l: t.fixture('symlink', 'a') })
  fs.utimesSync(`${dir}/a`, 1_000_000_000.25, 1_234_567_890.123456)
  for (const [name, kind, size] of [['a', 'file', 5], ['empty', 'file', 0], ['d', 'directory', undefined], ['l', 'file', 5]] as const) {
    const path = `${dir}/${name}`
    const expected = fs.statSync(path, { bigint: true })
    const stat = await port.stat(path)
    t.equal(stat.kind, kind)
    if (size !== undefined) t.equal(stat.size, size)
    for (const field of ['dev', 'ino', 'mtimeNs', 'ctimeNs', 'atimeNs', 'birthtimeNs'] as const) {
      t.equal(stat[field], expected[field], `${name} ${field}`)
    }
    for (const field of ['size', 'mode', 'nlink', 'uid', 'gid', 'rdev', 'blksize', 'blocks'] as const) {
      t.equal(stat[field], Number(expected[field]), `${name} ${field}`)
    }
    t.ok(Object.isFrozen(stat))
    await withOpen(port, path, async (fd) => {
      t.strictSame(await port.fstat(fd), stat)
      t.strictSame(port.fstatSync(fd), stat)
    })
  }
  t.equal((await port.stat(`${dir}/a`)).mtimeNs % 1000n, fs.statSync(`${dir}/a`, { bigint: true }).mtimeNs % 1000n)
})

t.test('toStats()', async (t) => {
  const port = nodeFileSystem()
  const numbers = ['dev', 'mode', 'nlink', 'uid', 'gid', 'rdev', 'blksize', 'ino', 'size', 'blocks',
    'atimeMs', 'mtimeMs', 'ctimeMs', 'birthtimeMs'] as const
  const dates = ['atime', 'mtime', 'ctime', 'birthtime'] as const
  const questions = ['isFile', 'isDirectory', 'isSymbolicLink', 'isFIFO', 'isSocket', 'isBlockDevice', 'isCharacterDevice'] as const

  const differences = (actual: fs.Stats, expected: fs.Stats): string[] => [
    ...numbers.filter((field) => !Object.is(actual[field], expected[field])),
    ...dates.filter((field) => !(actual[field] instanceof Date) || !Object.is(actual[field].getTime(), expected[field].getTime())),
    ...questions.filter((question) => actual[question]() !== expected[question]())
  ]

  t.test('equals fs.statSync() of a file and of a directory, field by field', async (t) => {
    const dir = t.testdir({ a: 'abcde', d: {} })
    for (const path of [`${dir}/a`, `${dir}/d`]) {
      const stats = toStats(await port.stat(path) as FileSnapshot)
      t.ok(stats instanceof fs.Stats)
      t.strictSame(Object.keys(stats).sort(), Object.keys(fs.statSync(path)).sort(), 'all of them, and no other, in JSON too')
      t.strictSame(differences(stats, fs.statSync(path)), [])
    }
  })

  t.test('whatever the modification time', { skip: notOnLinux }, async (t) => {
    const path = join(t.testdir({ a: '' }), 'a')
    const times = [
      '0', '1', '0.000000001', '0.001', '0.0015', '0.5', '0.999999999', '1.000001', '1.4999995', '1234567890.123456789',
      '1700000000.000001', '1700000000.999999999', '1700000000.9995', '1700000000.0005', '-0.000000001', '-0.001', '-0.0005', '-0.5',
      '-0.999999999', '-1', '-1.5', '-1.0005', '-86400.25', '-1234567890.987654321', '-2147483648', '2147483647.5',
      '2147483648.75', '4294967296.125', '9999999999.999999999', '15032385535.999'
    ]
    // Enough odd fractions for a rounding that differs by one unit in the last place to show.
    for (let i = 1; i <= 150; i++) times.push(`${i % 2 === 0 ? '-' : ''}${i * 9_876_543}.${String(i * 6_543_217 % 1e9).padStart(9, '0')}`)
    const wrong: unknown[] = []
    const seen = new Set<bigint>()
    for (const time of times) {
      // Not by fs.utimes: its doubles have no nanoseconds, and negative ones mean now.
      execFileSync('touch', ['-d', `@${time}`, path])
      const stat = await port.stat(path)
      seen.add(stat.mtimeNs)
      const different = differences(toStats(stat as FileSnapshot), fs.statSync(path))
      if (different.length > 0) wrong.push([time, different])
    }
    t.strictSame(wrong, [])
    t.equal(seen.size, times.length)
    t.ok(seen.has(-1_500_000_000n), 'before 1970, too')
    t.ok(seen.has(9_999_999_999_999_999_999n), 'and after 2106')
  })
})

t.test('read() is positional', async (t) => {
  const port = nodeFileSystem()
  const dir = t.testdir({ a: '0123456789' })
  await withOpen(port, `${dir}/a`, async (fd) => {
    const readAt = (length: number, position: number): Promise<string> => new Promise((resolve, reject) => {
      const buffer = Buffer.alloc(20, '.')
      port.read(fd, buffer, 2, length, position, (error, bytesRead) => {
        if (error === null) resolve(`${bytesRead}${buffer.toString('latin1', 0, 8)}`)
        else reject(error)
      })
    })
    t.strictSame(await Promise.all([readAt(3, 5), readAt(3, 0), readAt(9, 8), readAt(1, 10)]),
      ['3..567...', '3..012...', '2..89....', '0........'])
  })
  const closed = await port.open(`${dir}/a`)
  await port.close(closed)
  const error = await new Promise((resolve) => port.read(closed, Buffer.alloc(1), 0, 1, 0, resolve))
  t.equal(codeOf(error), 'EBADF')
  await t.rejects(port.close(closed), { code: 'EBADF' })
  await t.rejects(port.fstat(closed), { code: 'EBADF' })
  t.throws(() => port.fstatSync(closed), { code: 'EBADF' })
})

t.test('realpath() resolves every link', async (t) => {
  const dir = fs.realpathSync(t.testdir({ d: { a: '' }, l: t.fixture('symlink', 'd'), ll: t.fixture('symlink', 'l/a') }))
  const port = nodeFileSystem()
  t.equal(await port.realpath(`${dir}/ll`), join(dir, 'd', 'a'))
  t.equal(await port.realpath(`${dir}/l`), join(dir, 'd'))
})

for (const [title, procfs, skip] of [
  ['with procfs', '/proc/self', notOnLinux],
  ['without procfs', '/there/is/no/procfs', false]
] as const) {
  t.test(`realpathOf() ${title}`, { skip }, async (t) => {
    const port = nodeFileSystem(procfs)
    const tree = (): string => fs.realpathSync(t.testdir({
      1: { a: 'one' }, 2: { a: 'two' }, current: t.fixture('symlink', '1'), l: t.fixture('symlink', 'current/a')
    }))

    t.test('tells where the descriptor is, whatever links led there', async (t) => {
      const dir = tree()
      for (const [path, real] of [['1/a', '1/a'], ['current/a', '1/a'], ['l', '1/a'], ['current', '1'], ['.', '.']] as const) {
        await withOpen(port, join(dir, path), async (fd) => {
          t.equal(await port.realpathOf(fd, join(dir, path)), join(dir, real))
        })
      }
    })

    t.test('is never taken in by a path that leads elsewhere by now', async (t) => {
      const dir = tree()
      await withOpen(port, `${dir}/current/a`, async (fd) => {
        fs.symlinkSync('2', `${dir}/next`)
        fs.renameSync(`${dir}/next`, `${dir}/current`)
        const real = await port.realpathOf(fd, `${dir}/current/a`)
        t.equal(real, procfs === '/proc/self' ? `${dir}/1/a` : '', 'where it is, or nowhere')
      })
    })

    t.test('of a file that was replaced is no path that is there', async (t) => {
      const dir = tree()
      await withOpen(port, `${dir}/1/a`, async (fd) => {
        fs.writeFileSync(`${dir}/x`, 'other')
        fs.renameSync(`${dir}/x`, `${dir}/1/a`)
        const real = await port.realpathOf(fd, `${dir}/1/a`)
        t.equal(fs.existsSync(real), false)
      })
    })

    t.test('of a file that was deleted is no path that is there', async (t) => {
      const dir = tree()
      await withOpen(port, `${dir}/1/a`, async (fd) => {
        fs.unlinkSync(`${dir}/1/a`)
        const real = await port.realpathOf(fd, `${dir}/1/a`).catch(codeOf)
        t.ok(real === 'ENOENT' || real === `${dir}/1/a (deleted)`, `${real}`)
      })
    })
  })
}

t.test('readdir() tells the stored names', async (t) => {
  const port = nodeFileSystem()
  const dir = t.testdir({
    a: '', B: '', é: '', d: { inner: '' }, l: t.fixture('symlink', 'a'), ld: t.fixture('symlink', 'd'), dangling: t.fixture('symlink', 'none')
  })
  t.strictSame([...await port.readdir(dir)].sort(), ['B', 'a', 'd', 'dangling', 'l', 'ld', 'é'])
  t.strictSame(await port.readdir(join(dir, 'ld')), ['inner'])
  await t.rejects(port.readdir(join(dir, 'a')), { code: onWindows ? /ENOTDIR|ENOENT/ : 'ENOTDIR' })
  await t.rejects(port.readdir(join(dir, 'none')), { code: 'ENOENT' })
})

t.test('nameFolding is certain on macOS and Windows, possible elsewhere', async (t) => {
  const expected = { darwin: 'certain', win32: 'certain', linux: 'possible', freebsd: 'possible' } as const
  for (const [platform, nameFolding] of Object.entries(expected)) {
    t.equal(nodeFileSystem(undefined, platform).nameFolding, nameFolding, platform)
  }
  const isCertain = process.platform === 'darwin' || process.platform === 'win32'
  t.equal(nodeFileSystem().nameFolding, isCertain ? 'certain' : 'possible', 'by default of this platform')
})

t.test('isRemote()', async (t) => {
  t.test('no, of the file system that we test on', async (t) => {
    t.equal(await nodeFileSystem().isRemote(t.testdir()), false)
  })

  t.test('yes, if it cannot be told: a wrong guess must not stall the event loop', async (t) => {
    t.equal(await nodeFileSystem().isRemote(`${t.testdir()}/none`), true)
  })

  t.test('by the type of the file system', async (t) => {
    const rows: Array<[type: number, name: string, isRemote: boolean]> = [
      [0xef53, 'ext4', false],
      [0x58465342, 'xfs', false],
      [0x9123683e, 'btrfs', false],
      [0x01021994, 'tmpfs', false],
      [0x794c7630, 'overlayfs', false],
      [0x2fc12fc1, 'zfs', false],
      [0x6969, 'nfs', true],
      [0x517b, 'smb', true],
      [0xff534d42, 'cifs', true],
      [0xfe534d42, 'smb2', true],
      [0x65735546, 'fuse', true],
      [0x01021997, '9p', true],
      [0x00c36400, 'ceph', true],
      [0x5346414f, 'afs', true],
      [0x6b414653, 'kafs', true],
      [0x0bd00bd0, 'lustre', true],
      [0x786f4256, 'vboxsf', true]
    ]
    await askOfTypes(t, rows, (port, path) => port.isRemote(path))
  })
})

t.test('keepsDirectoryTimes(): by the type of the file system, and only of those that are known', async (t) => {
  const rows: Array<[type: number, name: string, keeps: boolean]> = [
    [0xef53, 'ext4', true],
    [0x58465342, 'xfs', true],
    [0x9123683e, 'btrfs', true],
    [0x2fc12fc1, 'zfs', true],
    [0x01021994, 'tmpfs', true],
    [0x794c7630, 'overlayfs', true],
    [0x7366746e, 'ntfs3', true],
    [0x6969, 'nfs', false],
    [0x517b, 'smb', false],
    [0xff534d42, 'cifs', false],
    [0x65735546, 'fuse', false],
    [0x01021997, '9p', false],
    [0x4d44, 'vfat', false],
    [0x2011bab0, 'exfat', false],
    [0x187, 'autofs', false],
    [0x9fa0, 'proc', false],
    [0x1a, 'APFS, of macOS', false],
    [0, 'none, as on Windows', false]
  ]
  await askOfTypes(t, rows, (port, path) => port.keepsDirectoryTimes(path))
  await t.rejects(nodeFileSystem().keepsDirectoryTimes(`${t.testdir()}/none`), { code: 'ENOENT' })
})

t.test('the flags of open(): those that the system has', async (t) => {
  const { O_RDONLY, O_NONBLOCK, O_NOCTTY, ...others } = fs.constants
  for (const [constants, expected] of [
    [{ ...others, O_RDONLY, O_NONBLOCK: 0o4000, O_NOCTTY: 0o400 }, O_RDONLY | 0o4400],
    [{ ...others, O_RDONLY }, O_RDONLY] // as on Windows
  ] as const) {
    const flags: unknown[] = []
    const open = (_path: string, flag: unknown, callback: (error: null, fd: number) => void): void => {
      flags.push(flag)
      callback(null, 99)
    }
    const mocked = t.mockRequire<typeof FileSystemModule>('../lib/file-system', { 'node:fs': { ...fs, constants, open } })
    t.equal(await mocked.nodeFileSystem().open('/a'), 99)
    t.strictSame(flags, [expected])
  }
})

t.test('descriptorLimit()', async (t) => {
  const limits = (soft: string): string => `Limit                     Soft Limit           Hard Limit           Units
Max processes             5                    6                    processes
Max open files            ${soft.padEnd(20)} 524288               files
Max locked memory         8388608              8388608              bytes
`
  const rows: Array<[title: string, text: string | undefined, expected: number]> = [
    ['a number', limits('1024'), 1024],
    ['a large number', limits('1048576'), 1_048_576],
    ['unlimited', limits('unlimited'), Infinity],
    ['another text', 'Max processes 5 6 processes\n', 1024],
    ['an empty file', '', 1024],
    ['no procfs', undefined, 1024]
  ]
  for (const [title, text, expected] of rows) {
    const procfs = t.testdir(text === undefined ? {} : { limits: text })
    t.equal(nodeFileSystem(procfs).descriptorLimit(), expected, title)
  }

  t.test('is that of this process', { skip: notOnLinux }, async (t) => {
    t.equal(nodeFileSystem().descriptorLimit(), Number(execFileSync('sh', ['-c', 'ulimit -n'], { encoding: 'utf8' })))
  })
})

t.test('a stat is a snapshot of a file or a directory, as it is', async (t) => {
  const stat: FileStat = await nodeFileSystem().stat(t.testdir())
  t.equal(stat.kind, 'directory')
})
