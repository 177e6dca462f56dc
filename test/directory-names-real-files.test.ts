import fs from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { nodeFileSystem } from '../lib/file-system'
import { OpenFileCache } from '../lib/open-file-cache'
import { collected, refusal } from './fixtures/engine'
import { FakeClock, settled } from './fixtures/fake-world'
import type { FileSystem, LookupPolicy, OpenFileCacheOptions } from '../types/open-file-cache'

/** More than the tick of any clock that a local file system takes its times from: 10 ms at 100 Hz. */
const TICK = 25

/**
 * Time stands still, but files have the times of this machine: what was changed a `TICK` ago counts as settled. All that
 * the two seconds are for is that a tick is over.
 */
class Clock extends FakeClock {
  override wall (): number {
    return Date.now() + 2000 - TICK
  }
}

type CallName = 'stat' | 'keepsDirectoryTimes' | 'names' | 'open'

interface Site {
  readonly dir: string
  readonly cache: OpenFileCache
  readonly clock: Clock
  readonly calls: Record<CallName, number>
  /** Calls that are not answered. */
  underWay: number
  /** Called before and after each call of the file system. */
  between: (call: string) => void
}

function site (t: Test, options: OpenFileCacheOptions = {}): Site {
  const dir = fs.realpathSync(t.testdir())
  const clock = new Clock()
  const port = nodeFileSystem()
  const calls = { stat: 0, keepsDirectoryTimes: 0, names: 0, open: 0 }
  const counted = <Name extends CallName> (name: Name): FileSystem[Name] => (async (...args: [string, number]) => {
    calls[name]++
    made.between(`before ${name} ${calls[name]}`)
    made.underWay++
    const call = (port[name] as (...args: [string, number]) => Promise<unknown>)(...args).finally(() => { made.underWay-- })
    made.between(`during ${name} ${calls[name]}`)
    const answer = await call
    made.between(`after ${name} ${calls[name]}`)
    return answer
  }) as FileSystem[Name]
  const fileSystem = {
    ...port,
    nameFolding: 'none',
    stat: counted('stat'),
    keepsDirectoryTimes: counted('keepsDirectoryTimes'),
    names: counted('names'),
    open: counted('open')
  } as const
  const cache = new OpenFileCache({ spelledBelow: dir, inactive: Infinity, ...options }, { clock, fileSystem })
  t.teardown(() => cache.close())
  const made: Site = { dir, cache, clock, calls, underWay: 0, between: () => {} }
  return made
}

let lastName = 0

async function miss (cache: OpenFileCache, directory: string, times = 1, policy?: LookupPolicy): Promise<void> {
  for (let i = 0; i < times; i++) {
    const errno = await refusal(cache, join(directory, `unknown-${++lastName}`), policy)
    if (errno !== 'ENOENT') throw new Error(`${errno} in ${directory}`)
  }
}

/** Resolves when no call is under way, and none follows. */
async function quiet (made: { readonly underWay: number }): Promise<void> {
  for (let still = 0; still < 3; still = made.underWay === 0 ? still + 1 : 0) await settled()
}

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 2 * TICK))

function descriptors (): number {
  return fs.readdirSync('/proc/self/fd').length
}

/** Far more than is needed on an idle machine. */
t.setTimeout(300_000)

