import t from 'tap'
import { OpenFileCache } from '../lib/open-file-cache'
import { codeOf, contentOf, deliver, engineTest, fetched, held, nothingIsLeft, opened, readAt, refusal, stateOf, statsOf, use } from './fixtures/engine'
import { fakeWorld, settled } from './fixtures/fake-world'
import type { Test } from 'tap'
import type { Engine } from './fixtures/engine'
import type { OpenFileCacheOptions } from '../types/open-file-cache'

/** With a limit of descriptors that the cache knows from its start. */
function limitedTest (
  t: Test, limit: number, name: string, options: OpenFileCacheOptions, body: (t: Test, engine: Engine) => Promise<void>
): void {
  t.test(name, async (t) => {
    const { clock, fileSystem: fs } = fakeWorld()
    fs.limit = limit
    const cache = new OpenFileCache(options, { clock, fileSystem: fs })
    await body(t, { cache, clock, fs })
    await nothingIsLeft(t, { cache, clock, fs })
  })
}

t.test('leases', async (t) => {
  engineTest(t, 'a descriptor is closed by the last release, and not before', {}, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    const leases = await Promise.all([opened(cache, '/a'), opened(cache, '/a'), opened(cache, '/a')])
    cache.clear()
    for (let left = 2; left >= 0; left--) {
      leases[left]?.release()
      t.match(await statsOf(cache), { leases: left, openFiles: left === 0 ? 0 : 1 })
    }
  })

  engineTest(t, 'releasing twice gives back once', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    const one = await opened(cache, '/a')
    const two = await opened(cache, '/a')
    cache.clear()
    one.release()
    one.release()
    t.match(await statsOf(cache), { leases: 1, openFiles: 1 })
    t.equal(await contentOf(two), 'a')
    two.release()
  })

  engineTest(t, 'P34 two hundred clients that leave in mid-body: back to where it was', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'x'.repeat(1000))
    await use(cache, '/a')
    await Promise.all(Array.from({ length: 200 }, async () => {
      const lease = await opened(cache, '/a')
      const read = readAt(lease, 100, 0)
      lease.release()
      t.equal((await read).length, 100, 'a read under way is not cut off')
    }))
    t.match(await statsOf(cache), { leases: 0, openFiles: 1, opens: 1 })
  })

  engineTest(t, 'a descriptor that is read from is not closed under the read', {}, async (t, { cache, fs }) => {
    fs.write('/a', 'abc')
    const lease = await opened(cache, '/a')
    fs.isManual = true
    const read = readAt(lease, 3, 0)
    lease.release()
    cache.clear()
    await settled()
    t.strictSame(fs.pending.map(({ name }) => name), ['read'])
    fs.isManual = false
    await deliver(fs, 'read')
    t.equal((await read).toString(), 'abc')
    t.equal((await statsOf(cache)).openFiles, 0)
  })

  for (const call of ['read', 'fstatSync'] as const) {
    engineTest(t, `a failing ${call} of an old version drops no entry of the new one`, { minUses: 1 }, async (t, { cache, clock, fs }) => {
      fs.write('/a', 'old!')
      const lease = await opened(cache, '/a')
      fs.write('/x', 'newer')
      fs.rename('/x', '/a')
      clock.jump(20_000)
      await use(cache, '/a')
      fs.fail(call, 'ESTALE')
      t.equal(await codeOf((async () => { call === 'read' ? await readAt(lease, 4, 0) : await lease.current() })()), 'ESTALE')
      t.match(await statsOf(cache), { entries: 1, openFiles: 2 })
      lease.release()
    })
  }

  engineTest(t, 'a close that fails is a close: the descriptor is gone', {}, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    fs.fail('close', 'EIO')
    await use(cache, '/a')
    t.match(await statsOf(cache), { opens: 1, closes: 1, openFiles: 0 })
  })

  engineTest(t, 'P36 what is not a regular file is closed once, under parallel load', { errors: false }, async (t, { cache, fs }) => {
    fs.special('/fifo')
    fs.mkdir('/d')
    fs.write('/a', 'a')
    for (let i = 0; i < 20; i++) {
      const answers = await Promise.all(['/fifo', '/d', '/a', '/fifo', '/d', '/a'].map((path) => cache.open(path)))
      for (const answer of answers) if (!('errno' in answer)) answer.release()
      if (i % 3 === 0) cache.clear()
    }
    t.match(await statsOf(cache), { openFiles: 1, leases: 0 })
  })

  for (const call of ['fstat', 'isRemote'] as const) {
    engineTest(t, `a failing ${call} leaves no descriptor`, {}, async (t, { cache, fs }) => {
      fs.write('/a', 'a')
      fs.fail(call, 'EIO')
      t.equal(await codeOf(cache.open('/a')), 'EIO')
      t.match(await statsOf(cache), { opens: 1, closes: 1, openFiles: 0 })
      await use(cache, '/a')
    })
  }
})

