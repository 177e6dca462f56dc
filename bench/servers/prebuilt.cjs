// The limit of Fastify: everything in memory, nothing is ever checked.
const fastify = require('fastify')()
const { answers } = require('./prebuilt-answers.cjs')

fastify.get('/*', (request, reply) => {
  const answer = answers.get(request.params['*'])
  if (answer === undefined) return reply.callNotFound()
  reply.headers(answer.headers).send(answer.body)
})
fastify.listen({ port: Number(process.env.PORT), host: '127.0.0.1' })
