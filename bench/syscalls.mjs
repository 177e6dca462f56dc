// npm run bench:syscalls: what the kernel is asked for by 2 000 requests over 8 connections, by `strace -f -c`.
import { spawn } from 'node:child_process'
import { Agent, request } from 'node:http'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { has, start } from './lib/servers.mjs'
import { makeSite } from './lib/site.mjs'

const REQUESTS = 2000
const CONNECTIONS = 8
const FILE_SYSTEM = ['open', 'openat', 'stat', 'statx', 'newfstatat', 'lstat', 'fstat', 'close', 'getdents64', 'pread64', 'readlink']
const CASES = { '1 KiB': '/1k.txt', '200 KB': '/200k.bin', 'a missing path': '/admin.php' }

if (!has('strace', '--version')) {
  console.error('strace is not installed.')
  process.exit(1)
}

const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
const ask = (port, path) => new Promise((resolve, reject) => {
  request({ port, host: '127.0.0.1', path, agent }, (response) => response.resume().on('end', resolve)).on('error', reject).end()
})

async function askAll (port, path) {
  let left = REQUESTS
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => { while (left-- > 0) await ask(port, path) }))
}

async function traced (server, path) {
  // Compiled by now, and in the cache.
  for (let i = 0; i < 3; i++) await askAll(server.port, path)
  const folder = mkdtempSync(join(tmpdir(), 'fastify-cached-static-strace-'))
  const file = join(folder, 'counts')
  const strace = spawn('strace', ['-f', '-c', '-o', file, '-p', String(server.pid)], { stdio: ['ignore', 'ignore', 'pipe'] })
  await new Promise((resolve) => strace.stderr.once('data', resolve))
  await askAll(server.port, path)
  await new Promise((resolve) => { strace.once('exit', resolve); strace.kill('SIGINT') })
  const counts = new Map()
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const [, count, name] = /^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$/.exec(line) ?? []
    if (name !== undefined && name !== 'total') counts.set(name, Number(count))
  }
  rmSync(folder, { recursive: true })
  return counts
}

const site = makeSite()
let port = 18_500
try {
  console.log('| | all, per request | of the file system, of 2 000 requests | the rest |\n|---|---|---|---|')
  for (const [title, path] of Object.entries(CASES)) {
    for (const name of ['ours', 'ours-off', 'fastify-static']) {
      const server = await start(name, { root: site.root, port: port++ })
      const counts = await traced(server, path).finally(() => server.stop())
      const all = [...counts.values()].reduce((sum, count) => sum + count, 0)
      const listed = (pick) => [...counts].filter(([call]) => pick(call)).map(([call, count]) => `${call} ${count}`).join(', ') || 'none'
      console.log(`| ${title}, ${name} | ${(all / REQUESTS).toFixed(1)} | ${listed((call) => FILE_SYSTEM.includes(call))} | ${listed((call) => !FILE_SYSTEM.includes(call))} |`)
    }
  }
} finally {
  agent.destroy()
  site.remove()
}
