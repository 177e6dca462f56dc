import t from 'tap'
import { OpenFileCache } from '../lib/open-file-cache'
import { collected, deliver, engineTest, fetched, held, opened, refusal, stateOf, statsOf, use } from './fixtures/engine'
import { FakeClock, fakeWorld, settled } from './fixtures/fake-world'
import type { FileSnapshot } from '../types/open-file-cache'

t.test('background checks', async (t) => {
  for (const valid of [1000, 1250, 1500, 2000, 5000, 20_000, 60_000]) {
    engineTest(t, `with valid ${valid} ms a hot path never waits for the disk`, { valid, minUses: 1, inactive: '10m' }, async (t, { cache, clock, fs }) => {
      // The ticks are at no round time, and each entry is made at another moment between two of them.
      await clock.advance(400)
      for (let i = 0; i < 10; i++) fs.write(`/${i}`, `${i}`)
      await clock.advance(5000)
      for (let i = 0; i < 10; i++) {
        await use(cache, `/${i}`)
        await clock.advance(53)
      }
      let stale = 0
      for (let age = 0; age < 5 * valid; age += 50) {
        for (let i = 0; i < 10; i++) if (cache.lookup(`/${i}`) === undefined) stale++
        await clock.advance(50)
      }
      t.equal(stale, 0)
      t.ok(cache.stats().revalidations >= 4 * 10)
      t.ok(cache.stats().revalidations <= 10 * 10 * Math.max(1, 1500 / valid), 'and the disk is not asked much more often')
      t.equal(fs.count('open'), 10, 'by stat')
    })
  }

  engineTest(t, 'an entry that was not used since its last check is left to go stale', { valid: 5000, inactive: '10m' }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    fs.mkdir('/d')
    await use(cache, '/a')
    await use(cache, '/d')
    await clock.advance(20_000)
    t.equal(fs.count('stat'), 0, 'the use that made it is that of the check')
    t.equal(cache.lookup('/a'), undefined)
    await use(cache, '/a')
    t.ok(cache.lookup('/a'))
    await clock.advance(20_000)
    t.equal(fs.count('stat'), 1, 'once for the use, and not again')
  })

  engineTest(t, 'a use just before the end is checked soon after', { valid: 5000 }, async (t, { cache, clock, fs }) => {
    fs.mkdir('/d')
    await use(cache, '/d')
    await clock.advance(4990)
    t.ok(cache.lookup('/d'))
    await clock.advance(500)
    t.equal(fs.count('stat'), 1)
    t.ok(cache.lookup('/d'))
  })

  engineTest(t, 'directories are checked, too', { valid: 5000 }, async (t, { cache, clock, fs }) => {
    fs.mkdir('/d')
    await use(cache, '/d', 2)
    fs.write('/d/new', 'x')
    await clock.advance(4999)
    t.equal((cache.lookup('/d') as FileSnapshot).mtimeNs, fs.resolve('/d').mtimeNs)
  })

  engineTest(t, 'the smallest valid that used it since decides, and none below one second', { minUses: 1, inactive: '10m' }, async (t, { cache, clock, fs }) => {
    const [day, minute, seconds, never, soon] = ['1d', '1m', '10s', Infinity, 1].map((valid) => cache.policy({ valid }))
    fs.write('/a', 'a')
    await use(cache, '/a')
    cache.lookup('/a', never)
    await clock.advance(60_000)
    t.equal(fs.count('stat'), 0, 'valid: Infinity asks for no check')
    cache.lookup('/a', day)
    await clock.advance(60_000)
    t.equal(fs.count('stat'), 0)
    cache.lookup('/a', day)
    await use(cache, '/a', 1, seconds)
    t.equal(fs.count('stat'), 1, 'by the request')
    cache.lookup('/a', minute)
    cache.lookup('/a', seconds)
    cache.lookup('/a', day)
    await clock.advance(10_000)
    t.equal(fs.count('stat'), 2)
    await clock.advance(60_000)
    t.equal(fs.count('stat'), 2)
    await use(cache, '/a', 1, seconds)
    cache.lookup('/a', soon)
    t.equal(fs.count('stat'), 3)
    await clock.advance(1)
    t.equal(fs.count('stat'), 3)
    await clock.advance(1499)
    t.equal(fs.count('stat'), 4)
  })

  engineTest(t, 'callers with several valid below one second ask for one check', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    clock.jump(5000)
    await use(cache, '/a')
    for (const valid of [500, 200, 100]) cache.lookup('/a', cache.policy({ valid }))
    await clock.advance(10_000)
    t.equal(fs.count('stat'), 1)
  })

  engineTest(t, 'an entry that waits for its check is not asked for twice', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    for (const path of ['/a', '/b', '/c']) fs.write(path, path)
    clock.jump(5000)
    for (const path of ['/a', '/b', '/c']) await use(cache, path, 2)
    await clock.advance(17_000)
    fs.isManual = true
    await clock.advance(1000)
    t.strictSame(fs.pending.map(({ argument }) => argument), ['/a', '/b'])
    t.ok(cache.lookup('/c', cache.policy({ valid: '19s' })))
    fs.isManual = false
    for (const call of [...fs.pending]) call.deliver()
    await settled()
    t.equal(fs.count('stat'), 3, 'nor put off')
    await clock.advance(10_000)
    t.equal(fs.count('stat'), 3)
  })

  engineTest(t, 'a few at a time', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    for (let i = 0; i < 50; i++) {
      fs.write(`/${i}`, 'x')
      await use(cache, `/${i}`, 2)
    }
    await clock.advance(17_000)
    fs.isManual = true
    await clock.advance(2000)
    let most = 0
    let checks = 0
    while (fs.pending.length > 0) {
      most = Math.max(most, fs.pending.length)
      checks++
      await deliver(fs, 'stat')
    }
    t.equal(most, 2)
    t.equal(checks, 50)
  })

  engineTest(t, 'what a request checked meanwhile, or somebody forgot, is not checked again', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    for (const path of ['/a', '/b', '/c', '/d', '/e']) fs.write(path, path)
    clock.jump(5000)
    for (const path of ['/a', '/b', '/c', '/d', '/e']) await use(cache, path, 2)
    const strict = cache.policy({ valid: 1000 })
    await clock.advance(17_000)
    fs.isManual = true
    await clock.advance(1000)
    t.strictSame(fs.pending.map(({ argument }) => argument), ['/a', '/b'], 'two are checked, three wait')
    cache.invalidate('/c')
    const answer = fetched(cache, '/d', strict)
    await settled()
    fs.isManual = false
    for (const call of [...fs.pending]) call.deliver()
    t.equal(await answer, '/d')
    await clock.advance(1)
    t.equal(fs.count('stat'), 4, '/a, /b and /e by the timer, /d by the request')
    t.equal(fs.count('open'), 5)
  })

  engineTest(t, 'a look that a request has under way is a check as good as any', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a', 2)
    const strict = cache.policy({ valid: 1000 })
    await clock.advance(17_000)
    fs.isManual = true
    const answer = fetched(cache, '/a', strict)
    await clock.advance(2000)
    t.strictSame(fs.pending.map(({ name }) => name), ['stat'])
    fs.isManual = false
    await deliver(fs, 'stat')
    t.equal(await answer, 'a')
    t.equal(fs.count('stat'), 1)
  })

  engineTest(t, 'P07 a replaced file is opened anew, and the old one given back', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'old')
    fs.write('/held', 'old')
    await use(cache, '/a', 2)
    await held(cache, '/held')
    cache.lookup('/held')
    for (const path of ['/a', '/held']) {
      fs.write('/x', 'newer')
      fs.rename('/x', path)
    }
    await clock.advance(19_999)
    t.match(await statsOf(cache), { opens: 4, closes: 3, openFiles: 1, bodyBytes: 5 })
    t.equal(stateOf(cache, '/a'), 'open')
    t.equal(cache.lease('/held')?.bytes?.toString(), 'newer')
    t.equal(await fetched(cache, '/a'), 'newer')
    t.equal(fs.count('open'), 4)
  })

  engineTest(t, 'a file of which only the snapshot is known stays so', { minUses: 5 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'old')
    await use(cache, '/a')
    cache.lookup('/a')
    fs.write('/x', 'newer')
    fs.rename('/x', '/a')
    await clock.advance(19_999)
    t.equal(stateOf(cache, '/a'), 'metadata-only')
    t.match(cache.lookup('/a'), { size: 5 })
    t.match(await statsOf(cache), { openFiles: 0, bodyBytes: 0 })
  })

  engineTest(t, 'a hot file whose bytes were pushed out stays metadata-only until somebody wants them', { minUses: 1, memory: { max: 10, maxFileSize: 10 } }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'aaaaaaaa')
    fs.write('/b', 'bbbbbbbb')
    await clock.advance(5000)
    await held(cache, '/a')
    await held(cache, '/b')
    t.equal(stateOf(cache, '/a'), 'metadata-only')
    cache.lookup('/a')
    await clock.advance(19_999)
    t.equal(fs.count('stat'), 2)
    t.equal(stateOf(cache, '/a'), 'metadata-only')
    t.equal(fs.count('open'), 2)
    cache.lookup('/a')
    fs.write('/a', 'AAAA')
    await clock.advance(19_999)
    t.equal(stateOf(cache, '/a'), 'metadata-only', 'a changed one, too')
    t.match(cache.lookup('/a'), { size: 4 })
    t.match(await statsOf(cache), { openFiles: 0 })
  })

  engineTest(t, 'a deleted file is forgotten, not remembered as missing: nobody asked', { minUses: 1, errors: '1m' }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a', 2)
    fs.unlink('/a')
    await clock.advance(19_999)
    t.match(await statsOf(cache), { entries: 0, negativeEntries: 0, openFiles: 0 })
  })

  engineTest(t, 'a failure that may pass leaves everything as it is', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a', 2)
    fs.fail('stat', 'EIO')
    await clock.advance(19_999)
    t.equal(fs.count('stat'), 1)
    t.equal(stateOf(cache, '/a'), 'open')
    t.equal(await fetched(cache, '/a'), 'a')
    t.match(await statsOf(cache), { opens: 1, closes: 0 })
  })

  engineTest(t, 'negative entries are checked on demand only', { errors: '5s' }, async (t, { cache, clock, fs }) => {
    await refusal(cache, '/none')
    for (let i = 0; i < 4; i++) {
      await clock.advance(1000)
      t.ok(cache.lookup('/none'))
    }
    await clock.advance(10_000)
    t.equal(fs.count('open'), 1)
    t.equal(fs.count('stat'), 0)
  })

  engineTest(t, 'an entry of a link policy is opened again, as a request would', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    const within = cache.policy({ links: { symlinks: 'within-root', root: '/srv' } })
    fs.mkdir('/srv')
    fs.write('/srv/a', 'in')
    fs.write('/secret', 'out')
    await use(cache, '/srv/a', 2, within)
    await clock.advance(19_999)
    t.equal(fs.count('open'), 2)
    t.equal(stateOf(cache, '/srv/a', within), 'open')
    fs.link('/srv/a', '/secret')
    await clock.advance(19_999)
    t.match(await statsOf(cache), { entries: 0, openFiles: 0 })
    t.equal(await refusal(cache, '/srv/a', within), 'ELOOP')
  })
})

