import t from 'tap'
import { MTIME, put, siteTest } from './fixtures/fake-site'
import { settled } from './fixtures/fake-world'
import type { Stats } from 'node:fs'
import type { FastifyInstance } from 'fastify'
import type { Engine } from './fixtures/engine'
import type { SiteOptions } from './fixtures/fake-site'
import type { SendOptions } from '../types/index'
import type { OpenFileCacheOptions } from '../types/open-file-cache'

type OnFile = NonNullable<SendOptions['onFile']>

const BIG = Buffer.alloc(200_000, 'b')
const FILES = { 'a.txt': 'aaaa', 'a.txt.gz': 'gz of a', 'big.bin': BIG, 'd/index.html': 'index', 'e/x': 'x' }
const KINDS: Array<[string, OpenFileCacheOptions]> = [
  ['held in memory', { minUses: 1 }], ['kept open', { minUses: 1, memory: false }], ['known by its metadata', { minUses: 100 }], ['opened each time', { valid: 0 }]
]

/** A route of the registration, and calls that send the same files. */
function withOnFile (onFile: OnFile, more: SiteOptions = {}): SiteOptions {
  return {
    files: FILES,
    ...more,
    options: { prefix: '/', onFile, ...more.options },
    before: (app, engine) => {
      app.route({ method: ['GET', 'HEAD'], url: '/call/*', handler: (request, reply) => { reply.sendFile((request.params as { '*': string })['*']) } })
      more.before?.(app, engine)
    }
  }
}

/** What waits until the test lets it go on. */
class Gate {
  #open = (): void => {}
  #arrive = (): void => {}
  arrived = Promise.resolve()

