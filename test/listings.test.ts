import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { OpenFileCache } from '../lib/open-file-cache'
import { codeOf, deliver, deliverAll, engineTest, opened, statsOf, use } from './fixtures/engine'
import { fakeWorld, settled } from './fixtures/fake-world'
import { descriptorsUnder, hasProcfs } from './fixtures/files'
import type { FakeFileSystem } from './fixtures/fake-world'
import type { LookupPolicy, Negative, ListedEntry } from '../types/open-file-cache'

const onWindows = process.platform === 'win32' && 'Windows has none of this'

async function namesIn (cache: OpenFileCache, path: string, policy?: LookupPolicy): Promise<string> {
  return shown(await cache.list(path, policy))
}

/** The names of a listing, or why there is none. */
function shown (listing: readonly ListedEntry[] | Negative): string {
  return 'errno' in listing ? listing.errno : listing.map(({ name }) => name).join(' ')
}

function directory (fs: FakeFileSystem, path: string, ...names: string[]): void {
  fs.mkdir(path)
  for (const name of names) fs.write(`${path}/${name}`, name)
}

t.test('real directories', async (t) => {
  t.test('files, directories, and what links lead to, by name', { skip: onWindows }, async (t) => {
    const dir = t.testdir({
      b: 'bb',
      a: 'a',
      Z: '',
      é: 'é',
      d: { inner: '' },
      'a file': '',
      'to-file': t.fixture('symlink', 'b'),
      'to-directory': t.fixture('symlink', 'd'),
      dangling: t.fixture('symlink', 'nowhere'),
      loop: t.fixture('symlink', 'loop')
    })
    execFileSync('mkfifo', [join(dir, 'fifo')])
    fs.symlinkSync('fifo', join(dir, 'to-fifo'))
    const cache = new OpenFileCache()
    const listing = await cache.list(dir)
    t.equal(shown(listing), 'a a file b d é to-directory to-file Z')
    const entries = new Map((listing as ListedEntry[]).map(({ name, snapshot }) => [name, snapshot]))
    t.equal(entries.get('b')?.size, 2)
    t.equal(entries.get('b')?.mtimeNs, fs.statSync(join(dir, 'b'), { bigint: true }).mtimeNs)
    t.equal(entries.get('to-file')?.ino, entries.get('b')?.ino)
    t.equal(entries.get('to-directory')?.kind, 'directory')
    t.ok(Object.isFrozen(listing))
    t.match(cache.stats(), { entries: 1, leases: 0, openFiles: 0 }, 'nothing is kept but the directory')
    await cache.close()
  })

  t.test('a name that is no UTF-8 cannot be looked up, so it is not listed', { skip: process.platform !== 'linux' && 'of Linux' }, async (t) => {
    const dir = t.testdir({ a: '' })
    fs.writeFileSync(Buffer.concat([Buffer.from(`${dir}/b`), Buffer.of(0xff)]), '')
    const cache = new OpenFileCache()
    t.equal(await namesIn(cache, dir), 'a')
    await cache.close()
  })

  t.test('why there is no directory', async (t) => {
    const dir = t.testdir({ a: '', empty: {} })
    const cache = new OpenFileCache()
    t.equal(await namesIn(cache, join(dir, 'empty')), '')
    t.strictSame(await cache.list(join(dir, 'a')), { kind: 'negative', errno: 'ENOTDIR' })
    t.equal(await namesIn(cache, join(dir, 'none')), 'ENOENT')
    if (hasProcfs) t.strictSame(descriptorsUnder(dir), [])
    await cache.close()
  })

  t.test('a directory that may be entered but not read', {
    skip: onWindows || (process.getuid?.() !== 0 && 'only root can become another user')
  }, async (t) => {
    const dir = fs.mkdtempSync('/tmp/listings-')
    t.teardown(() => fs.rmSync(dir, { recursive: true }))
    fs.writeFileSync(`${dir}/a`, '')
    fs.chmodSync(dir, 0o711)
    const lib = join(__dirname, '..', 'lib', 'open-file-cache')
    const script = `
      const { OpenFileCache } = require(${JSON.stringify(lib)})
      process.seteuid(65534)
      new OpenFileCache().list(${JSON.stringify(dir)}).then((listing) => {
        console.log(listing.errno)
        process.seteuid(0)
      })
    `
    t.equal(execFileSync(process.execPath, [...process.execArgv, '-e', script], { encoding: 'utf8' }).trim(), 'EACCES')
  })

  t.test('a link is listed if its policy lets it be followed', { skip: onWindows }, async (t) => {
    const dir = fs.realpathSync(t.testdir({
      secret: 'secret',
      site: {
        a: '',
        d: {},
        in: t.fixture('symlink', 'a'),
        'in-d': t.fixture('symlink', 'd'),
        out: t.fixture('symlink', '../secret'),
        'out-d': t.fixture('symlink', '..'),
        dangling: t.fixture('symlink', 'none')
      }
    }))
    const root = join(dir, 'site')
    const cache = new OpenFileCache()
    for (const [symlinks, expected] of [['deny', 'a d'], ['within-root', 'a d in in-d']] as const) {
      t.equal(await namesIn(cache, root, cache.policy({ links: { symlinks, root } })), expected)
    }
    t.equal(await namesIn(cache, root), 'a d in in-d out out-d')
    t.equal(cache.stats().leases, 0)
    await cache.close()
  })
})

