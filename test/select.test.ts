import t from 'tap'
import { OpenFileCache } from '../lib/open-file-cache'
import { resolveName } from '../lib/resolve-path'
import { select, selectAgain } from '../lib/select'
import { deliver, nothingIsLeft } from './fixtures/engine'
import { put } from './fixtures/fake-site'
import { fakeWorld } from './fixtures/fake-world'
import type { Test } from 'tap'
import type { Engine } from './fixtures/engine'
import type { Target, TargetPath } from '../lib/resolve-path'
import type { Found, Search, Selection } from '../lib/select'
import type { LookupPolicy, OpenFileCacheOptions } from '../types/open-file-cache'

const ROOT = '/www'

interface Selecting extends Engine {
  /** Selects as the hook does; gives the lease back. */
  pick (name: string, search?: Partial<Search>): Promise<Picked>
  /** Selects as the handler does when nothing is left. */
  pickAgain (name: string, search?: Partial<Search>): Promise<Picked>
  start (name: string, search?: Partial<Search>): Selection | Promise<Selection>
}

interface Picked {
  readonly path?: string
  readonly reason?: unknown
  readonly isSync: boolean
}

function targetOf (name: string): Target {
  const target = resolveName(name, ROOT, 'allow')
  if (typeof target === 'string') throw new Error(target)
  return target
}

function selectTest (t: Test, name: string, files: string[], body: (t: Test, selecting: Selecting) => Promise<void>,
  options: OpenFileCacheOptions = { minUses: 1 }): void {
  t.test(name, async (t) => {
    const { clock, fileSystem: fs } = fakeWorld()
    const cache = new OpenFileCache(options, { clock, fileSystem: fs })
    const engine = { cache, clock, fs }
    fs.mkdir(ROOT)
    for (const file of files) put(engine, `${ROOT}/${file}`, file)
    clock.jump(60_000)
    const policy: LookupPolicy = cache.policy()
    const searchOf = (name: string, search: Partial<Search> = {}): Search =>
      ({ target: targetOf(name), index: ['index.html'], codings: [], fallback: undefined, ...search })
    const picked = (selection: Selection, isSync: boolean): Picked => {
      if (selection.kind === 'failed') return { reason: selection.reason, isSync }
      selection.lease?.release()
      return { path: selection.path, isSync }
    }
    const start = (name: string, search?: Partial<Search>) => select(searchOf(name, search), cache, policy)
    await body(t, {
      ...engine,
      start,
      async pick (name, search) {
        const selection = start(name, search)
        return picked(await selection, !(selection instanceof Promise))
      },
      async pickAgain (name, search) {
        return picked(await selectAgain(searchOf(name, search), cache, policy), false)
      }
    })
    await nothingIsLeft(t, engine)
  })
}

const found = (path: string) => ({ path: `${ROOT}/${path}` })

t.test('what is not known has to be awaited, and is answered with a lease', async (t) => {
  selectTest(t, 'of the file', ['a.txt'], async (t, { start, cache }) => {
    const selection = start('a.txt')
    t.ok(selection instanceof Promise)
    const { path, snapshot, lease, kind } = await selection as Found
    t.equal(kind, 'found')
    t.equal(path, '/www/a.txt')
    t.equal(lease?.snapshot, snapshot)
    t.equal(cache.stats().leases, 1)
    lease?.release()
  })
})

t.test('what is fresh is answered at once', async (t) => {
  selectTest(t, 'without a promise, a look at the disk or a lease', ['a.txt', 'd/index.html'], async (t, { start, pick, cache, fs }) => {
    for (const name of ['a.txt', 'd', 'd/', 'none']) await pick(name)
    const calls = { ...fs.calls }
    for (const name of ['a.txt', 'd', 'd/', 'none']) {
      const selection = start(name)
      t.notOk(selection instanceof Promise, name)
      t.equal((selection as Found).lease, undefined)
    }
    t.equal(cache.stats().leases, 0)
    t.strictSame(fs.calls, calls)
  })
})

