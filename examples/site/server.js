'use strict'

// The demo site: a folder behind fastify-cached-static, and one route that
// shows the figures of its cache.
//
//   npm run build && node examples/site/server.js
//   HOST=0.0.0.0 PORT=8080 node examples/site/server.js

const path = require('node:path')
const fastify = require('fastify')
const cachedStatic = loadPlugin()
const generateMedia = require('./generate-media')

const root = path.join(__dirname, 'public')

const app = fastify({ logger: { level: 'warn' } })

// All of the site is its own: nothing is loaded from anywhere else.
app.addHook('onRequest', async (request, reply) => {
  reply.header('content-security-policy', "default-src 'self'")
  reply.header('x-content-type-options', 'nosniff')
})

app.register(cachedStatic, {
  root,
  dotfiles: 'ignore',
  openFileCache: {
    valid: '20s',
    inactive: '30s',
    minUses: 2,
    errors: '5s' // the default is one second; longer, so that one can watch it
  }
})

app.get('/-/cache', async (request, reply) => {
  reply.header('cache-control', 'no-store')
  return {
    ...app.openFileCache.stats(),
    rss: process.memoryUsage.rss(),
    pid: process.pid,
    uptime: process.uptime()
  }
})

main().catch((error) => {
  // One line that says what to do, rather than a stack.
  console.error(error.advice ?? error)
  process.exit(1)
})

async function main () {
  const host = process.env.HOST || '127.0.0.1'
  const port = readPort(process.env.PORT)

  try {
    generateMedia(path.join(root, 'media'))
  } catch (error) {
    console.warn(`The picture and the sound could not be written (${error.code ?? error.message}); the site runs without them.`)
  }

  let address
  try {
    address = await app.listen({ host, port })
  } catch (error) {
    throw withAdvice(error, host, port)
  }
  closeOnSignal()

  console.log(`fastify-cached-static demo at ${address}

Try:
  curl -I ${address}/app.css
  curl -s -D - -o /dev/null -H 'Range: bytes=0-99' ${address}/media/chord.wav
  curl -i ${address}/no/such/file
  curl ${address}/-/cache

Stop with Ctrl+C.`)
}

function loadPlugin () {
  try {
    return require('../..')
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND' || error.requestPath !== '../..') throw error
    console.error('The package is not built yet. Run: npm run build')
    process.exit(1)
  }
}

function readPort (text = '') {
  if (text === '') return 3000
  const port = Number(text)
  if (/^\d+$/.test(text) && port <= 65535) return port
  const error = new Error('bad PORT')
  error.advice = `PORT must be a whole number from 0 to 65535 (0 takes any free port), not ${JSON.stringify(text)}.`
  throw error
}

function withAdvice (error, host, port) {
  switch (error.code) {
    case 'EADDRINUSE':
      error.advice = `Port ${port} on ${host} is in use. Choose another, for example: PORT=${port < 65535 ? port + 1 : 3000} node examples/site/server.js`
      break
    case 'EACCES':
      error.advice = `Port ${port} on ${host} is not permitted to this user. Choose one above 1023.`
      break
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      error.advice = `HOST=${host} is no address of this machine.`
      break
  }
  return error
}

function closeOnSignal () {
  let closing = false
  const close = async (signal) => {
    if (closing) process.exit(1) // asked twice: at once
    closing = true
    console.log(`${signal}: closing`)
    // A browser may hold a half-read response for as long as it likes.
    setTimeout(() => app.server.closeAllConnections(), 3000).unref()
    await app.close()
  }
  process.on('SIGINT', close)
  process.on('SIGTERM', close)
}