t.test('exhausted', async (t) => {
  for (const code of ['EMFILE', 'ENFILE']) {
    engineTest(t, `${code}: the least recently used idle descriptors are closed, and the open is tried again`, { minUses: 1 }, async (t, { cache, fs }) => {
      for (let i = 0; i < 40; i++) {
        fs.write(`/${i}`, `${i}`)
        await use(cache, `/${i}`)
      }
      cache.lookup('/0')
      const busy = await opened(cache, '/1')
      await use(cache, '/39')
      fs.write('/new', 'new')
      fs.fail('open', code)
      t.equal(await fetched(cache, '/new'), 'new')
      t.equal(stateOf(cache, '/1'), 'open', 'who is read stays')
      t.equal(stateOf(cache, '/0'), 'open', 'who was used last stays')
      t.equal(stateOf(cache, '/2'), 'metadata-only', 'the others are known, not open')
      t.match(await statsOf(cache), { entries: 41, evictions: 0, negativeEntries: 0 })
      t.ok(cache.stats().openFiles < 41)
      busy.release()
      t.equal(await fetched(cache, '/2'), '2')
    })
  }

  engineTest(t, 'the open is tried again when the others are closed, not before', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    fs.write('/b', 'b')
    await use(cache, '/a')
    fs.limit = 1
    fs.isManual = true
    const answer = fetched(cache, '/b')
    await deliver(fs, 'open')
    t.strictSame(fs.pending.map(({ name }) => name), ['close'])
    fs.isManual = false
    await deliver(fs, 'close')
    t.equal(await answer, 'b')
  })

  engineTest(t, 'EMFILE again is a failure, not "not there"', { minUses: 1, errors: '1m' }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    fs.write('/b', 'b')
    await use(cache, '/a')
    fs.fail('open', 'EMFILE', 2)
    t.equal(await codeOf(cache.open('/b')), 'EMFILE')
    t.equal(fs.count('open'), 3, 'tried twice')
    t.match(await statsOf(cache), { openFiles: 0, negativeEntries: 0 })
    t.equal(await fetched(cache, '/b'), 'b', 'it recovers')
  })

  engineTest(t, 'also when there would be more to close', { minUses: 1 }, async (t, { cache, fs }) => {
    for (let i = 0; i < 100; i++) {
      fs.write(`/${i}`, `${i}`)
      await use(cache, `/${i}`)
    }
    cache.invalidate('/0')
    fs.fail('open', 'EMFILE', 2)
    t.equal(await codeOf(cache.open('/0')), 'EMFILE')
    t.equal(fs.count('open'), 102)
    t.ok((await statsOf(cache)).openFiles > 50, 'a few are closed, not all')
  })

  engineTest(t, 'EMFILE with nothing to close is a failure at once', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    fs.write('/b', 'b')
    const lease = await opened(cache, '/a')
    fs.fail('open', 'EMFILE')
    t.equal(await codeOf(cache.open('/b')), 'EMFILE')
    t.equal(fs.count('open'), 2)
    lease.release()
  })

  limitedTest(t, 8, 'P109 many more files at once than descriptors: served or EMFILE, never "not there"', { minUses: 1 }, async (t, { cache, fs }) => {
    for (let i = 0; i < 100; i++) fs.write(`/${i}`, `${i}`)
    const answers = await Promise.allSettled(Array.from({ length: 100 }, (_, i) => cache.open(`/${i}`)))
    for (const answer of answers) {
      if (answer.status === 'rejected') t.equal(answer.reason.code, 'EMFILE')
      else if ('errno' in answer.value) t.fail(answer.value.errno)
      else answer.value.release()
    }
    for (let i = 0; i < 100; i++) t.equal(await fetched(cache, `/${i}`), `${i}`, 'it recovers')
    t.equal(cache.stats().negativeEntries, 0)
  })
})

