// npm run soak -- [minutes] [--out file]: a server, a writer that changes its files all the time, clients, and a check of
// every answer. README.md says what it shows.
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Checker } from './lib/checker.mjs'
import { Clients } from './lib/clients.mjs'
import { now, sleep } from './lib/clock.mjs'
import { History } from './lib/history.mjs'
import { Child, openBelow } from './lib/processes.mjs'
import { randomFrom } from './lib/random.mjs'
import { slope, table } from './lib/report.mjs'
import { INACTIVE } from './lib/site.mjs'

const { positionals: [minutes = '1'], values: { out } } = parseArgs({ allowPositionals: true, options: { out: { type: 'string' } } })
const seconds = Number(minutes) * 60
if (!(seconds > 0)) throw new Error(`minutes must be a number above 0, but are ${minutes}`)
const seed = Number(process.env.SOAK_SEED ?? Math.floor(Math.random() * 2 ** 32))

const SAMPLE = Math.min(2000, seconds * 50)
const PROGRESS = 10_000
/** Seconds from which on memory is judged: less is all start. */
const MEMORABLE = 60
/** MiB by which memory may seem to grow over the second half: it is never quite still. */
const MOST_GROWTH = { heap: 10, external: 20, rss: 60 }

const MIB = 1024 * 1024

const root = realpathSync(mkdtempSync(join(tmpdir(), 'fastify-cached-static-soak-')))
const history = new History()
const checker = new Checker(history)
const failures = []
let written = { changes: 0, versions: 0 }
let end
const ended = new Promise((resolve) => { end = resolve })
const failed = (error) => {
  failures.push(error.message)
  end()
}

console.error(`seed ${seed}, ${seconds} s`)
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => end())

const writer = new Child('writer.mjs', [root, String(seed)])
writer.onEnd = failed
await new Promise((resolve, reject) => {
  writer.onEnd = reject
  writer.onMessage = ({ events, until, changes, versions, isReady, failure }) => {
    if (failure !== undefined) console.error(failure)
    if (isReady) resolve()
    if (events === undefined) return
    history.add(events, until)
    written = { changes, versions }
    checker.judgeWaiting()
    history.prune()
  }
})
writer.onEnd = failed

const server = new Child('server.mjs', [root], ['--expose-gc'])
const ports = await new Promise((resolve, reject) => {
  server.onEnd = reject
  server.onMessage = ({ ports }) => resolve(ports)
})
server.onEnd = failed

const clients = new Clients(ports, randomFrom(seed ^ 0x5bd1e995), (answer) => checker.add(answer))
const startedAt = now()
const samples = []
let last
let stalled = 0

function sampled (sample) {
  last = sample
  stalled = Math.max(stalled, sample.stalled)
  samples.push({ at: now() - startedAt, ...sample })
}

function progress () {
  const { counts, inFlight } = clients
  const { stats, rss, heapUsed } = last
  console.error([
    `${((now() - startedAt) / 1000).toFixed(0)} s`,
    `${counts.sent} requests (${inFlight} under way, ${checker.waiting} to be judged)`,
    `${written.changes} changes`,
    `age ≤ ${checker.ages.max.toFixed(0)} ms`,
    `${counts.reset} resets`,
    `${stats.openFiles} open, ${stats.leases} leases, ${stats.evictions} evictions`,
    `heap ${(heapUsed / MIB).toFixed(0)}, RSS ${(rss / MIB).toFixed(0)} MiB`,
    `${[...checker.failures.values()].reduce((sum, { count }) => sum + count, 0) + failures.length} failures`
  ].join(', '))
}

const sampling = setInterval(() => server.call('sample').then(sampled).catch(failed), SAMPLE)
const telling = setInterval(() => { if (last !== undefined) progress() }, PROGRESS)
writer.send('start')
clients.start()
await Promise.race([ended, sleep(seconds * 1000)])
const took = (now() - startedAt) / 1000

