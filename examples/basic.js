'use strict'

// A folder behind the cache.
//
// node examples/basic.js

const path = require('node:path')
const fastify = require('fastify')()
const cachedStatic = require('fastify-cached-static')

fastify.register(cachedStatic, { root: path.join(__dirname, 'public') })

fastify.get('/greeting', (request, reply) => reply.sendFile('hello.txt'))

fastify.listen({ host: process.env.HOST, port: process.env.PORT || 3000 }, (error, address) => {
  if (error) throw error
  console.log(`Listening at ${address}

  curl -i ${address}/
  curl -i -H 'Range: bytes=0-4' ${address}/greeting`)
})

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => fastify.close())
