import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Fastify from 'fastify'
import fc from 'fast-check'
import t from 'tap'
import cachedStatic from '../lib/index'
import { rawRequest } from './fixtures/raw-client'
import type { FastifyInstance } from 'fastify'
import type { AddressInfo } from 'node:net'

const RUNS = Number(process.env.FUZZ_RUNS ?? 2000)

const NAMES = ['a.txt', 'b c.txt', 'd', 'index.html', '.env', '.well-known', '[id].js', 'ünï.txt', 'a%20.md', '__proto__', 'none', '..', '.', '']
const PIECES = ['%2f', '%5c', '%00', '%', '%zz', '%2e%2e', '%FF', '?q=1', '#f', '\\', ';', 'a'.repeat(300)]

// What no request line can have, the parser of HTTP refuses.
const texts = fc.string({ maxLength: 6 }).map((text) => text.replace(/\s/g, '+'))

const pieces = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...NAMES.map(encodeURIComponent)) },
  { weight: 1, arbitrary: fc.constantFrom(...PIECES) },
  { weight: 1, arbitrary: texts }
)

const urls = fc.array(pieces, { minLength: 1, maxLength: 3 })
  .map((pieces) => '/' + pieces.join('/'))

const ranges = fc.option(fc.constantFrom('bytes=0-1', 'bytes=-2', 'bytes=9-', 'bytes=0-0,2-2', 'items=0-1'), { nil: undefined })

/** The files, and beside their root one that nobody may see. */
function site (folder: string): string {
  const root = join(folder, 'root')
  for (const directory of ['d', '.well-known', 'd/d']) mkdirSync(join(root, directory), { recursive: true })
  for (const name of NAMES.slice(0, 10)) {
    if (name === 'd' || name === '.well-known') continue
    for (const directory of ['', 'd', 'd/d', '.well-known']) writeFileSync(join(root, directory, name), `served: ${directory}/${name}`)
  }
  for (const name of ['a.txt', 'none']) writeFileSync(join(folder, name), 'secret')
  return root
}

// Not `inject`, which cleans the path up.
async function answerOf (app: FastifyInstance, url: string, headers: Record<string, string>): Promise<string> {
  const { status, body, headers: { date, ...fields } } = await rawRequest((app.server.address() as AddressInfo).port, url, headers)
  return JSON.stringify({ status, body: body.toString(), fields })
}

t.test('property: hot, cold or without a cache, a path has one answer, and it is never from outside the root', async (t) => {
  const root = site(t.testdir({}))
  const open = async (options: object): Promise<FastifyInstance> => {
    const app = Fastify({ logger: false })
    t.teardown(() => app.close())
    await app.register(cachedStatic, { root, ...options })
    await app.listen({ host: '127.0.0.1', port: 0 })
    return app
  }
  const cached = await open({ openFileCache: { minUses: 2, errors: true, valid: Infinity } })
  const uncached = await open({ openFileCache: false })

  await fc.assert(fc.asyncProperty(urls, ranges, async (url, range) => {
    const headers: Record<string, string> = range === undefined ? {} : { range }
    const expected = await answerOf(uncached, url, headers)
    cached.openFileCache.clear()
    for (const warmth of ['cold', 'warm', 'hot', 'hot again']) {
      const answer = await answerOf(cached, url, headers)
      if (answer !== expected) throw new Error(`${warmth}: ${answer}, but without a cache: ${expected}`)
    }
    const { status, body } = JSON.parse(expected)
    return !body.includes('secret') && status < 500 && (status !== 200 || body.startsWith('served: '))
  }), { numRuns: RUNS })
  const { hits, negativeHits } = cached.openFileCache.stats()
  t.ok(hits > RUNS / 4 && negativeHits > RUNS / 4, `from the cache: ${hits} files, ${negativeHits} times nothing`)
})