t.test('names() and keepsDirectoryTimes()', { skip: process.platform !== 'linux' && 'of Linux' }, async (t) => {
  const port = nodeFileSystem()

  t.test('the names as they are stored, and the directory that they are in', async (t) => {
    const dir = t.testdir({
      a: '', B: '', é: '', d: { inner: '' }, '.hidden': '', l: t.fixture('symlink', 'd'), dangling: t.fixture('symlink', 'none')
    })
    const expected = ['.hidden', 'B', 'a', 'd', 'dangling', 'l', 'é']
    const read = await port.names(dir, 100)
    t.strictSame([...read?.names ?? []].sort(), expected)
    // Reading may set the access time.
    t.strictSame({ ...read?.stat, atimeNs: 0n }, { ...await port.stat(dir), atimeNs: 0n })
    t.strictSame((await port.names(`${dir}/l`, 100))?.names, ['inner'])
    t.equal((await port.names(`${dir}/l`, 100))?.stat.ino, (await port.stat(`${dir}/d`)).ino)
    t.equal((await port.names(dir, expected.length))?.names.length, expected.length)
    t.equal(await port.names(dir, expected.length - 1), undefined)
    await t.rejects(port.names(`${dir}/a`, 100), { code: 'ENOTDIR' })
    await t.rejects(port.names(`${dir}/none`, 100), { code: 'ENOENT' })
    await t.rejects(nodeFileSystem('/there/is/no/procfs').names(dir, 100), { code: 'ENOENT' }, 'never by the path')
    t.strictSame((await port.names(t.testdir(), 0))?.names, [])
  })

  t.test('of the directory that was opened, wherever the path leads meanwhile', async (t) => {
    const dir = t.testdir({ 1: { one: '' }, 2: { two: '' }, current: t.fixture('symlink', '1') })
    const swap = (to: string): void => {
      fs.symlinkSync(to, `${dir}/next`)
      fs.renameSync(`${dir}/next`, `${dir}/current`)
    }
    let swaps = 0
    const swapped = t.mockRequire<typeof import('../lib/file-system')>('../lib/file-system', {
      'node:fs': {
        ...fs,
        opendir: (path: string, options: object, callback: (error: Error | null, dir: fs.Dir) => void) => {
          swap('2')
          fs.opendir(path, options, (error, opened) => {
            swap('1')
            swaps++
            callback(error, opened)
          })
        }
      }
    })
    const read = await swapped.nodeFileSystem().names(`${dir}/current`, 10)
    t.equal(swaps, 1)
    t.strictSame(read?.names, ['one'])
    t.equal(read?.stat.ino, (await port.stat(`${dir}/1`)).ino)
  })

  t.test('no descriptor is left', async (t) => {
    const dir = t.testdir(Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`f${i}`, ''])))
    await port.names(dir, 5000)
    const before = descriptors()
    for (let i = 0; i < 5; i++) {
      t.equal((await port.names(dir, 3000))?.names.length, 3000)
      t.equal(await port.names(dir, 2999), undefined)
      t.equal(await port.names(dir, 1), undefined)
      await t.rejects(port.names(`${dir}/f1`, 9), { code: 'ENOTDIR' })
      await t.rejects(nodeFileSystem('/there/is/no/procfs').names(dir, 9))
    }
    t.equal(descriptors(), before)
  })

  t.test('the times of directories: not in /proc, nor where there is nothing', async (t) => {
    t.equal(await port.keepsDirectoryTimes('/proc'), false)
    await t.rejects(port.keepsDirectoryTimes(`${t.testdir()}/none`), { code: 'ENOENT' })
  })
})

/** Tests that need a file system which keeps the times of directories. */
const realTests: Array<[name: string, body: (t: Test) => Promise<void>]> = []

function realTest (name: string, body: (t: Test) => Promise<void>): void {
  realTests.push([name, body])
}

