// Servers as processes of their own, pinned to the first core where there is a `taskset`.
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const has = (program, ...args) => spawnSync(program, args, { stdio: 'ignore' }).error === undefined
const pinned = has('taskset', '--version')

export function onCore (core, program, args) {
  return pinned ? ['taskset', ['-c', String(core), program, ...args]] : [program, args]
}

export const isPinned = pinned

export const SERVERS = {
  ours: { title: 'fastify-cached-static', script: 'ours.cjs' },
  'ours-off': { title: 'the same, openFileCache: false', script: 'ours.cjs', env: { CACHE: 'false' } },
  'fastify-static': { title: '@fastify/static', script: 'fastify-static.cjs' },
  prebuilt: { title: 'prebuilt Buffers in Fastify', script: 'prebuilt.cjs', isLimit: true },
  bare: { title: 'prebuilt Buffers in node:http', script: 'bare.cjs', isLimit: true },
  sirv: { title: 'sirv', script: 'sirv.cjs' },
  st: { title: 'st', script: 'st.mjs' },
  'koa-static-cache': { title: 'koa-static-cache', script: 'koa-static-cache.cjs' },
  'serve-static': { title: 'serve-static in Express', script: 'serve-static.cjs' },
  nginx: { title: 'nginx', nginx: '' },
  'nginx-tuned': {
    title: 'nginx, open_file_cache',
    nginx: 'open_file_cache max=10000 inactive=30s; open_file_cache_valid 60s; open_file_cache_min_uses 2; open_file_cache_errors on;'
  }
}

function nginxConfig (root, port, cache) {
  const file = join(root, `../nginx-${port}.conf`)
  writeFileSync(file, `
    user root; worker_processes 1; daemon off; pid /tmp/nginx-${port}.pid; error_log /dev/null;
    events { worker_connections 1024; }
    http {
      include /etc/nginx/mime.types; access_log off; sendfile on; tcp_nopush on; tcp_nodelay on;
      keepalive_requests 100000000; gzip_static on; ${cache}
      server { listen 127.0.0.1:${port}; root ${root}; }
    }`)
  return file
}

export async function start (name, { root, port, env = {} }) {
  const { script, nginx, env: own } = SERVERS[name]
  const [program, args] = nginx === undefined
    ? onCore(0, process.execPath, [fileURLToPath(new URL(`../servers/${script}`, import.meta.url))])
    : onCore(0, 'nginx', ['-c', nginxConfig(root, port, nginx)])
  const child = spawn(program, args, { env: { ...process.env, ROOT: root, PORT: port, ...own, ...env }, stdio: ['ignore', 'ignore', 'inherit'] })
  let ended
  child.on('exit', (code) => { ended = code ?? 'a signal' })
  for (let tries = 0; !await canConnect(port); tries++) {
    if (ended !== undefined) throw new Error(`${name} ended with ${ended} before it listened`)
    if (tries > 300) throw new Error(`${name} does not listen on port ${port}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return {
    name,
    port,
    pid: child.pid,
    cpu: () => cpuTime(child.pid),
    stop: () => new Promise((resolve) => {
      if (ended !== undefined) return resolve()
      child.once('exit', resolve)
      child.kill(nginx === undefined ? 'SIGKILL' : 'SIGTERM')
    })
  }
}

function canConnect (port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => { socket.destroy(); resolve(true) }).on('error', () => resolve(false))
  })
}

/** Milliseconds of CPU in user mode and in the kernel, of the process and its children; `undefined` without /proc. */
function cpuTime (pid) {
  const sum = { user: 0, kernel: 0 }
  const add = (id) => {
    const fields = readFileSync(`/proc/${id}/stat`, 'latin1').replace(/^.*\) /s, '').split(' ')
    sum.user += Number(fields[11]) * 10
    sum.kernel += Number(fields[12]) * 10
  }
  try {
    add(pid)
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      for (const child of readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').split(' ').filter(Boolean)) add(child)
    }
    return sum
  } catch {
    return undefined
  }
}
