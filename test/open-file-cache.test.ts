import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import * as errors from '../lib/errors'
import { OpenFileCache } from '../lib/open-file-cache'
import { codeOf, collected, contentOf, deliver, deliverAll, engineTest, fetched, held, opened, readAt, refusal, stateOf, statsOf, use } from './fixtures/engine'
import { fakeWorld, settled } from './fixtures/fake-world'
import type { Test } from 'tap'
import type { Engine } from './fixtures/engine'

t.test('look-ups', async (t) => {
  engineTest(t, 'open() answers by a counted lease of what is on the disk', {}, async (t, { cache, fs }) => {
    const { ino } = fs.write('/a', 'aaaa')
    const lease = await opened(cache, '/a')
    t.equal(lease.kind, 'file')
    t.equal(lease.state, 'open')
    t.equal(lease.bytes, undefined)
    t.match(lease.snapshot, { kind: 'file', size: 4, ino })
    t.equal(await contentOf(lease), 'aaaa')
    t.match(await statsOf(cache), { leases: 1, openFiles: 1, entries: 1, misses: 1, hits: 0 })
    lease.release()
    t.match(await statsOf(cache), { leases: 0, openFiles: 0, entries: 1 })
  })

  engineTest(t, 'nothing is known of a path before it is opened', {}, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    t.equal(cache.lookup('/a'), undefined)
    t.equal(cache.lease('/a'), undefined)
    t.strictSame(fs.calls, {}, 'and the disk was not asked')
  })

  engineTest(t, 'lookup() tells the snapshot and borrows nothing', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    const lease = await opened(cache, '/a')
    t.equal(cache.lookup('/a'), lease.snapshot)
    t.equal((await statsOf(cache)).leases, 1)
    lease.release()
    t.match(await statsOf(cache), { leases: 0, hits: 1, misses: 1 })
  })

  engineTest(t, 'lease() is synchronous, and a counted borrow of a descriptor that is open', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'abc')
    await use(cache, '/a')
    const calls = { ...fs.calls }
    const one = cache.lease('/a')
    const two = cache.lease('/a')
    t.equal(one?.state, 'open')
    t.equal((await statsOf(cache)).leases, 2)
    t.strictSame(fs.calls, calls, 'and asks the disk for nothing')
    one?.release()
    two?.release()
    t.match(await statsOf(cache), { leases: 0, openFiles: 1 })
  })

  engineTest(t, 'P124 ten thousand look-ups of a hot file: no open, no stat, no close', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'abc')
    await use(cache, '/a')
    const calls = { ...fs.calls }
    for (let i = 0; i < 10_000; i++) {
      cache.lookup('/a')
      cache.lease('/a')?.release()
    }
    t.strictSame(fs.calls, calls)
    t.match(await statsOf(cache), { hits: 10_000, misses: 1, opens: 1, closes: 0, leases: 0 })
  })

  engineTest(t, 'a metadata-only file is known by its snapshot, without its bytes', {}, async (t, { cache, fs }) => {
    fs.write('/a', 'abc')
    await use(cache, '/a')
    t.match(cache.lookup('/a'), { kind: 'file', size: 3 })
    t.equal(cache.lease('/a')?.bytes, undefined)
    t.equal(fs.count('open') + fs.count('stat'), 1)
  })

  engineTest(t, 'open() of a metadata-only file opens it again: its bytes are wanted', { minUses: 3 }, async (t, { cache, fs }) => {
    fs.write('/a', 'abc')
    await use(cache, '/a')
    t.equal(await fetched(cache, '/a'), 'abc')
    t.match(fs.calls, { open: 2, close: 2, fstat: 2 })
    t.equal(fs.count('stat'), 0, 'first the descriptor, then what it is')
  })

  engineTest(t, 'a directory is metadata-only and keeps no descriptor', {}, async (t, { cache, fs }) => {
    fs.mkdir('/d')
    const lease = await opened(cache, '/d')
    t.equal(lease.state, 'metadata-only')
    t.equal(lease.snapshot.kind, 'directory')
    t.equal(lease.kind, 'directory')
    t.equal(lease.current(), lease.snapshot, 'as it was known: there is no descriptor to ask')
    await lease.fill()
    t.equal(lease.bytes, undefined)
    t.throws(() => lease.read(Buffer.alloc(1), 0, 1, 0, () => {}), /metadata-only lease has no descriptor/)
    t.equal(cache.lease('/d'), lease)
    t.match(await statsOf(cache), { opens: 1, closes: 1, openFiles: 0, leases: 0, entries: 1 })
    t.equal(cache.lookup('/d'), lease.snapshot)
    t.equal((await opened(cache, '/d')).snapshot, lease.snapshot)
    t.match(await statsOf(cache), { opens: 1, hits: 2 })
    lease.release()
  })

  engineTest(t, 'a held file is read from memory', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'abc')
    await held(cache, '/a')
    const lease = await opened(cache, '/a')
    t.equal(lease.kind, 'file')
    t.equal(lease.state, 'held')
    t.equal(lease.bytes?.toString(), 'abc')
    t.throws(() => lease.read(Buffer.alloc(1), 0, 1, 0, () => {}), /held lease has no descriptor/)
    t.match(await statsOf(cache), { openFiles: 0, bodyBytes: 3, leases: 0 })
    lease.release()
  })

  engineTest(t, 'the snapshot is one object as long as the file is one version', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'abc')
    const first = await opened(cache, '/a')
    const snapshots = new Set([first.snapshot])
    for (let i = 0; i < 3; i++) {
      await clock.advance(20_000)
      const lease = await opened(cache, '/a')
      snapshots.add(lease.snapshot).add(await lease.current())
      lease.release()
    }
    await held(cache, '/a')
    snapshots.add((await opened(cache, '/a')).snapshot)
    t.equal(snapshots.size, 1)
    fs.write('/a', 'abcd')
    await clock.advance(20_000)
    t.equal((await opened(cache, '/a')).snapshot.size, 4)
    t.equal(first.snapshot.size, 3, 'and does not change with it')
    t.ok(Object.isFrozen(first.snapshot))
    first.release()
    cache.lease('/a')?.release()
  })

  engineTest(t, 'P40 P88 the key is the path, byte for byte', { errors: false }, async (t, { cache, fs }) => {
    const paths = ['/r1/index.html', '/r2/index.html', '/r1/INDEX.html', '/r1/\u00e9', '/r1/e\u0301', '/r1/__proto__', '/r1/constructor']
    fs.mkdir('/r1')
    fs.mkdir('/r2')
    for (const path of paths) fs.write(path, `content of ${path}`)
    for (let i = 0; i < 3; i++) {
      for (const path of paths) t.equal(await fetched(cache, path), `content of ${path}`)
    }
    t.equal((await statsOf(cache)).entries, paths.length)
  })

  engineTest(t, 'P27 names of Object.prototype are names like any other', { errors: '1m' }, async (t, { cache, fs }) => {
    fs.mkdir('/d')
    for (const path of ['/__proto__', '/constructor', '/d/hasOwnProperty/x', '/toString']) {
      t.equal(cache.lookup(path), undefined)
      t.equal(await refusal(cache, path), 'ENOENT')
      t.match(cache.lookup(path), { errno: 'ENOENT' })
      cache.invalidate(path)
      t.equal(cache.lookup(path), undefined)
    }
  })

  engineTest(t, 'P35 twenty readers of one descriptor each read by position', { minUses: 1, memory: false }, async (t, { cache, fs }) => {
    const content = Buffer.from(Array.from({ length: 4096 }, (_, i) => i % 251))
    fs.write('/a', content)
    fs.maxRead = 100
    await use(cache, '/a')
    const bodies = await Promise.all(Array.from({ length: 20 }, async () => {
      const lease = await opened(cache, '/a')
      const chunks: Buffer[] = []
      for (let position = 0; position < content.length;) {
        const chunk = await readAt(lease, 128, position)
        chunks.push(chunk)
        position += chunk.length
        await setImmediate()
      }
      lease.release()
      return Buffer.concat(chunks)
    }))
    for (const body of bodies) t.ok(body.equals(content))
    t.equal(fs.count('open'), 1)
  })

  t.test('policy() completes what it is given from the options of the cache', async (t) => {
    const cache = new OpenFileCache({ valid: '5s', minUses: 3, errors: '2s' }, fakeWorld())
    t.strictSame({ ...cache.policy() }, { valid: 5000, minUses: 3, errors: 2000, links: undefined, spelledBelow: undefined })
    t.strictSame({ ...cache.policy({ minUses: 1 }) }, { valid: 5000, minUses: 1, errors: 2000, links: undefined, spelledBelow: undefined })
    t.ok(Object.isFrozen(cache.policy()))
    t.throws(() => cache.policy({ valid: -1 }), { code: 'FST_STATIC_INVALID_OPTION_VALUE' })
    await cache.close()
  })

  t.test('the defaults are those of the guide', async (t) => {
    const { clock, fileSystem: fs } = fakeWorld()
    const cache = new OpenFileCache(undefined, { clock, fileSystem: fs })
    t.strictSame({ ...cache.policy() }, { valid: 20_000, minUses: 2, errors: 1000, links: undefined, spelledBelow: undefined })
    t.strictSame({ ...cache.capacity }, {
      max: 10_000,
      inactive: 30_000,
      maxNegative: 10_000,
      memoryMax: 64 * 1024 * 1024,
      memoryMaxFileSize: 128 * 1024,
      maxDirectories: 1000,
      maxNames: 100_000
    })
    await cache.close()
  })
})

