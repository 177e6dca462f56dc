import { join } from 'node:path'
import t from 'tap'
import type { ModelRun } from './fixtures/model'
import { Thread } from './fixtures/thread'

const environment = (name: string, otherwise: number): number => Number(process.env[name] ?? otherwise)

const OPERATIONS = environment('MODEL_OPS', 2000)
const FIRST_SEED = environment('MODEL_SEED', 1)
const RUNS = environment('MODEL_RUNS', process.env['MODEL_SEED'] === undefined ? 200 : 1)

/** Far more than is needed on an idle machine. */
t.setTimeout(600_000)

/** What a run must have met for its silence to mean something. */
const REACHED = [
  'file', 'directory', 'negative ENOENT', 'negative ENOTDIR', 'negative EACCES', 'negative ELOOP', 'lease open', 'lease held',
  'lease metadata-only', 'filled', 'bytes', 'body', 'current', 'flood', 'rejected EIO', 'rejected ESTALE', 'rejected EMFILE',
  'rejected EAGAIN', 'revalidations by the timer', 'hits', 'misses', 'negativeHits', 'directoryHits', 'revalidations', 'evictions', 'opens'
]

t.test('every answer was true of the disk, and nothing leaks, whatever happens in whatever order', async (t) => {
  t.comment(`MODEL_SEED=${FIRST_SEED} MODEL_RUNS=${RUNS} MODEL_OPS=${OPERATIONS}`)
  const seeds = Array.from({ length: RUNS }, (_, index) => FIRST_SEED + index)
  const threads = Array.from({ length: Math.min(2, RUNS) }, () => new Thread())
  t.teardown(() => Promise.all(threads.map((thread) => thread.end())))
  const runs = (await Promise.all(threads.map((thread, which) => thread.call<ModelRun[]>(
    join(__dirname, 'fixtures', 'model'), 'runModel', seeds.filter((_, index) => index % threads.length === which), OPERATIONS
  )))).flat()
  const reached: Record<string, number> = {}
  for (const run of runs) {
    for (const [what, times] of Object.entries(run.reached)) reached[what] = (reached[what] ?? 0) + times
    if (run.failure !== undefined) t.fail(run.failure)
  }
  t.equal(runs.length, RUNS)
  t.comment(JSON.stringify(reached))
  if (RUNS > 1) for (const what of REACHED) t.ok((reached[what] ?? 0) >= RUNS / 10, `${what}: ${reached[what]}`)
})
