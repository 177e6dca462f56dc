const fastify = require('fastify')()
fastify.register(require('../../dist/index.js'), {
  root: process.env.ROOT, preCompressed: process.env.MIX === '1', openFileCache: JSON.parse(process.env.CACHE ?? '{}')
})
fastify.listen({ port: Number(process.env.PORT), host: '127.0.0.1' })
