import { join } from 'node:path'
import t from 'tap'
import { engineTest } from './fixtures/engine'
import { SCENES } from './fixtures/scenes'
import { Thread } from './fixtures/thread'
import type { Report } from './fixtures/faults'

// Each scene is played once to see which calls it makes, then again for each of these calls and each way in which it can
// fail. An unhandled rejection ends the thread, and the test with it.

/** Far more than is needed on an idle machine. */
t.setTimeout(600_000)

const threads = [new Thread(), new Thread()]
t.teardown(() => Promise.all(threads.map((thread) => thread.end())))

const CALLS = [
  'close', 'fstat', 'fstatSync', 'isRemote', 'keepsDirectoryTimes', 'names', 'open', 'read', 'readdir', 'realpath', 'realpathOf', 'stat'
]

t.test('whatever call fails', async (t) => {
  const failed = new Set<string>()
  for (const { name } of SCENES) {
    await t.test(name, async (t) => {
      const reports = await Promise.all(threads.map((thread, part) =>
        thread.call<Report>(join(__dirname, 'fixtures', 'faults'), 'playAll', name, part, threads.length)))
      for (const { names } of reports) for (const name of names) failed.add(name)
      t.strictSame(reports.flatMap(({ faults }) => faults), [], `${reports[0]?.runs} plays`)
    })
  }
  t.strictSame([...failed].sort(), CALLS, 'every call of the port has failed')
})

t.test('a failure that may pass is not remembered', async (t) => {
  engineTest(t, 'as a name that a directory does not have', {}, async (t, { cache, clock, fs }) => {
    fs.mkdir('/d')
    fs.write('/d/a', 'a')
    fs.link('/d/l', '/d/a')
    clock.jump(10_000)
    const namesIn = async (policy = cache.policy()): Promise<string[]> => {
      const listed = await cache.list('/d', policy)
      return 'kind' in listed ? [listed.errno] : listed.map(({ name }) => name)
    }
    fs.fail('stat', 'EIO', 1, '/d/a')
    t.strictSame(await namesIn(), ['l'])
    t.strictSame(await namesIn(), ['a', 'l'])
    const policy = cache.policy({ links: { symlinks: 'within-root', root: '/d' } })
    fs.fail('open', 'EMFILE', 1, '/d/l')
    t.strictSame(await namesIn(policy), ['a'])
    t.strictSame(await namesIn(policy), ['a', 'l'])
    const reads = fs.count('readdir')
    await namesIn(policy)
    t.equal(fs.count('readdir'), reads, 'what is whole is kept')
  })

  engineTest(t, 'as a directory that is forbidden', {}, async (t, { cache, fs }) => {
    fs.mkdir('/d')
    fs.chmod('/d', false)
    fs.fail('stat', 'EIO')
    await t.rejects(cache.open('/d'), { code: 'EIO' })
    t.match(await cache.open('/d'), { kind: 'directory' })
    cache.clear()
    fs.fail('stat', 'ENOENT')
    t.match(await cache.open('/d'), { errno: 'EACCES' }, 'a fact is')
  })
})