t.test('a listing is kept', async (t) => {
  engineTest(t, 'with the entry of its directory, for valid', {}, async (t, { cache, clock, fs }) => {
    directory(fs, '/d', 'a', 'b')
    clock.jump(5000)
    const first = await cache.list('/d')
    t.equal(await cache.list('/d'), first)
    t.strictSame([fs.count('readdir'), fs.count('stat')], [1, 2])
    clock.jump(19_999)
    t.equal(await cache.list('/d'), first)
    clock.jump(1)
    t.equal(await namesIn(cache, '/d'), 'a b')
    t.equal(fs.count('readdir'), 2, 'an unchanged directory is read again, too: its files may have changed')
  })

  engineTest(t, 'not longer because the directory was checked meanwhile', {}, async (t, { cache, clock, fs }) => {
    directory(fs, '/d', 'a')
    clock.jump(5000)
    const first = await cache.list('/d') as ListedEntry[]
    clock.jump(10_000)
    fs.write('/d/a', 'longer')
    await use(cache, '/d', 1, cache.policy({ valid: 0 }))
    t.equal(await cache.list('/d'), first)
    clock.jump(10_000)
    t.ok(cache.lookup('/d'), 'the directory is fresh')
    t.match(await cache.list('/d'), [{ name: 'a', snapshot: { size: 6 } }])
  })

  engineTest(t, 'for the valid of who asks', {}, async (t, { cache, clock, fs }) => {
    directory(fs, '/d', 'a')
    clock.jump(5000)
    await cache.list('/d')
    clock.jump(1000)
    t.equal(await namesIn(cache, '/d', cache.policy({ valid: 1001 })), 'a')
    t.equal(fs.count('readdir'), 1)
    t.equal(await namesIn(cache, '/d', cache.policy({ valid: 1000 })), 'a')
    t.equal(fs.count('readdir'), 2)
  })

  engineTest(t, 'until the directory is known to have changed', {}, async (t, { cache, clock, fs }) => {
    directory(fs, '/d', 'a')
    await cache.list('/d')
    clock.jump(1)
    fs.write('/d/b', '')
    t.equal(await namesIn(cache, '/d'), 'a')
    await use(cache, '/d', 1, cache.policy({ valid: 0 }))
    t.equal(await namesIn(cache, '/d'), 'a b')
  })

  engineTest(t, 'a change while it is read shows at the next check', { valid: '5s' }, async (t, { cache, clock, fs }) => {
    directory(fs, '/d', 'a', 'b')
    await use(cache, '/d')
    clock.jump(1)
    fs.isManual = true
    const first = cache.list('/d')
    await deliver(fs, 'readdir')
    fs.unlink('/d/b')
    fs.write('/d/c', '')
    await deliverAll(fs)
    fs.isManual = false
    t.equal(shown(await first), 'a', 'what is gone is left out')
    t.equal(await namesIn(cache, '/d'), 'a')
    clock.jump(4999)
    t.equal(await namesIn(cache, '/d'), 'a c')
  })

  engineTest(t, 'until it is forgotten', {}, async (t, { cache, fs }) => {
    directory(fs, '/d', 'a')
    await cache.list('/d')
    for (const [times, forget] of [() => cache.invalidate('/d'), () => cache.invalidate({ under: '/' }), () => cache.clear()].entries()) {
      fs.write(`/d/b${times}`, '')
      forget()
      t.equal((await namesIn(cache, '/d')).split(' ').length, times + 2)
    }
  })

  engineTest(t, 'not if it is forgotten while it is read', {}, async (t, { cache, fs }) => {
    directory(fs, '/d', 'a')
    await use(cache, '/d')
    fs.isManual = true
    const first = cache.list('/d')
    await deliver(fs, 'readdir')
    fs.write('/d/b', '')
    cache.invalidate('/d')
    const second = cache.list('/d')
    await deliverAll(fs)
    fs.isManual = false
    t.strictSame([shown(await first), shown(await second)], ['a', 'a b'])
    t.equal(await cache.list('/d'), await second)
  })

  engineTest(t, 'until its directory is evicted, or was not used', { max: 2, inactive: '30s', valid: Infinity }, async (t, { cache, clock, fs }) => {
    for (const path of ['/d', '/e', '/f']) directory(fs, path, 'a')
    await cache.list('/d')
    fs.write('/d/b', '')
    await use(cache, '/e')
    await use(cache, '/f')
    t.equal(await namesIn(cache, '/d'), 'a b')
    fs.write('/d/c', '')
    for (let i = 0; i < 4; i++) {
      await clock.advance(10_000)
      if (i < 2) t.equal(await namesIn(cache, '/d'), 'a b', 'to list is no use')
    }
    t.equal(await namesIn(cache, '/d'), 'a b c')
  })

  engineTest(t, 'with 1000 names; more are read each time', {}, async (t, { cache, fs }) => {
    directory(fs, '/d', ...Array.from({ length: 1000 }, (_, i) => `${i}`))
    t.equal((await cache.list('/d') as ListedEntry[]).length, 1000)
    await cache.list('/d')
    t.equal(fs.count('readdir'), 1)
    fs.write('/d/one-more', '')
    cache.invalidate('/d')
    const [one, two] = await Promise.all([cache.list('/d'), cache.list('/d')])
    t.equal(one, two, 'but shared by all who ask meanwhile')
    t.equal((one as ListedEntry[]).length, 1001)
    t.equal(fs.count('readdir'), 2)
    await cache.list('/d')
    t.equal(fs.count('readdir'), 3)
  })
})

