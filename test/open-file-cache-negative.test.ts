import t from 'tap'
import { codeOf, deliver, engineTest, fetched, opened, refusal, stateOf, statsOf, use } from './fixtures/engine'
import { settled } from './fixtures/fake-world'

t.test('what is remembered', async (t) => {
  for (const code of ['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM', 'ELOOP']) {
    engineTest(t, `${code} is: the disk is asked once`, { errors: '5s' }, async (t, { cache, fs }) => {
      fs.fail('open', code)
      t.equal(await refusal(cache, '/a'), code)
      t.match(cache.lookup('/a'), { kind: 'negative', errno: code })
      t.equal(await refusal(cache, '/a'), code)
      t.equal(cache.lease('/a'), undefined, 'there is nothing to borrow')
      t.equal(fs.count('open'), 1)
      t.match(await statsOf(cache), { negativeEntries: 1, negativeHits: 2, misses: 1, entries: 0, openFiles: 0 })
    })
  }

  for (const code of ['EMFILE', 'ENFILE', 'ENOMEM', 'EIO', 'EAGAIN', 'ESTALE', 'EBUSY', 'ETIMEDOUT']) {
    engineTest(t, `${code} never is, and never is "not there"`, { errors: '5s' }, async (t, { cache, fs }) => {
      fs.write('/a', 'a')
      for (const call of ['open', 'fstat'] as const) {
        fs.fail(call, code, 2)
        t.equal(await codeOf(cache.open('/a')), code)
        while (await codeOf(use(cache, '/a')) !== undefined);
        cache.clear()
        t.match(await statsOf(cache), { negativeEntries: 0, openFiles: 0 })
      }
      t.equal(await fetched(cache, '/a'), 'a')
    })
  }

  engineTest(t, 'a rejection without an errno is passed on', { errors: '5s' }, async (t, { cache, fs }) => {
    const { open } = fs
    fs.open = async () => { throw undefined } // eslint-disable-line no-throw-literal
    t.equal(await cache.open('/a').then(() => 'resolved', (error) => error), undefined)
    fs.open = open
    t.equal(await refusal(cache, '/a'), 'ENOENT')
  })

  engineTest(t, 'P90 ENAMETOOLONG is an answer, and is not stored', { errors: '5s' }, async (t, { cache, fs }) => {
    fs.fail('open', 'ENAMETOOLONG', 2)
    t.equal(await refusal(cache, '/a'), 'ENAMETOOLONG')
    t.equal(cache.lookup('/a'), undefined)
    t.equal(await refusal(cache, '/a'), 'ENAMETOOLONG')
    t.match(await statsOf(cache), { negativeEntries: 0, negativeHits: 0 })
  })

  engineTest(t, 'special files count as ENOENT', { errors: '5s' }, async (t, { cache, fs }) => {
    fs.special('/fifo')
    t.equal(await refusal(cache, '/fifo'), 'ENOENT')
    t.match(await statsOf(cache), { opens: 1, closes: 1, negativeEntries: 1 })
    for (const code of ['ENXIO', 'ENODEV', 'EOPNOTSUPP']) {
      fs.fail('open', code)
      t.equal(await refusal(cache, `/${code}`), 'ENOENT')
      t.match(cache.lookup(`/${code}`), { errno: 'ENOENT' })
    }
  })
})

