import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { systemClock } from '../lib/clock'
import type { Test } from 'tap'

const run = promisify(execFile)

/** Runs a program with the module as it is here, and says how long it took to exit by itself. */
async function exit (t: Test, program: string): Promise<{ stdout: string, ms: number }> {
  const dir = t.testdir({ 'program.ts': program.replaceAll('LIB', join(__dirname, '..', 'lib')) })
  const { stdout } = await run(process.execPath, [...process.execArgv, `${dir}/program.ts`], { timeout: 30_000 })
  const [printed, ms] = stdout.trim().split(' ')
  return { stdout: printed ?? '', ms: Number(ms) }
}

t.test('now() is monotonic, wall() is the time of day', async (t) => {
  const before = systemClock.now()
  t.ok(systemClock.now() >= before)
  t.ok(Math.abs(systemClock.wall() - Date.now()) < 1000)
  t.ok(systemClock.wall() > Date.UTC(2024, 0))
})

t.test('after() calls once, and not when it is cancelled', async (t) => {
  let calls = 0
  const keepAlive = setInterval(() => {}, 1000)
  const cancel = systemClock.after(0, () => { calls += 10 })
  cancel()
  cancel()
  await new Promise<void>((resolve) => {
    systemClock.after(0, () => {
      calls++
      resolve()
    })
  })
  clearInterval(keepAlive)
  t.equal(calls, 1)
})

t.test('P48 a pending timer does not keep the process alive', async (t) => {
  const { stdout, ms } = await exit(t, `
    import { systemClock } from 'LIB/clock'
    systemClock.after(3_600_000, () => {})
    process.on('exit', () => console.log('exit', performance.now()))
  `)
  t.equal(stdout, 'exit')
  t.ok(ms < 20_000)
})

t.test('P14 P48 nor does a cache with entries, open descriptors and its timer', async (t) => {
  const { stdout, ms } = await exit(t, `
    import { OpenFileCache } from 'LIB/open-file-cache'
    const cache = new OpenFileCache({ minUses: 1, inactive: Infinity, errors: '1h' })
    Promise.all([cache.open(__filename), cache.open('/none')]).then(([lease]) => {
      lease.release()
      cache.lookup(__filename)
      const { entries, openFiles, negativeEntries } = cache.stats()
      process.on('exit', () => console.log([entries, openFiles, negativeEntries].join('/'), performance.now()))
    })
  `)
  t.equal(stdout, '1/1/1')
  t.ok(ms < 20_000)
})
