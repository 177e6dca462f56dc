import t from 'tap'
import { OpenFileCache } from '../lib/open-file-cache'
import { resolveName } from '../lib/resolve-path'
import { select, selectAgain } from '../lib/select'
import { deliver, nothingIsLeft } from './fixtures/engine'
import { put } from './fixtures/fake-site'
import { fakeWorld } from './fixtures/fake-world'
import type { Test } from 'tap'
import type { Coding } from '../lib/content-coding'
import type { Engine } from './fixtures/engine'
import type { Target } from '../lib/resolve-path'
import type { Found, Search, Selection } from '../lib/select'
import type { OpenFileCacheOptions } from '../types/open-file-cache'

const ROOT = '/www'

/** Roots and the fallback by their names. */
interface Asked extends Partial<Omit<Search, 'target' | 'roots' | 'fallback'>> {
  roots?: string[]
  fallback?: string
}

interface Selecting extends Engine {
  /** Selects as the hook does; gives the lease back. */
  pick (name: string, asked?: Asked): Promise<Picked>
  /** Selects as the handler does when nothing is left. */
  pickAgain (name: string, asked?: Asked): Promise<Picked>
  start (name: string, asked?: Asked): Selection | Promise<Selection>
}

interface Picked {
  readonly kind: Selection['kind']
  readonly path?: string
  readonly root: number
  readonly coding?: Coding | undefined
  readonly reason?: unknown
  readonly isSync: boolean
}

