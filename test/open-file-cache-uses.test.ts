import t from 'tap'
import { OpenFileCache } from '../lib/open-file-cache'
import { deliver, deliverAll, engineTest, fetched, held, keptAs, nothingIsLeft, opened, stateOf, statsOf, use } from './fixtures/engine'
import { fakeWorld, settled } from './fixtures/fake-world'
import { Random } from './fixtures/random'
import type { Engine } from './fixtures/engine'

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

  // Touched twice with nothing between, an entry is moved once: here something is between.
  const between: Array<[what: string, happens: (engine: Engine) => Promise<void>]> = [
    ['another was touched', async ({ cache }) => { cache.lookup('/b') }],
    ['another was added', async ({ cache }) => await use(cache, '/new')],
    ['another was added and dropped', async ({ cache }) => {
      await use(cache, '/new')
      cache.invalidate('/new')
    }],
    ['it was checked', async ({ cache, clock }) => {
      clock.jump(20_000)
      await use(cache, '/a')
      cache.lookup('/b')
    }],
    ['another was held', async ({ cache }) => {
      await held(cache, '/b')
    }],
    ['another was leased and released', async ({ cache }) => {
      cache.lease('/b')?.release()
    }],
    ['a directory was looked up', async ({ cache }) => await use(cache, '/d')],
    ['it was dropped and found again', async ({ cache }) => {
      cache.invalidate('/a')
      await use(cache, '/a', 2)
      cache.lookup('/b')
    }]
  ]
  for (const [what, happens] of between) {
    engineTest(t, `the order is that of uses, also when ${what} between two uses of one entry`, { max: 5, minUses: 2, valid: '1h' }, async (t, engine) => {
      const { cache, fs } = engine
      for (const path of ['/a', '/b', '/c', '/new', '/x', '/y', '/z']) fs.write(path, path)
      fs.mkdir('/d')
      for (const path of ['/a', '/b', '/c']) await use(cache, path, 2)
      cache.lookup('/a')
      await happens(engine)
      cache.lookup('/a')
      // Now /a is the last that goes of those that are retained.
      for (const path of ['/x', '/y', '/z']) await use(cache, path, 2)
      await use(cache, '/new', 2)
      const paths = ['/a', '/b', '/c']
      t.strictSame(paths.map((path) => stateOf(cache, path)), ['open', undefined, undefined])
    })
  }

  engineTest(t, 'an entry that becomes retained is the last that goes', { max: 3, minUses: 2 }, async (t, { cache, fs }) => {
    for (const path of ['/a', '/b', '/c', '/d']) fs.write(path, path)
    await use(cache, '/b', 2)
    await use(cache, '/a', 1)
    cache.lookup('/a')
    cache.lookup('/a')
    cache.lookup('/b')
    cache.lookup('/a')
    await use(cache, '/c', 2)
    await use(cache, '/d', 2)
    t.strictSame(['/a', '/b', '/c', '/d'].map((path) => cache.lookup(path) !== undefined), [true, false, true, true])
  })

  engineTest(t, 'held bytes go in the order of uses', { minUses: 1, memory: { max: 3, maxFileSize: 1 } }, async (t, { cache, fs }) => {
    for (const path of ['/a', '/b', '/c', '/d', '/e']) fs.write(path, path.slice(1))
    for (const path of ['/a', '/b', '/c']) await held(cache, path)
    cache.lookup('/a')
    cache.lookup('/a')
    await held(cache, '/d') // b goes
    cache.lookup('/a')
    cache.lookup('/c')
    cache.lookup('/a')
    await held(cache, '/e') // d goes
    t.strictSame(['/a', '/b', '/c', '/d', '/e'].map((path) => keptAs(cache, path)), ['held', undefined, 'held', undefined, 'held'])
  })

  engineTest(t, 'held bytes do, when others were read while one was used', { minUses: 1, memory: { max: 3, maxFileSize: 1 } }, async (t, { cache, fs }) => {
    for (const path of ['/a', '/b', '/c', '/d', '/e']) fs.write(path, path.slice(1))
    for (const path of ['/a', '/b']) await held(cache, path)
    const lease = await opened(cache, '/c')
    fs.isManual = true
    const filled = lease.fill()
    lease.release()
    cache.lookup('/a')
    await deliver(fs, 'read')
    await deliver(fs, 'fstat')
    await filled
    fs.isManual = false
    cache.lookup('/a')
    await held(cache, '/d') // b goes
    await held(cache, '/e') // c goes
    t.strictSame(['/a', '/b', '/c', '/d', '/e'].map((path) => keptAs(cache, path)), ['held', undefined, undefined, 'held', 'held'])
  })

  t.test('descriptors do, when others were opened while one was used', async (t) => {
    const { clock, fileSystem: fs } = fakeWorld()
    fs.limit = 6
    const warned = t.capture(process, 'emitWarning', () => {})
    const cache = new OpenFileCache({ minUses: 1, memory: false }, { clock, fileSystem: fs })
    for (const path of ['/a', '/b', '/c', '/d', '/e', '/x']) fs.write(path, path)
    for (const path of ['/c', '/a', '/b', '/x']) await use(cache, path)
    t.equal(keptAs(cache, '/c'), undefined, 'half of the limit are kept')
    fs.isManual = true
    const lease = opened(cache, '/c')
    await settled()
    cache.lookup('/a')
    fs.isManual = false
    await deliverAll(fs) // b goes
    cache.lookup('/a')
    await use(cache, '/d') // x goes
    await use(cache, '/e') // c goes
    t.strictSame(['/a', '/b', '/c', '/d', '/e', '/x'].map((path) => keptAs(cache, path)),
      ['open', undefined, undefined, 'open', 'open', undefined])
    t.equal(warned().length, 1)
    ;(await lease).release()
    await nothingIsLeft(t, { cache, clock, fs })
  })

  engineTest(t, 'the order is exact, whatever happens', { max: 4, minUses: 2, memory: { maxFileSize: 2 } }, async (t, { cache, fs }) => {
    const paths = Array.from({ length: 8 }, (_, i) => `/${i}`)
    for (const path of paths) fs.write(path, path)
    // Keys, those used last at the end: below two uses, and from there.
    const probation: string[] = []
    const retained: string[] = []
    const uses = new Map<string, number>()
    const take = (keys: string[], key: string): boolean => {
      const index = keys.indexOf(key)
      if (index !== -1) keys.splice(index, 1)
      return index !== -1
    }
    const isKnown = (path: string): boolean => probation.includes(path) || retained.includes(path)
    const used = (path: string): void => {
      if (!isKnown(path)) {
        if (probation.length + retained.length === 4) (probation.length > 0 ? probation : retained).shift()
        uses.set(path, 0)
      }
      take(probation, path)
      take(retained, path)
      uses.set(path, Number(uses.get(path)) + 1)
      ;(Number(uses.get(path)) >= 2 ? retained : probation).push(path)
    }
    const random = new Random(7)
    let wrong = 0
    for (let step = 0; step < 3000; step++) {
      const path = random.pick(paths)
      switch (random.int(0, 4)) {
        case 0: {
          const wasKnown = isKnown(path)
          if (wasKnown !== (cache.lookup(path) !== undefined)) wrong++
          if (wasKnown) used(path)
          break
        }
        case 1:
        case 2:
          await use(cache, path)
          used(path)
          break
        case 3: {
          const lease = cache.lease(path)
          // Looked at, whether there is a lease or not.
          if (take(probation, path)) probation.push(path)
          if (take(retained, path)) retained.push(path)
          await lease?.fill()
          lease?.release()
          break
        }
        case 4:
          if (random.chance(0.7)) break
          cache.invalidate(path)
          take(probation, path)
          take(retained, path)
      }
    }
    t.equal(wrong, 0)
    t.equal(cache.stats().entries, probation.length + retained.length)
    t.ok(cache.stats().evictions > 100)
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