clearInterval(sampling)
clearInterval(telling)
const leaks = {}
try {
  if (failures.length === 0) await quiesce()
} catch (error) {
  failed(error)
}
writer.stop()
server.stop()

/** All answers are over: nothing may be borrowed, and what is open is what the cache knows of. */
async function quiesce () {
  await clients.stop()
  writer.send('stop')
  // All that the writer has done must be known.
  const lastAnswer = now()
  while (history.until <= lastAnswer && failures.length === 0) await sleep(20)
  checker.judgeWaiting()
  await server.call('quiet')
  // What the timer of the cache is looking at just now is open too.
  for (let tries = 0; tries < 20; tries++) {
    const { stats } = await server.call('sample')
    leaks.leases = stats.leases
    leaks.openFiles = stats.openFiles
    leaks.descriptors = openBelow(root, server.pid)
    if (stats.leases === 0 && (leaks.descriptors ?? stats.openFiles) === stats.openFiles) break
    await sleep(50)
  }
  for (const from = now(); now() - from < INACTIVE + 3000;) {
    const { stats } = await server.call('sample')
    leaks.idleOpenFiles = stats.openFiles
    leaks.idleDescriptors = openBelow(root, server.pid)
    if (stats.openFiles === 0) break
    await sleep(200)
  }
  const { stats } = await server.call('close')
  leaks.closedDescriptors = openBelow(root, server.pid)
  leaks.opens = stats.opens
  leaks.closes = stats.closes
  if (leaks.leases !== 0) failures.push(`${leaks.leases} leases were not released`)
  if ((leaks.descriptors ?? leaks.openFiles) !== leaks.openFiles) failures.push(`${leaks.descriptors} descriptors are open, the cache knows of ${leaks.openFiles}`)
  if (leaks.idleOpenFiles !== 0 || (leaks.idleDescriptors ?? 0) !== 0) failures.push('descriptors stayed open after "inactive"')
  if ((leaks.closedDescriptors ?? 0) !== 0 || leaks.opens !== leaks.closes) failures.push('descriptors stayed open after close')
}

function memoryOf (key) {
  const half = samples.filter(({ at }) => at >= took * 500).map((sample) => [sample.at / 60_000, sample[key]])
  return { ...slope(half), from: (half[0]?.[1] ?? 0) / MIB, to: (half.at(-1)?.[1] ?? 0) / MIB }
}

const agesOf = (ages) => ({ max: ages.max, p99: ages.percentile(0.99), old: ages.old, total: ages.total })
const memory = { heap: memoryOf('heapUsed'), external: memoryOf('external'), rss: memoryOf('rss') }
for (const [name, { growth }] of Object.entries(memory)) {
  if (seconds >= MEMORABLE && growth > MOST_GROWTH[name]) failures.push(`${name} grew by ${growth.toFixed(1)} MiB`)
}
if (checker.waiting > 0) failures.push(`${checker.waiting} answers could not be judged`)
for (const message of failures) checker.fail(message)

const report = {
  passed: checker.failures.size === 0,
  seed,
  seconds: took,
  node: process.version,
  requests: { ...clients.counts, byKind: clients.byKind, byStatus: clients.byStatus },
  ...written,
  checked: checker.checked,
  ages: agesOf(checker.ages),
  absences: agesOf(checker.absences),
  midWrite: checker.midWrite,
  explainedResets: checker.explainedResets,
  explainedErrors: checker.explainedErrors,
  explained: checker.explained,
  failures: Object.fromEntries(checker.failures),
  leaks,
  memory,
  stalled,
  stats: last?.stats ?? {}
}
console.log(table(report))
if (out !== undefined) writeFileSync(out, JSON.stringify({ ...report, samples }, undefined, 1) + '\n')
rmSync(root, { recursive: true, force: true, maxRetries: 3 })
process.exit(report.passed ? 0 : 1)
