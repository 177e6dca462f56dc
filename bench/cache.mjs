// npm run bench:cache: the engine alone. Nanoseconds and bytes of heap per operation; needs --expose-gc.
// Each size is measured in processes of its own, in turn with the others: code that has seen other caches is slower code.
import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { median } from './lib/report.mjs'

const { OpenFileCache } = createRequire(import.meta.url)('../dist/open-file-cache.js')

const ROUNDS = 7
const PROCESSES = 3
const CALLS = 500_000
const root = mkdtempSync(join(tmpdir(), 'fastify-cached-static-cache-'))
const SIZES = [10, 1000, 100_000]
const EVER = { valid: Infinity, errors: Infinity, inactive: Infinity, max: 200_000, maxNegative: 200_000, spelledBelow: root }

function pathsOf (count) {
  const paths = []
  for (let i = 0; i < count; i++) {
    const directory = join(root, String(i >> 10))
    if (i % 1024 === 0) mkdirSync(directory, { recursive: true })
    paths.push(join(directory, `${i}.txt`))
  }
  return paths
}

/** Nanoseconds and bytes a call, in random order. */
function measured (operation, inputs) {
  const order = Uint32Array.from({ length: CALLS }, () => Math.floor(Math.random() * inputs.length))
  for (let i = 0; i < CALLS; i++) operation(inputs[order[i]])
  const runs = []
  for (let round = 0; round < ROUNDS; round++) {
    globalThis.gc()
    const heap = process.memoryUsage().heapUsed
    const started = performance.now()
    for (let i = 0; i < CALLS; i++) operation(inputs[order[i]])
    const ns = (performance.now() - started) * 1e6 / CALLS
    runs.push({ ns, bytes: Math.max(0, process.memoryUsage().heapUsed - heap) / CALLS })
  }
  return { ns: median(runs.map(({ ns }) => ns)), bytes: median(runs.map(({ bytes }) => bytes)) }
}

async function measuredAsync (operation, inputs) {
  const runs = []
  for (let round = 0; round < ROUNDS; round++) {
    const started = performance.now()
    for (const input of inputs) await operation(input)
    runs.push((performance.now() - started) * 1e6 / inputs.length)
  }
  return { ns: median(runs), bytes: undefined }
}

/** What checks in the background cost while `count` entries are hot, and how long a tick of the timer blocks. */
async function checked (count, seconds) {
  const paths = pathsOf(count)
  for (const path of paths) writeFileSync(path, 'x')
  const ticks = []
  const clock = {
    now: () => performance.now(),
    wall: () => Date.now(),
    after (delay, callback) {
      const timer = setTimeout(() => {
        const started = performance.now()
        callback()
        ticks.push(performance.now() - started)
      }, delay).unref()
      return () => clearTimeout(timer)
    }
  }
  const cache = new OpenFileCache({ minUses: 1 }, { clock })
  for (const path of paths) (await cache.open(path)).release()
  const use = () => { for (const path of paths) cache.lookup(path) }
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
  const usedIn = async (work) => {
    const before = process.cpuUsage()
    await work()
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1000
  }
  const uses = await usedIn(() => { for (let i = 0; i < seconds; i++) use() })
  const { revalidations } = cache.stats()
  const all = await usedIn(async () => {
    for (let i = 0; i < seconds; i++) {
      use()
      await wait(1000)
    }
  })
  const checks = cache.stats().revalidations - revalidations
  await cache.close()
  ticks.sort((a, b) => a - b)
  return { checks, share: (all - uses) / (seconds * 1000), longest: ticks.at(-1), p999: ticks[Math.floor(ticks.length * 0.999)] }
}

