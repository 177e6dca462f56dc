import { join } from 'node:path'
import t from 'tap'
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