t.test('inactive', async (t) => {
  engineTest(t, 'P24 counts from the last use: a used entry lives on, an unused one is dropped and closed without traffic', { inactive: '10s', minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    clock.jump(5000)
    for (let age = 0; age <= 60_000; age += 5000) {
      await use(cache, '/a')
      await clock.advance(5000)
    }
    t.equal(fs.count('open'), 1)
    await clock.advance(4999)
    t.match(await statsOf(cache), { entries: 1, openFiles: 1 })
    await clock.advance(501)
    t.match(await statsOf(cache), { entries: 0, openFiles: 0 })
    t.equal(cache.stats().evictions, 0)
  })

  engineTest(t, 'a look-up, a lease and a release are each of them the last use', { inactive: '10s', minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a')
    await clock.advance(9000)
    cache.lookup('/a')
    await clock.advance(9000)
    const lease = cache.lease('/a')
    await clock.advance(9000)
    lease?.release()
    await clock.advance(9000)
    t.match(await statsOf(cache), { entries: 1, openFiles: 1 })
    await clock.advance(2000)
    t.match(await statsOf(cache), { entries: 0, openFiles: 0 })
  })

  engineTest(t, 'so is open(), of bytes that are held, too', { inactive: '10s', minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await clock.advance(5000)
    await held(cache, '/a')
    for (let i = 0; i < 5; i++) {
      await clock.advance(6000)
      t.equal((await opened(cache, '/a')).state, 'held')
    }
    t.equal(fs.count('open'), 1)
  })

  engineTest(t, 'so is an open() that had to check first', { inactive: '10s', minUses: 1, valid: '1s' }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    fs.mkdir('/d')
    await clock.advance(5000)
    await use(cache, '/d')
    await held(cache, '/a')
    for (let i = 0; i < 5; i++) {
      await clock.advance(6000)
      t.equal(cache.stats().entries, 2)
      fs.write(`/d/${i}`, 'x')
      await use(cache, '/d')
      await use(cache, '/a')
    }
  })

  engineTest(t, 'an inactive entry that is being read is dropped, and closed by its last release', { inactive: '10s', minUses: 1, valid: '1h' }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'aaaa')
    const lease = await opened(cache, '/a')
    await clock.advance(11_000)
    t.match(await statsOf(cache), { entries: 0, openFiles: 1 })
    t.equal((await lease.current()).size, 4)
    lease.release()
    t.match(await statsOf(cache), { openFiles: 0 })
  })

  engineTest(t, 'P37 the descriptor of a deleted file is closed without traffic', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/used', 'a')
    fs.write('/unused', 'a')
    await use(cache, '/used', 2)
    await use(cache, '/unused')
    fs.unlink('/used')
    fs.unlink('/unused')
    await clock.advance(20_000)
    t.equal(fs.openDescriptors, 1, 'what was used, within valid')
    await clock.advance(10_500)
    t.equal(fs.openDescriptors, 0, 'what was not, within inactive')
  })

  engineTest(t, 'directories, held bytes and negative entries are dropped, too', { inactive: '10s', minUses: 1, errors: '1h' }, async (t, { cache, clock, fs }) => {
    fs.mkdir('/d')
    fs.write('/held', 'a')
    await use(cache, '/d')
    await held(cache, '/held')
    await refusal(cache, '/none')
    await clock.advance(5000)
    cache.lookup('/none')
    await clock.advance(5500)
    t.match(await statsOf(cache), { entries: 0, bodyBytes: 0, negativeEntries: 1 })
    await clock.advance(5000)
    t.match(await statsOf(cache), { negativeEntries: 0 })
  })

  engineTest(t, 'what a background check found is dropped, too, if nobody asks for it', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a', 2)
    fs.mkdir('/x')
    fs.rename('/x', '/a')
    await clock.advance(19_999)
    t.match(cache.stats(), { entries: 1, revalidations: 1 })
    t.equal(cache.lease('/a')?.snapshot.kind, 'directory')
    cache.invalidate('/a')
    fs.unlink('/a')
    fs.write('/a', 'a')
    await use(cache, '/a', 2)
    fs.mkdir('/x')
    fs.rename('/x', '/a')
    await clock.advance(80_000)
    t.equal(cache.stats().entries, 0)
  })

  engineTest(t, 'Infinity: never', { inactive: Infinity, minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a')
    clock.jump(1e12)
    await clock.advance(1000)
    t.match(await statsOf(cache), { entries: 1, openFiles: 1 })
  })

  engineTest(t, 'the work of one tick is bounded', { inactive: '10s', errors: '1h' }, async (t, { cache, clock }) => {
    for (let i = 0; i < 2500; i++) await refusal(cache, `/${i}`)
    clock.jump(10_000)
    for (const [delay, left] of [[0, 1500], [500, 500], [500, 0]] as const) {
      await clock.advance(delay)
      t.equal(cache.stats().negativeEntries, left)
    }
  })
})

