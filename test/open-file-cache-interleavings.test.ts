import { join } from 'node:path'
import t from 'tap'
import { selections } from './fixtures/every-way'
import { inWorker } from './fixtures/in-worker'
import { EVENTS, type Event, type Setting } from './fixtures/walk'

t.test('probe', async (t) => {
  const settings = JSON.parse(process.env['SETTINGS'] ?? '[{}]') as Setting[]
  const size = Number(process.env['SIZE'] ?? 2)
  const sets = process.env['EVENTS'] === undefined ? selections(EVENTS, size) : [process.env['EVENTS'].split(' ') as Event[]]
  for (const setting of settings) {
    let total = 0
    const begin = Date.now()
    for (const events of process.env['EACH'] ? sets.map((set) => [set]) : [sets]) {
      const start = Date.now()
      const ways = await inWorker<number>(join(__dirname, 'fixtures', 'walk'), 'walk', setting, events)
      total += ways
      if (process.env['EACH']) t.comment(`${events.join(' ')}: ${ways} ways ${Date.now() - start} ms`)
    }
    t.pass(`${JSON.stringify(setting)} ${size}: ${total} ways ${Date.now() - begin} ms`)
  }
})