t.test('concurrent calls share one read', async (t) => {
  engineTest(t, 'and one look at the directory', {}, async (t, { cache, fs }) => {
    directory(fs, '/d', 'a')
    const [first, ...others] = await Promise.all(Array.from({ length: 5 }, () => cache.list('/d')))
    for (const other of others) t.equal(other, first)
    t.strictSame([fs.count('open'), fs.count('readdir'), fs.count('stat')], [1, 1, 1])
  })

  engineTest(t, 'also its failure, which is not kept', {}, async (t, { cache, fs }) => {
    directory(fs, '/d', 'a')
    for (const code of ['EMFILE', 'EIO']) {
      fs.fail('readdir', code)
      t.strictSame(await Promise.all([codeOf(cache.list('/d')), codeOf(cache.list('/d'))]), [code, code])
    }
    t.equal(await namesIn(cache, '/d'), 'a')
    t.equal(fs.count('readdir'), 3)
  })

  engineTest(t, 'an old one that fails leaves a newer one alone', { valid: '1s' }, async (t, { cache, clock, fs }) => {
    directory(fs, '/d', 'a')
    clock.jump(5000)
    await use(cache, '/d')
    fs.isManual = true
    const old = codeOf(cache.list('/d'))
    await settled()
    clock.jump(1000)
    const newer = cache.list('/d')
    await deliver(fs, 'stat')
    t.strictSame(fs.pending.map(({ name }) => name), ['readdir', 'readdir'])
    fs.fail('readdir', 'EIO')
    await deliver(fs, 'readdir')
    t.equal(await old, 'EIO')
    const another = cache.list('/d')
    await settled()
    t.equal(fs.pending.length, 1)
    await deliverAll(fs)
    t.equal(await another, await newer)
  })

  engineTest(t, 'two names at a time are looked at', {}, async (t, { cache, fs }) => {
    directory(fs, '/d', 'a', 'b', 'c', 'd', 'e')
    await use(cache, '/d')
    fs.isManual = true
    const listing = cache.list('/d')
    await deliver(fs, 'readdir')
    const paths = (): unknown[] => fs.pending.map(({ argument }) => argument)
    t.strictSame(paths(), ['/d/a', '/d/b'])
    fs.pending[1]?.deliver()
    await settled()
    t.strictSame(paths(), ['/d/a', '/d/c'])
    await deliverAll(fs)
    t.equal(shown(await listing), 'a b c d e')
  })
})

