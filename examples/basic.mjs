// A folder behind the cache, as an ECMAScript module.
//
// node examples/basic.mjs

import Fastify from 'fastify'
import cachedStatic from 'fastify-cached-static'

const fastify = Fastify()

await fastify.register(cachedStatic, { root: new URL('public', import.meta.url) })

fastify.get('/greeting', (request, reply) => reply.download('hello.txt', 'greeting.txt'))

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => fastify.close())

const address = await fastify.listen({ host: process.env.HOST, port: process.env.PORT || 3000 })
console.log(`Listening at ${address}

  curl -i ${address}/
  curl -i ${address}/greeting`)