  /** Closed from now on; `arrived` when somebody waits. */
  close (): void {
    this.arrived = new Promise((resolve) => { this.#arrive = resolve })
  }

  readonly wait = (): Promise<void> => {
    this.#arrive()
    return new Promise((resolve) => { this.#open = resolve })
  }

  open (): void {
    this.#open()
  }
}

t.test('is called once with the file that is sent, on 200, 206, 304 and HEAD', async (t) => {
  for (const [kind, cache] of KINDS) {
    for (const isAsync of [false, true]) {
      const called: Array<[string, number, number, boolean]> = []
      const note = (path: string, stat: Stats): void => { called.push([path, stat.size, stat.mtimeMs, stat.isFile()]) }
      const onFile: OnFile = isAsync
        ? async (path, stat) => {
          await settled()
          note(path, stat)
        }
        : note
      siteTest(t, `${kind}, ${isAsync ? 'asynchronously' : 'at once'}`, withOnFile(onFile, { cache }), async (t, { get, head }) => {
        for (let round = 0; round < 3; round++) {
          for (const [name, path, bytes] of [['a.txt', '/www/a.txt', Buffer.from('aaaa')], ['big.bin', '/www/big.bin', BIG], ['d/', '/www/d/index.html', Buffer.from('index')]] as const) {
            for (const url of [`/${name}`, `/call/${name}`]) {
              called.length = 0
              const whole = await get(url)
              t.equal(whole.statusCode, 200, url)
              t.ok(whole.rawPayload.equals(bytes))
              t.match(await get(url, { range: 'bytes=1-2' }), { statusCode: 206, rawPayload: bytes.subarray(1, 3) })
              t.match(await get(url, { 'if-none-match': '*' }), { statusCode: 304, body: '' })
              t.match(await head(url), { statusCode: 200, body: '', headers: { 'content-length': String(bytes.length) } })
              t.strictSame(called, Array(4).fill([path, bytes.length, MTIME, true]), url)
            }
          }
        }
      })
    }
  }

  const called: string[] = []
  siteTest(t, 'and not where no file is sent', withOnFile((path) => { called.push(path) }, { options: { redirect: true, preCompressed: true } }), async (t, { get, fs }) => {
    fs.chmod('/www/e/x', false)
    for (let round = 0; round < 2; round++) {
      for (const [url, status] of [['/none', 404], ['/call/none', 404], ['/d', 301], ['/e/', 404], ['/e/x', 403], ['/../x', 403]] as const) {
        t.equal((await get(url)).statusCode, status, url)
      }
    }
    t.strictSame(called, [])
    t.equal((await get('/a.txt', { 'accept-encoding': 'gzip' })).body, 'gz of a')
    t.strictSame(called, ['/www/a.txt.gz'], 'a coded file by its own path')
  })
})

t.test('comes before anything is said of the file', async (t) => {
  for (const [kind, cache] of KINDS) {
    const order: string[] = []
    const gate = new Gate()
    siteTest(t, kind, withOnFile(async () => {
      order.push('onFile')
      await gate.wait()
    }, {
      cache,
      options: { allowedPath: () => { order.push('allowedPath'); return true }, setHeaders: () => { order.push('setHeaders') } },
      before: (app) => app.addHook('onSend', async () => { order.push('onSend') })
    }), async (t, site) => {
      for (let round = 0; round < 3; round++) {
        for (const url of ['/a.txt', '/call/a.txt', '/big.bin']) {
          order.length = 0
          gate.close()
          const request = site.get(url)
          await gate.arrived
          await settled()
          t.strictSame(order, ['allowedPath', 'onFile'], `${url} waits`)
          gate.open()
          t.equal((await request).statusCode, 200)
          t.strictSame(order, ['allowedPath', 'onFile', 'setHeaders', 'onSend'])
        }
      }
    })
  }

  const called: string[] = []
  siteTest(t, 'and is not called for a path that is refused', withOnFile((path) => { called.push(path) }, { options: { allowedPath: () => false } }), async (t, { get }) => {
    for (const url of ['/a.txt', '/call/a.txt']) t.equal((await get(url)).statusCode, 404)
    t.strictSame(called, [])
  })
})

t.test('that fails sends its error instead', async (t) => {
  const mine = () => Object.assign(new Error('mine'), { code: 'EACCES' })
  for (const [name, onFile] of [
    ['throwing', () => { throw mine() }], ['rejecting', async () => { throw mine() }], ['rejecting later', async () => { await settled(); throw mine() }]
  ] as Array<[string, OnFile]>) {
    for (const [kind, cache] of KINDS) {
      siteTest(t, `${name}: ${kind}`, withOnFile(onFile, {
        cache, before: (app) => app.setErrorHandler((error: Error, _request, reply) => { reply.code(418).send(error.message) })
      }), async (t, site) => {
        for (let round = 0; round < 3; round++) {
          for (const url of ['/a.txt', '/big.bin', '/call/a.txt', '/call/big.bin']) {
            for (const headers of [{}, { range: 'bytes=0-1' }, { 'if-none-match': '*' }]) {
              const response = await site.get(url, headers)
              t.match(response, { statusCode: 418, body: 'mine' }, url)
              for (const name of ['etag', 'last-modified', 'cache-control', 'content-range']) t.notOk(name in response.headers, name)
            }
            t.equal((await site.head(url)).statusCode, 418)
            t.equal((await site.held()).leases, 0)
          }
        }
      })
    }
  }
})

t.test('of a call goes before that of the registration', async (t) => {
  const called: string[] = []
  const note = (who: string) => (path: string): void => { called.push(`${who} ${path}`) }
  siteTest(t, 'where the call has one', withOnFile(note('registered'), {
    before: (app: FastifyInstance) => {
      app.get('/own', (_request, reply) => { reply.sendFile('a.txt', { onFile: note('own') }) })
      app.get('/download', (_request, reply) => { reply.download('a.txt', 'b.txt', { onFile: async (path) => note('own')(path) }) })
      app.get('/options', (_request, reply) => { reply.sendFile('a.txt', { maxAge: 1000 }) })
      app.get('/undefined', (_request, reply) => { reply.sendFile('a.txt', { onFile: undefined } as object) })
      app.get('/failing', (_request, reply) => { reply.sendFile('a.txt', { onFile: async () => { throw new Error('own') } }) })
      app.get('/none', (_request, reply) => { reply.sendFile('a.txt', { onFile: 'x' as unknown as OnFile }) })
    }
  }), async (t, { get }) => {
    for (let round = 0; round < 3; round++) {
      for (const [url, who] of [['/own', 'own'], ['/download', 'own'], ['/options', 'registered'], ['/undefined', 'registered'], ['/a.txt', 'registered']] as const) {
        called.length = 0
        t.equal((await get(url)).body, 'aaaa', url)
        t.strictSame(called, [`${who} /www/a.txt`], url)
      }
      called.length = 0
      t.match((await get('/failing')).json(), { statusCode: 500, message: 'own' })
      t.match((await get('/none')).json(), { statusCode: 500, code: 'FST_STATIC_INVALID_OPTION_VALUE', message: '"onFile" option must be a function, but is "x"' })
      t.strictSame(called, [])
    }
  })
})

t.test('while it is awaited', async (t) => {
  const gate = new Gate()
  const raws: Array<{ destroy (): void }> = []
  let replies = 0
  const calls: string[] = []
  const waiting = (cache: OpenFileCacheOptions, options: SiteOptions['options'] = {}): SiteOptions => withOnFile(async (path) => {
    calls.push(path)
    await gate.wait()
  }, {
    cache,
    options: options as object,
    before: (app) => {
      app.addHook('onRequest', async (_request, reply) => { raws.push(reply.raw) })
      app.addHook('onSend', async () => { replies++ })
    }
  } as SiteOptions)

  for (const [kind, cache] of KINDS) {
    siteTest(t, `the client may leave: nothing is sent, and no lease is left: ${kind}`, waiting(cache), async (t, site) => {
      replies = 0
      for (const url of ['/a.txt', '/big.bin', '/call/a.txt', '/call/big.bin']) {
        for (let round = 0; round < 3; round++) {
          gate.close()
          const request = site.get(url)
          request.catch(() => {})
          await gate.arrived
          raws.at(-1)?.destroy()
          await t.rejects(request, { code: 'LIGHT_ECONNRESET' })
          t.equal((await site.held()).leases, 0, `${url}: before it settles, which it may never do`)
          gate.open()
          t.equal((await site.held()).leases, 0, url)
        }
      }
      t.equal(replies, 0)
      t.strictSame(site.log.filter(({ level }) => level >= 40), [])
    })

    siteTest(t, `the file may be replaced: one version is sent: ${kind}`, waiting(cache), async (t, site) => {
      for (const url of ['/a.txt', '/call/a.txt']) {
        for (let round = 0; round < 3; round++) {
          put(site, '/www/a.txt', 'old version')
          site.clock.jump(30_000)
          gate.close()
          const request = site.get(url)
          await gate.arrived
          put(site, '/www/new', 'new')
          site.fs.rename('/www/new', '/www/a.txt')
          site.cache.clear()
          gate.open()
          const { statusCode, body, headers } = await request
          t.equal(statusCode, 200)
          t.ok(body === 'old version' || body === 'new', body)
          t.equal(headers['content-length'], String(body.length))
        }
      }
    })
  }

  siteTest(t, 'another file may come to answer: it is called for that one, too', waiting({ minUses: 1 }, { index: ['one', 'two'] }), async (t, site) => {
    put(site, '/www/d/one', 'one')
    put(site, '/www/d/two', 'two')
    const answered = async (during: (engine: Engine) => void) => {
      calls.length = 0
      gate.close()
      const request = site.get('/d/')
      await gate.arrived
      gate.close()
      during(site)
      gate.open()
      await Promise.race([request, gate.arrived])
      gate.open()
      return await request
    }
    for (let round = 0; round < 2; round++) t.equal((await answered(() => {})).body, 'one')
    t.strictSame(calls, ['/www/d/one'])
    const response = await answered(({ fs, cache }) => {
      fs.unlink('/www/d/one')
      cache.clear()
    })
    t.match(response, { statusCode: 200, body: 'two' })
    t.strictSame(calls, ['/www/d/one', '/www/d/two'])
  })
})
