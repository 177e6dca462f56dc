import fp from 'fastify-plugin'
import * as errors from './errors'
import { plugin } from './plugin'
import type contract = require('../types/index')

const cachedStatic = fp(plugin, { fastify: '5.x', name: 'fastify-cached-static' }) as typeof contract
Object.assign(cachedStatic, { default: cachedStatic, cachedStatic, errors } satisfies Pick<typeof contract, 'cachedStatic' | 'default' | 'errors'>)

// Read by the lexer through which Node finds the names that ESM may import; `export =` alone has none.
module.exports.default = cachedStatic
module.exports.cachedStatic = cachedStatic
module.exports.errors = errors

export = cachedStatic
