import t from 'tap'
import { engineTest, fetched, held, opened, keptAs, stateOf, statsOf, use } from './fixtures/engine'
import { settled } from './fixtures/fake-world'

t.test('uses', async (t) => {
  engineTest(t, 'P25 below minUses the entry is made at once and nothing stays open; from minUses on it does', { minUses: 3, inactive: '2s' }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    for (let uses = 1; uses <= 2; uses++) {
      await use(cache, '/a')
      t.match(await statsOf(cache), { entries: 1, openFiles: 0, opens: uses })
      t.equal(keptAs(cache, '/a'), undefined)
    }
    await use(cache, '/a')
    t.match(await statsOf(cache), { entries: 1, openFiles: 1, opens: 3 })
    await use(cache, '/a', 10)
    t.match(await statsOf(cache), { opens: 3 })
    await clock.advance(2500)
    t.match(await statsOf(cache), { entries: 0, openFiles: 0 }, 'nothing is permanent')
    await use(cache, '/a')
    t.match(await statsOf(cache), { entries: 1, openFiles: 0 }, 'and its uses count from the start')
  })

  engineTest(t, 'minUses: 1 keeps what was used once', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a')
    t.equal(keptAs(cache, '/a'), 'open')
  })

  engineTest(t, 'by default the second use within inactive keeps', {}, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a')
    t.equal(keptAs(cache, '/a'), undefined)
    await use(cache, '/a')
    t.equal(keptAs(cache, '/a'), 'open')
  })

  engineTest(t, 'uses are counted in a window of inactive, not over the life of the entry', { minUses: 3, inactive: '10s', valid: '1h' }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    for (let i = 0; i < 20; i++) {
      await use(cache, '/a')
      t.equal(keptAs(cache, '/a'), undefined, `use ${i}`)
      await clock.advance(6000)
    }
    t.equal(cache.stats().entries, 1, 'though it was in use all the time')
    await use(cache, '/a', 3)
    t.equal(keptAs(cache, '/a'), 'open')
  })

  engineTest(t, 'the window tumbles: it starts with the first use after the last one ended', { minUses: 3, inactive: '10s' }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a')
    await clock.advance(5000)
    await use(cache, '/a')
    await clock.advance(5000)
    await use(cache, '/a') // the first of a new window
    await clock.advance(4999)
    await use(cache, '/a')
    t.equal(keptAs(cache, '/a'), undefined)
    await clock.advance(5000)
    await use(cache, '/a')
    t.equal(keptAs(cache, '/a'), 'open')
  })

  engineTest(t, 'once reached it is sticky until the entry is dropped', { minUses: 2, inactive: '10s', valid: '20s' }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a', 2)
    for (let i = 0; i < 10; i++) {
      await clock.advance(9000)
      t.equal(keptAs(cache, '/a'), 'open')
    }
    cache.invalidate('/a')
    await use(cache, '/a')
    t.equal(keptAs(cache, '/a'), undefined)
  })

  engineTest(t, 'lookup() and open() are uses; lease(), release() and revalidation are not; nor open() after a lookup()', { minUses: 3, valid: '2s' }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a')
    cache.lease('/a')?.release()
    cache.lookup('/a')
    await clock.advance(5000)
    ;(await opened(cache, '/a', undefined, false)).release()
    cache.lease('/a')?.release()
    t.equal(keptAs(cache, '/a'), undefined, 'two uses so far')
    cache.lookup('/a')
    ;(await opened(cache, '/a', undefined, false)).release()
    t.equal(keptAs(cache, '/a'), 'open')
  })

  engineTest(t, 'each caller counts up to a minUses of its own', { minUses: 5 }, async (t, { cache, fs }) => {
    const eager = cache.policy({ minUses: 2 })
    fs.write('/a', 'a')
    await use(cache, '/a')
    await use(cache, '/a', 1, eager)
    t.equal(keptAs(cache, '/a'), 'open')
  })

  engineTest(t, 'a hundred callers at once are a hundred uses', { minUses: 100 }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    const leases = await Promise.all(Array.from({ length: 99 }, () => opened(cache, '/a')))
    t.equal(keptAs(cache, '/a'), undefined)
    for (const lease of leases) lease.release()
    await use(cache, '/a')
    t.equal(keptAs(cache, '/a'), 'open')
  })

  engineTest(t, 'a file in the place of a directory counts its uses from the start', { minUses: 2 }, async (t, { cache, clock, fs }) => {
    fs.mkdir('/a')
    await use(cache, '/a', 5)
    fs.unlink('/a')
    fs.write('/a', 'a')
    clock.jump(20_000)
    await use(cache, '/a')
    t.equal(keptAs(cache, '/a'), undefined)
    await use(cache, '/a')
    t.equal(keptAs(cache, '/a'), 'open')
  })

  engineTest(t, 'directories do not wait for minUses', { minUses: 9 }, async (t, { cache, fs }) => {
    fs.mkdir('/d')
    await use(cache, '/d')
    await use(cache, '/d')
    t.match(await statsOf(cache), { hits: 1, misses: 1, opens: 1 })
  })
})

