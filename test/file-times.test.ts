import { statSync } from 'node:fs'
import t from 'tap'
import { toMilliseconds } from '../lib/file-times'

t.test('nanoseconds become the milliseconds that fs.Stats has', async (t) => {
  const stat = statSync(__filename)
  const exact = statSync(__filename, { bigint: true })
  t.equal(toMilliseconds(exact.mtimeNs), stat.mtimeMs)
  t.equal(toMilliseconds(exact.ctimeNs), stat.ctimeMs)
})

t.test('seconds and nanoseconds go through doubles of their own', async (t) => {
  for (const [ns, ms] of [
    [0n, 0],
    [1n, 1e-6],
    [1_500_000n, 1.5],
    [1_700_000_000_123_456_789n, 1_700_000_000_123.4568],
    [1_700_000_000_999_999_999n, 1_700_000_001_000],
    [-1_500_000_000n, -1500]
  ] as const) t.equal(toMilliseconds(ns), ms)
})
