import fp from 'fastify-plugin'
import * as allConstructors from './errors'
import { plugin } from './plugin'
import type contract = require('../types/index')

// Two have one code, and each is an instance of the other.
const { INVALID_ARGUMENT: _, ...constructors } = allConstructors
const cachedStatic = fp(plugin, { fastify: '5.x', name: 'fastify-cached-static' }) as typeof contract
const errors = Object.fromEntries(
  Object.entries(constructors).map(([name, constructor]) => [`FST_STATIC_${name}`, constructor])
) as unknown as contract.Errors
Object.assign(cachedStatic, { default: cachedStatic, cachedStatic, fastifyStatic: cachedStatic, errors })

// Read by the lexer through which Node finds the names that ESM may import; `export =` alone has none.
module.exports.default = cachedStatic
module.exports.cachedStatic = cachedStatic
module.exports.fastifyStatic = cachedStatic
module.exports.errors = errors

export = cachedStatic
