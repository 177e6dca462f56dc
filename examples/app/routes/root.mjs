export default async function (fastify) {
  fastify.get('/', (request, reply) => reply.sendFile('index.html', { maxAge: 0 }))
}