/** A cache of `size` files, ten of them hot, and one of as many missing paths. */
async function measuredSize (size) {
  const paths = pathsOf(size)
  for (const path of paths) writeFileSync(path, 'x'.repeat(512))
  const isHot = (_, i) => i % (size / 10) === 0
  const hot = paths.filter(isHot)
  const used = () => {
    globalThis.gc()
    return process.memoryUsage().heapUsed
  }
  const cache = new OpenFileCache({ ...EVER, minUses: 1 })
  const before = used()
  for (const path of paths) {
    const lease = await cache.open(path)
    await lease.fill()
    lease.release()
  }
  const entry = (used() - before) / size
  const hit = measured((path) => cache.lookup(path), hot)
  const leased = measured((path) => { cache.lookup(path); cache.lease(path).release() }, hot)
  const all = size === SIZES.at(-1) ? measured((path) => cache.lookup(path), paths) : undefined
  await cache.close()

  const missing = paths.map((path) => `${path}.none`)
  const negative = new OpenFileCache({ ...EVER, directories: false })
  const empty = used()
  for (const path of missing) await negative.open(path)
  const negativeEntry = (used() - empty) / size
  const negativeHit = measured((path) => negative.lookup(path), missing.filter(isHot))
  await negative.close()
  return { hit, leased, all, negativeHit, entry, negativeEntry }
}

function inOwnProcess (size) {
  const file = fileURLToPath(import.meta.url)
  return JSON.parse(execFileSync(process.execPath, ['--expose-gc', file, String(size)], { encoding: 'utf8' }))
}

const rows = []
const add = (what, { ns, bytes }) => rows.push([what, ns < 10_000 ? `${ns.toFixed(0)} ns` : `${(ns / 1000).toFixed(1)} µs`, bytes === undefined ? '–' : `${bytes.toFixed(0)}`])

async function main () {
  const runs = []
  for (let i = 0; i < PROCESSES; i++) {
    for (const size of SIZES) {
      process.stderr.write(`\r${i * SIZES.length + SIZES.indexOf(size) + 1} of ${PROCESSES * SIZES.length} processes `)
      runs.push({ size, ...inOwnProcess(size) })
    }
  }
  process.stderr.write('\r')
  const titles = {
    hit: 'fresh hit, ten hot files', leased: 'fresh hit and its lease, ten hot files', all: 'fresh hit, all files in random order', negativeHit: 'negative hit, ten hot paths'
  }
  const of = (size, name) => runs.filter((run) => run.size === size).map((run) => run[name])
  for (const [name, title] of Object.entries(titles)) {
    for (const size of SIZES) {
      const measures = of(size, name).filter((measure) => measure !== undefined)
      if (measures.length === 0) continue
      add(`${title} of ${size}`, { ns: median(measures.map(({ ns }) => ns)), bytes: median(measures.map(({ bytes }) => bytes)) })
    }
  }
  const most = SIZES.at(-1)
  rows.push([`an entry in memory, without its bytes, of ${most}`, `${median(of(most, 'entry')).toFixed(0)} B`, ''])
  rows.push([`a negative entry in memory, of ${most}`, `${median(of(most, 'negativeEntry')).toFixed(0)} B`, ''])

  const few = pathsOf(1000)
  for (const path of few) writeFileSync(path, 'x')
  const checking = new OpenFileCache({ valid: 0, minUses: 1, spelledBelow: root })
  add('revalidation of an open file: a stat', await measuredAsync(async (path) => (await checking.open(path)).release(), few))
  await checking.close()
  const off = OpenFileCache.off()
  add('miss: open, fstat, close', await measuredAsync(async (path) => (await off.open(path)).release(), few))
  await off.close()
  const { checks, share, longest, p999 } = await checked(10_000, 40)
  rows.push([`10 000 hot entries, valid 20 s: ${checks} checks in 40 s`, `${(100 * share).toFixed(1)} % of a core`, ''])
  rows.push(['a tick of the timer meanwhile, p99.9 (longest)', `${p999.toFixed(2)} ms (${longest.toFixed(2)} ms)`, ''])

  console.log('| the engine alone | time | bytes allocated |\n|---|---|---|')
  for (const row of rows) console.log(`| ${row.join(' | ')} |`)
}

try {
  const size = Number(process.argv[2])
  if (size > 0) console.log(JSON.stringify(await measuredSize(size)))
  else await main()
} finally {
  rmSync(root, { recursive: true })
}
