import t from 'tap'
import { BufferPool } from '../lib/buffer-pool'
import { OpenFileCache } from '../lib/open-file-cache'
import { engineTest, use } from './fixtures/engine'
import { FakeClock, fakeWorld } from './fixtures/fake-world'
import type { BufferPool as Contract } from '../types/open-file-cache'

const SIZE = 256 * 1024
const MAX = 64
const INACTIVE = 30_000

interface Pooled {
  pool: BufferPool
  clock: FakeClock
  /** How often it said that buffers may become inactive. */
  frees: number
}

function pooled (): Pooled {
  const clock = new FakeClock()
  const made: Pooled = { clock, frees: 0, pool: new BufferPool(clock, INACTIVE, () => made.frees++) }
  return made
}

function take (pool: Contract): Buffer {
  const buffer = pool.take()
  if (buffer === undefined) throw new Error('all are lent')
  return buffer
}

function takeMany (pool: Contract, count: number): Buffer[] {
  return Array.from({ length: count }, () => take(pool))
}

t.test('a pool', async (t) => {
  t.test('keeps nothing before somebody gave it something', async (t) => {
    const { pool, frees } = pooled()
    t.equal(pool.bytes, 0)
    t.equal(pool.size, SIZE)
    t.equal(take(pool).length, SIZE)
    t.equal(pool.bytes, 0, 'what is lent is not free')
    t.equal(frees, 0)
  })

  t.test('lends memory of its own, each buffer once', async (t) => {
    const { pool } = pooled()
    const buffers = takeMany(pool, 3)
    t.equal(new Set(buffers.map(({ buffer }) => buffer)).size, 3)
    for (const { buffer, byteOffset } of buffers) t.strictSame([buffer.byteLength, byteOffset], [SIZE, 0])
  })

  t.test('lends again what came back', async (t) => {
    const made = pooled()
    const { pool } = made
    const [first, second] = takeMany(pool, 2) as [Buffer, Buffer]
    pool.give(first)
    t.equal(pool.bytes, SIZE)
    t.equal(made.frees, 1)
    t.equal(take(pool), first)
    t.equal(pool.bytes, 0)
    pool.give(second)
    pool.give(first)
    t.equal(pool.bytes, 2 * SIZE)
    t.equal(made.frees, 3)
    t.strictSame(new Set(takeMany(pool, 2)), new Set([first, second]))
    t.not(take(pool), first)
  })

  t.test('lends 64 at a time', async (t) => {
    const { pool } = pooled()
    const buffers = takeMany(pool, MAX)
    t.equal(pool.take(), undefined)
    t.equal(pool.take(), undefined)
    const back = buffers.pop() as Buffer
    pool.give(back)
    t.equal(take(pool), back)
    t.equal(pool.take(), undefined)
  })

  t.test('has no more than 64, lent and free', async (t) => {
    const { pool } = pooled()
    for (const buffer of takeMany(pool, MAX)) pool.give(buffer)
    t.equal(pool.bytes, 16 * 1024 * 1024)
    const again = takeMany(pool, MAX)
    t.equal(pool.bytes, 0)
    t.equal(pool.take(), undefined)
    for (const buffer of again) pool.give(buffer)
    t.equal(pool.bytes, 16 * 1024 * 1024)
  })

  t.test('lends another for one that was dropped', async (t) => {
    const made = pooled()
    const { pool } = made
    const buffers = takeMany(pool, MAX)
    pool.drop()
    t.equal(pool.bytes, 0)
    t.equal(made.frees, 0)
    t.notOk(buffers.includes(take(pool)))
    t.equal(pool.take(), undefined)
    for (let i = 0; i < MAX; i++) pool.drop()
    t.equal(takeMany(pool, MAX).filter((buffer) => buffers.includes(buffer)).length, 0)
    t.equal(pool.take(), undefined)
  })

  t.test('gives up what nobody took for `inactive`', async (t) => {
    const { pool, clock } = pooled()
    const [one, two] = takeMany(pool, 2) as [Buffer, Buffer]
    pool.give(one)
    clock.jump(INACTIVE - 1)
    pool.dropInactive(clock.now())
    t.equal(pool.bytes, SIZE)
    t.equal(take(pool), one)
    clock.jump(INACTIVE - 1)
    pool.give(one)
    pool.dropInactive(clock.now())
    t.equal(pool.bytes, SIZE, 'since the last time that somebody took one')
    clock.jump(1)
    pool.dropInactive(clock.now())
    t.equal(pool.bytes, 0)
    pool.give(two)
    t.equal(pool.bytes, SIZE, 'what is lent comes back all the same')
    t.equal(take(pool), two)
  })

  t.test('counts what is lent also after it gave up what was free', async (t) => {
    const { pool, clock } = pooled()
    const buffers = takeMany(pool, MAX)
    pool.give(buffers.pop() as Buffer)
    clock.jump(INACTIVE)
    pool.dropInactive(clock.now())
    take(pool)
    t.equal(pool.take(), undefined)
  })

  t.test('lends nothing when it is closed, and keeps nothing that comes back', async (t) => {
    const made = pooled()
    const { pool } = made
    const [one, two, three] = takeMany(pool, 3) as [Buffer, Buffer, Buffer]
    pool.give(one)
    pool.close()
    t.equal(pool.bytes, 0)
    t.equal(pool.take(), undefined)
    pool.give(two)
    t.equal(pool.bytes, 0)
    t.equal(made.frees, 1)
    pool.drop()
    t.equal(pool.take(), undefined)
    t.ok(three)
  })

  t.test('lends nothing when there is no memory, and does not count it', async (t) => {
    const { pool } = pooled()
    const kept = take(pool)
    const { allocUnsafeSlow } = Buffer
    let isFull = true
    t.intercept(Buffer, 'allocUnsafeSlow', {
      value (size: number) {
        if (isFull) throw new RangeError('Array buffer allocation failed')
        return allocUnsafeSlow(size)
      }
    })
    for (let i = 0; i < MAX; i++) t.equal(pool.take(), undefined)
    pool.give(kept)
    t.equal(take(pool), kept, 'what it has it still lends')
    isFull = false
    takeMany(pool, MAX - 1)
    t.equal(pool.take(), undefined)
  })
})

