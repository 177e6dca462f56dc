const fastify = require('fastify')()
fastify.register(require('@fastify/static'), { root: process.env.ROOT, preCompressed: process.env.MIX === '1' })
fastify.listen({ port: Number(process.env.PORT), host: '127.0.0.1' })