t.test('the clamp', async (t) => {
  limitedTest(t, 20, 'P23 half of what the process may open, with one warning; max stays', { max: 100, minUses: 1 }, async (t, { cache, fs }) => {
    const warnings: Error[] = []
    const listener = (warning: Error): void => { warnings.push(warning) }
    process.on('warning', listener)
    t.teardown(() => process.off('warning', listener))
    for (let i = 0; i < 10; i++) {
      fs.write(`/${i}`, `${i}`)
      await use(cache, `/${i}`)
    }
    await settled()
    t.equal(warnings.length, 0)
    for (let i = 10; i < 60; i++) {
      fs.write(`/${i}`, `${i}`)
      t.equal(await fetched(cache, `/${i}`), `${i}`)
      await settled()
      t.ok(fs.openDescriptors <= 10)
    }
    t.match(await statsOf(cache), { entries: 60, openFiles: 10, evictions: 0 })
    t.equal(stateOf(cache, '/49'), 'metadata-only')
    t.equal(stateOf(cache, '/50'), 'open', 'the most recently used stay open')
    t.equal(warnings.length, 1)
    t.match(warnings[0]?.message, /half of the descriptors .* "openFileCache\.max"/)
  })

  limitedTest(t, 20, 'below it there is nothing to warn of', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    const warnings: Error[] = []
    const listener = (warning: Error): void => { warnings.push(warning) }
    process.on('warning', listener)
    t.teardown(() => process.off('warning', listener))
    for (let i = 0; i < 10; i++) {
      fs.write('/a', `${i}`)
      await use(cache, '/a', 2)
      clock.jump(20_000)
      await use(cache, '/a')
      await held(cache, '/a')
      if (i % 2 === 0) cache.clear()
    }
    await settled()
    t.strictSame(warnings, [])
  })

  limitedTest(t, 20, 'a descriptor that is read when it must go is closed by its last release', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    const lease = await opened(cache, '/a')
    for (let i = 0; i < 10; i++) {
      fs.write(`/${i}`, `${i}`)
      await use(cache, `/${i}`)
    }
    t.match(await statsOf(cache), { openFiles: 11 })
    t.equal(stateOf(cache, '/a'), 'metadata-only')
    t.equal(await contentOf(lease), 'a')
    lease.release()
    t.match(await statsOf(cache), { openFiles: 10 })
  })

  limitedTest(t, 1, 'a limit of one keeps one', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a')
    t.equal(stateOf(cache, '/a'), 'open')
  })

  limitedTest(t, Infinity, 'an unlimited process is bounded by max', { max: 3, minUses: 1 }, async (t, { cache, fs }) => {
    for (let i = 0; i < 10; i++) {
      fs.write(`/${i}`, `${i}`)
      await use(cache, `/${i}`)
    }
    t.match(await statsOf(cache), { openFiles: 3, entries: 3 })
  })

  limitedTest(t, 20, 'held files take no descriptor', { minUses: 1 }, async (t, { cache, fs }) => {
    for (let i = 0; i < 50; i++) {
      fs.write(`/${i}`, `${i}`)
      await held(cache, `/${i}`)
    }
    t.match(await statsOf(cache), { openFiles: 0, entries: 50, bodyBytes: 90 })
  })
})

