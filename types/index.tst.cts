import fastify = require('fastify')
import { describe, expect, test } from 'tstyche'
import cachedStatic = require('fastify-cached-static')
import openFileCache = require('fastify-cached-static/open-file-cache')

const app = fastify()

describe('a CommonJS consumer', () => {
  test('requires the plugin itself', () => {
    expect(app.register).type.toBeCallableWith(cachedStatic, { root: '/srv' })
    expect(app.register).type.not.toBeCallableWith(cachedStatic, { root: 1 })
    expect(cachedStatic).type.toBeCallableWith(app, { root: '/srv' })
  })

  test('finds the plugin under its two names as well', () => {
    expect(app.register).type.toBeCallableWith(cachedStatic.default, { root: '/srv' })
    expect(app.register).type.toBeCallableWith(cachedStatic.cachedStatic, { root: '/srv' })
  })

  test('finds the errors and the types on it', () => {
    expect(cachedStatic.errors).type.toBe<cachedStatic.Errors>()
    expect<cachedStatic.CachedStaticOptions>().type.toBeAssignableFrom({ root: '/srv', maxAge: 1000, preCompressed: true })
    expect<cachedStatic.SendOptions>().type.toBeAssignableFrom({ etag: () => undefined })
  })

  test('requires the cache alone, the same class', () => {
    expect(new openFileCache.OpenFileCache()).type.toBe<typeof app.openFileCache>()
    expect(openFileCache).type.not.toHaveProperty('default')
  })
})
