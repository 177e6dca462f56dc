import t from 'tap'
import { codeOf, contentOf, deliver, engineTest, fetched, held, opened, readAt, refusal, stateOf, statsOf, use } from './fixtures/engine'
import { settled } from './fixtures/fake-world'

t.test('fresh and stale', async (t) => {
  engineTest(t, 'an entry is fresh while less than valid has passed since its check', { valid: 5000 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    fs.mkdir('/d')
    await use(cache, '/a')
    await use(cache, '/d')
    await clock.advance(4999)
    t.ok(cache.lookup('/a'))
    t.ok(cache.lease('/d'))
    cache.invalidate('/a')
    cache.invalidate('/d')
    await use(cache, '/a')
    await use(cache, '/d')
    await clock.advance(5000)
    t.notOk(cache.lookup('/a'))
    t.notOk(cache.lease('/d'))
  })

  engineTest(t, 'valid counts from the moment at which the open was issued', { valid: 5000, minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'one')
    fs.isManual = true
    const answer = fetched(cache, '/a')
    await settled()
    fs.pending[0]?.perform()
    clock.jump(4000)
    fs.rename('/a', '/b')
    fs.isManual = false
    fs.pending[0]?.deliver()
    t.equal(await answer, 'one')
    clock.jump(999)
    t.ok(cache.lookup('/a'))
    clock.jump(1)
    t.notOk(cache.lookup('/a'))
    t.equal(await refusal(cache, '/a'), 'ENOENT')
  })

  engineTest(t, 'valid counts from the moment at which the stat was issued', { valid: 5000, minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'one')
    await use(cache, '/a')
    clock.jump(6000)
    fs.isManual = true
    const answer = fetched(cache, '/a')
    await settled()
    t.strictSame(fs.pending.map(({ name }) => name), ['stat'])
    fs.pending[0]?.perform()
    clock.jump(4000)
    fs.isManual = false
    fs.pending[0]?.deliver()
    t.equal(await answer, 'one')
    clock.jump(999)
    t.ok(cache.lookup('/a'))
    clock.jump(1)
    t.notOk(cache.lookup('/a'))
  })

  engineTest(t, 'P13 a file that is asked for all the time is replaced within valid', { valid: 5000, minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'old')
    await use(cache, '/a')
    await clock.advance(100)
    fs.write('/b', 'new')
    fs.rename('/b', '/a')
    let age = 0
    for (; await fetched(cache, '/a') === 'old'; age += 100) await clock.advance(100)
    t.ok(age > 0 && age < 5000, `after ${age} ms`)
  })

  engineTest(t, 'P13 use does not make an entry fresher', { valid: 900, minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a')
    for (let age = 100; age < 900; age += 100) {
      clock.jump(100)
      t.ok(cache.lookup('/a'))
    }
    clock.jump(100)
    t.notOk(cache.lookup('/a'))
  })

  engineTest(t, 'each caller has a valid of its own', { valid: 20_000, minUses: 1 }, async (t, { cache, clock, fs }) => {
    const strict = cache.policy({ valid: 1000 })
    fs.write('/a', 'a')
    await use(cache, '/a')
    await clock.advance(2000)
    t.notOk(cache.lookup('/a', strict))
    t.ok(cache.lookup('/a'))
    await use(cache, '/a', 1, strict)
    t.ok(cache.lookup('/a', strict), 'a check for one is a check for all')
    t.equal(fs.count('stat'), 1)
  })

  engineTest(t, 'a stale entry is checked once, for all who ask meanwhile', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'aaaa')
    clock.jump(5000)
    await use(cache, '/a')
    clock.jump(20_000)
    fs.isManual = true
    const answers = Array.from({ length: 50 }, () => fetched(cache, '/a'))
    await settled()
    answers.push(...Array.from({ length: 50 }, () => fetched(cache, '/a')))
    await settled()
    t.strictSame(fs.pending.map(({ name }) => name), ['stat'])
    fs.isManual = false
    fs.pending[0]?.deliver()
    t.strictSame(new Set(await Promise.all(answers)), new Set(['aaaa']))
    t.match(fs.calls, { stat: 1, open: 1, fstat: 1 })
    t.equal(cache.stats().revalidations, 1)
  })

  engineTest(t, 'valid: 0 checks on every look-up', { valid: 0, minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'version 0')
    clock.jump(5000)
    await use(cache, '/a')
    for (let i = 1; i <= 3; i++) {
      t.notOk(cache.lookup('/a'))
      t.notOk(cache.lease('/a'))
      await use(cache, '/a')
      t.equal(fs.count('stat'), 2 * i - 1, 'a stat is enough')
      fs.write('/b', `version ${i}`)
      fs.rename('/b', '/a')
      clock.jump(5000)
      t.equal(await fetched(cache, '/a'), `version ${i}`)
    }
    t.match(await statsOf(cache), { entries: 1, openFiles: 1, opens: 4 })
    await clock.advance(10_000)
    t.equal(fs.count('stat'), 6, 'and the timer has nothing to add')
  })

  engineTest(t, 'P08 P22 valid: 0 checks what was missing on every look-up, too', { valid: 0 }, async (t, { cache, fs }) => {
    t.equal(await refusal(cache, '/new'), 'ENOENT')
    t.notOk(cache.lookup('/new'))
    fs.write('/new', 'there')
    t.equal(await fetched(cache, '/new'), 'there')
  })

  engineTest(t, 'valid: Infinity never checks again', { valid: Infinity, inactive: Infinity, minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'old')
    fs.write('/u', 'unread')
    await use(cache, '/a')
    fs.write('/b', 'new')
    fs.rename('/b', '/a')
    for (let i = 0; i < 10; i++) {
      await clock.advance(3_600_000, () => {})
      t.equal(await fetched(cache, '/a'), 'old')
    }
    t.equal(fs.count('stat'), 0)
    t.equal(fs.count('open'), 1)
    t.equal(cache.stats().revalidations, 0)
    cache.invalidate('/a')
    t.equal(await fetched(cache, '/a'), 'new')
  })
})

