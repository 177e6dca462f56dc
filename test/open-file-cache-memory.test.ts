import t from 'tap'
import { codeOf, collected, contentOf, deliver, engineTest, fetched, held, opened, readAt, stateOf, statsOf, use } from './fixtures/engine'
import { settled } from './fixtures/fake-world'
import type { Engine } from './fixtures/engine'
import type { Lease } from '../types/open-file-cache'

/** Begins to fill from `/a`, which is overwritten once it was read, in the same tick of its clock: no stat shows it. Ends the fill. */
async function overwrittenFill (lease: Lease, { clock, fs }: Engine): Promise<() => Promise<void>> {
  fs.isManual = true
  const fill = lease.fill()
  await settled()
  const read = fs.pending[0]
  read?.perform()
  fs.write('/a', 'new!')
  fs.isManual = false
  clock.jump(1)
  return async () => {
    read?.deliver()
    await fill
  }
}

t.test('fill()', async (t) => {
  engineTest(t, 'reads a retained file whole, once; from then on it is held and its descriptor is given back', {}, async (t, { cache, fs }) => {
    fs.write('/a', 'abcdef')
    fs.maxRead = 4
    await use(cache, '/a')
    const lease = await opened(cache, '/a')
    t.equal(lease.state, 'open')
    await lease.fill()
    t.equal(lease.state, 'held')
    t.equal(lease.bytes?.toString(), 'abcdef')
    t.equal(lease.bytes?.buffer.byteLength, 6, 'in memory of its own')
    t.equal(fs.count('read'), 2)
    t.equal(stateOf(cache, '/a'), 'held')
    t.match(await statsOf(cache), { bodyBytes: 6, openFiles: 1, leases: 1 }, 'as long as it is leased')
    await lease.fill()
    lease.release()
    t.match(await statsOf(cache), { bodyBytes: 6, openFiles: 0, leases: 0 })
    const again = await opened(cache, '/a')
    await again.fill()
    t.equal(again.bytes, lease.bytes)
    t.equal(fs.count('read'), 2)
  })

  engineTest(t, 'concurrent calls share one read, and no release meanwhile ends it', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'abc')
    const leases = [await opened(cache, '/a'), await opened(cache, '/a'), await opened(cache, '/a')]
    fs.isManual = true
    const fills = leases.map((lease) => lease.fill())
    leases[0]?.release()
    cache.clear()
    fs.isManual = false
    await deliver(fs, 'read')
    await Promise.all(fills)
    for (const lease of leases) {
      t.equal(lease.bytes?.toString(), 'abc')
      lease.release()
    }
    t.equal(fs.count('read'), 1)
    t.match(await statsOf(cache), { bodyBytes: 0, openFiles: 0, entries: 0 }, 'what was forgotten meanwhile holds nothing')
  })

  engineTest(t, 'two calls for one lease are one read', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'abc')
    const lease = await opened(cache, '/a')
    await Promise.all([lease.fill(), lease.fill()])
    t.equal(lease.bytes?.toString(), 'abc')
    t.equal(fs.count('read'), 1)
    lease.release()
  })

  engineTest(t, 'a file whose lease is released during the read is closed after it', {}, async (t, { cache, fs }) => {
    fs.write('/a', 'abc')
    const lease = await opened(cache, '/a')
    fs.isManual = true
    const fill = lease.fill()
    lease.release()
    await settled()
    t.strictSame(fs.pending.map(({ name }) => name), ['read'])
    fs.isManual = false
    await deliver(fs, 'read')
    await fill
    t.match(await statsOf(cache), { openFiles: 0, bodyBytes: 0 })
  })

  engineTest(t, 'below minUses the bytes are for this lease only', { minUses: 2 }, async (t, { cache, fs }) => {
    fs.write('/a', 'abc')
    const lease = await opened(cache, '/a')
    await lease.fill()
    t.equal(lease.bytes?.toString(), 'abc')
    lease.release()
    t.equal(stateOf(cache, '/a'), 'metadata-only')
    t.match(await statsOf(cache), { bodyBytes: 0, openFiles: 0 })
  })

  engineTest(t, 'of a released lease is an error, as current() and read() are', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'abc')
    const lease = await opened(cache, '/a')
    lease.release()
    lease.release()
    t.equal(cache.stats().leases, 0, 'releasing twice is harmless')
    await t.rejects(lease.fill(), /released/)
    t.throws(() => lease.current(), /released/)
    t.throws(() => lease.read(Buffer.alloc(1), 0, 1, 0, () => {}), /released/)
  })

  engineTest(t, 'an empty file is held like any other', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', '')
    clock.jump(5000)
    await held(cache, '/a')
    t.equal(stateOf(cache, '/a'), 'held')
    t.equal((await opened(cache, '/a')).bytes?.length, 0)
    t.equal(fs.count('read'), 0)
    clock.jump(20_000)
    fs.write('/a', 'a')
    t.equal(await fetched(cache, '/a'), 'a')
  })

  engineTest(t, 'leaves out what is larger than memory.maxFileSize', { minUses: 1, memory: { maxFileSize: 3 } }, async (t, { cache, fs }) => {
    fs.write('/3', 'abc')
    fs.write('/4', 'abcd')
    await held(cache, '/3')
    await held(cache, '/4')
    t.equal(stateOf(cache, '/3'), 'held')
    t.equal(stateOf(cache, '/4'), 'open')
    t.equal(fs.count('read'), 1)
  })

  engineTest(t, 'memory: false holds nothing, not even an empty file', { minUses: 1, memory: false }, async (t, { cache, fs }) => {
    for (const [path, content] of [['/a', 'abc'], ['/empty', '']] as const) {
      fs.write(path, content)
      await held(cache, path)
      t.equal(stateOf(cache, path), 'open')
    }
    t.equal(fs.count('read'), 0)
    t.equal(cache.stats().bodyBytes, 0)
  })

  engineTest(t, 'a file that changes during the read is read again: length, bytes and validators are one version', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'aaaa')
    for (const content of ['bbbbbbbb', 'cc', 'dd']) {
      cache.clear()
      const lease = await opened(cache, '/a')
      fs.isManual = true
      const fill = lease.fill()
      await deliver(fs, 'read')
      clock.jump(1)
      fs.write('/a', content)
      await deliver(fs, 'fstat')
      fs.isManual = false
      for (const call of [...fs.pending]) call.deliver()
      await fill
      t.equal(lease.bytes?.toString(), content)
      t.equal(lease.snapshot.size, content.length)
      t.equal(cache.lookup('/a'), lease.snapshot)
      lease.release()
    }
  })

  engineTest(t, 'a file that ends before its size said is read again, too', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'aaaa')
    fs.maxRead = 2
    const lease = await opened(cache, '/a')
    fs.isManual = true
    const fill = lease.fill()
    await deliver(fs, 'read')
    clock.jump(1)
    fs.write('/a', 'bb')
    fs.isManual = false
    await deliver(fs, 'read')
    await fill
    t.equal(lease.bytes?.toString(), 'bb')
    t.equal(lease.snapshot.size, 2)
    lease.release()
  })

  engineTest(t, 'also when its times do not tell', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'aaaa')
    const lease = await opened(cache, '/a')
    const { read } = fs
    let ends = 1
    fs.read = function (fd, buffer, offset, length, position, callback) {
      if (ends-- > 0) setImmediate(() => callback(null, 0))
      else read.call(this, fd, buffer, offset, length, position, callback)
    }
    await lease.fill()
    fs.read = read
    t.equal(lease.bytes?.toString(), 'aaaa')
    lease.release()
  })

  engineTest(t, 'a file that will not hold still is left to its descriptor', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'aaaa')
    const lease = await opened(cache, '/a')
    fs.isManual = true
    const fill = lease.fill()
    let reads = 0
    for (; fs.pending.length > 0 || reads === 0; reads++) {
      await deliver(fs, 'read')
      clock.jump(1)
      fs.write('/a', `version ${reads}`)
      await deliver(fs, 'fstat')
    }
    fs.isManual = false
    await fill
    t.ok(reads < 10, `given up after ${reads} reads`)
    t.equal(lease.bytes, undefined)
    t.equal(lease.state, 'open')
    t.equal(lease.snapshot.size, 'version 0'.length, 'the latest that is known')
    t.equal(stateOf(cache, '/a'), 'open')
    t.equal(cache.stats().bodyBytes, 0)
    lease.release()
  })

  engineTest(t, 'a file that outgrew memory.maxFileSize during the read is left to its descriptor', { minUses: 1, memory: { maxFileSize: 4 } }, async (t, { cache, fs }) => {
    fs.write('/a', 'aaaa')
    const lease = await opened(cache, '/a')
    fs.isManual = true
    const fill = lease.fill()
    await deliver(fs, 'read')
    fs.write('/a', 'bbbbbbbb')
    fs.isManual = false
    await deliver(fs, 'fstat')
    await fill
    t.equal(lease.bytes, undefined)
    t.equal(lease.snapshot.size, 8)
    t.equal(await contentOf(lease), 'bbbbbbbb')
    lease.release()
  })

  engineTest(t, 'bytes that one lease has are never given to another beside a newer snapshot', { minUses: 1, memory: { maxFileSize: 4 } }, async (t, { cache, fs }) => {
    fs.write('/a', 'aaaa')
    const one = await opened(cache, '/a')
    const two = await opened(cache, '/a')
    await one.fill()
    fs.write('/a', 'bbbbbbbb')
    await two.fill()
    t.equal(two.bytes, undefined, 'too large by now')
    t.equal(two.snapshot.size, 8)
    fs.write('/a', 'cc')
    await two.current()
    await two.fill()
    t.equal(two.bytes?.toString(), 'cc')
    t.equal(two.snapshot.size, 2)
    t.equal(one.bytes?.toString(), 'aaaa')
    t.equal(one.snapshot.size, 4)
    one.release()
    two.release()
  })

  engineTest(t, 'a fill does not overwrite what the entry knows since', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'old!')
    const lease = await opened(cache, '/a')
    fs.isManual = true
    const fill = lease.fill()
    await settled()
    const read = fs.pending[0]
    fs.write('/x', 'newer')
    fs.rename('/x', '/a')
    fs.isManual = false
    clock.jump(20_000)
    t.equal(await fetched(cache, '/a'), 'newer')
    read?.deliver()
    await fill
    t.equal(lease.bytes?.toString(), 'old!')
    t.equal(await fetched(cache, '/a'), 'newer')
    t.equal(stateOf(cache, '/a'), 'open')
    lease.release()
  })

  engineTest(t, 'of two descriptors of one version, the first to be filled holds the entry', { minUses: 2 }, async (t, { cache, fs }) => {
    fs.write('/a', 'aaaa')
    const below = await opened(cache, '/a')
    const kept = await opened(cache, '/a')
    t.equal((await statsOf(cache)).openFiles, 2)
    await below.fill()
    t.equal(stateOf(cache, '/a'), 'held')
    await kept.fill()
    t.match(await statsOf(cache), { bodyBytes: 4, openFiles: 2, leases: 2 })
    t.equal(fs.count('read'), 2)
    below.release()
    kept.release()
    t.match(await statsOf(cache), { bodyBytes: 4, openFiles: 0 })
  })

  engineTest(t, 'bytes that are held stay when another borrower reads them, too', { minUses: 3 }, async (t, { cache, fs }) => {
    fs.write('/a', 'aaaa')
    const leases = [await opened(cache, '/a'), await opened(cache, '/a'), await opened(cache, '/a')]
    await leases[0]?.fill()
    const bytes = cache.lease('/a')?.bytes
    t.equal(bytes?.toString(), 'aaaa')
    await leases[1]?.fill()
    t.equal(cache.lease('/a')?.bytes, bytes)
    t.equal(cache.stats().bodyBytes, 4)
    for (const lease of leases) lease.release()
  })

  engineTest(t, 'a fill of one of several descriptors does not overwrite what the entry knows since', { minUses: 2 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'old!')
    const below = await opened(cache, '/a')
    await use(cache, '/a')
    fs.write('/x', 'newer')
    fs.rename('/x', '/a')
    clock.jump(20_000)
    t.equal(await fetched(cache, '/a'), 'newer')
    await below.fill()
    t.equal(below.bytes?.toString(), 'old!')
    t.equal(stateOf(cache, '/a'), 'open')
    t.equal(await fetched(cache, '/a'), 'newer')
    below.release()
  })

  engineTest(t, 'a fill of one of several descriptors gives no bytes to an entry that was forgotten', { minUses: 2 }, async (t, { cache, fs }) => {
    fs.write('/a', 'aaaa')
    const below = await opened(cache, '/a')
    await use(cache, '/a')
    cache.clear()
    await below.fill()
    t.equal(below.bytes?.toString(), 'aaaa')
    t.equal(cache.stats().bodyBytes, 0)
    below.release()
    t.match(await statsOf(cache), { openFiles: 0, entries: 0 })
  })

  engineTest(t, 'held bytes stay one version when another borrower sees the file change', { minUses: 3 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'aaaa')
    const leases = [await opened(cache, '/a'), await opened(cache, '/a'), await opened(cache, '/a')]
    await leases[2]?.fill()
    clock.jump(1)
    fs.write('/a', 'bbbbbbbb')
    t.equal((await leases[0]?.current())?.size, 8)
    const lease = cache.lease('/a')
    t.equal(lease?.bytes?.toString(), 'aaaa')
    t.equal(lease?.snapshot.size, 4)
    for (const lease of leases) lease.release()
  })

  engineTest(t, 'settled bytes are held, whoever checked the entry since they were read', { minUses: 2 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'aaaa')
    clock.jump(5000)
    const lease = await opened(cache, '/a')
    fs.isManual = true
    const fill = lease.fill()
    await settled()
    const read = fs.pending[0]
    fs.isManual = false
    clock.jump(1)
    await use(cache, '/a', 1, cache.policy({ valid: 0 }))
    read?.deliver()
    await fill
    t.equal(stateOf(cache, '/a'), 'held')
    lease.release()
  })

  engineTest(t, 'unsettled bytes are not held by an entry that was checked since they were read', { minUses: 2 }, async (t, engine) => {
    const { cache, fs } = engine
    fs.tickNs = 2_000_000_000n
    fs.write('/a', 'old!')
    const lease = await opened(cache, '/a')
    const endFill = await overwrittenFill(lease, engine)
    t.equal(await fetched(cache, '/a', cache.policy({ valid: 0 })), 'new!')
    await endFill()
    t.equal(lease.bytes?.toString(), 'old!')
    t.equal(await fetched(cache, '/a'), 'new!', 'checked a moment ago')
    lease.release()
  })

  engineTest(t, 'nor are they given to a later borrower of the same descriptor', { minUses: 1 }, async (t, engine) => {
    const { cache, clock, fs } = engine
    fs.tickNs = 2_000_000_000n
    fs.write('/a', 'old!')
    clock.jump(1)
    const lease = await opened(cache, '/a')
    const endFill = await overwrittenFill(lease, engine)
    const opens = fs.count('open')
    await use(cache, '/a', 1, cache.policy({ valid: 0 }))
    t.equal(fs.count('open'), opens, 'its descriptor stays')
    await endFill()
    t.equal(lease.bytes?.toString(), 'old!')
    t.equal(await fetched(cache, '/a'), 'new!', 'checked a moment ago')
    const another = await opened(cache, '/a')
    await another.fill()
    t.equal(another.bytes?.toString(), 'new!')
    another.release()
    lease.release()
  })

  for (const call of ['read', 'fstat'] as const) {
    engineTest(t, `P15 a failing ${call} fails all who wait, drops the entry and leaves nothing behind`, { minUses: 1 }, async (t, { cache, fs }) => {
      fs.write('/a', 'aaaa')
      const one = await opened(cache, '/a')
      const two = await opened(cache, '/a')
      fs.fail(call, 'EIO')
      t.strictSame(await Promise.all([codeOf(one.fill()), codeOf(two.fill())]), ['EIO', 'EIO'])
      t.match(await statsOf(cache), { entries: 0, bodyBytes: 0, openFiles: 1 })
      one.release()
      two.release()
      t.match(await statsOf(cache), { openFiles: 0 })
      t.equal(await fetched(cache, '/a'), 'aaaa')
    })
  }
})