t.test('concurrency', async (t) => {
  engineTest(t, 'P26 a hundred opens of one path are one open and one fstat, and each is a lease', {}, async (t, { cache, fs }) => {
    fs.write('/a', 'aaaa')
    const leases = await Promise.all(Array.from({ length: 100 }, () => opened(cache, '/a')))
    t.match(fs.calls, { open: 1, fstat: 1 })
    t.match(await statsOf(cache), { leases: 100, openFiles: 1, misses: 100 })
    for (const lease of leases) t.equal(await contentOf(lease), 'aaaa')
    const last = leases.pop()
    for (const lease of leases) lease.release()
    t.match(await statsOf(cache), { leases: 1, openFiles: 1 })
    t.equal(last?.bytes ?? (await contentOf(last as NonNullable<typeof last>)), 'aaaa')
    last?.release()
  })

  engineTest(t, 'who joins late is counted when the look lands, not when it is woken', { minUses: 9 }, async (t, { cache, fs }) => {
    fs.write('/a', 'aaaa')
    fs.isManual = true
    const one = opened(cache, '/a')
    await deliver(fs, 'open')
    const two = opened(cache, '/a').then((lease) => contentOf(lease).finally(() => lease.release()))
    await deliver(fs, 'fstat')
    fs.isManual = false
    await deliver(fs, 'isRemote')
    ;(await one).release()
    t.equal(await two, 'aaaa', 'the first release did not close it')
    t.equal(fs.count('open'), 1)
  })

  engineTest(t, 'P26 when the open fails, all get the same error and nothing is left', {}, async (t, { cache, fs }) => {
    fs.write('/a', 'aaaa')
    for (const call of ['open', 'fstat', 'isRemote'] as const) {
      fs.fail(call, 'EIO')
      const answers = await Promise.allSettled(Array.from({ length: 100 }, () => cache.open('/a')))
      const errors = new Set(answers.map((answer) => answer.status === 'rejected' ? answer.reason : undefined))
      t.match([...errors], [{ code: 'EIO' }], call)
      t.match(await statsOf(cache), { openFiles: 0, entries: 0, negativeEntries: 0, leases: 0 }, call)
    }
    t.equal(await fetched(cache, '/a'), 'aaaa')
  })

  engineTest(t, 'sixteen cold paths are looked at, at a time: the others wait here, not in the thread pool before the reads of hot ones', {
    minUses: 1, memory: false, valid: 5000
  }, async (t, { cache, clock, fs }) => {
    fs.write('/hot', 'hot')
    ;(await opened(cache, '/hot')).release()
    for (let i = 0; i < 100; i++) fs.write(`/${i}`, `${i}`)
    clock.jump(5000)
    fs.isManual = true
    const answers = Array.from({ length: 100 }, (_, i) => opened(cache, `/${i}`))
    await settled()
    t.strictSame(fs.pending.map(({ name }) => name), new Array(16).fill('open'))

    const hot = opened(cache, '/hot')
    await deliver(fs, 'stat')
    fs.isManual = false
    t.equal(await contentOf(await hot), 'hot', 'what is stale and hot waits for none of them')

    fs.isManual = true
    await deliver(fs, 'open')
    t.strictSame(fs.pending.map(({ name }) => name), [...new Array(15).fill('open'), 'fstat'], 'a turn is all calls of one look')
    await deliver(fs, 'fstat')
    await settled()
    t.strictSame(fs.pending.map(({ name }) => name), new Array(16).fill('open'))
    fs.isManual = false
    await deliverAll(fs)
    for (const [i, answer] of answers.entries()) t.equal(await contentOf(await answer), `${i}`, 'in their order')
    for (const answer of answers) (await answer).release()
    ;(await hot).release()
  })

  /** A file is asked for while sixteen others have all turns, replaced, and asked for again. */
  const replacedBeforeItsTurn = async (t: Test, { cache, fs }: Engine, meanwhile: () => void): Promise<void> => {
    fs.isManual = true
    const before = Array.from({ length: 16 }, (_, i) => cache.open(`/${i}`))
    fs.write('/a', 'old')
    const first = opened(cache, '/a')
    fs.unlink('/a')
    fs.write('/a', 'newer')
    meanwhile()
    const second = opened(cache, '/a')
    fs.isManual = false
    await deliverAll(fs)
    await Promise.all(before)
    for (const answer of [first, second]) {
      t.equal(await contentOf(await answer), 'newer')
      ;(await answer).release()
    }
    t.equal(fs.count('open'), 17)
  }

  engineTest(t, 'a path whose turn has not come is looked at once, for all who ask meanwhile, with what it is then', { valid: 0 }, (t, engine) =>
    replacedBeforeItsTurn(t, engine, () => engine.clock.jump(1000)))

  engineTest(t, 'what is forgotten before its turn came is looked at after that, and kept', { minUses: 1 }, async (t, engine) => {
    await replacedBeforeItsTurn(t, engine, () => engine.cache.invalidate('/a'))
    t.ok(engine.cache.lookup('/a'))
  })

  engineTest(t, 'checks in the background do not wait for cold paths, of what is not open either', {
    valid: 5000, minUses: 1, memory: false
  }, async (t, { cache, clock, fs }) => {
    fs.write('/hot', 'hot')
    ;(await opened(cache, '/hot')).release()
    for (const path of ['/m1', '/m2']) fs.write(path, 'm')
    const twice = cache.policy({ minUses: 1000 })
    for (const path of ['/m1', '/m2']) (await opened(cache, path, twice)).release()
    fs.isManual = true
    const cold = Array.from({ length: 40 }, (_, i) => cache.open(`/${i}`))
    await settled()
    const opens = [...fs.pending]
    t.equal(opens.length, 16)
    for (let i = 0; i < 60; i++) {
      for (const path of ['/m1', '/m2']) cache.lookup(path, twice)
      t.ok(cache.lookup('/hot'), `fresh after ${i / 2} s`)
      await clock.advance(500)
      for (let call = fs.pending.find((pending) => !opens.includes(pending)); call !== undefined; call = fs.pending.find((pending) => !opens.includes(pending))) {
        call.deliver()
        await settled()
      }
    }
    fs.isManual = false
    await deliverAll(fs)
    await Promise.all(cold)
  })

  engineTest(t, 'what waits for its turn when the cache is closed is answered', {}, async (t, { cache, fs }) => {
    fs.isManual = true
    const answers = Array.from({ length: 40 }, (_, i) => cache.open(`/${i}`))
    const closed = cache.close()
    fs.isManual = false
    await deliverAll(fs)
    for (const answer of answers) t.match(await answer, { errno: 'ENOENT' })
    await closed
  })

  engineTest(t, 'different paths do not wait for each other', {}, async (t, { cache, fs }) => {
    fs.write('/slow', 's')
    fs.write('/quick', 'q')
    fs.isManual = true
    const slow = fetched(cache, '/slow')
    const quick = fetched(cache, '/quick')
    await settled()
    const stuck = fs.pending.find(({ argument }) => argument === '/slow')
    fs.isManual = false
    for (const call of [...fs.pending]) if (call !== stuck) call.deliver()
    t.equal(await quick, 'q')
    stuck?.deliver()
    t.equal(await slow, 's')
  })

  engineTest(t, 'a directory and "not there" are answers to all who wait, too', { errors: '1s' }, async (t, { cache, fs }) => {
    fs.mkdir('/d')
    const directories = await Promise.all(Array.from({ length: 10 }, () => opened(cache, '/d')))
    t.equal(new Set(directories.map(({ snapshot }) => snapshot)).size, 1)
    const misses = await Promise.all(Array.from({ length: 10 }, () => refusal(cache, '/none')))
    t.strictSame(misses, Array(10).fill('ENOENT'))
    t.equal(fs.count('open'), 2)
  })
})

