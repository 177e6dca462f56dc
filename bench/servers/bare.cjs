// The limit of Node: no framework either.
const { answers } = require('./prebuilt-answers.cjs')

require('node:http').createServer((request, response) => {
  const answer = answers.get(request.url.slice(1))
  if (answer === undefined) return response.writeHead(404, { 'content-length': '0' }).end()
  response.writeHead(200, answer.headers)
  response.end(answer.body)
}).listen(Number(process.env.PORT), '127.0.0.1')