t.test('opening', async (t) => {
  engineTest(t, 'P47 first the descriptor, then what it is: never a stat of the path before', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'ten bytes.')
    fs.isManual = true
    const answer = opened(cache, '/a')
    await deliver(fs, 'open')
    fs.write('/x', 'twenty bytes, or so.')
    fs.rename('/x', '/a')
    fs.isManual = false
    await deliver(fs, 'fstat')
    const lease = await answer
    t.equal(lease.snapshot.size, 10)
    t.equal(await contentOf(lease), 'ten bytes.')
    t.equal(fs.count('stat'), 0)
    lease.release()
  })

  for (const code of ['EACCES', 'EPERM', 'EISDIR']) {
    engineTest(t, `a directory that refuses to be opened (${code}) is a directory all the same`, {}, async (t, { cache, clock, fs }) => {
      fs.mkdir('/d')
      fs.fail('open', code, 100)
      t.equal((await opened(cache, '/d')).snapshot.kind, 'directory')
      t.equal(stateOf(cache, '/d'), 'metadata-only')
      clock.jump(20_000)
      t.equal((await opened(cache, '/d')).snapshot.kind, 'directory')
      t.match(await statsOf(cache), { opens: 0, closes: 0, entries: 1 })
      fs.write('/d/new', 'x')
      clock.jump(20_000)
      t.equal((await opened(cache, '/d')).snapshot.mtimeNs, fs.resolve('/d').mtimeNs)
    })
  }

  engineTest(t, 'a file that refuses to be opened is forbidden, whatever stat says', {}, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    fs.chmod('/a', false)
    t.equal(await refusal(cache, '/a'), 'EACCES')
    fs.fail('open', 'EPERM', 1, '/b')
    fs.fail('stat', 'EACCES', 1, '/b')
    t.equal(await refusal(cache, '/b'), 'EPERM')
    fs.fail('open', 'EISDIR', 1, '/gone')
    t.equal(await codeOf(cache.open('/gone')), 'EISDIR', 'what was a directory and is gone since: a failure that passes')
  })
})