t.test('invalidate() and clear()', async (t) => {
  engineTest(t, 'invalidate(path) forgets that path, file, directory or negative, and closes it', { minUses: 1, errors: '1m' }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    fs.write('/b', 'b')
    fs.mkdir('/d')
    for (const path of ['/a', '/b', '/d']) await use(cache, path)
    await refusal(cache, '/none')
    for (const path of ['/a', '/d', '/none']) {
      cache.invalidate(path)
      t.equal(cache.lookup(path), undefined)
    }
    t.equal(stateOf(cache, '/b'), 'open')
    t.match(await statsOf(cache), { entries: 1, negativeEntries: 0, openFiles: 1 })
    cache.invalidate('/never seen')
  })

  engineTest(t, 'invalidate({ under }) forgets a directory and all below it, and no neighbour of a like name', { minUses: 1, errors: '1m' }, async (t, { cache, fs }) => {
    for (const path of ['/srv', '/srv/a', '/srv/a/b', '/srv/ab']) fs.mkdir(path)
    for (const path of ['/srv/a/1', '/srv/a/b/2', '/srv/ab/3', '/srv/4']) fs.write(path, path)
    const paths = ['/srv/a', '/srv/a/1', '/srv/a/b', '/srv/a/b/2', '/srv/ab/3', '/srv/4']
    const known = (): string[] => [...paths, '/srv/a/none'].filter((path) => cache.lookup(path) !== undefined)
    for (const under of ['/srv/a', '/srv/a/']) {
      for (const path of paths) await use(cache, path)
      await refusal(cache, '/srv/a/none')
      t.equal(known().length, 7)
      cache.invalidate({ under })
      t.strictSame(known(), ['/srv/ab/3', '/srv/4'], under)
    }
    cache.invalidate({ under: '/' })
    t.strictSame(known(), [])
    t.equal((await statsOf(cache)).openFiles, 0)
  })

  engineTest(t, 'both forget a path under every link policy', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.mkdir('/srv')
    fs.write('/srv/a', 'a')
    const policies = [
      cache.policy(),
      cache.policy({ links: { symlinks: 'deny', root: '/srv' } }),
      cache.policy({ links: { symlinks: 'within-root', root: '/srv' } }),
      cache.policy({ links: { symlinks: 'within-root', root: '/' } })
    ]
    for (const forget of ['/srv/a', { under: '/srv' }, { under: '/' }, { under: '/srv/a' }]) {
      for (const policy of policies) await use(cache, '/srv/a', 1, policy)
      t.equal((await statsOf(cache)).entries, 4)
      cache.invalidate(forget)
      t.match(await statsOf(cache), { entries: 0, openFiles: 0 }, JSON.stringify(forget))
    }
    for (const policy of policies) await use(cache, '/srv/a', 1, policy)
    cache.invalidate({ under: '/srv/a/b' })
    t.equal((await statsOf(cache)).entries, 4)
  })

  for (const count of [62, 63, 64, 200]) {
    engineTest(t, `however many link policies there were: ${count}`, { minUses: 1 }, async (t, { cache, fs }) => {
      fs.mkdir('/srv')
      for (const name of ['a', 'ab', 'none']) fs.write(`/srv/${name}`, name)
      fs.unlink('/srv/none')
      const policies = [cache.policy(), ...Array.from({ length: count }, (_, i) => {
        return cache.policy({ links: { symlinks: 'within-root', root: '/srv' + '/'.repeat(i) } })
      })]
      for (const policy of policies) for (const name of ['a', 'ab', 'none']) await refusal(cache, `/srv/${name}`, policy)
      t.match(await statsOf(cache), { entries: 2 * count + 2, negativeEntries: count + 1 })
      cache.invalidate('/srv/none')
      t.match(await statsOf(cache), { entries: 2 * count + 2, negativeEntries: 0 })
      cache.invalidate('/srv/a')
      t.match(await statsOf(cache), { entries: count + 1, negativeEntries: 0 })
      for (const policy of policies) t.ok(cache.lookup('/srv/ab', policy))
    })
  }

  engineTest(t, 'also what is under way', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    for (let i = 0; i < 70; i++) await use(cache, '/a', 1, cache.policy({ links: { symlinks: 'within-root', root: '/'.repeat(i + 1) } }))
    const policy = cache.policy({ links: { symlinks: 'deny', root: '/' } })
    fs.isManual = true
    const answer = cache.open('/a', policy)
    await settled()
    cache.invalidate('/a')
    await deliverAll(fs)
    const lease = await answer
    if (lease.kind === 'file') lease.release()
    await deliverAll(fs)
    t.equal(cache.stats().entries, 0)
  })

  engineTest(t, 'link policies that come and go leave nothing behind', { max: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    const heapUsed = async (): Promise<number> => {
      await collected()
      return process.memoryUsage().heapUsed
    }
    const asked = async (from: number, to: number): Promise<void> => {
      for (let i = from; i < to; i++) {
        await use(cache, '/a', 1, cache.policy({ links: { symlinks: 'within-root', root: '/'.repeat(i) } }))
      }
    }
    await asked(1000, 1500)
    const before = await heapUsed()
    await asked(1500, 5500)
    const grown = await heapUsed() - before
    t.ok(grown < 4_000_000, `${grown} bytes`)
  })

  engineTest(t, 'clear() forgets everything; leases go on until they are released', { minUses: 1, errors: '1m' }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    fs.write('/b', 'b')
    await use(cache, '/b')
    await refusal(cache, '/none')
    const lease = await opened(cache, '/a')
    cache.clear()
    t.match(await statsOf(cache), { entries: 0, negativeEntries: 0, openFiles: 1, leases: 1 })
    t.equal(await contentOf(lease), 'a')
    lease.release()
    t.equal((await statsOf(cache)).openFiles, 0)
  })
})