t.test('each request counts one use per path', async (t) => {
  selectTest(t, 'a look-up and what follows from it', ['a.txt', 'd/index.html'], async (t, { pick, pickAgain, cache }) => {
    await pick('a.txt')
    t.match(cache.stats(), { misses: 1, hits: 0 })
    await pick('a.txt')
    t.match(cache.stats(), { misses: 1, hits: 1 })
    await pickAgain('a.txt')
    t.match(cache.stats(), { misses: 1, hits: 1 }, 'selecting again counts nothing')
    await pick('d')
    t.match(cache.stats(), { misses: 3, hits: 1 }, 'the directory and its index')
    await pick('d')
    t.match(cache.stats(), { misses: 3, hits: 3 })
    await pickAgain('d')
    t.match(cache.stats(), { misses: 3, hits: 3 })
  })

  selectTest(t, 'a fresh directory before a missing index counts once', ['d/x', 'e/index.html'], async (t, { pick, cache }) => {
    await pick('d', { index: [] })
    await pick('d')
    t.match(cache.stats(), { hits: 1, misses: 2 })
  })
})

t.test('a file', async (t) => {
  selectTest(t, 'answers for itself', ['a.txt', 'd/b.txt'], async (t, { pick }) => {
    t.match(await pick('a.txt'), found('a.txt'))
    t.match(await pick('d/b.txt'), found('d/b.txt'))
  })

  selectTest(t, 'is not found below itself', ['a.txt'], async (t, { pick }) => {
    t.match(await pick('a.txt/b'), { reason: 'ENOENT', path: undefined })
  })

  selectTest(t, 'is not found as a directory, with or without index files', ['a.txt'], async (t, { pick, pickAgain }) => {
    for (let round = 0; round < 2; round++) {
      t.match(await pick('a.txt/'), { reason: 'ENOENT', path: undefined })
      t.match(await pick('a.txt/', { index: [] }), { reason: 'ENOENT', path: undefined })
      t.match(await pickAgain('a.txt/', { index: [] }), { reason: 'ENOENT', path: undefined })
    }
  })
})

t.test('a directory', async (t) => {
  selectTest(t, 'is answered by its index, with or without trailing slash', ['d/index.html', 'index.html'], async (t, { pick }) => {
    for (let round = 0; round < 2; round++) {
      t.match(await pick('d'), found('d/index.html'))
      t.match(await pick('d/'), found('d/index.html'))
      t.match(await pick(''), found('index.html'))
    }
  })

  selectTest(t, 'is not looked at itself when the request has the trailing slash', ['d/index.html'], async (t, { pick, fs }) => {
    await pick('d/')
    t.equal(fs.count('open'), 1)
  })

  selectTest(t, 'is answered by the first index file that is there', ['d/b.html', 'd/c.html'], async (t, { pick }) => {
    const index = ['a.html', 'b.html', 'c.html']
    for (let round = 0; round < 2; round++) {
      t.match(await pick('d', { index }), found('d/b.html'))
      t.match(await pick('d/', { index: ['c.html', 'b.html'] }), found('d/c.html'))
    }
  })

  selectTest(t, 'is not answered by a directory of an index name', ['d/a.html/x', 'd/b.html'], async (t, { pick }) => {
    for (let round = 0; round < 2; round++) {
      t.match(await pick('d/', { index: ['a.html', 'b.html'] }), found('d/b.html'))
      t.match(await pick('d/', { index: ['a.html'] }), { reason: 'ENOENT', path: undefined })
    }
  })

  selectTest(t, 'without an index file is not found', ['d/x'], async (t, { pick }) => {
    for (const name of ['d', 'd/', '', 'none/']) t.match(await pick(name), { reason: 'ENOENT', path: undefined }, name)
  })

  selectTest(t, 'where there are no index files is forbidden with a trailing slash, and not found without', ['d/index.html'], async (t, { pick }) => {
    for (let round = 0; round < 2; round++) {
      for (const name of ['d/', '']) t.match(await pick(name, { index: [] }), { reason: 'EISDIR', path: undefined }, name)
      t.match(await pick('d', { index: [] }), { reason: 'ENOENT', path: undefined })
    }
  })

  selectTest(t, 'may have its index in a directory below', ['d/sub/index.html'], async (t, { pick }) => {
    t.match(await pick('d/', { index: ['sub/index.html'] }), found('d/sub/index.html'))
  })
})