t.test('what a check finds', async (t) => {
  engineTest(t, 'the same version: the entry is extended, the descriptor stays', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'aaaa')
    clock.jump(5000)
    const { snapshot } = await opened(cache, '/a').then((lease) => { lease.release(); return lease })
    clock.jump(20_000)
    const lease = await opened(cache, '/a')
    t.equal(lease.snapshot, snapshot)
    lease.release()
    t.match(fs.calls, { open: 1, stat: 1 })
    t.equal(fs.count('close'), 0)
    await clock.advance(15_000)
    t.ok(cache.lookup('/a'))
  })

  engineTest(t, 'P04 P32 two hundred times replaced by rename: each time the new version whole, and one descriptor', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'version 0')
    clock.jump(5000)
    for (let i = 1; i <= 200; i++) {
      t.equal(await fetched(cache, '/a'), `version ${i - 1}`)
      fs.write('/x', `version ${i}`)
      fs.rename('/x', '/a')
      t.equal(await fetched(cache, '/a'), `version ${i - 1}`, 'within valid the old version whole is fine')
      clock.jump(20_000)
    }
    t.match(await statsOf(cache), { openFiles: 1, opens: 200, closes: 199, leases: 0, entries: 1 })
  })

  engineTest(t, 'P06 P07 the path is walked again: a swapped directory link is followed', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.mkdir('/site')
    for (const version of ['v1', 'v2']) {
      fs.mkdir(`/site/..${version}`)
      fs.write(`/site/..${version}/x.json`, version)
    }
    fs.link('/site/..data', '/site/..v1')
    fs.link('/site/x.json', '/site/..data/x.json')
    t.equal(await fetched(cache, '/site/x.json'), 'v1')
    fs.link('/site/..tmp', '/site/..v2')
    fs.rename('/site/..tmp', '/site/..data')
    t.equal(await fetched(cache, '/site/x.json'), 'v1')
    clock.jump(20_000)
    t.equal(await fetched(cache, '/site/x.json'), 'v2')
    t.match(await statsOf(cache), { openFiles: 1, closes: 1 }, 'and the old release is given back')
  })

  engineTest(t, 'P01 P02 P09 an edit in place: each check adopts the new size and times', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'A'.repeat(10))
    t.equal(await fetched(cache, '/a'), 'A'.repeat(10))
    for (const content of ['B'.repeat(20), 'C'.repeat(2), 'D'.repeat(2), '', 'E']) {
      await clock.advance(1000)
      fs.write('/a', content)
      t.equal(await fetched(cache, '/a'), content, 'at once: the descriptor is asked')
      clock.jump(20_000)
      const lease = await opened(cache, '/a')
      t.equal(lease.snapshot.size, content.length, 'after valid')
      t.equal(await contentOf(lease), content)
      lease.release()
    }
  })

  engineTest(t, 'P10 P17 the same size and the same mtime, but another file or another change time: a new version', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'aaaaaaaaaa')
    fs.utimes('/a', 1_000_000_000n)
    await clock.advance(5000)
    await held(cache, '/a')
    const old = await opened(cache, '/a')
    fs.write('/x', 'bbbbbbbbbb')
    fs.utimes('/x', 1_000_000_000n)
    clock.jump(20_000)
    fs.rename('/x', '/a')
    clock.jump(20_000)
    const renamed = await opened(cache, '/a')
    t.equal(await contentOf(renamed), 'bbbbbbbbbb')
    t.not(renamed.snapshot, old.snapshot)
    fs.write('/a', 'cccccccccc')
    fs.utimes('/a', 1_000_000_000n)
    clock.jump(20_000)
    const written = await opened(cache, '/a')
    t.equal(await contentOf(written), 'cccccccccc')
    t.not(written.snapshot, renamed.snapshot)
    t.equal(written.snapshot.mtimeNs, old.snapshot.mtimeNs)
    for (const lease of [old, renamed, written]) lease.release()
  })

  engineTest(t, 'a change of permissions is seen: the file is opened again, though stat would do', { minUses: 1, errors: '1m' }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a')
    await clock.advance(1000)
    fs.chmod('/a', false)
    clock.jump(20_000)
    t.equal(await refusal(cache, '/a'), 'EACCES')
    t.match(await statsOf(cache), { entries: 0, negativeEntries: 1, openFiles: 0 })
    fs.chmod('/a', true)
    clock.jump(60_000)
    t.equal(await fetched(cache, '/a'), 'a')
    t.match(await statsOf(cache), { entries: 1, negativeEntries: 0 })
  })

  for (const isHeld of [false, true]) {
    engineTest(t, `permissions that went while the file was being opened are seen at the next check (${isHeld ? 'held' : 'open'})`, { minUses: 1 }, async (t, { cache, clock, fs }) => {
      fs.write('/a', 'a')
      fs.isManual = true
      const answer = opened(cache, '/a')
      await deliver(fs, 'open')
      clock.jump(1)
      fs.chmod('/a', false)
      fs.isManual = false
      await deliver(fs, 'fstat')
      const lease = await answer
      clock.jump(5000)
      if (isHeld) await lease.fill()
      lease.release()
      t.equal(stateOf(cache, '/a'), isHeld ? 'held' : 'open')
      clock.jump(20_000)
      t.equal(await refusal(cache, '/a'), 'EACCES')
    })
  }

  for (const isHeld of [false, true]) {
    engineTest(t, `permissions that went before current() saw the file change are seen at the next check (${isHeld ? 'held' : 'open'})`, { minUses: 1 }, async (t, { cache, clock, fs }) => {
      fs.write('/a', 'a')
      clock.jump(5000)
      const lease = await opened(cache, '/a')
      clock.jump(1)
      fs.chmod('/a', false)
      await lease.current()
      clock.jump(5000)
      if (isHeld) await lease.fill()
      lease.release()
      t.equal(stateOf(cache, '/a'), isHeld ? 'held' : 'open')
      clock.jump(20_000)
      t.equal(await refusal(cache, '/a'), 'EACCES')
    })
  }

  engineTest(t, 'permissions that went while a check read the bytes are seen at the next check', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'old')
    clock.jump(5000)
    await held(cache, '/a')
    fs.write('/a', 'newer')
    clock.jump(20_000)
    fs.isManual = true
    const answer = fetched(cache, '/a')
    for (const call of ['stat', 'open', 'fstat', 'read']) await deliver(fs, call)
    clock.jump(1)
    fs.chmod('/a', false)
    clock.jump(5000)
    fs.isManual = false
    await deliver(fs, 'fstat')
    t.equal(await answer, 'newer')
    t.equal(stateOf(cache, '/a'), 'held')
    clock.jump(20_000)
    t.equal(await refusal(cache, '/a'), 'EACCES')
  })

  engineTest(t, 'a file may become a directory, a special file, nothing, and a file again', { minUses: 1, valid: 1000 }, async (t, { cache, clock, fs }) => {
    const kinds = async (): Promise<unknown> => {
      clock.jump(2000)
      const answer = await cache.open('/a')
      if ('errno' in answer) return answer.errno
      answer.release()
      return `${answer.snapshot.kind}, ${answer.state}`
    }
    fs.write('/a', 'a')
    t.equal(await kinds(), 'file, open')
    t.equal((await statsOf(cache)).openFiles, 1)
    fs.mkdir('/d')
    fs.rename('/d', '/a')
    t.equal(await kinds(), 'directory, metadata-only')
    t.equal((await statsOf(cache)).openFiles, 0)
    fs.special('/a')
    t.equal(await kinds(), 'ENOENT')
    t.match(await statsOf(cache), { openFiles: 0, entries: 0, negativeEntries: 1 })
    fs.unlink('/a')
    t.equal(await kinds(), 'ENOENT')
    fs.write('/a', 'b')
    t.equal(await kinds(), 'file, open')
    t.match(await statsOf(cache), { openFiles: 1, entries: 1, negativeEntries: 0 })
    fs.unlink('/a')
    t.equal(await kinds(), 'ENOENT')
    fs.mkdir('/a')
    t.equal(await kinds(), 'directory, metadata-only')
    fs.unlink('/a')
    fs.write('/a', 'c')
    t.equal(await kinds(), 'file, open')
    t.equal(await fetched(cache, '/a'), 'c')
  })

  engineTest(t, 'a directory is checked by one stat, and opened again when it changed', {}, async (t, { cache, clock, fs }) => {
    fs.mkdir('/d')
    const before = await opened(cache, '/d')
    clock.jump(20_000)
    t.equal((await opened(cache, '/d')).snapshot, before.snapshot)
    t.match(fs.calls, { open: 1, stat: 1 })
    fs.write('/d/new', 'x')
    clock.jump(20_000)
    const after = await opened(cache, '/d')
    t.not(after.snapshot, before.snapshot)
    t.match(after.snapshot, { kind: 'directory' })
    t.equal(cache.lookup('/d'), after.snapshot)
    t.equal(fs.count('open'), 2)
    t.equal(cache.stats().entries, 1)
  })

  engineTest(t, 'P28 a deleted file with errors off: not there, closed, forgotten', { errors: false, minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a')
    fs.unlink('/a')
    t.equal(await fetched(cache, '/a'), 'a', 'within valid')
    clock.jump(20_000)
    for (let i = 0; i < 2; i++) {
      t.equal(await refusal(cache, '/a'), 'ENOENT')
      t.match(await statsOf(cache), { entries: 0, negativeEntries: 0, openFiles: 0, opens: 1, closes: 1 })
    }
  })

  engineTest(t, 'a failure that may pass fails those who wait and leaves the entry stale', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    clock.jump(5000)
    await held(cache, '/a')
    clock.jump(20_000)
    for (const code of ['EIO', 'ENOMEM', 'EAGAIN', 'EMFILE']) {
      fs.fail('stat', code)
      const answers = await Promise.allSettled([cache.open('/a'), cache.open('/a')])
      t.match(answers, [{ status: 'rejected', reason: { code } }, { status: 'rejected', reason: { code } }])
      t.notOk(cache.lookup('/a'), 'still stale')
      t.match(await statsOf(cache), { entries: 1, bodyBytes: 1, negativeEntries: 0 }, 'still there')
    }
    const lease = await opened(cache, '/a')
    t.equal(lease.state, 'held')
    t.equal(fs.count('open'), 1, 'as it was')
  })

  engineTest(t, 'so does a failure of the open that a changed file needs', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a')
    clock.jump(20_000)
    fs.write('/a', 'bb')
    for (const [call, code] of [['open', 'EIO'], ['open', 'ENOMEM'], ['fstat', 'EIO']] as const) {
      fs.fail(call, code)
      t.equal(await codeOf(cache.open('/a')), code)
      t.match(await statsOf(cache), { entries: 1, openFiles: 1 })
    }
    t.equal(await fetched(cache, '/a'), 'bb')
  })

  engineTest(t, 'a failed background check is made good by the next request', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a', 2)
    fs.fail('stat', 'EIO')
    await clock.advance(19_000)
    t.equal(fs.count('stat'), 1)
    t.ok(cache.lookup('/a'), 'still fresh')
    await clock.advance(1000)
    t.notOk(cache.lookup('/a'))
    await use(cache, '/a', 2)
    await clock.advance(18_500)
    t.equal(fs.count('stat'), 3, 'and by the timer from then on')
  })
})