t.test('close()', async (t) => {
  t.test('P39 closes every descriptor that is not leased, and resolves when they are closed', async (t) => {
    const { clock, fileSystem: fs } = fakeWorld()
    const cache = new OpenFileCache({ minUses: 1 }, { clock, fileSystem: fs })
    for (let i = 0; i < 100; i++) {
      fs.write(`/${i}`, `${i}`)
      await use(cache, `/${i}`)
    }
    t.equal(fs.openDescriptors, 100)
    const leased = await opened(cache, '/7')
    await cache.close()
    t.equal(fs.openDescriptors, 1)
    t.equal(clock.timers, 0)
    t.equal(await contentOf(leased), '7')
    leased.release()
    await settled()
    t.equal(fs.openDescriptors, 0)
    t.match(await statsOf(cache), { opens: 100, closes: 100, openFiles: 0, leases: 0, entries: 0 })
  })

  t.test('resolves when the system has closed them', async (t) => {
    const { clock, fileSystem: fs } = fakeWorld()
    const cache = new OpenFileCache({ minUses: 1 }, { clock, fileSystem: fs })
    for (const path of ['/a', '/b']) {
      fs.write(path, path)
      await use(cache, path)
    }
    fs.isManual = true
    let isClosed = false
    const closing = cache.close().then(() => { isClosed = true })
    await deliver(fs, 'close')
    t.equal(isClosed, false)
    await deliver(fs, 'close')
    await closing
    t.equal(cache.stats().openFiles, 0)
  })

  t.test('waits for the calls that are under way', async (t) => {
    const { clock, fileSystem: fs } = fakeWorld()
    const cache = new OpenFileCache({ minUses: 1 }, { clock, fileSystem: fs })
    fs.write('/a', 'a')
    fs.isManual = true
    const answer = opened(cache, '/a')
    let isClosed = false
    const closing = cache.close().then(() => { isClosed = true })
    await settled()
    t.equal(isClosed, false)
    for (const call of ['open', 'fstat', 'isRemote']) await deliver(fs, call)
    const lease = await answer
    t.match(await statsOf(cache), { entries: 0, openFiles: 1 }, 'it is answered, not kept')
    lease.release()
    await deliver(fs, 'close')
    await closing
    t.equal(fs.openDescriptors, 0)
  })

  engineTest(t, 'is idempotent', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a')
    t.equal(cache.close(), cache.close())
    await cache.close()
    await cache.close()
    t.equal(fs.count('close'), 1)
  })

  engineTest(t, 'a closed cache still answers, from the disk each time', { minUses: 1, errors: '1m' }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'one')
    fs.mkdir('/d')
    await use(cache, '/a')
    await cache.close()
    t.equal(cache.lookup('/a'), undefined)
    t.equal(await fetched(cache, '/a'), 'one')
    fs.write('/a', 'three')
    t.equal(await fetched(cache, '/a'), 'three')
    t.equal((await opened(cache, '/d')).snapshot.kind, 'directory')
    t.equal(await refusal(cache, '/none'), 'ENOENT')
    fs.write('/none', 'there')
    t.equal(await fetched(cache, '/none'), 'there')
    const lease = await opened(cache, '/a')
    await lease.fill()
    t.equal(lease.bytes?.toString(), 'three')
    lease.release()
    await settled()
    t.match(await statsOf(cache), { entries: 0, negativeEntries: 0, openFiles: 0, bodyBytes: 0 })
    t.equal(clock.timers, 0)
  })

  engineTest(t, 'a background check that lands after close() keeps nothing', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a', 2)
    await clock.advance(15_000)
    fs.isManual = true
    await clock.advance(3000)
    t.equal(fs.pending[0]?.name, 'stat')
    const closing = cache.close()
    fs.isManual = false
    for (const call of [...fs.pending]) call.deliver()
    await closing
    t.equal(fs.openDescriptors, 0)
    t.equal(clock.timers, 0)
  })
})