realTest('a file created at any point of the read is never hidden longer than `errors`', async (t) => {
  const made = site(t)
  const { dir, cache, clock, calls } = made
  const ROUNDS = 360
  const points = ['stat 1', 'keepsDirectoryTimes 1', 'names 1', 'stat 2'].flatMap((call) =>
    ['before', 'during', 'after'].map((when) => `${when} ${call}`))
  for (let round = 0; round < ROUNDS; round++) fs.mkdirSync(join(dir, `${round}`))
  await pause()
  let kept = 0
  let hidden = 0
  const wrong: string[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const directory = join(dir, `${round}`)
    const path = join(directory, 'new')
    const point = points[round % points.length] as string
    const exact = cache.policy({ spelledBelow: directory })
    await miss(cache, directory, 2, exact)
    Object.assign(calls, { stat: 0, keepsDirectoryTimes: 0, names: 0 })
    made.between = (call) => { if (call === point) fs.writeFileSync(path, 'new') }
    await miss(cache, directory, 1, exact)
    await quiet(made)
    made.between = () => {}
    if (!fs.existsSync(path)) {
      // The change was seen before the read came so far; or there is no such point.
      if (point.startsWith('before stat 1')) wrong.push(`${round}: nothing was created ${point}`)
      fs.writeFileSync(path, 'new')
    }
    if (cache.lookup(join(directory, 'none'), exact) !== undefined) kept++
    if (cache.lookup(path, exact) !== undefined) hidden++
    clock.jump(1000)
    if (await refusal(cache, path, exact) !== undefined) wrong.push(`${round}: hidden, created ${point}`)
    clock.jump(1000)
    if (await refusal(cache, path, exact) !== undefined) wrong.push(`${round}: hidden again, created ${point}`)
  }
  t.strictSame(wrong, [])
  t.ok(kept > ROUNDS / 20, `${kept} times the names were kept`)
  t.ok(hidden > 0, `${hidden} times the file was hidden, within \`errors\``)
})

realTest('a file created in the tick of the read, or in the tick of the change before it', async (t) => {
  const made = site(t)
  const { dir, cache, clock } = made
  const ROUNDS = 200
  const wrong: number[] = []
  let unsettled = 0
  for (let round = 0; round < ROUNDS; round++) {
    const directory = join(dir, `${round}`)
    const exact = cache.policy({ spelledBelow: directory })
    fs.mkdirSync(directory)
    // At any distance from the change before: in its tick, in the next, and settled.
    if (round % 3 > 0) await new Promise((resolve) => setTimeout(resolve, round % 3 === 1 ? round % TICK : 2 * TICK))
    await miss(cache, directory, 3, exact)
    await quiet(made)
    if (cache.lookup(join(directory, 'none'), exact) === undefined) unsettled++
    fs.writeFileSync(join(directory, 'new'), '')
    clock.jump(1000)
    if (await refusal(cache, join(directory, 'new'), exact) !== undefined) wrong.push(round)
  }
  t.strictSame(wrong, [])
  t.ok(unsettled >= ROUNDS / 4 && unsettled <= ROUNDS * 3 / 4, `${unsettled} times it was not settled`)
})

realTest('removal, re-creation, rename over it and above it, the swap of a link', async (t) => {
  const made = site(t)
  const { dir, cache, clock } = made
  const tree = (name: string): string => {
    fs.mkdirSync(join(dir, name, 'site'), { recursive: true })
    return join(dir, name)
  }
  const wrong: string[] = []
  for (let round = 0; round < 20; round++) {
    const rows: Array<[name: string, change: (here: string) => void]> = [
      ['removed and made again', (here) => {
        fs.rmSync(join(here, 'site'), { recursive: true })
        fs.mkdirSync(join(here, 'site'))
        fs.writeFileSync(join(here, 'site', 'new'), '')
      }],
      ['renamed over', (here) => fs.renameSync(join(here, 'next'), join(here, 'site'))],
      ['one above renamed', (here) => {
        fs.renameSync(here, `${here}-old`)
        fs.renameSync(join(`${here}-old`, 'all'), here)
      }],
      ['a link swapped', (here) => {
        fs.rmdirSync(join(here, 'site'))
        fs.symlinkSync('next', join(here, 'site'))
      }]
    ]
    for (const [number] of rows.entries()) {
      const here = tree(`${round}-${number}`)
      for (const next of ['next', 'all/site']) {
        fs.mkdirSync(join(here, next), { recursive: true })
        fs.writeFileSync(join(here, next, 'new'), '')
      }
    }
    await pause()
    for (const [number, [name, change]] of rows.entries()) {
      const here = join(dir, `${round}-${number}`)
      const exact = cache.policy({ spelledBelow: join(here, 'site') })
      await miss(cache, join(here, 'site'), 3, exact)
      await quiet(made)
      if (cache.lookup(join(here, 'site', 'new'), exact) === undefined) wrong.push(`${round} ${name}: no names`)
      change(here)
      clock.jump(1000)
      if (await refusal(cache, join(here, 'site', 'new'), exact) !== undefined) wrong.push(`${round} ${name}: hidden`)
      fs.rmSync(join(here, 'site'), { recursive: true })
      fs.mkdirSync(join(here, 'site'))
      clock.jump(1000)
      if (await refusal(cache, join(here, 'site', 'none'), exact) !== 'ENOENT') wrong.push(`${round} ${name}: wrong`)
      // One directory is read at a time.
      await quiet(made)
    }
  }
  t.strictSame(wrong, [])
})