t.test('a path that leaves no room for the name of an index', async (t) => {
  const deep = Array.from({ length: 17 }, (_, i) => String.fromCharCode(97 + i).repeat(254)).join('/')
  const long = deep.slice(0, 4090 - ROOT.length - 1)

  selectTest(t, 'is no index file itself', [long], async (t, { pick, pickAgain }) => {
    t.match(await pick(long), found(long))
    t.match(await pick(`${long}/`), { reason: 'ENOENT', path: undefined })
    t.match(await pickAgain(`${long}/`), { reason: 'ENOENT', path: undefined })
  })

  selectTest(t, 'is not found as a directory', [], async (t, { pick, fs, cache }) => {
    put({ fs, cache } as Engine, `${ROOT}/${long.slice(0, long.lastIndexOf('/'))}/x`, 'x')
    fs.mkdir(`${ROOT}/${long}`)
    t.match(await pick(long), { reason: 'ENOENT', path: undefined })
    t.match(await pick(`${long}/`), { reason: 'ENOENT', path: undefined })
    t.match(await pick(`${long}/`, { index: ['index.html', 'a'] }), { reason: 'ENOENT', path: undefined },
      'a name that fits is tried')
    fs.write(`${ROOT}/${long}/b`, '')
    t.match(await pick(`${long}/`, { index: ['index.html', 'b'] }), found(`${long}/b`))
  })
})

t.test('only what is absent lets the next candidate try', async (t) => {
  selectTest(t, 'a file without permission is an answer', ['a.txt', 'd/index.html', 'd/b.html', 'page.html'],
    async (t, { pick, fs }) => {
      fs.chmod('/www/a.txt', false)
      fs.chmod('/www/d/index.html', false)
      const fallback = '/www/page.html' as TargetPath
      for (let round = 0; round < 2; round++) {
        t.match(await pick('a.txt', { fallback }), { reason: 'EACCES' })
        t.match(await pick('d/', { index: ['index.html', 'b.html'], fallback }), { reason: 'EACCES' })
        t.match(await pick('d', { index: ['index.html', 'b.html'], fallback }), { reason: 'EACCES' })
      }
    })

  selectTest(t, 'a loop of links is an answer', ['index.html'], async (t, { pick, fs }) => {
    fs.link('/www/loop', '/www/loop')
    t.match(await pick('loop'), { reason: 'ELOOP' })
  })

  selectTest(t, 'a name that is too long for the file system is absent', ['d/b.html'], async (t, { pick, fs }) => {
    fs.fail('open', 'ENAMETOOLONG', 2)
    t.match(await pick('a.txt'), { reason: 'ENOENT' })
    t.match(await pick('d/', { index: ['a.html', 'b.html'] }), found('d/b.html'))
  })

  selectTest(t, 'a failure that may pass is an answer, with its error', ['a.txt', 'd/b.html'], async (t, { pick, fs }) => {
    for (const code of ['EMFILE', 'EIO']) {
      fs.fail('open', code)
      t.match(await pick('a.txt'), { reason: { code }, path: undefined })
      fs.fail('open', code)
      t.match(await pick('d/', { index: ['a.html', 'b.html'] }), { reason: { code }, path: undefined })
    }
    t.match(await pick('a.txt'), found('a.txt'), 'and is not remembered')
  })

  selectTest(t, 'a special file is absent', [], async (t, { pick, fs }) => {
    fs.special('/www/fifo')
    t.match(await pick('fifo'), { reason: 'ENOENT' })
  })
})