t.test('OpenFileCache.off()', async (t) => {
  t.test('P12 keeps no entry, no descriptor, no timer; P08 each answer is that of the disk', async (t) => {
    const { clock, fileSystem: fs } = fakeWorld()
    const cache = OpenFileCache.off({ clock, fileSystem: fs })
    fs.mkdir('/d')
    for (let i = 0; i < 5; i++) {
      fs.write('/a', `version ${i}`)
      t.equal(await fetched(cache, '/a'), `version ${i}`)
      fs.write('/x', `renamed ${i}`)
      fs.rename('/x', '/a')
      t.equal(await fetched(cache, '/a'), `renamed ${i}`)
      t.equal((await opened(cache, '/d')).state, 'metadata-only')
      t.equal(await refusal(cache, '/none'), 'ENOENT')
      t.equal(cache.lookup('/a'), undefined)
      t.equal(cache.lease('/a'), undefined)
      t.equal(cache.lookup('/none'), undefined)
      t.match(await statsOf(cache), { entries: 0, negativeEntries: 0, openFiles: 0, bodyBytes: 0, leases: 0 })
      t.equal(clock.timers, 0)
    }
    fs.write('/none', 'there now')
    t.equal(await fetched(cache, '/none'), 'there now')
    t.match(await statsOf(cache), { hits: 0, negativeHits: 0, evictions: 0, revalidations: 0, misses: 21 })
    t.strictSame(fs.violations, [])
  })

  t.test('a body is read whole without being kept', async (t) => {
    const { clock, fileSystem: fs } = fakeWorld()
    const cache = OpenFileCache.off({ clock, fileSystem: fs })
    fs.write('/a', 'abc')
    const lease = await opened(cache, '/a')
    await lease.fill()
    t.equal(lease.bytes?.toString(), 'abc')
    lease.release()
    await settled()
    t.match(await statsOf(cache), { openFiles: 0, bodyBytes: 0 })
  })

  t.test('a request joins only a look that was not issued before it: one running, one queued', async (t) => {
    const { clock, fileSystem: fs } = fakeWorld()
    const cache = OpenFileCache.off({ clock, fileSystem: fs })
    fs.write('/a', 'one')
    fs.isManual = true
    const first = fetched(cache, '/a')
    await settled()
    fs.pending[0]?.perform()
    fs.write('/b', 'two')
    fs.rename('/b', '/a')
    const later = [fetched(cache, '/a'), fetched(cache, '/a'), fetched(cache, '/a')]
    fs.isManual = false
    for (const call of [...fs.pending]) call.deliver()
    t.equal(await first, 'one')
    t.strictSame(await Promise.all(later), ['two', 'two', 'two'])
    t.equal(fs.count('open'), 2)
  })

  t.test('P12 options are not written', async (t) => {
    const options = Object.freeze({ max: 3, memory: Object.freeze({ max: 10 }), valid: '1s', errors: true })
    const one = new OpenFileCache(options, fakeWorld())
    const two = OpenFileCache.off(fakeWorld())
    t.strictSame({ ...one.policy() }, { valid: 1000, minUses: 2, errors: 1000, links: undefined, spelledBelow: undefined })
    t.strictSame({ ...two.policy() }, { valid: 0, minUses: 2, errors: 0, links: undefined, spelledBelow: undefined })
    t.equal(await codeOf(one.close()), undefined)
    t.equal(await codeOf(two.close()), undefined)
  })
})

