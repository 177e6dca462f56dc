// npm run bench:cache: the engine alone. Nanoseconds and bytes of heap per operation; needs --expose-gc.
import { createRequire } from 'node:module'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { median } from './lib/report.mjs'

const { OpenFileCache } = createRequire(import.meta.url)('../dist/open-file-cache.js')

const ROUNDS = 7
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

/** Nanoseconds and bytes a call: of as many calls as take some 100 ms, in random order. */
function measured (operation, inputs) {
  const calls = 200_000
  const order = Uint32Array.from({ length: calls }, () => Math.floor(Math.random() * inputs.length))
  for (let i = 0; i < calls; i++) operation(inputs[order[i]])
  const runs = []
  for (let round = 0; round < ROUNDS; round++) {
    globalThis.gc()
    const heap = process.memoryUsage().heapUsed
    const started = performance.now()
    for (let i = 0; i < calls; i++) operation(inputs[order[i]])
    const ns = (performance.now() - started) * 1e6 / calls
    runs.push({ ns, bytes: Math.max(0, process.memoryUsage().heapUsed - heap) / calls })
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

const rows = []
const add = (what, { ns, bytes }) => rows.push([what, ns < 10_000 ? `${ns.toFixed(0)} ns` : `${(ns / 1000).toFixed(1)} µs`, bytes === undefined ? '–' : `${bytes.toFixed(0)}`])

try {
  for (const size of SIZES) {
    const paths = pathsOf(size)
    for (const path of paths) writeFileSync(path, 'x'.repeat(512))
    const hot = paths.filter((_, i) => i % (size / 10) === 0)
    const cache = new OpenFileCache({ ...EVER, minUses: 1 })
    globalThis.gc()
    const before = process.memoryUsage().heapUsed
    for (const path of paths) {
      const lease = await cache.open(path)
      await lease.fill()
      lease.release()
    }
    globalThis.gc()
    const heap = (process.memoryUsage().heapUsed - before) / size
    add(`fresh hit, ten hot files of ${size}`, measured((path) => cache.lookup(path), hot))
    add('… and its lease', measured((path) => { cache.lookup(path); cache.lease(path).release() }, hot))
    if (size > 1000) {
      add(`fresh hit, all ${size} in random order`, measured((path) => cache.lookup(path), paths))
      rows.push([`an entry in memory, without its bytes, of ${size}`, `${heap.toFixed(0)} B`, ''])
    }
    await cache.close()

    const missing = paths.map((path) => `${path}.none`)
    const negative = new OpenFileCache({ ...EVER, directories: false })
    globalThis.gc()
    const empty = process.memoryUsage().heapUsed
    for (const path of missing) await negative.open(path)
    globalThis.gc()
    if (size > 1000) rows.push([`a negative entry in memory, of ${size}`, `${((process.memoryUsage().heapUsed - empty) / size).toFixed(0)} B`, ''])
    add(`negative hit, ten hot paths of ${size}`, measured((path) => negative.lookup(path), missing.filter((_, i) => i % (size / 10) === 0)))
    await negative.close()
  }
  const few = pathsOf(1000)
  const checking = new OpenFileCache({ valid: 0, minUses: 1, spelledBelow: root })
  add('revalidation of an open file: a stat', await measuredAsync(async (path) => (await checking.open(path)).release(), few))
  await checking.close()
  const off = OpenFileCache.off()
  add('miss: open, fstat, close', await measuredAsync(async (path) => (await off.open(path)).release(), few))
  await off.close()
  const { checks, share, longest, p999 } = await checked(10_000, 40)
  rows.push([`10 000 hot entries, valid 20 s: ${checks} checks in 40 s`, `${(100 * share).toFixed(1)} % of a core`, ''])
  rows.push(['a tick of the timer meanwhile, p99.9 (longest)', `${p999.toFixed(2)} ms (${longest.toFixed(2)} ms)`, ''])
} finally {
  rmSync(root, { recursive: true })
}

console.log('| the engine alone | time | bytes allocated |\n|---|---|---|')
for (const row of rows) console.log(`| ${row.join(' | ')} |`)
