// An application of fastify-cli: the mount is a file in plugins/, its options are JSON.
//
// npx fastify start -l info examples/app/app.mjs
//
// Needs two packages that this repository does not have: npm install --no-save fastify-cli @fastify/autoload
//
//   curl -i localhost:3000/
//   curl -i localhost:3000/static/style.css

import { fileURLToPath } from 'node:url'
import autoload from '@fastify/autoload'

export default async function app (fastify, options) {
  fastify.register(autoload, { dir: fileURLToPath(new URL('plugins', import.meta.url)), options: { ...options } })
  fastify.register(autoload, { dir: fileURLToPath(new URL('routes', import.meta.url)), options: { ...options } })
}
