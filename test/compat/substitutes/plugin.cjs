'use strict'

const cachedStatic = require('../../../dist/index.js')

// The names and the encapsulation that fastify-plugin gave it are properties.
const withoutCache = Object.assign(
  (fastify, options) => cachedStatic(fastify, { ...options, openFileCache: false }),
  cachedStatic
)

// With defaults it is the plugin itself, which gets the caller's own object.
module.exports = process.env.COMPAT_OPEN_FILE_CACHE === 'false' ? withoutCache : cachedStatic
