'use strict'

// HTTPS with HTTP/2, and HTTP/1.1 for those who cannot.
//
// node examples/https-http2.js
//
// The key is public: for this example only. Your own for localhost, with OpenSSL:
//   openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=localhost \
//     -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout key.pem -out cert.pem

const { readFileSync } = require('node:fs')
const path = require('node:path')
const cachedStatic = require('fastify-cached-static')

const fastify = require('fastify')({
  http2: true,
  https: {
    allowHTTP1: true,
    key: readFileSync(path.join(__dirname, 'tls', 'example-only-key.pem')),
    cert: readFileSync(path.join(__dirname, 'tls', 'example-only-cert.pem'))
  },
  forceCloseConnections: true // else close() waits for the idle sessions that browsers keep
})

fastify.register(cachedStatic, { root: path.join(__dirname, 'public') })

fastify.listen({ host: process.env.HOST, port: process.env.PORT || 3000 }, (error, address) => {
  if (error) throw error
  console.log(`Listening at ${address}

  curl -i --cacert examples/tls/example-only-cert.pem ${address}/
  curl -i --cacert examples/tls/example-only-cert.pem --http1.1 ${address}/`)
})

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => fastify.close())