t.test('eviction', async (t) => {
  engineTest(t, 'P31 evicted descriptors are closed: five hundred files through a cache of two', { max: 2, minUses: 1 }, async (t, { cache, fs }) => {
    for (let i = 0; i < 500; i++) {
      fs.write(`/${i}`, `${i}`)
      t.equal(await fetched(cache, `/${i}`), `${i}`)
      await settled()
      t.ok(fs.openDescriptors <= 2)
    }
    t.match(await statsOf(cache), { entries: 2, openFiles: 2, opens: 500, closes: 498, evictions: 498 })
  })

  engineTest(t, 'a crawl of one-off files does not evict hot ones', { max: 10, minUses: 2 }, async (t, { cache, fs }) => {
    for (let i = 0; i < 9; i++) {
      fs.write(`/hot${i}`, 'x')
      await use(cache, `/hot${i}`, 2)
    }
    for (let i = 0; i < 1000; i++) {
      fs.write(`/once${i}`, 'x')
      await use(cache, `/once${i}`)
    }
    for (let i = 0; i < 9; i++) t.equal(stateOf(cache, `/hot${i}`), 'open')
    t.match(await statsOf(cache), { entries: 10, openFiles: 9, evictions: 999 })
  })

  engineTest(t, 'nor a directory, which does not wait for minUses', { max: 3, minUses: 2 }, async (t, { cache, fs }) => {
    fs.mkdir('/d')
    await use(cache, '/d')
    for (let i = 0; i < 10; i++) {
      fs.write(`/once${i}`, 'x')
      await use(cache, `/once${i}`)
    }
    t.equal(stateOf(cache, '/d'), 'metadata-only')
    t.match(await statsOf(cache), { entries: 3, evictions: 8 })
  })

  engineTest(t, 'nor more than the coldest of them when all are hot', { max: 10, minUses: 2 }, async (t, { cache, fs }) => {
    for (let i = 0; i < 10; i++) {
      fs.write(`/hot${i}`, 'x')
      await use(cache, `/hot${i}`, 2)
    }
    cache.lookup('/hot0')
    for (let i = 0; i < 1000; i++) {
      fs.write(`/once${i}`, 'x')
      await use(cache, `/once${i}`)
    }
    t.strictSame(Array.from({ length: 10 }, (_, i) => stateOf(cache, `/hot${i}`) === 'open'),
      [true, false, true, true, true, true, true, true, true, true])
  })

  engineTest(t, 'within a class the least recently used goes first: used, leased or released', { max: 4, minUses: 1 }, async (t, { cache, fs }) => {
    for (const path of ['/a', '/b', '/c', '/d', '/e', '/f', '/g']) fs.write(path, path)
    const lease = await opened(cache, '/a')
    for (const path of ['/b', '/c', '/d']) await use(cache, path)
    cache.lookup('/b')
    cache.lease('/c')?.release()
    lease.release() // d is the one that was not touched since
    await use(cache, '/e')
    t.strictSame(['/a', '/b', '/c', '/d', '/e'].map((path) => stateOf(cache, path)), ['open', 'open', 'open', undefined, 'open'])
  })

  engineTest(t, 'so it does below minUses', { max: 3, minUses: 9 }, async (t, { cache, fs }) => {
    for (const path of ['/a', '/b', '/c', '/d']) fs.write(path, path)
    for (const path of ['/a', '/b', '/c']) await use(cache, path)
    cache.lookup('/a')
    await use(cache, '/d')
    t.strictSame(['/a', '/b', '/c', '/d'].map((path) => stateOf(cache, path) !== undefined), [true, false, true, true])
  })

  engineTest(t, 'P38 an entry that is evicted while it is sent: the whole old version, then closed', { max: 1, minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'the old version')
    const lease = await opened(cache, '/a')
    for (const path of ['/b', '/c', '/d']) {
      fs.write(path, path)
      await use(cache, path)
    }
    fs.write('/x', 'new')
    fs.rename('/x', '/a')
    t.equal(await fetched(cache, '/a'), 'new')
    t.match(await statsOf(cache), { entries: 1, openFiles: 2, leases: 1 })
    t.equal((await lease.current()).size, 15)
    t.equal(lease.snapshot.size, 15)
    const buffer = Buffer.alloc(15)
    await new Promise((resolve) => lease.read(buffer, 0, 15, 0, resolve))
    t.equal(buffer.toString(), 'the old version')
    lease.release()
    t.match(await statsOf(cache), { openFiles: 1, leases: 0 })
  })

  engineTest(t, 'an evicted entry gives its bytes back', { max: 1, minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'aaa')
    fs.write('/b', 'b')
    await held(cache, '/a')
    await use(cache, '/b')
    t.match(await statsOf(cache), { bodyBytes: 0, entries: 1, evictions: 1 })
  })

  engineTest(t, 'an entry that is evicted while it is checked answers all the same', { max: 1, minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    fs.write('/b', 'b')
    await use(cache, '/a')
    clock.jump(20_000)
    fs.isManual = true
    const answer = fetched(cache, '/a')
    await settled()
    const check = fs.pending[0]
    t.equal(check?.name, 'stat')
    fs.isManual = false
    await use(cache, '/b')
    t.equal(stateOf(cache, '/a'), undefined)
    check?.deliver()
    t.equal(await answer, 'a')
    t.match(await statsOf(cache), { entries: 1, openFiles: 1, evictions: 2 })
  })

  engineTest(t, 'a replaced or renewed entry evicts nobody', { max: 2, minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    fs.write('/b', 'b')
    await use(cache, '/a')
    await use(cache, '/b')
    for (let i = 0; i < 10; i++) {
      clock.jump(20_000)
      fs.write('/x', `${i}`)
      fs.rename('/x', '/a')
      t.equal(await fetched(cache, '/a'), `${i}`)
      t.equal(await fetched(cache, '/b'), 'b')
    }
    t.match(await statsOf(cache), { entries: 2, evictions: 0, openFiles: 2 })
  })
})