t.test('for how long', async (t) => {
  engineTest(t, 'by default one second: a deploy shows within a second', {}, async (t, { cache, clock, fs }) => {
    t.equal(await refusal(cache, '/new.js'), 'ENOENT')
    fs.write('/new.js', 'deployed')
    await clock.advance(999)
    t.equal(await refusal(cache, '/new.js'), 'ENOENT')
    await clock.advance(1)
    t.equal(await fetched(cache, '/new.js'), 'deployed')
    t.match(await statsOf(cache), { negativeEntries: 0, entries: 1 })
  })

  engineTest(t, 'P18 errors: true is for valid, and never longer, even if asked all the time', { errors: true, valid: 5000 }, async (t, { cache, clock, fs }) => {
    t.equal(await refusal(cache, '/new.js'), 'ENOENT')
    fs.write('/new.js', 'deployed')
    let age = 0
    for (; await refusal(cache, '/new.js') === 'ENOENT'; age += 100) await clock.advance(100)
    t.equal(age, 5000)
  })

  engineTest(t, 'P18 P22 errors: false is never: at once there', { errors: false }, async (t, { cache, fs }) => {
    t.equal(await refusal(cache, '/new.js'), 'ENOENT')
    t.equal(cache.lookup('/new.js'), undefined)
    fs.write('/new.js', 'deployed')
    t.equal(await fetched(cache, '/new.js'), 'deployed')
    t.match(await statsOf(cache), { negativeHits: 0 })
  })

  engineTest(t, 'counted from the moment at which the look was issued', { errors: '1s' }, async (t, { cache, clock, fs }) => {
    fs.isManual = true
    const answer = refusal(cache, '/a')
    await settled()
    fs.pending[0]?.perform()
    await clock.advance(900)
    fs.isManual = false
    await deliver(fs, 'open')
    t.equal(await answer, 'ENOENT')
    await clock.advance(99)
    t.ok(cache.lookup('/a'))
    await clock.advance(1)
    t.notOk(cache.lookup('/a'))
  })

  engineTest(t, 'Infinity is until it is invalidated', { errors: Infinity, inactive: Infinity }, async (t, { cache, clock, fs }) => {
    t.equal(await refusal(cache, '/a'), 'ENOENT')
    fs.write('/a', 'a')
    clock.jump(1e12)
    t.equal(await refusal(cache, '/a'), 'ENOENT')
    cache.invalidate('/a')
    t.equal(await fetched(cache, '/a'), 'a')
  })

  engineTest(t, 'a negative entry that is found true again is renewed', { errors: '1s' }, async (t, { cache, clock, fs }) => {
    await refusal(cache, '/a')
    clock.jump(1000)
    fs.fail('open', 'EACCES')
    t.equal(await refusal(cache, '/a'), 'EACCES')
    clock.jump(999)
    t.equal(await refusal(cache, '/a'), 'EACCES')
    t.equal(fs.count('open'), 2)
    t.equal(cache.stats().negativeEntries, 1)
  })

  engineTest(t, 'a failure that may pass tells nothing new of it', { errors: '1s' }, async (t, { cache, clock, fs }) => {
    await refusal(cache, '/a')
    clock.jump(1000)
    fs.fail('open', 'EIO')
    t.equal(await codeOf(cache.open('/a')), 'EIO')
    t.equal(cache.stats().negativeEntries, 1)
    t.equal(cache.lookup('/a'), undefined)
  })
})