t.test('the budget', async (t) => {
  engineTest(t, 'when it is full the least recently used bytes go and their entry stays', { minUses: 1, memory: { max: 10, maxFileSize: 10 } }, async (t, { cache, fs }) => {
    for (const path of ['/a', '/b', '/c', '/d']) fs.write(path, path + '..')
    await held(cache, '/a')
    await held(cache, '/b')
    cache.lease('/a')
    await held(cache, '/c')
    t.strictSame(['/a', '/b', '/c'].map((path) => stateOf(cache, path)), ['held', 'metadata-only', 'held'])
    t.match(await statsOf(cache), { bodyBytes: 8, entries: 3, evictions: 0, openFiles: 0 })
    cache.lookup('/a')
    await held(cache, '/d')
    t.strictSame(['/a', '/b', '/c', '/d'].map((path) => stateOf(cache, path)), ['held', 'metadata-only', 'metadata-only', 'held'])
    t.match(cache.lookup('/b'), { size: 4 })
    t.equal(await fetched(cache, '/b'), '/b..', 'and its bytes come from the disk')
  })

  engineTest(t, 'a large body may push out several small ones', { minUses: 1, memory: { max: 10, maxFileSize: 10 } }, async (t, { cache, fs }) => {
    for (const path of ['/a', '/b', '/c']) {
      fs.write(path, 'abc')
      await held(cache, path)
    }
    fs.write('/large', '0123456')
    await held(cache, '/large')
    t.strictSame(['/a', '/b', '/c', '/large'].map((path) => stateOf(cache, path)),
      ['metadata-only', 'metadata-only', 'held', 'held'])
    t.equal(cache.stats().bodyBytes, 10)
  })

  engineTest(t, 'bytes of a new version take the place of the old', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'old')
    await held(cache, '/a')
    const before = await opened(cache, '/a')
    fs.write('/a', 'newer')
    clock.jump(20_000)
    const lease = await opened(cache, '/a')
    t.equal(lease.state, 'held', 'bytes are replaced by bytes, so that no request waits for them')
    t.equal(lease.bytes?.toString(), 'newer')
    t.equal(before.bytes?.toString(), 'old')
    t.equal(cache.stats().bodyBytes, 5)
    lease.release()
    t.equal((await statsOf(cache)).openFiles, 0)
  })

  engineTest(t, 'a new version that is too large is kept open instead', { minUses: 1, memory: { maxFileSize: 4 } }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'old')
    await held(cache, '/a')
    fs.write('/a', 'too large')
    clock.jump(20_000)
    t.equal(await fetched(cache, '/a'), 'too large')
    t.equal(stateOf(cache, '/a'), 'open')
    t.match(await statsOf(cache), { openFiles: 1, bodyBytes: 0 })
  })

  engineTest(t, 'a read that fails during a check leaves the old bytes stale', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'old')
    await held(cache, '/a')
    fs.write('/a', 'newer')
    clock.jump(20_000)
    fs.fail('read', 'EIO')
    t.equal(await codeOf(cache.open('/a')), 'EIO')
    t.equal(cache.lookup('/a'), undefined)
    t.match(await statsOf(cache), { entries: 1, bodyBytes: 3, openFiles: 0 })
    t.equal(await fetched(cache, '/a'), 'newer')
  })

  engineTest(t, 'forgotten entries give their bytes back, whoever still reads another version', { minUses: 2 }, async (t, { cache, fs }) => {
    fs.write('/a', 'abc')
    const before = await opened(cache, '/a')
    const bytes = await (async () => {
      await held(cache, '/a')
      return new WeakRef((await opened(cache, '/a')).bytes as Buffer)
    })()
    t.equal(cache.stats().bodyBytes, 3)
    cache.clear()
    t.equal(cache.stats().bodyBytes, 0)
    await collected()
    t.equal(bytes.deref(), undefined)
    t.equal((await readAt(before, 3, 0)).toString(), 'abc')
    before.release()
  })
})
