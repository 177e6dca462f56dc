'use strict'

// A single-page application: its assets have a hash in their names and live for ever, its page does not.
//
// node examples/spa/server.js

const path = require('node:path')
const fastify = require('fastify')()
const cachedStatic = require('fastify-cached-static')

const root = path.join(__dirname, 'public')

// A mount of its own: a missing asset is a 404, never the page.
fastify.register(cachedStatic, {
  root: path.join(root, 'assets'),
  prefix: '/assets/',
  immutable: true,
  maxAge: '1y'
})

fastify.register(cachedStatic, {
  root,
  fallback: 'index.html', // for a navigation to any path without an extension
  decorateReply: false
})

fastify.listen({ host: process.env.HOST, port: process.env.PORT || 3000 }, (error, address) => {
  if (error) throw error
  console.log(`Listening at ${address}

  curl -i -H 'Accept: text/html' ${address}/orders/42
  curl -i ${address}/assets/app.5d1e0c8b.js`)
})

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => fastify.close())
