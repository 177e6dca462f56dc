import { join } from 'node:path'
import t, { type Test } from 'tap'
import { selections } from './fixtures/every-way'
import { Thread } from './fixtures/thread'
import { EVENTS, type Event, type Setting } from './fixtures/walk'

// One lease of a path was taken before, another is asked for; both are released at any point. So are answered, at any
// point, all calls to the file system. What else happens is in the name of the test.

/** Far more than is needed on an idle machine. */
t.setTimeout(600_000)

const threads = [new Thread(), new Thread()]
t.teardown(() => Promise.all(threads.map((thread) => thread.end())))

async function everyOrder (t: Test, setting: Setting, sets: ReadonlyArray<readonly Event[]>): Promise<void> {
  const ways = await Promise.all(threads.map((thread, which) => thread.call<number>(
    join(__dirname, 'fixtures', 'walk'), 'walk', setting, sets.filter((_, index) => index % threads.length === which)
  )))
  t.pass(`${ways.reduce((sum, some) => sum + some)} ways`)
}

const SETTINGS: Array<[name: string, setting: Setting]> = [
  ['a stale path is looked at again', {}],
  ['a stale path is looked at again, and the calls take effect early', { eager: true }],
  ['a stale path is looked at again, which was replaced', { replaced: true }],
  ['a forgotten path is opened', { forgotten: true }],
  ['a path whose bytes are held is looked at again', { held: true }],
  ['a path whose descriptor is not kept is opened', { minUses: 3 }]
]

t.test('with at most one other event, and closes answered at any point', async (t) => {
  for (const [name, setting] of SETTINGS) {
    await t.test(name, (t) => everyOrder(t, setting, [[], ...selections(EVENTS, 1)]))
  }
})

t.test('with two other events, and closes answered at once', async (t) => {
  for (const [name, setting] of SETTINGS) {
    // The others have hundreds of thousands of ways.
    if (setting.replaced ?? setting.minUses) continue
    await t.test(name, (t) => everyOrder(t, { ...setting, closes: 'first' }, selections(EVENTS, 2)))
  }
})

t.test('with two other events, and closes answered last', (t) =>
  everyOrder(t, { closes: 'last' }, selections(EVENTS, 2)))

t.test('with a fill that is left alone while the path is evicted, forgotten and closed', (t) =>
  everyOrder(t, { closes: 'first' }, [
    ['fill', 'invalidate', 'close'], ['fill', 'clear', 'close'], ['evict', 'invalidate', 'close'], ['evict', 'tick', 'invalidate']
  ]))
