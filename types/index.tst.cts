import fastify = require('fastify')
import fastifyStatic = require('@fastify/static')
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

  test('finds the plugin under its names as well, and that of @fastify/static', () => {
    expect(app.register).type.toBeCallableWith(cachedStatic.default, { root: '/srv' })
    expect(app.register).type.toBeCallableWith(cachedStatic.cachedStatic, { root: '/srv' })
    expect(app.register).type.toBeCallableWith(cachedStatic.fastifyStatic, { root: '/srv' })
    expect(app.register).type.not.toBeCallableWith(cachedStatic.fastifyStatic, { root: 1 })
  })

  test('finds the errors and the types on it', () => {
    expect(cachedStatic.errors).type.toBe<cachedStatic.Errors>()
    expect<cachedStatic.CachedStaticOptions>().type.toBeAssignableFrom({ root: '/srv', maxAge: 1000, preCompressed: true })
    expect<cachedStatic.SendOptions>().type.toBeAssignableFrom({ etag: () => undefined })
    expect<cachedStatic.EtagFunction>().type.toBeAssignableTo<NonNullable<cachedStatic.SendOptions['etag']>>()
    expect<cachedStatic.Coding[]>().type.toBeAssignableTo<NonNullable<cachedStatic.CachedStaticOptions['preCompressed']>>()
    expect<cachedStatic.Root>().type.toBeAssignableTo<NonNullable<cachedStatic.SendOptions['root']>>()
    expect<cachedStatic.CodedErrorConstructor>().type.toBe<cachedStatic.Errors['FST_STATIC_EXHAUSTED']>()
  })

  test('finds each type of @fastify/static on it, so that what is written for theirs is for ours', () => {
    expect<cachedStatic.FastifyStaticOptions>().type.toBeAssignableFrom<fastifyStatic.FastifyStaticOptions>()
    expect<cachedStatic.SendOptions>().type.toBeAssignableFrom<fastifyStatic.SendOptions>()
    expect<cachedStatic.ListOptions>().type.toBeAssignableFrom<fastifyStatic.ListOptions>()
    expect<cachedStatic.ListOptionsJsonFormat>().type.toBeAssignableFrom<fastifyStatic.ListOptionsJsonFormat>()
    expect<cachedStatic.ListOptionsHtmlFormat>().type.toBeAssignableFrom<fastifyStatic.ListOptionsHtmlFormat>()
    expect<cachedStatic.ListRender>().type.toBe<fastifyStatic.ListRender>()
    expect<cachedStatic.ListDir>().type.toBe<fastifyStatic.ListDir>()
    expect<cachedStatic.ListFile>().type.toBe<fastifyStatic.ListFile>()
    expect<cachedStatic.ExtendedInformation>().type.toBe<fastifyStatic.ExtendedInformation>()
    expect<typeof cachedStatic>().type.toBeAssignableTo<typeof fastifyStatic>()
  })

  test('requires the cache alone, the same class', () => {
    expect(new openFileCache.OpenFileCache()).type.toBe<typeof app.openFileCache>()
    expect(openFileCache).type.not.toHaveProperty('default')
  })
})