t.test('the pool of a cache', async (t) => {
  engineTest(t, 'is counted', {}, async (t, { cache }) => {
    const { buffers } = cache
    const [one, two] = takeMany(buffers, 2) as [Buffer, Buffer]
    t.equal(cache.stats().poolBytes, 0)
    buffers.give(one)
    t.equal(cache.stats().poolBytes, SIZE)
    buffers.give(two)
    t.equal(cache.stats().poolBytes, 2 * SIZE)
  })

  engineTest(t, 'is emptied by the timer, which runs for it alone, and then stops', { inactive: 10_000 }, async (t, { cache, clock }) => {
    t.equal(clock.timers, 0)
    const buffer = take(cache.buffers)
    t.equal(clock.timers, 0, 'what is lent needs none')
    cache.buffers.give(buffer)
    t.equal(clock.timers, 1)
    await clock.advance(9_500)
    t.equal(cache.stats().poolBytes, SIZE)
    t.equal(clock.timers, 1)
    await clock.advance(500)
    t.equal(cache.stats().poolBytes, 0)
    t.equal(clock.timers, 0)
  })

  engineTest(t, 'is emptied while entries are kept', { inactive: 10_000 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    cache.buffers.give(take(cache.buffers))
    await clock.advance(5000)
    await use(cache, '/a')
    await clock.advance(5000)
    t.match(cache.stats(), { poolBytes: 0, entries: 1 })
    t.equal(clock.timers, 1)
  })

  engineTest(t, 'and kept while entries go', { inactive: 10_000 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a')
    await clock.advance(5000)
    cache.buffers.give(take(cache.buffers))
    await clock.advance(5000)
    t.match(cache.stats(), { poolBytes: SIZE, entries: 0 })
    t.equal(clock.timers, 1)
    await clock.advance(5000)
    t.equal(cache.stats().poolBytes, 0)
    t.equal(clock.timers, 0)
  })

  engineTest(t, 'is left alone by clear(): its buffers hold nothing of a file that is asked for again', {}, async (t, { cache }) => {
    cache.buffers.give(take(cache.buffers))
    cache.clear()
    t.equal(cache.stats().poolBytes, SIZE)
  })

  t.test('of a cache that is off is one too', async (t) => {
    const { clock, fileSystem } = fakeWorld()
    const cache = OpenFileCache.off({ clock, fileSystem })
    cache.buffers.give(take(cache.buffers))
    t.match(cache.stats(), { poolBytes: SIZE, entries: 0 })
    await clock.advance(30_000)
    t.equal(cache.stats().poolBytes, 0)
    t.equal(clock.timers, 0)
    await cache.close()
  })

  engineTest(t, 'is closed with it: nothing is kept that comes back later, and no timer starts', {}, async (t, { cache, clock }) => {
    const { buffers } = cache
    const [one, two] = takeMany(buffers, 2) as [Buffer, Buffer]
    buffers.give(one)
    await cache.close()
    t.equal(cache.stats().poolBytes, 0)
    t.equal(clock.timers, 0)
    buffers.give(two)
    t.equal(cache.stats().poolBytes, 0)
    t.equal(clock.timers, 0)
    t.equal(buffers.take(), undefined)
  })
})
