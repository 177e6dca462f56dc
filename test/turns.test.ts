import t from 'tap'
import { Turns } from '../lib/turns'
import { collected } from './fixtures/engine'
import { settled } from './fixtures/fake-world'

t.test('as many as there are turns go on at once', async (t) => {
  const turns = new Turns(2)
  t.strictSame([turns.take(), turns.take(), turns.take()], [true, true, false])
  turns.done()
  t.notOk(turns.take(), 'not in the same turn of the event loop')
  await settled()
  t.strictSame([turns.take(), turns.take()], [true, false])
})

t.test('the others when one is over, in the order in which they came', async (t) => {
  const turns = new Turns(2)
  turns.take()
  turns.take()
  const called: number[] = []
  for (let i = 0; i < 5; i++) turns.wait(() => { called.push(i) })
  t.strictSame(called, [])
  turns.done()
  t.strictSame(called, [], 'not in the same turn of the event loop')
  await settled()
  t.strictSame(called, [0])
  t.notOk(turns.take(), 'who comes later waits behind them')
  turns.done()
  turns.done()
  await settled()
  t.strictSame(called, [0, 1, 2])
  for (let i = 0; i < 4; i++) turns.done()
  await settled()
  t.strictSame(called, [0, 1, 2, 3, 4])
  t.strictSame([turns.take(), turns.take(), turns.take()], [true, true, false])
})

t.test('thousands wait for one turn: each is called back once, without a deeper stack', async (t) => {
  const turns = new Turns(1)
  turns.take()
  let called = 0
  const COUNT = 20_000
  await new Promise<void>((resolve) => {
    for (let i = 0; i < COUNT; i++) {
      turns.wait(() => {
        if (called++ !== i) t.fail(`the turn of ${i} was that of ${called - 1}`)
        turns.done()
        if (called === COUNT) resolve()
      })
    }
    turns.done()
  })
  await settled()
  t.equal(called, COUNT)
  t.ok(turns.take())
})

t.test('what had its turn is not kept for those who wait', async (t) => {
  const turns = new Turns(1)
  turns.take()
  const kept = (() => {
    const large = { bytes: Buffer.alloc(1) }
    turns.wait(() => { large.bytes.fill(1) })
    return new WeakRef(large)
  })()
  turns.wait(() => {})
  turns.done()
  await collected()
  t.equal(kept.deref(), undefined)
})

t.test('as many as there are threads in the pool, sixteen at least', async (t) => {
  const turnsOf = (size: string | undefined): number => {
    const turns = Turns.forThreads({ UV_THREADPOOL_SIZE: size })
    let taken = 0
    while (turns.take()) taken++
    return taken
  }
  t.strictSame([undefined, '', 'many', '4', '16', '64'].map(turnsOf), [16, 16, 16, 16, 16, 64])
})

t.test('they are passed on when tests have put timers of their own in the place of the real ones', async (t) => {
  const turns = new Turns(1)
  turns.take()
  const called = new Promise<void>((resolve) => turns.wait(resolve))
  const restored = t.intercept(globalThis, 'setImmediate', { value: () => {} })
  turns.done()
  await called
  restored.restore()
})
