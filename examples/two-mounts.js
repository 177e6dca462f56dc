'use strict'

// Two folders, one cache: lifetimes and checks are each mount's own.
//
// node examples/two-mounts.js

const path = require('node:path')
const fastify = require('fastify')()
const cachedStatic = require('fastify-cached-static')

// The first registration makes the cache, so the capacity is written here.
fastify.register(cachedStatic, {
  root: path.join(__dirname, 'public'),
  openFileCache: { max: 1000, inactive: '1m', valid: 0 } // 0: looks at the disk on each request, as while editing
})

fastify.register(cachedStatic, {
  root: path.join(__dirname, 'downloads'),
  prefix: '/downloads/',
  maxAge: '1h',
  openFileCache: { valid: '5m' },
  decorateReply: false // reply.sendFile is that of the first
})

fastify.get('/stats', async () => fastify.openFileCache.stats())

fastify.listen({ host: process.env.HOST, port: process.env.PORT || 3000 }, (error, address) => {
  if (error) throw error
  console.log(`Listening at ${address}

  curl -i ${address}/downloads/notes.txt
  curl ${address}/stats`)
})

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => fastify.close())
