// Load by wrk where it is installed, else by autocannon, pinned to the second core.
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { has, onCore } from './servers.mjs'

export const generator = has('wrk', '--version') ? 'wrk' : 'autocannon'

const UNIT = { us: 0.001, ms: 1, s: 1000, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3, B: 1 }

/**
 * `requests`: the paths to ask for in turn, or 'missing' for ever new ones. Answers requests per second, bytes per
 * second, latencies in milliseconds, how many requests there were, and how many failed.
 */
export function load ({ port, requests, headers = {}, connections = 64, seconds, expected = 200 }) {
  const result = generator === 'wrk'
    ? wrk({ port, requests, headers, connections, seconds })
    : autocannon({ port, requests, headers, connections, seconds })
  const wrong = expected === 200 ? result.failed : result.requests - result.failed
  if (wrong > 0) throw new Error(`${wrong} of ${result.requests} requests were not answered by ${expected}`)
  return result
}

function wrk ({ port, requests, headers, connections, seconds }) {
  const script = join(tmpdir(), `fastify-cached-static-bench-${process.pid}.lua`)
  const list = (values) => `{ ${values.join(', ')} }`
  writeFileSync(script, `
    wrk.headers = ${list(Object.entries(headers).map(([name, value]) => `[${JSON.stringify(name)}] = ${JSON.stringify(value)}`))}
    local paths = ${requests === 'missing' ? '{}' : list(requests.map((path) => JSON.stringify(path)))}
    local made = {}
    local count = 0
    init = function () for i, path in ipairs(paths) do made[i] = wrk.format("GET", path) end end
    request = function ()
      count = count + 1
      if #made == 0 then return wrk.format("GET", string.format("/%x/%d.php", count * 2654435761 % 4294967296, count)) end
      return made[count % #made + 1]
    end`)
  const [program, args] = onCore(1, 'wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '-s', script, `http://127.0.0.1:${port}/`])
  const { stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' })
  const found = (pattern) => pattern.exec(stdout)
  const measured = (pattern) => {
    const [, number, unit] = found(pattern) ?? []
    return Number(number) * (UNIT[unit] ?? 1)
  }
  const socketErrors = found(/Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/)
  if (found(/requests in/) === null) throw new Error(`wrk failed: ${stdout}${stderr}`)
  if (socketErrors !== null && Number(socketErrors[1]) + Number(socketErrors[2]) > 0) throw new Error(`wrk: ${socketErrors[0]}`)
  return {
    rate: measured(/Requests\/sec:\s+([\d.]+)/),
    bytes: measured(/Transfer\/sec:\s+([\d.]+)([KMG]?B)/),
    p50: measured(/50%\s+([\d.]+)(us|ms|s)/),
    p99: measured(/99%\s+([\d.]+)(us|ms|s)/),
    requests: measured(/(\d+) requests in/),
    failed: measured(/Non-2xx or 3xx responses: (\d+)/) || 0
  }
}

function autocannon ({ port, requests, headers, connections, seconds }) {
  const [program, args] = onCore(1, process.execPath, [fileURLToPath(new URL('autocannon.mjs', import.meta.url))])
  const { stdout, stderr, status } = spawnSync(program, [...args, JSON.stringify({ port, requests, headers, connections, seconds })], {
    encoding: 'utf8', maxBuffer: 64 * 1024 * 1024
  })
  if (status !== 0) throw new Error(`autocannon failed: ${stderr}`)
  return JSON.parse(stdout)
}