t.test('unsettled', async (t) => {
  const coarse = 2_000_000_000n

  engineTest(t, 'a second write in the same tick of a coarse clock is seen at the next check', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.tickNs = coarse
    fs.write('/a', 'aaaa')
    await held(cache, '/a')
    const before = cache.lookup('/a')
    fs.write('/a', 'bbbb')
    t.equal(fs.resolve('/a').mtimeNs, (before as { mtimeNs: bigint }).mtimeNs, 'the times hide it')
    t.equal(await fetched(cache, '/a'), 'aaaa', 'within valid')
    clock.jump(20_000)
    t.equal(await fetched(cache, '/a'), 'bbbb')
    t.equal(stateOf(cache, '/a'), 'held', 'bytes are replaced by bytes')
    t.not(cache.lookup('/a'), before, 'and the snapshot by another one, so that nothing is remembered of it')
  })

  engineTest(t, 'by the timer, too', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.tickNs = coarse
    fs.write('/a', 'aaaa')
    await held(cache, '/a')
    fs.write('/a', 'bbbb')
    cache.lookup('/a')
    await clock.advance(19_000)
    t.equal(cache.lease('/a')?.bytes?.toString(), 'bbbb')
  })

  engineTest(t, 'once settled, a stat is enough', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'aaaa')
    await held(cache, '/a')
    const reads = fs.count('read')
    const snapshot = cache.lookup('/a')
    for (const expected of [1, 1, 1]) {
      clock.jump(20_000)
      await use(cache, '/a')
      t.equal(fs.count('read') - reads, expected, 'read again once, 20 s after the last change')
      t.equal(cache.lookup('/a'), snapshot, 'and the bytes are the same')
    }
    t.equal(fs.count('open'), 2)
  })

  engineTest(t, 'two seconds settle it', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    for (const [path, age, isReadAgain] of [['/young', 1999, true], ['/old', 2001, false]] as const) {
      fs.write(path, 'aaaa')
      clock.jump(age)
      await held(cache, path)
      const reads = fs.count('read')
      clock.jump(20_000)
      await use(cache, path)
      t.equal(fs.count('read') > reads, isReadAgain, path)
    }
  })

  engineTest(t, 'so does the change time: an mtime of long ago is no proof', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'aaaa')
    fs.utimes('/a', 1_000_000_000n)
    await held(cache, '/a')
    const reads = fs.count('read')
    clock.jump(20_000)
    await use(cache, '/a')
    t.equal(fs.count('read'), reads + 1)
  })

  engineTest(t, 'times in the future never settle', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'aaaa')
    fs.utimes('/a', BigInt(clock.wall() + 3_600_000) * 1_000_000n)
    await clock.advance(5000)
    await held(cache, '/a')
    for (let i = 1; i <= 3; i++) {
      const reads = fs.count('read')
      clock.jump(20_000)
      await use(cache, '/a')
      t.equal(fs.count('read'), reads + 1)
    }
  })
})

