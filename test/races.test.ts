import { join } from 'node:path'
import t from 'tap'
import { fakeWorld, settled } from './fixtures/fake-world'
import { RACES, type RaceReport } from './fixtures/races'
import { Thread } from './fixtures/thread'

// A request waits for one of its calls, whichever; meanwhile one or two other things happen, and what they ask of the
// file system is answered before or after.

/** Far more than is needed on an idle machine. */
t.setTimeout(600_000)

const threads = [new Thread(), new Thread()]
t.teardown(() => Promise.all(threads.map((thread) => thread.end())))

t.test('whatever happens while a request waits', async (t) => {
  for (const { name } of RACES) {
    await t.test(name, async (t) => {
      const reports = await Promise.all(threads.map((thread, part) =>
        thread.call<RaceReport>(join(__dirname, 'fixtures', 'races'), 'raceAll', name, part, threads.length)))
      t.strictSame(reports.flatMap(({ faults }) => faults), [], `${reports[0]?.runs} plays`)
    })
  }
})

t.test('the fake file system tells of every use of a descriptor that is closed', async (t) => {
  const { fileSystem: fs } = fakeWorld()
  fs.write('/a', 'a')
  fs.reusesDescriptors = false
  const uses: Array<[name: string, use: (fd: number) => unknown]> = [
    ['close', (fd) => fs.close(fd)],
    ['fstat', (fd) => fs.fstat(fd).catch(() => {})],
    ['fstatSync', (fd) => t.throws(() => fs.fstatSync(fd), { code: 'EBADF' })],
    ['read', (fd) => fs.read(fd, Buffer.alloc(1), 0, 1, 0, (error) => t.match(error, { code: 'EBADF' }))],
    ['realpathOf', (fd) => fs.realpathOf(fd, '/a').catch(() => {})]
  ]
  for (const [name, use] of uses) {
    const fd = await fs.open('/a')
    await fs.close(fd)
    await fs.open('/a')
    t.strictSame(fs.violations.splice(0), [])
    use(fd)
    await settled()
    t.match(fs.violations.splice(0)[0], new RegExp(`^${name} of descriptor ${fd}, which is not open`))
  }
  const fd = await fs.open('/a')
  fs.fstat(fd)
  fs.close(fd)
  t.match(fs.violations.splice(0), [/^close of descriptor .* while 1 calls on it are under way/])
  fs.read(fd, Buffer.alloc(1), 0, 1, 0, () => {})
  t.match(fs.violations.splice(0), [/^read of descriptor .*, which is being closed/])
})