realTest('100 000 names, and 100 000 names that are not there', async (t) => {
  const NAMES = 100_000
  const dir = fs.realpathSync(t.testdir())
  fs.mkdirSync(join(dir, 'large'))
  for (let i = 0; i < NAMES; i++) fs.closeSync(fs.openSync(join(dir, 'large', `name-${i}`), 'w'))
  await pause()
  const port = nodeFileSystem()
  const calls = { stat: 0, names: 0, keepsDirectoryTimes: 0, open: 0 }
  const fileSystem: FileSystem = {
    ...port,
    nameFolding: 'none',
    stat: (path) => { calls.stat++; return port.stat(path) },
    names: async (path, limit) => {
      const read = await port.names(path, limit)
      calls.names++
      return read
    },
    open: (path) => { calls.open++; return port.open(path) }
  }
  const clock = new Clock()
  const options = { spelledBelow: join(dir, 'large'), inactive: Infinity } as const
  const small = new OpenFileCache({ ...options, directories: { maxNames: NAMES - 1 } }, { clock, fileSystem })
  const before = descriptors()
  await miss(small, join(dir, 'large'), 3)
  while (calls.names === 0) await settled()
  await small.close()
  t.match(calls, { stat: 1, names: 1 }, 'more than maxNames: no second look')
  t.equal(descriptors(), before)
  const cache = new OpenFileCache({ ...options, directories: { maxNames: NAMES } }, { clock, fileSystem })
  t.teardown(() => cache.close())
  await miss(cache, join(dir, 'large'), 3)
  while (cache.stats().directories === 0) await settled()
  t.match(cache.stats(), { directories: 1, names: NAMES })
  t.equal(descriptors(), before)
  for (const name of ['name-0', 'name-4711', `name-${NAMES - 1}`]) t.equal(await refusal(cache, join(dir, 'large', name)), undefined)

  const flood = async (from: number): Promise<void> => {
    for (let i = from; i < from + NAMES; i++) {
      const path = `${dir}/large/missing-${i}/index.html`
      const answer = cache.lookup(path) ?? await cache.open(path)
      if (answer.kind !== 'negative' || answer.errno !== 'ENOENT') throw new Error(path)
      // Ten periods of `errors`.
      if (i % (NAMES / 10) === 0) clock.jump(1000)
    }
  }
  await flood(0)
  await collected()
  Object.assign(calls, { stat: 0, names: 0, keepsDirectoryTimes: 0, open: 0 })
  const heap = process.memoryUsage().heapUsed
  const stats = cache.stats()
  await flood(NAMES)
  await collected()
  const grown = process.memoryUsage().heapUsed - heap
  t.ok(grown < 1_000_000, `${grown} bytes more`)
  t.strictSame(calls, { stat: 10, names: 0, keepsDirectoryTimes: 0, open: 0 }, 'one stat for each period')
  t.match(cache.stats(), {
    negativeEntries: stats.negativeEntries, entries: stats.entries, misses: stats.misses, directoryHits: stats.directoryHits + NAMES
  })
})

t.test('real directories', async (t) => {
  const keepsTimes = process.platform === 'linux' && await nodeFileSystem().keepsDirectoryTimes(t.testdir())
  const skip = !keepsTimes && 'the file system of this directory is not in the list'
  for (const [name, body] of realTests) await t.test(name, { skip, timeout: 300_000 }, body)
})