function targetOf (name: string, root: string): Target {
  const target = resolveName(name, root, 'allow')
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
    for (const file of files) put(engine, file.startsWith('/') ? file : `${ROOT}/${file}`, file)
    clock.jump(60_000)
    const searchOf = (name: string, { roots = [ROOT], fallback, ...search }: Asked = {}): Search => ({
      target: targetOf(name, roots[0] as string),
      roots: roots.map((path) => ({ path, name: path, policy: cache.policy() })),
      index: ['index.html'],
      extensions: [],
      codings: [],
      stopsAtDirectory: false,
      fallback: fallback === undefined ? undefined : targetOf(fallback, roots[0] as string),
      ...search
    })
    const picked = (selection: Selection, isSync: boolean): Picked => {
      const { kind, root } = selection
      if (kind === 'failed') return { kind, root, reason: selection.reason, isSync }
      if (kind === 'directory') return { kind, root, path: selection.path, isSync }
      selection.lease?.release()
      return { kind, root, path: selection.path, coding: selection.coding, isSync }
    }
    const start = (name: string, asked?: Asked) => select(searchOf(name, asked), cache)
    await body(t, {
      ...engine,
      start,
      async pick (name, asked) {
        const selection = start(name, asked)
        return picked(await selection, !(selection instanceof Promise))
      },
      async pickAgain (name, asked) {
        return picked(await selectAgain(searchOf(name, asked), cache), false)
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
    const { snapshot, lease, ...found } = await selection as Found
    t.strictSame(found, {
      kind: 'found', path: '/www/a.txt', plainPath: '/www/a.txt', root: 0, pathname: '/a.txt', coding: undefined
    })
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

  selectTest(t, 'where there are no index files is an answer with a trailing slash, and not found without', ['d/index.html'], async (t, { pick }) => {
    for (let round = 0; round < 2; round++) {
      for (const [name, path] of [['d/', '/www/d'], ['', '/www']] as const) t.match(await pick(name, { index: [] }), { kind: 'directory', path })
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
      const fallback = 'page.html'
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
  const fallback = 'page.html'

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
    t.match(await pick('d/', { index: [], fallback }), { kind: 'directory' })
    t.match(await pick('d', { index: [], fallback }), found('page.html'))
  })

  selectTest(t, 'that is missing, or a directory, is not found', ['dir/x'], async (t, { pick }) => {
    for (let round = 0; round < 2; round++) {
      t.match(await pick('none', { fallback }), { reason: 'ENOENT', path: undefined })
      t.match(await pick('none', { fallback: 'dir' }), { reason: 'ENOENT', path: undefined })
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
    const search: Asked = { codings: ['br'] }
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

t.test('extensions', async (t) => {
  const asked: Asked = { extensions: ['html', 'txt'] }

  selectTest(t, 'are tried in order after a name that is missing and has none', ['a.txt', 'b.html', 'b.txt', 'd/c.html', 'e'],
    async (t, { pick, pickAgain }) => {
      for (let round = 0; round < 2; round++) {
        for (const [name, path] of [['a', 'a.txt'], ['b', 'b.html'], ['d/c', 'd/c.html'], ['e', 'e']] as const) {
          t.match(await pick(name, asked), found(path), name)
          t.match(await pickAgain(name, asked), found(path), name)
        }
        t.match(await pick('none', asked), { reason: 'ENOENT', path: undefined })
        t.match(await pick('a'), { reason: 'ENOENT', path: undefined }, 'only if there are any')
      }
    })

  selectTest(t, 'are told with the path below the root', ['d/c.html'], async (t, { start }) => {
    const { lease, pathname, plainPath } = await start('d/c', asked) as Found
    lease?.release()
    t.strictSame({ pathname, plainPath }, { pathname: '/d/c.html', plainPath: '/www/d/c.html' })
  })

  selectTest(t, 'are not put behind a name that has one', ['a.js.html', 'v1.2.html', 'd.x/page.html', '.env.html', 'd/.env.txt', 'a..html'],
    async (t, { pick, fs }) => {
      for (const name of ['a.js', 'v1.2', 'a.']) {
        const opens = fs.count('open')
        t.match(await pick(name, asked), { reason: 'ENOENT', path: undefined }, name)
        t.equal(fs.count('open'), opens + 1, name)
      }
      t.match(await pick('d.x/page', asked), found('d.x/page.html'), 'the dot of a directory is none')
      t.match(await pick('.env', asked), found('.env.html'), 'nor is the dot of a hidden name')
      t.match(await pick('d/.env', asked), found('d/.env.txt'))
    })

  selectTest(t, 'are not put behind a directory, nor behind a trailing slash', ['d/x', 'd.html', 'e.html', 'f/index.html', 'f.html'],
    async (t, { pick }) => {
      for (let round = 0; round < 2; round++) {
        for (const name of ['d', 'd/', 'e/', '']) t.match(await pick(name, asked), { reason: 'ENOENT', path: undefined }, name)
        t.match(await pick('f', asked), found('f/index.html'))
        t.match(await pick('e/', { ...asked, index: [] }), { reason: 'ENOENT', path: undefined })
      }
    })

  selectTest(t, 'do not lead to a directory', ['a.html/x', 'a.txt', 'b.html/index.html'], async (t, { pick, pickAgain, cache }) => {
    for (let round = 0; round < 2; round++) {
      t.match(await pick('a', asked), found('a.txt'))
      t.match(await pickAgain('a', asked), found('a.txt'))
      t.match(await pick('b', asked), { reason: 'ENOENT', path: undefined })
      t.equal(cache.stats().leases, 0)
    }
  })

  selectTest(t, 'that make the name too long are left out', ['x'.repeat(251) + '.txt'], async (t, { pick, fs }) => {
    const opens = fs.count('open')
    t.match(await pick('x'.repeat(251), asked), found('x'.repeat(251) + '.txt'))
    t.equal(fs.count('open'), opens + 2)
    t.match(await pick('x'.repeat(255), asked), { reason: 'ENOENT', path: undefined })
  })

  selectTest(t, 'a file with one that cannot be read is an answer', ['a.html', 'a.txt'], async (t, { pick, fs }) => {
    fs.chmod('/www/a.html', false)
    for (let round = 0; round < 2; round++) t.match(await pick('a', asked), { reason: 'EACCES' })
  })
})

t.test('several roots', async (t) => {
  const asked: Asked = { roots: ['/a', '/b', '/c'] }
  const at = (path: string) => ({ kind: 'found', path })

  selectTest(t, 'are tried in order', ['/a/1', '/b/1', '/b/2', '/c/1', '/c/2', '/c/3', '/c/d/4'], async (t, { pick, pickAgain }) => {
    for (let round = 0; round < 2; round++) {
      for (const [name, path, root] of [['1', '/a/1', 0], ['2', '/b/2', 1], ['3', '/c/3', 2], ['d/4', '/c/d/4', 2]] as const) {
        t.match(await pick(name, asked), { ...at(path), root })
        t.match(await pickAgain(name, asked), { ...at(path), root })
      }
      t.match(await pick('none', asked), { kind: 'failed', reason: 'ENOENT', root: 2 }, 'and the last one is told when none has it')
    }
  })

  selectTest(t, 'are each asked under their own policy', ['/a/1', '/b/1'], async (t, { cache }) => {
    const policies = [cache.policy({ errors: false }), cache.policy()]
    const used: unknown[] = []
    const open = cache.open.bind(cache)
    cache.open = (path, policy, counts) => {
      used.push(policy)
      return open(path, policy, counts)
    }
    const selection = await select({
      target: targetOf('2', '/a'),
      roots: ['/a', '/b'].map((path, i) => ({ path, name: path, policy: policies[i] as (typeof policies)[0] })),
      index: [],
      extensions: [],
      codings: [],
      stopsAtDirectory: false,
      fallback: undefined
    }, cache)
    t.match(selection, { kind: 'failed', reason: 'ENOENT' })
    t.equal(used.length, 2)
    t.equal(used[0], policies[0])
    t.equal(used[1], policies[1])
  })

  selectTest(t, 'what is known to be missing in one hides no other', ['/b/x', '/c/x'], async (t, { pick, fs, cache, clock }) => {
    t.match(await pick('x', asked), { ...at('/b/x'), isSync: false })
    t.match(await pick('x', asked), { ...at('/b/x'), isSync: true })
    put({ fs, cache, clock }, '/a/x', 'new')
    clock.jump(1000)
    t.match(await pick('x', asked), { ...at('/a/x'), root: 0 }, 'and is looked for again')
  })

  selectTest(t, 'one in which the path would be too long is passed over', ['/c/x'], async (t, { pick, fs, cache, clock }) => {
    const deep = Array.from({ length: 16 }, () => 'x'.repeat(255)).join('/').slice(0, 4090)
    const roots = ['/a', `/${'b'.repeat(200)}`, '/c']
    t.match(await pick(deep, { roots }), { kind: 'failed', reason: 'ENOENT', root: 2 })
    t.match(await pick(deep, { roots: roots.slice(0, 2) }), { kind: 'failed', reason: 'ENOENT' })
    put({ fs, cache, clock }, `/c/${deep}`, 'deep')
    clock.jump(1000)
    t.match(await pick(deep, { roots }), at(`/c/${deep}`))
  })

  selectTest(t, 'a directory without index lets the next one try', ['/a/d/x', '/b/d/index.html', '/a/e/x', '/b/e', '/c/f/index.html', '/a/f'],
    async (t, { pick, pickAgain }) => {
      for (let round = 0; round < 2; round++) {
        for (const name of ['d', 'd/']) {
          t.match(await pick(name, asked), { ...at('/b/d/index.html'), root: 1 }, name)
          t.match(await pickAgain(name, asked), { ...at('/b/d/index.html'), root: 1 }, name)
        }
        t.match(await pick('e', asked), at('/b/e'))
        t.match(await pick('f/', asked), at('/c/f/index.html'), 'as does a file that is asked for as a directory')
        t.match(await pick('f', asked), at('/a/f'))
      }
    })

  selectTest(t, 'a directory that is asked for without index files is an answer', ['/a/x', '/b/d/x', '/c/d/x'], async (t, { pick }) => {
    for (let round = 0; round < 2; round++) {
      t.match(await pick('d/', { ...asked, index: [] }), { kind: 'directory', root: 1, path: '/b/d' })
    }
  })

  selectTest(t, 'what cannot be read in one is an answer', ['/a/x', '/b/x', '/b/y'], async (t, { pick, fs }) => {
    fs.chmod('/a/x', false)
    for (let round = 0; round < 2; round++) t.match(await pick('x', asked), { kind: 'failed', reason: 'EACCES', root: 0 })
    fs.fail('open', 'EIO', 1, '/a/y')
    t.match(await pick('y', asked), { kind: 'failed', reason: { code: 'EIO' }, root: 0 })
    t.match(await pick('y', asked), at('/b/y'))
  })

  selectTest(t, 'that leave no room for an index name are passed over', [], async (t, { start, pick, pickAgain, fs, cache, clock }) => {
    const long = Array.from({ length: 17 }, (_, i) => String.fromCharCode(97 + i).repeat(254)).join('/').slice(0, 4085)
    const roots = ['/aaaa', '/b']
    put({ fs, cache, clock }, `/aaaa/${long}`, 'a file')
    put({ fs, cache, clock }, `/b/${long}/index`, 'index')
    for (let round = 0; round < 2; round++) {
      t.match(await pick(`${long}/`, { roots, index: ['index'] }), { ...at(`/b/${long}/index`), root: 1 })
      t.match(await pickAgain(`${long}/`, { roots, index: ['index'] }), { ...at(`/b/${long}/index`), root: 1 })
    }
    const calls = { ...fs.calls }
    t.match(start(`${long}/`, { roots: ['/aaaa'], index: ['index'] }), { kind: 'failed', reason: 'ENOENT' })
    t.match(await pickAgain(`${long}/`, { roots: ['/aaaa'], index: ['index'] }), { kind: 'failed', reason: 'ENOENT' })
    t.strictSame(fs.calls, calls, 'without a look at the disk when there is no other')
  })
})

t.test('the order', async (t) => {
  const asked: Asked = { roots: ['/a', '/b'], codings: ['br', 'gzip'], extensions: ['html', 'txt'], index: ['i.html', 'j.html'], fallback: 'app.html' }
  const formsOf = (...plain: string[]) => plain.flatMap((path) => [`${path}.br`, `${path}.gz`, path])

  /** Takes one file after the other away: the next one in the order has to answer. */
  const orderTest = (name: string, target: string, order: string[], others: string[] = []) => {
    selectTest(t, name, [...order, ...others], async (t, { pick, pickAgain, fs, cache }) => {
      for (const path of order) {
        const coding = path.endsWith('.br') ? 'br' : path.endsWith('.gz') ? 'gzip' : undefined
        const expected = { kind: 'found', path, coding, root: path.startsWith('/a/') ? 0 : 1 }
        t.match(await pick(target, asked), expected)
        t.match(await pickAgain(target, asked), expected)
        t.equal(cache.stats().leases, 0, 'what was passed over is given back')
        fs.unlink(path)
      }
      t.match(await pick(target, asked), { kind: 'failed', reason: 'ENOENT' })
      t.match(await pickAgain(target, asked), { kind: 'failed', reason: 'ENOENT' })
    }, { valid: 0, errors: false })
  }

  orderTest('of a name: in each root each form of it, then of each extension; last the fallback', 'd/page', [
    ...formsOf('/a/d/page', '/a/d/page.html', '/a/d/page.txt', '/b/d/page', '/b/d/page.html', '/b/d/page.txt'), ...formsOf('/a/app.html')
  ])

  orderTest('of a name with an extension', 'x.js', [...formsOf('/a/x.js', '/b/x.js'), ...formsOf('/a/app.html')], ['/a/x.js.html'])

  orderTest('of a directory: in each root each form of each index file', 'd/', [
    ...formsOf('/a/d/i.html', '/a/d/j.html', '/b/d/i.html', '/b/d/j.html'), ...formsOf('/a/app.html')
  ], ['/b/app.html'])

  orderTest('of a directory without its slash', 'd', [
    ...formsOf('/a/d/i.html', '/a/d/j.html', '/b/d/i.html', '/b/d/j.html'), ...formsOf('/a/app.html')
  ], ['/a/d/x', '/b/d/x', '/a/d.html', '/b/d.html'])

  selectTest(t, 'tells of a coding which file it is one of', ['/b/d/i.html', '/b/d/i.html.gz'], async (t, { start }) => {
    const { kind, path, plainPath, pathname, root, coding, lease } = await start('d', asked) as Found
    lease?.release()
    t.strictSame({ kind, path, plainPath, pathname, root, coding }, {
      kind: 'found', path: '/b/d/i.html.gz', plainPath: '/b/d/i.html', pathname: '/d/i.html', root: 1, coding: 'gzip'
    })
  })

  selectTest(t, 'leaves out a coding that makes the name too long', [`/a/${'x'.repeat(253)}`, '/b/x'], async (t, { pick, fs }) => {
    const opens = fs.count('open')
    t.match(await pick('x'.repeat(253), asked), { path: `/a/${'x'.repeat(253)}`, coding: undefined })
    t.equal(fs.count('open'), opens + 1)
  })

  selectTest(t, 'takes no directory for a coding', ['/a/x.br/y', '/a/x.gz', '/a/x'], async (t, { pick, pickAgain, cache }) => {
    for (let round = 0; round < 2; round++) {
      t.match(await pick('x', asked), { path: '/a/x.gz', coding: 'gzip' })
      t.match(await pickAgain('x', asked), { path: '/a/x.gz', coding: 'gzip' })
      t.equal(cache.stats().leases, 0)
    }
  })
})

t.test('of all that is passed over', async (t) => {
  const asked: Asked = { roots: ['/a', '/b'], codings: ['br'], extensions: ['html', 'txt'] }
  const files = ['/a/page.html/x', '/a/page.br/x', '/b/d/x', '/b/page.txt', '/b/x', '/a/d/x']

  for (const options of [{ minUses: 1 }, { valid: 0 }, { minUses: 100 }]) {
    selectTest(t, `nothing stays borrowed: ${JSON.stringify(options)}`, files, async (t, { start, cache }) => {
      for (let round = 0; round < 3; round++) {
        const selection = await start('page', asked) as Found
        t.equal(selection.path, '/b/page.txt')
        t.equal(cache.stats().leases, selection.lease === undefined ? 0 : 1)
        selection.lease?.release()
        for (const name of ['d', 'd/', 'none', '']) {
          t.match(await start(name, asked), { kind: 'failed' }, name)
          t.match(await start(name, { ...asked, index: [] }), { kind: /failed|directory/ }, name)
          t.equal(cache.stats().leases, 0, name)
        }
      }
    }, options)
  }
})

t.test('what is fresh in all roots', async (t) => {
  const asked: Asked = { roots: ['/a', '/b'], codings: ['br', 'gzip'], extensions: ['html'], fallback: 'app.html' }

  selectTest(t, 'is answered without a promise, a call to the file system or a lease, found or not', [
    '/a/one', '/b/two.html', '/b/three.js', '/b/three.js.gz', '/b/d/index.html', '/a/e/x'
  ], async (t, { start, pick, cache, fs }) => {
    const expected: Array<[name: string, path: string | undefined]> = [
      ['one', '/a/one'], ['two', '/b/two.html'], ['three.js', '/b/three.js.gz'], ['d', '/b/d/index.html'], ['d/', '/b/d/index.html'],
      ['none', undefined], ['none.js', undefined], ['e', undefined], ['e/', undefined]
    ]
    for (const [name] of expected) t.match(await pick(name, asked), { isSync: false }, name)
    const calls = { ...fs.calls }
    for (const [name, path] of expected) {
      const selection = start(name, asked)
      t.notOk(selection instanceof Promise, name)
      t.match(selection, path === undefined ? { kind: 'failed', reason: 'ENOENT' } : { kind: 'found', path, lease: undefined }, name)
    }
    t.strictSame(fs.calls, calls)
    t.equal(cache.stats().leases, 0)
  })
})

t.test('where a directory is an answer (stopsAtDirectory)', async (t) => {
  const asked: Asked = { roots: ['/a', '/b'], stopsAtDirectory: true, extensions: ['html'], fallback: 'app.html' }

  selectTest(t, 'it is one without its slash, with or without index', ['/a/d/index.html', '/b/e/x', '/a/app.html', '/b/d/x'],
    async (t, { start, pick, pickAgain, cache }) => {
      t.strictSame(await start('d', asked), { kind: 'directory', path: '/a/d', root: 0, pathname: '/d' })
      for (let round = 0; round < 2; round++) {
        t.match(await pick('d', asked), { kind: 'directory', path: '/a/d', root: 0, isSync: true })
        t.match(await pickAgain('d', asked), { kind: 'directory', path: '/a/d', root: 0 })
        t.match(await pick('e', asked), { kind: 'directory', path: '/b/e', root: 1 })
        t.equal(cache.stats().leases, 0)
      }
    })

  selectTest(t, 'its index still answers with the slash', ['/a/d/x', '/b/d/index.html'], async (t, { pick }) => {
    for (let round = 0; round < 2; round++) t.match(await pick('d/', asked), { kind: 'found', path: '/b/d/index.html' })
    t.match(await pick('', asked), { kind: 'failed', reason: 'ENOENT' })
  })

  selectTest(t, 'it is one with the slash where there are no index files', ['/a/d/index.html', '/a/x'], async (t, { start }) => {
    t.strictSame(await start('d/', { ...asked, index: [] }), { kind: 'directory', path: '/a/d', root: 0, pathname: '/d/' })
    t.strictSame(await start('', { ...asked, index: [] }), { kind: 'directory', path: '/a', root: 0, pathname: '/' })
  })

  selectTest(t, 'files answer as ever', ['/a/x', '/b/page.html', '/a/app.html'], async (t, { pick }) => {
    t.match(await pick('x', asked), { kind: 'found', path: '/a/x' })
    t.match(await pick('page', asked), { kind: 'found', path: '/b/page.html' })
    t.match(await pick('none', asked), { kind: 'found', path: '/a/app.html', root: 0 })
  })
})
