// The server under test, as a user would write it: several mounts over one cache, HTTP/1.1 and HTTP/2.
import { once } from 'node:events'
import { join, relative } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import Fastify from 'fastify'
import cachedStatic from '../dist/index.js'
import { ERRORS, INACTIVE, MOUNTS, ROUTES, VALID } from './lib/site.mjs'

const [, , root] = process.argv

const CACHE = {
  // Fewer than there are files: something is evicted, or pushed out of memory, all the time.
  max: 75,
  maxNegative: 100,
  inactive: INACTIVE,
  memory: { max: 1024 * 1024 },
  directories: { max: 8, maxNames: 500 },
  valid: VALID,
  errors: ERRORS,
  minUses: 2
}

const strongTag = (file, stat) => `"${stat.size}-${stat.mtimeMs}"`

function register (app, openFileCacheOf) {
  for (const [index, mount] of MOUNTS.entries()) {
    const { etag, ...options } = mount.options
    app.register(cachedStatic, {
      ...options,
      ...etag === 'strong' && { etag: strongTag },
      root: mount.roots.map((name) => join(root, name)),
      prefix: mount.prefix,
      decorateReply: index === 0,
      openFileCache: openFileCacheOf(mount),
      allowedPath: () => true,
      setHeaders: (reply, path) => { reply.header('x-file', relative(root, path)) }
    })
  }
  // For the report: an answer does not say what the file system did.
  app.addHook('onError', async (request, reply, error) => {
    if (error.cause !== undefined) reply.header('x-cause', `${error.cause.code}: ${error.cause.message}`)
  })
  for (const { prefix, call, send } of ROUTES) {
    app.get(`${prefix}*`, (request, reply) => reply[call](request.params['*'], send))
  }
  return app
}

const http1 = register(Fastify(), ({ policy }) => policy.valid === VALID ? CACHE : { ...CACHE, valid: 0, errors: false })
await http1.listen({ host: '127.0.0.1', port: 0 })
const cache = http1.openFileCache
const http2 = register(Fastify({ http2: true, forceCloseConnections: true }), () => cache)
await http2.listen({ host: '127.0.0.1', port: 0 })

// What an application does after a deploy.
const forgetting = setInterval(() => {
  if (Math.random() < 0.1) cache.clear()
  else if (Math.random() < 0.5) cache.invalidate({ under: join(root, 'a') })
  else cache.invalidate(join(root, 'large/f0.bin'))
}, 2500)

const delays = monitorEventLoopDelay({ resolution: 10 })
delays.enable()

function sample () {
  globalThis.gc?.()
  const { heapUsed, external, rss } = process.memoryUsage()
  const stalled = delays.max / 1e6
  delays.reset()
  return { heapUsed, external, rss, stalled, stats: cache.stats() }
}

const answers = {
  sample,
  quiet () {
    clearInterval(forgetting)
    return sample()
  },
  async close () {
    await Promise.all([http1.close(), http2.close()])
    return { stats: cache.stats() }
  }
}

process.on('message', async ({ call, id }) => process.send({ id, answer: await answers[call]() }))
process.on('disconnect', () => process.exit())
process.send({ ports: { http1: http1.server.address().port, http2: http2.server.address().port } })
await once(process, 'disconnect')