t.test('stats()', async (t) => {
  engineTest(t, 'counts each kind of answer', { minUses: 1, errors: '1m', max: 2, inactive: '10m' }, async (t, { cache, clock, fs }) => {
    for (const path of ['/a', '/b', '/c']) fs.write(path, 'abc')
    await clock.advance(5000)
    t.strictSame(await statsOf(cache), {
      hits: 0,
      misses: 0,
      negativeHits: 0,
      directoryHits: 0,
      revalidations: 0,
      evictions: 0,
      opens: 0,
      closes: 0,
      entries: 0,
      negativeEntries: 0,
      directories: 0,
      names: 0,
      openFiles: 0,
      leases: 0,
      bodyBytes: 0,
      poolBytes: 0
    })
    await use(cache, '/a') // a miss
    await use(cache, '/a') // a hit
    cache.lookup('/a') // a hit
    cache.lease('/a')?.release() // no use
    ;(await opened(cache, '/a', undefined, false)).release() // no use either
    cache.invalidate('/a')
    ;(await opened(cache, '/a', undefined, false)).release() // nor a miss
    await use(cache, '/a') // a miss: nothing was kept
    await refusal(cache, '/none') // a miss
    await refusal(cache, '/none') // a negative hit
    cache.lookup('/none') // a negative hit
    await use(cache, '/b') // a miss
    await use(cache, '/c') // a miss, evicts /a
    const lease = await opened(cache, '/c') // a hit
    await lease.fill()
    t.strictSame(await statsOf(cache), {
      hits: 3,
      misses: 5,
      negativeHits: 2,
      directoryHits: 0,
      revalidations: 1,
      evictions: 1,
      opens: 5,
      closes: 3,
      entries: 2,
      negativeEntries: 1,
      directories: 0,
      names: 0,
      openFiles: 2,
      leases: 1,
      bodyBytes: 3,
      poolBytes: 0
    })
    lease.release()
    await clock.advance(20_000)
    t.match(await statsOf(cache), { revalidations: 2, misses: 5, hits: 3 }, 'by the timer')
    await clock.advance(20_000)
    await use(cache, '/c')
    t.match(await statsOf(cache), { revalidations: 3, misses: 6, hits: 3 }, 'by a request')
  })
})

t.test('invalidate() of nothing that is an absolute path is refused', async (t) => {
  const cache = new OpenFileCache({}, fakeWorld())
  for (const [given, shown] of [
    [undefined, 'undefined'], [null, 'null'], [{}, 'an object'], [5, '5'], ['', '""'], ['rel', '"rel"'], ['./rel', '"./rel"'],
    [['/a'], 'an array'], [{ path: '/a' }, 'an object'], [{ under: 1 }, '{ under: 1 }'], [{ under: null }, '{ under: null }'],
    [{ under: '' }, '{ under: "" }'], [{ under: 'rel' }, '{ under: "rel" }'], [{ under: ['/a'] }, '{ under: an array }']
  ]) {
    try {
      cache.invalidate(given as string)
      t.fail(`refused: ${shown}`)
    } catch (error) {
      t.match(error, {
        code: 'FST_STATIC_INVALID_OPTION_VALUE',
        message: `invalidate() needs an absolute path or { under: path }, but got ${shown}`
      })
      t.ok(error instanceof errors.INVALID_OPTION_VALUE)
      t.ok(error instanceof TypeError)
    }
  }
  await cache.close()
})
