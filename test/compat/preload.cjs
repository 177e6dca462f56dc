'use strict'

// What the tests of @fastify/static load of their own package is ours instead. Only they: packages are not touched.
const Module = require('node:module')
const path = require('node:path')

const suite = path.join(__dirname, '../../compat')
const tests = path.join(suite, 'test') + path.sep
const substitute = (name) => path.join(__dirname, 'substitutes', name)

const resolve = Module._resolveFilename
Module._resolveFilename = function (request, parent, ...rest) {
  const file = resolve.call(this, request, parent, ...rest)
  if (!parent?.filename?.startsWith(tests)) return file
  if (file === path.join(suite, 'index.js')) return substitute('plugin.cjs')
  if (file === path.join(suite, 'lib/errors.js')) return substitute('errors.cjs')
  if (file.startsWith(path.join(suite, 'lib') + path.sep)) return substitute('internals.cjs')
  return file
}

// A test whose answer never comes leaves nothing to wait for, and Node cancels it with all after it. This way it times
// out alone; --test-force-exit ends the process.
setInterval(() => {}, 60_000)