t.test('who gets one', async (t) => {
  engineTest(t, 'a caller with errors: false neither stores nor gets one', { errors: '1m' }, async (t, { cache, fs }) => {
    const off = cache.policy({ errors: false })
    t.equal(await refusal(cache, '/a', off), 'ENOENT')
    t.match(await statsOf(cache), { negativeEntries: 0 })
    t.equal(await refusal(cache, '/a'), 'ENOENT')
    t.match(await statsOf(cache), { negativeEntries: 1 })
    t.equal(cache.lookup('/a', off), undefined)
    t.ok(cache.lookup('/a'))
    fs.write('/a', 'a')
    t.equal(await fetched(cache, '/a', off), 'a')
    t.equal(await fetched(cache, '/a'), 'a', 'what it found is good for all')
    t.match(await statsOf(cache), { negativeEntries: 0, entries: 1 })
  })

  engineTest(t, 'when it finds the path still missing, what the others remember goes', { errors: '1m' }, async (t, { cache, fs }) => {
    t.equal(await refusal(cache, '/a'), 'ENOENT')
    fs.fail('open', 'EACCES')
    t.equal(await refusal(cache, '/a', cache.policy({ errors: false })), 'EACCES')
    t.equal(cache.lookup('/a'), undefined)
    t.equal(cache.stats().negativeEntries, 0)
  })

  engineTest(t, 'each caller has an errors of its own', { errors: '1m' }, async (t, { cache, clock, fs }) => {
    const strict = cache.policy({ errors: '2s' })
    t.equal(await refusal(cache, '/a', strict), 'ENOENT')
    fs.write('/a', 'a')
    clock.jump(2000)
    t.equal(await refusal(cache, '/a'), 'ENOENT')
    t.equal(await fetched(cache, '/a', strict), 'a')
  })

  engineTest(t, 'a caller joins a look; if it says "not there" and is older than errors, it looks again', { errors: '1m' }, async (t, { cache, clock, fs }) => {
    const off = cache.policy({ errors: false })
    const second = cache.policy({ errors: '1s' })
    fs.isManual = true
    const first = refusal(cache, '/a')
    await settled()
    fs.pending[0]?.perform()
    await clock.advance(999)
    const young = refusal(cache, '/a', second)
    const waits = fetched(cache, '/a', off)
    await clock.advance(1)
    const old = fetched(cache, '/a', second)
    fs.write('/a', 'a')
    fs.isManual = false
    await deliver(fs, 'open')
    t.strictSame(await Promise.all([first, young, waits, old]), ['ENOENT', 'ENOENT', 'a', 'a'])
    t.equal(fs.count('open'), 2)
  })

  engineTest(t, 'P26 a hundred at once who remember nothing are at most two looks', { errors: false }, async (t, { cache, fs }) => {
    const answers = await Promise.all(Array.from({ length: 100 }, () => refusal(cache, '/a')))
    t.strictSame(new Set(answers), new Set(['ENOENT']))
    t.ok(fs.count('open') <= 2, 'one running, one queued')
  })

  engineTest(t, 'what one of several wants to remember is remembered', { errors: '1m' }, async (t, { cache }) => {
    const off = cache.policy({ errors: false })
    t.strictSame(await Promise.all([refusal(cache, '/a', off), refusal(cache, '/a')]), ['ENOENT', 'ENOENT'])
    t.ok(cache.lookup('/a'))
    t.notOk(cache.lookup('/a', off))
  })
})

t.test('the budget', async (t) => {
  engineTest(t, 'a flood of missing names evicts no file', { max: 3, maxNegative: 5, minUses: 1, errors: '1m' }, async (t, { cache, fs }) => {
    for (const path of ['/a', '/b', '/c']) {
      fs.write(path, path)
      await use(cache, path)
    }
    for (let i = 0; i < 1000; i++) await refusal(cache, `/none/${i}`)
    t.match(await statsOf(cache), { entries: 3, openFiles: 3, negativeEntries: 5, evictions: 0, closes: 0 })
    for (const path of ['/a', '/b', '/c']) t.equal(stateOf(cache, path), 'open')
  })

  engineTest(t, 'the least recently used negative entry goes first', { maxNegative: 3, errors: '1m' }, async (t, { cache }) => {
    for (const path of ['/1', '/2', '/3']) await refusal(cache, path)
    cache.lookup('/1')
    await refusal(cache, '/4')
    t.strictSame(['/1', '/2', '/3', '/4'].map((path) => cache.lookup(path) !== undefined), [true, false, true, true])
  })

  engineTest(t, 'and files evict no negative entry', { max: 1, errors: '1m' }, async (t, { cache, fs }) => {
    await refusal(cache, '/none')
    for (let i = 0; i < 10; i++) {
      fs.write(`/${i}`, 'x')
      await use(cache, `/${i}`)
    }
    t.ok(cache.lookup('/none'))
  })

  engineTest(t, 'their names are at most 4 MiB of text', { errors: '1m', maxNegative: 1_000_000 }, async (t, { cache }) => {
    const name = (i: number): string => `/${'n'.repeat(4000)}${String(i).padStart(95, '0')}`
    for (let i = 0; i < 1100; i++) await refusal(cache, name(i))
    t.equal(name(0).length, 4096)
    t.equal(cache.stats().negativeEntries, 1024)
    t.notOk(cache.lookup(name(75)), 'the least recently used went')
    t.ok(cache.lookup(name(76)))
  })

  engineTest(t, 'a name that is there by now costs no negative budget', { errors: '1s', minUses: 1 }, async (t, { cache, clock, fs }) => {
    await refusal(cache, '/a')
    fs.mkdir('/a')
    clock.jump(1000)
    t.equal((await opened(cache, '/a')).snapshot.kind, 'directory')
    t.match(await statsOf(cache), { negativeEntries: 0, entries: 1 })
  })
})