t.test('one response, one version', async (t) => {
  engineTest(t, 'P30 current() asks the descriptor, and the lease has its answer', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'aaaa')
    const lease = await opened(cache, '/a')
    t.equal(lease.current(), lease.snapshot, 'the same object, as nothing changed')
    fs.write('/a', 'bbbbbbbb')
    const current = lease.current()
    t.match(current, { size: 8 })
    t.equal(lease.snapshot, current)
    t.equal(await contentOf(lease), 'bbbbbbbb')
    t.equal(cache.lookup('/a'), current, 'the entry has adopted it')
    lease.release()
    t.match(fs.calls, { fstatSync: 2 })
  })

  engineTest(t, 'current() does not make the entry fresher: the path may lead elsewhere', { minUses: 1, valid: 5000 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'aaaa')
    const lease = await opened(cache, '/a')
    await clock.advance(4000)
    fs.write('/a', 'bbbbbbbb')
    await lease.current()
    lease.release()
    await clock.advance(1000)
    t.notOk(cache.lookup('/a'))
  })

  engineTest(t, 'a borrower of the old version goes on with the old version', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'old!')
    const lease = await opened(cache, '/a')
    fs.write('/x', 'newer')
    fs.rename('/x', '/a')
    clock.jump(20_000)
    t.equal(await fetched(cache, '/a'), 'newer')
    t.equal((await lease.current()).size, 4)
    t.equal(await contentOf(lease), 'old!')
    t.equal((cache.lookup('/a') as { size: number }).size, 5, 'and does not touch the entry of the new one')
    lease.release()
    t.equal((await statsOf(cache)).openFiles, 1)
  })

  engineTest(t, 'nor does a borrower from before the file was kept open', { minUses: 2 }, async (t, { cache, clock, fs }) => {
    const old = fs.write('/a', 'old!')
    const lease = await opened(cache, '/a')
    await use(cache, '/a')
    fs.write('/x', 'newer')
    fs.rename('/x', '/a')
    clock.jump(20_000)
    t.equal(await fetched(cache, '/a'), 'newer')
    old.content = Buffer.from('old, edited')
    old.mtimeNs = old.ctimeNs += 1n
    t.equal((await lease.current()).size, 11)
    t.equal((cache.lookup('/a') as { size: number }).size, 5)
    t.equal(await fetched(cache, '/a'), 'newer')
    lease.release()
  })

  engineTest(t, 'held bytes are never asked about', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'aaaa')
    await held(cache, '/a')
    const asked = fs.count('fstatSync') + fs.count('fstat')
    fs.write('/a', 'bbbbbbbb')
    const lease = await opened(cache, '/a')
    t.equal(await lease.current(), lease.snapshot)
    t.equal(lease.snapshot.size, lease.bytes?.length)
    t.equal(fs.count('fstatSync') + fs.count('fstat'), asked)
  })

  engineTest(t, 'a lease whose bytes are known is not asked either', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'aaaa')
    const lease = await opened(cache, '/a')
    await lease.fill()
    fs.write('/a', 'bbbbbbbb')
    t.equal(await lease.current(), lease.snapshot)
    t.equal(lease.snapshot.size, 4)
    t.equal(fs.count('fstatSync'), 0)
    lease.release()
  })

  engineTest(t, 'a descriptor that refers to another file than was opened is an error, and the entry goes', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'aaaa')
    const lease = await opened(cache, '/a')
    const stat = fs.fstatSync.bind(fs)
    for (const change of [{ ino: 999n }, { dev: 999n }]) {
      fs.fstatSync = (fd) => ({ ...stat(fd), ...change })
      t.throws(() => lease.current(), { code: 'EBADF' })
    }
    fs.fstatSync = stat
    t.match(await statsOf(cache), { entries: 0, openFiles: 1 })
    lease.release()
    t.match(await statsOf(cache), { openFiles: 0 })
  })
})