t.test('nothing is kept', async (t) => {
  engineTest(t, 'with valid 0: each call reads', { valid: 0 }, async (t, { cache, fs }) => {
    directory(fs, '/d', 'a')
    t.equal(await namesIn(cache, '/d'), 'a')
    fs.write('/d/b', '')
    t.equal(await namesIn(cache, '/d'), 'a b')
    fs.write('/d/a', 'longer')
    t.match(await cache.list('/d'), [{ snapshot: { size: 6 } }, { name: 'b' }])
    t.equal(fs.count('readdir'), 3)
  })

  t.test('by OpenFileCache.off()', async (t) => {
    const { clock, fileSystem: fs } = fakeWorld()
    const cache = OpenFileCache.off({ clock, fileSystem: fs })
    directory(fs, '/d', 'a')
    t.equal(await namesIn(cache, '/d', cache.policy({ valid: Infinity })), 'a')
    fs.write('/d/b', '')
    t.equal(await namesIn(cache, '/d', cache.policy({ valid: Infinity })), 'a b')
    t.equal(cache.stats().entries, 0)
  })

  t.test('by a cache that is closed', async (t) => {
    const { clock, fileSystem: fs } = fakeWorld()
    const cache = new OpenFileCache({}, { clock, fileSystem: fs })
    directory(fs, '/d', 'a')
    await cache.list('/d')
    await cache.close()
    fs.write('/d/b', '')
    t.equal(await namesIn(cache, '/d'), 'a b')
    t.equal(clock.timers, 0)
  })
})

t.test('what fails', async (t) => {
  engineTest(t, 'in one name leaves that name out', {}, async (t, { cache, fs }) => {
    directory(fs, '/d', 'a', 'b', 'c')
    fs.special('/d/fifo')
    fs.link('/d/none', '/none')
    fs.fail('stat', 'EIO', 1, '/d/a')
    fs.fail('stat', 'EACCES', 1, '/d/c')
    t.equal(await namesIn(cache, '/d'), 'b')
  })

  engineTest(t, 'in what is proven, too, and leaves no lease', {}, async (t, { cache, fs }) => {
    directory(fs, '/d', 'a')
    for (const name of ['x', 'y']) fs.link(`/d/${name}`, '/d/a')
    const policy = cache.policy({ links: { symlinks: 'within-root', root: '/d' } })
    fs.fail('open', 'EIO', 1, '/d/x')
    t.equal(await namesIn(cache, '/d', policy), 'a y')
    t.equal(fs.count('stat'), 0, 'not even what is no link goes by its path')
    t.match(await statsOf(cache), { leases: 0, openFiles: 0, hits: 0, misses: 0 })
  })

  engineTest(t, 'for good, of the directory, is the answer', {}, async (t, { cache, fs }) => {
    directory(fs, '/d', 'a')
    directory(fs, '/closed', 'a')
    fs.chmod('/closed', false)
    fs.special('/fifo')
    t.equal(await namesIn(cache, '/closed'), 'EACCES')
    t.equal(await namesIn(cache, '/d/a'), 'ENOTDIR')
    t.equal(await namesIn(cache, '/d/a/b'), 'ENOTDIR')
    t.equal(await namesIn(cache, '/fifo'), 'ENOENT')
    await use(cache, '/d')
    fs.unlink('/d')
    t.equal(await namesIn(cache, '/d'), 'ENOENT', 'even if it went a moment ago')
  })

  engineTest(t, 'for the moment, of the directory, rejects', {}, async (t, { cache, fs }) => {
    directory(fs, '/d', 'a')
    fs.fail('open', 'EIO')
    t.equal(await codeOf(cache.list('/d')), 'EIO')
    t.equal(await namesIn(cache, '/d'), 'a')
  })

  engineTest(t, 'to be a directory is closed again', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', '')
    t.equal(await namesIn(cache, '/a'), 'ENOTDIR')
    t.match(await statsOf(cache), { leases: 0, openFiles: 0, hits: 0, misses: 0 })
    const lease = await opened(cache, '/a')
    t.equal(await namesIn(cache, '/a'), 'ENOTDIR')
    t.equal(cache.stats().leases, 1)
    lease.release()
  })
})

t.test('names that the collation takes for one keep the order of the directory', async (t) => {
  const { clock, fileSystem: fs } = fakeWorld()
  const cache = OpenFileCache.off({ clock, fileSystem: fs })
  const [composed, decomposed] = ['\u00e9', 'e\u0301']
  fs.mkdir('/d')
  for (const name of [decomposed, composed]) fs.write(`/d/${name}`, '')
  fs.isManual = true
  const listing = cache.list('/d')
  for (const name of ['open', 'fstat', 'readdir']) await deliver(fs, name)
  for (const call of [...fs.pending].reverse()) call.deliver()
  t.strictSame((await listing as ListedEntry[]).map(({ name }) => name), [decomposed, composed])
  await deliverAll(fs)
})