t.test('the timer', async (t) => {
  for (const [valid, inactive] of [[0, 0], [1, 1], [0, 1], [1, 0], [1, '30s'], ['20s', 1]] as const) {
    t.test(`P14 never spins: valid ${valid}, inactive ${inactive}`, async (t) => {
      const { clock, fileSystem: fs } = fakeWorld()
      const delays: number[] = []
      const after = FakeClock.prototype.after
      clock.after = function (delay, callback) {
        delays.push(delay)
        return after.call(this, delay, callback)
      }
      const cache = new OpenFileCache({ valid, inactive, minUses: 1, errors: true }, { clock, fileSystem: fs })
      fs.write('/a', 'a')
      for (let i = 0; i < 100; i++) {
        await use(cache, '/a', 2)
        await refusal(cache, '/none')
        await clock.advance(100)
      }
      t.ok(delays.length <= 21, `${delays.length} times in 10 s`)
      t.ok(Math.min(...delays) >= 500)
      await cache.close()
      t.equal(clock.timers, 0)
    })
  }

  engineTest(t, 'P125 is one for all entries', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    t.equal(clock.timers, 0, 'none, as long as there is nothing')
    for (let i = 0; i < 500; i++) {
      fs.write(`/${i}`, 'x')
      await use(cache, `/${i}`, 2)
    }
    t.equal(clock.timers, 1)
    await clock.advance(5000)
    t.equal(clock.timers, 1)
  })

  engineTest(t, 'stops when nothing is left, and starts again', { minUses: 1, errors: '1s', inactive: '5s' }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a')
    cache.clear()
    await clock.advance(500)
    t.equal(clock.timers, 0, 'after clear()')
    await refusal(cache, '/none')
    t.equal(clock.timers, 1, 'for a negative entry')
    await clock.advance(5500)
    t.equal(clock.timers, 0, 'after the last one was dropped')
    await use(cache, '/a')
    t.equal(clock.timers, 1, 'for a file')
    await clock.advance(4500)
    await use(cache, '/a')
    await clock.advance(4500)
    t.equal(clock.timers, 1)
  })

  engineTest(t, 'P125 keeps nothing alive that was forgotten', { minUses: 1, valid: '1d', inactive: '1h' }, async (t, { cache, clock, fs }) => {
    const forgotten: Array<WeakRef<object>> = []
    const remember = async (path: string): Promise<void> => {
      fs.write(path, 'x')
      await clock.advance(5000)
      await held(cache, path)
      const lease = await opened(cache, path)
      forgotten.push(new WeakRef(lease.snapshot), new WeakRef(lease.bytes as Buffer))
    }
    for (let i = 0; i < 10; i++) await remember(`/${i}`)
    for (let i = 0; i < 5; i++) cache.invalidate(`/${i}`)
    cache.clear()
    await collected()
    t.equal(forgotten.filter((reference) => reference.deref() !== undefined).length, 0)
  })
})