t.test('generations', async (t) => {
  for (const [title, forget] of [
    ['invalidate(path)', (path: string) => path],
    ['invalidate({ under })', () => ({ under: '/' })],
    ['clear()', undefined]
  ] as const) {
    engineTest(t, `after ${title} a request joins only a look that was not issued before it`, { minUses: 1 }, async (t, { cache, fs }) => {
      fs.write('/a', 'old')
      fs.isManual = true
      const before = fetched(cache, '/a')
      await settled()
      fs.pending[0]?.perform()
      fs.write('/x', 'newer')
      fs.rename('/x', '/a')
      if (forget === undefined) cache.clear()
      else cache.invalidate(forget('/a'))
      const after = [fetched(cache, '/a'), fetched(cache, '/a')]
      await settled()
      t.equal(fs.pending.length, 1, 'one is running, one is queued')
      fs.isManual = false
      fs.pending[0]?.deliver()
      t.equal(await before, 'old', 'the old look answers who waits for it')
      t.strictSame(await Promise.all(after), ['newer', 'newer'])
      t.equal(fs.count('open'), 2)
      t.equal(await fetched(cache, '/a'), 'newer')
      t.match(await statsOf(cache), { entries: 1, openFiles: 1 }, 'and was not stored')
    })
  }

  engineTest(t, 'what an old generation finds is not stored: a file, a directory, a negative', { minUses: 1, errors: '1m' }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    fs.mkdir('/d')
    fs.isManual = true
    const answers = ['/a', '/d', '/none'].map((path) => cache.open(path))
    await settled()
    cache.clear()
    fs.isManual = false
    for (const call of [...fs.pending]) call.deliver()
    for (const answer of await Promise.all(answers)) if (!('errno' in answer)) answer.release()
    t.match(await statsOf(cache), { entries: 0, negativeEntries: 0, openFiles: 0 })
  })

  engineTest(t, 'a check that finds nothing changed does not bring back what was forgotten meanwhile', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.write('/a', 'a')
    await use(cache, '/a')
    clock.jump(20_000)
    fs.isManual = true
    const answer = fetched(cache, '/a')
    await settled()
    fs.isManual = false
    cache.invalidate('/a')
    await deliver(fs, 'stat')
    t.equal(await answer, 'a', 'who waits is answered')
    t.match(await statsOf(cache), { entries: 0, openFiles: 0 })
  })

  engineTest(t, 'invalidate() reaches a negative look, too', { errors: '1m' }, async (t, { cache, fs }) => {
    fs.isManual = true
    const before = refusal(cache, '/a')
    await settled()
    fs.pending[0]?.perform()
    fs.write('/a', 'there')
    cache.invalidate('/a')
    const after = fetched(cache, '/a')
    fs.isManual = false
    await deliver(fs, 'open')
    t.equal(await before, 'ENOENT')
    t.equal(await after, 'there')
    t.equal(cache.stats().negativeEntries, 0)
  })

  engineTest(t, 'with valid: 0 one runs and one is queued, whoever else joins', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    const always = cache.policy({ valid: 0 })
    fs.write('/a', 'one')
    clock.jump(5000)
    fs.isManual = true
    const first = fetched(cache, '/a', always)
    await settled()
    fs.pending[0]?.perform()
    fs.write('/x', 'two')
    fs.rename('/x', '/a')
    const joins = fetched(cache, '/a')
    const later = Array.from({ length: 10 }, () => fetched(cache, '/a', always))
    fs.isManual = false
    await deliver(fs, 'open')
    t.equal(await first, 'one')
    t.equal(await joins, 'one', 'true within the last valid of this caller')
    t.strictSame(await Promise.all(later), Array(10).fill('two'))
    t.match(fs.calls, { open: 2, stat: 1 })
  })

  engineTest(t, 'a caller joins a look that is younger than its valid, and no older one', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    const strict = cache.policy({ valid: 1000 })
    fs.write('/a', 'one')
    fs.isManual = true
    const first = fetched(cache, '/a')
    await settled()
    fs.pending[0]?.perform()
    await clock.advance(999)
    const joins = fetched(cache, '/a', strict)
    fs.write('/x', 'two')
    fs.rename('/x', '/a')
    await clock.advance(1)
    const waits = fetched(cache, '/a', strict)
    fs.isManual = false
    await deliver(fs, 'open')
    t.strictSame(await Promise.all([first, joins, waits]), ['one', 'one', 'two'])
  })

  engineTest(t, 'an old look that fails does not fail who came after the invalidation', { minUses: 1 }, async (t, { cache, fs }) => {
    fs.write('/a', 'a')
    fs.isManual = true
    fs.fail('open', 'EIO')
    const before = codeOf(cache.open('/a'))
    await settled()
    fs.pending[0]?.perform()
    cache.invalidate('/a')
    const after = fetched(cache, '/a')
    fs.isManual = false
    await deliver(fs, 'open')
    t.equal(await before, 'EIO')
    t.equal(await after, 'a')
  })
})

