import fastifyStatic from '@fastify/static'
import Fastify from 'fastify'
import t from 'tap'
import * as errors from '../lib/errors'
import imported from '../lib/index'
import required = require('../lib/index')

t.test('the module is the plugin itself, under its names and that of @fastify/static', async (t) => {
  const module = required as unknown as Record<string, unknown>
  t.equal(typeof required, 'function')
  t.equal(imported, required)
  t.equal(module.default, required)
  t.equal(module.cachedStatic, required)
  t.equal(module.fastifyStatic, required)
})

t.test('the errors are on it, by the codes that they have', async (t) => {
  const module = required as unknown as { errors: Record<string, new () => Error & { code: string, statusCode: number }> }
  const statusCodes = {
    CACHE_CONFLICT: 500,
    EXHAUSTED: 503,
    FORBIDDEN_PATH: 403,
    INVALID_OPTION: 500,
    INVALID_OPTION_VALUE: 500,
    INVALID_REDIRECT_URL: 400,
    MALFORMED_PATH: 400,
    MULTIROOT_LIST_CONFLICT: 500,
    PRECONDITION_FAILED: 412,
    RANGE_NOT_SATISFIABLE: 416,
    READ_FAILED: 500
  }
  t.strictSame(Object.keys(module.errors).sort(), Object.keys(statusCodes).map((name) => `FST_STATIC_${name}`))
  for (const [name, statusCode] of Object.entries(statusCodes)) {
    const code = `FST_STATIC_${name}`
    const CodedError = module.errors[code] as new () => Error & { code: string, statusCode: number }
    t.equal(CodedError, errors[name as keyof typeof errors], 'the classes that are thrown')
    const error = new CodedError()
    t.match(error, { code, statusCode })
    t.ok(error instanceof Error)
    t.equal(error instanceof TypeError, ['INVALID_OPTION_VALUE', 'MULTIROOT_LIST_CONFLICT'].includes(name), name)
  }
})

t.test('those that @fastify/static has are of its codes, statuses, messages and classes', async (t) => {
  const ours = (required as unknown as { errors: Record<string, new (...details: string[]) => Error> }).errors
  const theirs = (fastifyStatic as unknown as { errors: typeof ours }).errors
  t.ok(Object.keys(theirs).length >= 5)
  for (const [name, Theirs] of Object.entries(theirs)) {
    const Ours = ours[name]
    if (Ours === undefined) throw new Error(`${name} is missing`)
    const facts = (error: Error) => ({ ...error, message: error.message, isTypeError: error instanceof TypeError })
    t.strictSame(facts(new Ours('a', 'b')), facts(new Theirs('a', 'b')), name)
  }
})

t.test('the plugin breaks out of its context, and says what it is and needs', async (t) => {
  const meta = required as unknown as Record<symbol, unknown>
  t.equal(meta[Symbol.for('skip-override')], true)
  t.match(meta[Symbol.for('plugin-meta')], { name: 'fastify-cached-static', fastify: '5.x' })
  const app = Fastify()
  app.register(imported, { root: t.testdir({ 'a.txt': 'aaaa' }) })
  app.get('/send', (_request, reply) => { reply.sendFile('a.txt') })
  t.equal((await app.inject('/a.txt')).body, 'aaaa')
  t.equal((await app.inject('/send')).body, 'aaaa')
  t.ok(app.hasPlugin('fastify-cached-static'))
  await app.close()
})
