// npm run bench:ab: the run of nginx's guide to open_file_cache, `ab -n 10000 -c 200`, off against on.
import { spawnSync } from 'node:child_process'
import { median } from './lib/report.mjs'
import { has, onCore, start } from './lib/servers.mjs'
import { makeSite } from './lib/site.mjs'

if (!has('ab', '-V')) {
  console.error('ab is not installed (Debian: apache2-utils).')
  process.exit(1)
}

const ROUNDS = 5
const site = makeSite()
const runs = { off: [], on: [] }
let port = 18_700
try {
  const servers = { off: await start('ours-off', { root: site.root, port: port++ }), on: await start('ours', { root: site.root, port: port++ }) }
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [name, server] of Object.entries(servers)) {
        const before = server.cpu()
        const [program, args] = onCore(1, 'ab', ['-q', '-n', '10000', '-c', '200', `http://127.0.0.1:${server.port}/1k.txt`])
        const { stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' })
        const after = server.cpu()
        const found = (pattern) => Number((pattern.exec(stdout) ?? [undefined, undefined])[1])
        if (found(/Complete requests:\s+(\d+)/) !== 10_000 || found(/Failed requests:\s+(\d+)/) !== 0) throw new Error(`ab failed: ${stdout}${stderr}`)
        // The first round warms up.
        if (round === 0) continue
        runs[name].push({
          rate: found(/Requests per second:\s+([\d.]+)/),
          p50: found(/50%\s+(\d+)/),
          p99: found(/99%\s+(\d+)/),
          kernel: after === undefined ? undefined : (after.kernel - before.kernel) / 10,
          user: after === undefined ? undefined : (after.user - before.user) / 10
        })
      }
    }
  } finally {
    for (const server of Object.values(servers)) await server.stop()
  }
} finally {
  site.remove()
}

const shown = (value, digits = 0) => value === undefined ? '–' : value.toFixed(digits)
console.log(`ab -n 10000 -c 200, a new connection for each request, medians of ${ROUNDS} rounds in turn\n`)
console.log('| openFileCache | req/s | p50, ms | p99, ms | CPU in user mode, µs a request | in the kernel |\n|---|---|---|---|---|---|')
for (const [name, of] of Object.entries(runs)) {
  const figure = (key) => median(of.map((run) => run[key]))
  console.log(`| ${name} | ${shown(figure('rate'))} | ${shown(figure('p50'))} | ${shown(figure('p99'))} | ${shown(figure('user'), 1)} | ${shown(figure('kernel'), 1)} |`)
}