t.test('network file systems', async (t) => {
  engineTest(t, 'current() is a promise, so that a slow fstat stalls nobody', { minUses: 1, valid: '5s' }, async (t, { cache, fs }) => {
    fs.remote = true
    fs.write('/a', 'aaaa')
    const lease = await opened(cache, '/a')
    const same = lease.current()
    t.type(same, Promise)
    t.equal(await same, lease.snapshot)
    fs.write('/a', 'bbbbbbbb')
    t.match(await lease.current(), { size: 8 })
    t.equal(lease.snapshot.size, 8)
    t.match(cache.lookup('/a'), { size: 8 })
    t.equal(fs.count('fstatSync'), 0)
    lease.release()
  })

  engineTest(t, 'concurrent calls that see one new version have one snapshot', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.remote = true
    fs.write('/a', 'aaaa')
    const lease = await opened(cache, '/a')
    clock.jump(1)
    fs.write('/a', 'bbbbbbbb')
    const [one, two] = await Promise.all([lease.current(), lease.current()])
    t.equal(one.size, 8)
    t.equal(one, two)
    t.equal(cache.lookup('/a'), one)
    lease.release()
  })

  engineTest(t, 'an answer that was overtaken by a newer one is told to who asked, and to nobody else', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.remote = true
    fs.write('/a', 'aaaa')
    const slow = await opened(cache, '/a')
    const quick = await opened(cache, '/a')
    fs.isManual = true
    const first = slow.current()
    fs.pending[0]?.perform()
    clock.jump(1)
    fs.write('/a', 'bbbbbbbb')
    clock.jump(1)
    const second = quick.current()
    fs.pending[1]?.perform()
    clock.jump(1)
    const third = quick.current()
    fs.write('/a', 'cc')
    for (const call of [...fs.pending].reverse()) call.deliver()
    fs.isManual = false
    t.strictSame((await Promise.all([first, second, third])).map(({ size }) => size), [4, 8, 2])
    t.match(cache.lookup('/a'), { size: 2 })
    slow.release()
    quick.release()
  })

  engineTest(t, 'a slow current() does not come between bytes and the snapshot that they were read with', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.remote = true
    fs.write('/a', 'aaaa')
    const lease = await opened(cache, '/a')
    fs.isManual = true
    const current = lease.current()
    fs.pending[0]?.perform()
    clock.jump(1)
    fs.write('/a', 'bbbbbbbb')
    const fill = lease.fill()
    await settled()
    const slow = fs.pending.shift()
    fs.isManual = false
    for (const call of [...fs.pending]) call.deliver()
    await fill
    t.equal(lease.bytes?.toString(), 'bbbbbbbb')
    slow?.deliver()
    t.match(await current, { size: 8 })
    t.equal(lease.snapshot.size, 8)
    lease.release()
  })

  engineTest(t, 'a lease that is released during current() is closed after it', {}, async (t, { cache, fs }) => {
    fs.remote = true
    fs.write('/a', 'aaaa')
    const lease = await opened(cache, '/a')
    fs.isManual = true
    const current = lease.current()
    lease.release()
    t.strictSame(fs.pending.map(({ name }) => name), ['fstat'])
    fs.isManual = false
    await deliver(fs, 'fstat')
    t.match(await current, { size: 4 })
    t.equal((await statsOf(cache)).openFiles, 0)
  })

  engineTest(t, 'each device is asked once', {}, async (t, { cache, fs }) => {
    fs.mkdir('/mnt', 2n)
    for (const path of ['/a', '/b', '/c', '/mnt/a', '/mnt/b']) fs.write(path, path)
    await Promise.all(['/a', '/b'].map((path) => use(cache, path)))
    await Promise.all(['/a', '/b', '/c', '/mnt/a', '/mnt/b'].map((path) => use(cache, path)))
    t.equal(fs.count('isRemote'), 2)
  })

  engineTest(t, 'P15 ESTALE of a check: the entry is replaced by one open', { minUses: 1 }, async (t, { cache, clock, fs }) => {
    fs.remote = true
    fs.write('/a', 'aaaa')
    await use(cache, '/a')
    clock.jump(20_000)
    fs.fail('stat', 'ESTALE')
    t.equal(await fetched(cache, '/a'), 'aaaa')
    t.match(await statsOf(cache), { entries: 1, openFiles: 1, opens: 2, closes: 1 })
  })

  for (const call of ['open', 'fstat'] as const) {
    engineTest(t, `P15 ESTALE of ${call}: opened once more, then an error, never "not there"`, { errors: '1m' }, async (t, { cache, fs }) => {
      fs.write('/a', 'aaaa')
      fs.fail(call, 'ESTALE', 1)
      t.equal(await fetched(cache, '/a'), 'aaaa')
      t.equal(fs.count('open'), 2)
      cache.clear()
      fs.fail(call, 'ESTALE', 2)
      t.equal(await codeOf(cache.open('/a')), 'ESTALE')
      t.equal(fs.count('open'), 4)
      t.match(await statsOf(cache), { negativeEntries: 0, openFiles: 0 })
      t.equal(await fetched(cache, '/a'), 'aaaa')
    })
  }

  for (const remote of [false, true]) {
    engineTest(t, `P15 ESTALE of current(): the entry is dropped and the next open is a new one (${remote ? 'network' : 'local'})`, { minUses: 1 }, async (t, { cache, fs }) => {
      fs.remote = remote
      fs.write('/a', 'aaaa')
      const lease = await opened(cache, '/a')
      const other = await opened(cache, '/a')
      fs.fail(remote ? 'fstat' : 'fstatSync', 'ESTALE')
      t.equal(await codeOf((async () => lease.current())()), 'ESTALE')
      t.match(await statsOf(cache), { entries: 0, negativeEntries: 0 })
      t.equal(await fetched(cache, '/a'), 'aaaa')
      t.equal(fs.count('open'), 2)
      lease.release()
      other.release()
      t.equal((await statsOf(cache)).openFiles, 1)
    })
  }

  for (const code of ['ESTALE', 'EIO']) {
    engineTest(t, `P15 ${code} of a read: the entry is dropped and the next open is a new one`, { minUses: 1 }, async (t, { cache, fs }) => {
      fs.write('/a', 'aaaa')
      const lease = await opened(cache, '/a')
      fs.fail('read', code)
      t.equal(await codeOf(readAt(lease, 4, 0)), code)
      lease.release()
      t.match(await statsOf(cache), { entries: 0, negativeEntries: 0, openFiles: 0 })
      t.equal(await fetched(cache, '/a'), 'aaaa')
      t.equal(fs.count('open'), 2)
    })
  }
})