t.test('the fallback', async (t) => {
  const fallback = '/www/page.html' as TargetPath

  selectTest(t, 'answers for what is missing', ['page.html', 'd/x', 'a.txt'], async (t, { pick }) => {
    for (let round = 0; round < 2; round++) {
      for (const name of ['none', 'none/', 'd', 'd/', '', 'a.txt/', 'a.txt/b']) {
        t.match(await pick(name, { fallback }), found('page.html'), name)
      }
    }
  })

  selectTest(t, 'does not answer for what is there', ['page.html', 'd/index.html', 'a.txt'], async (t, { pick }) => {
    t.match(await pick('a.txt', { fallback }), found('a.txt'))
    t.match(await pick('d/', { fallback }), found('d/index.html'))
    t.match(await pick('page.html', { fallback }), found('page.html'))
    t.match(await pick('d/', { index: [], fallback }), { reason: 'EISDIR' })
    t.match(await pick('d', { index: [], fallback }), found('page.html'))
  })

  selectTest(t, 'that is missing, or a directory, is not found', ['dir/x'], async (t, { pick }) => {
    for (let round = 0; round < 2; round++) {
      t.match(await pick('none', { fallback }), { reason: 'ENOENT', path: undefined })
      t.match(await pick('none', { fallback: '/www/dir' as TargetPath }), { reason: 'ENOENT', path: undefined })
    }
  })

  selectTest(t, 'answers where no name of an index fits', ['page.html'], async (t, { pick }) => {
    const long = Array.from({ length: 17 }, () => 'x'.repeat(254)).join('/').slice(0, 4085)
    t.match(await pick(`${long}/`, { fallback }), found('page.html'))
  })
})

t.test('candidates that are partly known', async (t) => {
  selectTest(t, 'are looked up until one is not, and opened from there', ['d/b.html'], async (t, { pick, fs }) => {
    const index = ['a.html', 'b.html']
    t.match(await pick('d', { index: ['a.html'] }), { isSync: false, reason: 'ENOENT' })
    const opens = fs.count('open')
    t.match(await pick('d', { index }), { ...found('d/b.html'), isSync: false })
    t.equal(fs.count('open'), opens + 1, 'the directory and the missing index are known')
    t.match(await pick('d', { index }), { isSync: true })
  })

  selectTest(t, 'share one look at the disk with whoever asks meanwhile', ['a.txt'], async (t, { start, fs }) => {
    fs.isManual = true
    const both = [start('a.txt'), start('a.txt')]
    await deliver(fs, 'open')
    await deliver(fs, 'fstat')
    await deliver(fs, 'isRemote')
    fs.isManual = false
    for (const selection of await Promise.all(both)) (selection as Found).lease?.release()
    t.equal(fs.count('open'), 1)
  })
})

t.test('content codings', async (t) => {
  selectTest(t, 'a coding that cannot be read is passed over, and asked for again', ['a.js', 'a.js.br'], async (t, { pick, fs }) => {
    const search = { codings: ['br' as const] }
    for (const code of ['EIO', 'EACCES']) {
      fs.fail('open', code, 1, `${ROOT}/a.js.br`)
      t.match(await pick('a.js', search), found('a.js'), code)
    }
  }, { minUses: 1, errors: false })

  selectTest(t, 'after a failure that passes the coding answers', ['a.js', 'a.js.br'], async (t, { pick, fs }) => {
    fs.fail('open', 'EIO', 1, `${ROOT}/a.js.br`)
    t.match(await pick('a.js', { codings: ['br'] }), found('a.js'))
    t.match(await pick('a.js', { codings: ['br'] }), found('a.js.br'))
  })
})
