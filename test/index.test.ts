import Fastify from 'fastify'
import t from 'tap'
import * as errors from '../lib/errors'
import imported from '../lib/index'
import required = require('../lib/index')

t.test('the module is the plugin itself, under three names', async (t) => {
  const module = required as unknown as Record<string, unknown>
  t.equal(typeof required, 'function')
  t.equal(imported, required)
  t.equal(module.default, required)
  t.equal(module.cachedStatic, required)
})

t.test('the errors are on it', async (t) => {
  const module = required as unknown as { errors: Record<string, new () => Error & { code: string, statusCode: number }> }
  t.strictSame(Object.keys(module.errors).sort(), [
    'CACHE_CONFLICT', 'EXHAUSTED', 'FORBIDDEN_PATH', 'INVALID_OPTION', 'INVALID_OPTION_VALUE', 'MALFORMED_PATH',
    'PRECONDITION_FAILED', 'RANGE_NOT_SATISFIABLE', 'READ_FAILED'
  ])
  for (const [name, statusCode] of [
    ['CACHE_CONFLICT', 500], ['EXHAUSTED', 503], ['FORBIDDEN_PATH', 403], ['INVALID_OPTION', 500], ['INVALID_OPTION_VALUE', 500],
    ['MALFORMED_PATH', 400], ['PRECONDITION_FAILED', 412], ['RANGE_NOT_SATISFIABLE', 416], ['READ_FAILED', 500]
  ] as const) {
    const CodedError = module.errors[name] as new () => Error & { code: string, statusCode: number }
    t.equal(CodedError, errors[name], 'the classes that are thrown')
    const error = new CodedError()
    t.match(error, { code: `FST_STATIC_${name}`, statusCode })
    t.ok(error instanceof Error)
    t.equal(error instanceof TypeError, name === 'INVALID_OPTION_VALUE')
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
