// One run, in a process of its own so that it can be pinned.
import { createRequire } from 'node:module'

const autocannon = createRequire(import.meta.url)('autocannon')
const { port, requests, headers, connections, seconds } = JSON.parse(process.argv[2])
let count = 0
const missing = [{ setupRequest: (request) => ({ ...request, path: `/${(count++ * 2654435761 % 4294967296).toString(16)}/${count}.php` }) }]

const result = await autocannon({
  url: `http://127.0.0.1:${port}`,
  connections,
  duration: seconds,
  headers,
  requests: requests === 'missing' ? missing : requests.map((path) => ({ path }))
})
console.log(JSON.stringify({
  rate: result.requests.average,
  bytes: result.throughput.average,
  p50: result.latency.p50,
  p99: result.latency.p99,
  requests: result.requests.total,
  failed: result.non2xx - (result['3xx'] ?? 0)
}))
