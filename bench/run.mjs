// npm run bench [-- --rounds 3 --seconds 1 --servers ours,fastify-static --cases hot,mix --out results.json]
import { get } from 'node:http'
import { parseArgs } from 'node:util'
import { generator, load } from './lib/load.mjs'
import { chart, environment, median, table, writeResults } from './lib/report.mjs'
import { has, isPinned, SERVERS, start } from './lib/servers.mjs'
import { makeSite } from './lib/site.mjs'

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '1' },
    servers: { type: 'string' },
    cases: { type: 'string' },
    out: { type: 'string', default: new URL('results/latest.json', import.meta.url).pathname },
    chart: { type: 'string' }
  }
})
const rounds = Number(options.rounds)
const seconds = Number(options.seconds)

const site = makeSite()
const BROWSER = { 'accept-encoding': 'br;q=1, gzip;q=0.8' }

const CASES = {
  hot: { title: '1 KiB', unit: 'req/s', requests: ['/1k.txt'] },
  'not-modified': { title: '304 for it', unit: 'req/s', requests: ['/1k.txt'], isConditional: true },
  busy: { title: '1 KiB, 200 connections', unit: 'req/s', requests: ['/1k.txt'], connections: 200, seconds: 3 },
  mix: { title: 'site of 20 files, br and gzip', unit: 'req/s', requests: site.mix, headers: BROWSER, env: { MIX: '1' } },
  missing: { title: 'one missing path', unit: 'req/s', requests: ['/admin.php'], expected: 404 },
  'missing-many': { title: 'ever new missing paths', unit: 'req/s', requests: 'missing', expected: 404 },
  '200k': { title: '200 KB', unit: 'GB/s', requests: ['/200k.bin'] },
  '2m': { title: '2 MB', unit: 'GB/s', requests: ['/2m.bin'], connections: 16 },
  '100m': { title: '100 MB', unit: 'GB/s', requests: ['/100m.bin'], connections: 4, seconds: 3 }
}
// They have it not in memory, or read it whole for each request.
const LEFT_OUT = { '100m': ['prebuilt', 'bare', 'koa-static-cache', 'st'] }

function chosen (text, all, what) {
  const names = text === undefined ? Object.keys(all) : text.split(',')
  for (const name of names) if (!(name in all)) throw new Error(`--${what} ${name}: is none of ${Object.keys(all).join(', ')}`)
  return names
}

function etagOf (port) {
  return new Promise((resolve, reject) => {
    get(`http://127.0.0.1:${port}/1k.txt`, (response) => { response.resume(); resolve(response.headers.etag) }).on('error', reject)
  })
}

const names = chosen(options.servers, SERVERS, 'servers').filter((name) => SERVERS[name].nginx === undefined || has('nginx', '-v'))
const cases = chosen(options.cases, CASES, 'cases')
console.log(`${names.length} servers, ${cases.length} cases, ${rounds} rounds of ${seconds} s, by ${generator}` +
  `${isPinned ? ', pinned to one core each' : ', not pinned: no taskset here'}`)
if (generator === 'autocannon') console.log('wrk is not installed: autocannon itself is the limit above some 50 000 req/s.')

function progress (text) {
  if (process.stdout.isTTY) process.stdout.write(`\r${text.padEnd(90)}\r`)
}

const results = []
let port = 18_000
try {
  for (const [done, name] of cases.entries()) {
    const { title, requests, headers = {}, connections, expected, env, isConditional, seconds: own = seconds } = CASES[name]
    const running = []
    try {
      for (const server of names.filter((server) => LEFT_OUT[name]?.includes(server) !== true)) running.push(await start(server, { root: site.root, port: port++, env }))
      for (const server of running) {
        server.headers = isConditional ? { ...headers, 'if-none-match': await etagOf(server.port) ?? '"none"' } : headers
        load({ port: server.port, requests, headers: server.headers, connections, seconds: 1, expected })
        server.runs = []
      }
      // In turn, so that whatever the machine does besides is shared by all.
      for (let round = 0; round < rounds; round++) {
        for (const server of running) {
          progress(`[${done + 1}/${cases.length}] ${title}: round ${round + 1} of ${rounds}, ${server.name}`)
          const before = server.cpu()
          const run = load({ port: server.port, requests, headers: server.headers, connections, seconds: own, expected })
          const after = server.cpu()
          server.runs.push({
            ...run,
            ...after !== undefined && { user: 1000 * (after.user - before.user) / run.requests, kernel: 1000 * (after.kernel - before.kernel) / run.requests }
          })
        }
      }
      for (const server of running) {
        const of = (figure) => median(server.runs.map((run) => run[figure]))
        results.push({
          case: name, server: server.name, rate: of('rate'), gbps: of('bytes') / 1e9, p50: of('p50'), p99: of('p99'), user: of('user'), kernel: of('kernel')
        })
      }
    } finally {
      for (const server of running) await server.stop()
    }
  }
} finally {
  site.remove()
}

progress('')
const titles = { cases: CASES, servers: SERVERS }
console.log(table(results, titles, environment()))
writeResults(options.out, results, { rounds, seconds, generator })
console.log(`\nAll figures: ${options.out}`)
if (options.chart !== undefined) {
  chart(options.chart, results, titles)
  console.log(`Chart: ${options.chart}`)
}