t.test('link policies', async (t) => {
  const tree = ({ fs }: Engine): void => {
    for (const path of ['/srv', '/srv/site', '/srv/site/dir', '/out']) fs.mkdir(path)
    fs.write('/srv/site/a', 'in')
    fs.write('/srv/site/dir/b', 'in')
    fs.write('/out/secret', 'out')
    fs.write('/srv/site-secret', 'out')
    fs.link('/srv/site/inner', '/srv/site/dir/b')
    fs.link('/srv/site/innerdir', '/srv/site/dir')
    fs.link('/srv/site/outer', '/out/secret')
    fs.link('/srv/site/outerdir', '/out')
    fs.link('/srv/site/sibling', '/srv/site-secret')
    fs.link('/srv/site/self', '/srv/site')
    fs.link('/current', '/srv/site')
  }
  const rows = [
    // path, within-root, deny
    ['/a', 'in', 'in'],
    ['/dir/b', 'in', 'in'],
    ['/inner', 'in', 'ELOOP'],
    ['/innerdir/b', 'in', 'ELOOP'],
    ['/outer', 'ELOOP', 'ELOOP'],
    ['/outerdir/secret', 'ELOOP', 'ELOOP'],
    ['/sibling', 'ELOOP', 'ELOOP'],
    ['/self/a', 'in', 'ELOOP'],
    ['/none', 'ENOENT', 'ENOENT']
  ] as const
  const answerOf = async (cache: OpenFileCache, path: string, policy: ReturnType<OpenFileCache['policy']>): Promise<string> => {
    const answer = await cache.open(path, policy)
    if ('errno' in answer) return answer.errno
    const content = await contentOf(answer)
    answer.release()
    return content
  }

  for (const [index, symlinks] of [[1, 'within-root'], [2, 'deny']] as const) {
    for (const root of ['/srv/site', '/srv/site/', '/current', '/current/']) {
      engineTest(t, `${symlinks}, root ${root}`, { minUses: 1, errors: false }, async (t, engine) => {
        tree(engine)
        const { cache, clock } = engine
        const policy = cache.policy({ links: { symlinks, root } })
        for (const row of rows) {
          const path = root.replace(/\/$/, '') + row[0]
          t.equal(await answerOf(cache, path, policy), row[index], path)
          clock.jump(20_000)
          t.equal(await answerOf(cache, path, policy), row[index], `${path} again`)
        }
        for (const path of [root, root.replace(/\/$/, '')]) {
          t.equal((await opened(cache, path, policy)).snapshot.kind, 'directory', 'the root itself')
        }
        t.equal((await statsOf(cache)).openFiles, rows.filter((row) => row[index] === 'in').length)
      })
    }

    engineTest(t, `${symlinks}, root /`, { errors: false }, async (t, engine) => {
      tree(engine)
      const { cache } = engine
      const policy = cache.policy({ links: { symlinks, root: '/' } })
      t.equal(await answerOf(cache, '/out/secret', policy), 'out')
      t.equal(await answerOf(cache, '/srv/site/outer', policy), index === 1 ? 'out' : 'ELOOP')
      t.equal((await opened(cache, '/', policy)).snapshot.kind, 'directory')
    })
  }

  engineTest(t, 'a path that is not below the root is refused', { errors: false }, async (t, engine) => {
    tree(engine)
    const { cache } = engine
    for (const symlinks of ['within-root', 'deny'] as const) {
      const policy = cache.policy({ links: { symlinks, root: '/srv/site' } })
      for (const path of ['/out/secret', '/srv/site-secret', '/srv']) {
        t.equal(await refusal(cache, path, policy), 'ELOOP', path)
      }
    }
  })

  engineTest(t, 'P101 the verdict is about the descriptor, and made again at each check', { minUses: 1, errors: false }, async (t, engine) => {
    tree(engine)
    const { cache, clock, fs } = engine
    const policy = cache.policy({ links: { symlinks: 'within-root', root: '/srv/site' } })
    t.equal(await answerOf(cache, '/srv/site/inner', policy), 'in')
    fs.link('/srv/site/inner', '/out/secret')
    t.equal(await answerOf(cache, '/srv/site/inner', policy), 'in', 'within valid: what was opened then')
    clock.jump(20_000)
    t.equal(await answerOf(cache, '/srv/site/inner', policy), 'ELOOP')
    t.match(await statsOf(cache), { openFiles: 0, entries: 0 })
  })

  engineTest(t, 'a hard file that comes to lie behind a link is seen, though stat says that nothing changed', { minUses: 1, errors: false }, async (t, { cache, clock, fs }) => {
    for (const path of ['/site', '/site/d', '/out']) fs.mkdir(path)
    fs.write('/site/d/a', 'a')
    const policy = cache.policy({ links: { symlinks: 'deny', root: '/site' } })
    t.equal(await answerOf(cache, '/site/d/a', policy), 'a')
    fs.rename('/site/d', '/out/d')
    fs.link('/site/d', '/out/d')
    clock.jump(20_000)
    t.equal(await answerOf(cache, '/site/d/a', policy), 'ELOOP')
  })

  engineTest(t, 'the policy and its root are part of the key', { minUses: 1, errors: '1m' }, async (t, engine) => {
    tree(engine)
    const { cache } = engine
    const deny = cache.policy({ links: { symlinks: 'deny', root: '/srv/site' } })
    const within = cache.policy({ links: { symlinks: 'within-root', root: '/srv/site' } })
    const other = cache.policy({ links: { symlinks: 'within-root', root: '/' } })
    t.equal(await answerOf(cache, '/srv/site/outer', cache.policy()), 'out')
    t.equal(await answerOf(cache, '/srv/site/outer', deny), 'ELOOP')
    t.equal(await answerOf(cache, '/srv/site/outer', within), 'ELOOP')
    t.equal(await answerOf(cache, '/srv/site/outer', other), 'out')
    t.match(await statsOf(cache), { entries: 2, negativeEntries: 2 })
  })

  engineTest(t, 'P07 a root that is swapped between two calls is looked at once more', { errors: false }, async (t, { cache, fs }) => {
    for (const release of ['/1', '/2']) {
      fs.mkdir(release)
      fs.write(`${release}/a`, release)
    }
    fs.link('/current', '/1')
    for (const symlinks of ['within-root', 'deny'] as const) {
      const policy = cache.policy({ links: { symlinks, root: '/current' } })
      fs.link('/current', '/1')
      fs.isManual = true
      const answer = answerOf(cache, '/current/a', policy)
      await deliver(fs, 'open')
      await deliver(fs, 'fstat')
      fs.link('/current', '/2')
      fs.isManual = false
      for (const call of [...fs.pending]) call.deliver()
      t.equal(await answer, '/2')
      t.match(await statsOf(cache), { openFiles: 0 })
    }
  })

  engineTest(t, 'a root that is swapped all the time is a failure that may pass', { errors: '1m' }, async (t, { cache, fs }) => {
    for (const release of ['/0', '/1', '/2']) {
      fs.mkdir(release)
      fs.write(`${release}/a`, release)
    }
    fs.link('/current', '/0')
    const policy = cache.policy({ links: { symlinks: 'within-root', root: '/current' } })
    let swaps = 0
    const { realpath } = fs
    fs.realpath = async (path) => {
      fs.link('/current', `/${++swaps % 3}`)
      return await realpath.call(fs, path)
    }
    t.equal(await codeOf(cache.open('/current/a', policy)), 'EAGAIN')
    t.equal(fs.count('open'), 3)
    fs.realpath = realpath
    t.match(await statsOf(cache), { negativeEntries: 0, openFiles: 0 })
    t.match(await answerOf(cache, '/current/a', policy), /^\/[012]$/)
  })

  engineTest(t, 'a link that led outside and is gone by now is not there', { errors: false }, async (t, engine) => {
    tree(engine)
    const { cache, fs } = engine
    const policy = cache.policy({ links: { symlinks: 'within-root', root: '/srv/site' } })
    fs.isManual = true
    const answer = answerOf(cache, '/srv/site/outer', policy)
    await deliver(fs, 'open')
    fs.unlink('/srv/site/outer')
    fs.isManual = false
    await deliver(fs, 'fstat')
    t.equal(await answer, 'ENOENT')
  })

  engineTest(t, 'a link that leads outside is refused at once', { errors: false }, async (t, engine) => {
    tree(engine)
    const { cache, fs } = engine
    const policy = cache.policy({ links: { symlinks: 'deny', root: '/srv/site' } })
    t.equal(await answerOf(cache, '/srv/site/outer', policy), 'ELOOP')
    t.match(fs.calls, { open: 1, close: 1 })
  })

  engineTest(t, 'a file that is deleted between the two calls was within the root', { errors: false }, async (t, engine) => {
    tree(engine)
    const { cache, fs } = engine
    const policy = cache.policy({ links: { symlinks: 'within-root', root: '/srv/site' } })
    fs.isManual = true
    const answer = answerOf(cache, '/srv/site/a', policy)
    await deliver(fs, 'open')
    fs.unlink('/srv/site/a')
    fs.isManual = false
    await deliver(fs, 'fstat')
    t.equal(await answer, 'in')
  })

  for (const call of ['realpath', 'realpathOf'] as const) {
    for (const code of ['EIO', 'ENOENT']) {
      engineTest(t, `a failing ${call} (${code}) is no permission and leaves nothing behind`, { errors: false }, async (t, engine) => {
        tree(engine)
        const { cache, fs } = engine
        const policy = cache.policy({ links: { symlinks: 'within-root', root: '/srv/site' } })
        fs.fail(call, code)
        const answer = await cache.open('/srv/site/a', policy).catch((error) => ({ errno: error.code }))
        t.match(answer, { errno: code })
        await settled()
        t.equal((await statsOf(cache)).openFiles, 0)
        t.equal(await answerOf(cache, '/srv/site/a', policy), 'in')
      })
    }
  }

  engineTest(t, 'a descriptor is not closed while it is asked where it is', { errors: false }, async (t, engine) => {
    tree(engine)
    const { cache, fs } = engine
    const policy = cache.policy({ links: { symlinks: 'within-root', root: '/srv/site' } })
    fs.fail('realpath', 'EIO')
    fs.isManual = true
    const code = codeOf(cache.open('/srv/site/a', policy))
    for (const call of ['open', 'fstat', 'realpath']) await deliver(fs, call)
    fs.isManual = false
    for (const call of [...fs.pending].reverse()) call.deliver()
    t.equal(await code, 'EIO')
  })

  engineTest(t, 'a name that begins with a backslash is a name', { errors: false }, async (t, { cache, fs }) => {
    fs.write('/x', 'x')
    fs.write('/\\y', 'y')
    fs.link('/\\x', '/x')
    const policy = cache.policy({ links: { symlinks: 'deny', root: '/' } })
    t.equal(await answerOf(cache, '/\\y', policy), 'y')
    t.equal(await answerOf(cache, '/\\x', policy), 'ELOOP')
  })

  engineTest(t, 'under a policy a directory that cannot be opened proves nothing', { errors: false }, async (t, engine) => {
    tree(engine)
    const { cache, fs } = engine
    fs.chmod('/srv/site/dir', false)
    t.equal(await refusal(cache, '/srv/site/dir', cache.policy({ links: { symlinks: 'deny', root: '/srv/site' } })), 'EACCES')
    t.equal((await opened(cache, '/srv/site/dir')).snapshot.kind, 'directory')
  })
})
