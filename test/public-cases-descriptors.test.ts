// Sections A3 (descriptors) and A4 (streaming and framing) of the public cases.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, lstatSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import net from 'node:net'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import cachedStatic from '../lib/index'
import { bytesOf, descriptorsUnder, hasProcfs, sha256, until } from './fixtures/files'
import { openSite, siteTest } from './fixtures/live-site'
import type { LiveSite } from './fixtures/live-site'

const MIB = 1024 * 1024
const V = 20_000

function replace (path: string, content: string | Buffer): void {
  writeFileSync(`${path}.tmp`, content)
  renameSync(`${path}.tmp`, path)
}

function sparse (path: string, size: number): void {
  writeFileSync(path, '')
  truncateSync(path, size)
}

siteTest(t, 'P30 appended between two requests of one connection', {
  cache: { minUses: 1, memory: false }, files: { 'log.txt': 'one\n' }
}, async (t, site) => {
  const path = join(site.root, 'log.txt')
  const connection = await site.connect()
  for (let i = 0; i < 10; i++) {
    connection.request('/log.txt')
    const { headers, body } = await connection.answer()
    t.equal(body.toString(), readFileSync(path, 'utf8'), 'size and bytes are of the same descriptor')
    t.equal(headers['content-length'], String(body.length))
    appendFileSync(path, `line ${i}\n`)
  }
})

siteTest(t, 'P31 evicted descriptors are closed', { plugin: { openFileCache: { max: 2, minUses: 1, memory: false } } }, async (t, site) => {
  for (let i = 0; i < 500; i++) writeFileSync(join(site.root, `${i}.txt`), `file ${i}`)
  const connection = await site.connect()
  let most = 0
  for (let i = 0; i < 500; i++) {
    connection.request(`/${i}.txt`)
    t.equal((await connection.answer()).body.toString(), `file ${i}`)
    if (i % 10 === 0) most = Math.max(most, hasProcfs ? descriptorsUnder(site.root).length : site.stats().openFiles)
  }
  // Two, and what is being opened and closed.
  t.ok(most <= 10, `${most} at most`)
  t.match(await site.idle(t, 2), { openFiles: 2, entries: 2 })
})

siteTest(t, 'P32 replaced by rename 200 times: the number of descriptors stays', {
  cache: { valid: V, minUses: 1, memory: false }
}, async (t, site) => {
  const connection = await site.connect()
  for (let i = 0; i < 200; i++) {
    replace(join(site.root, 'x.txt'), `version ${i}`)
    site.clock.jump(V)
    connection.request('/x.txt')
    const { body } = await connection.answer()
    if (body.toString() !== `version ${i}`) t.fail(`${body} instead of version ${i}`)
    if (i % 20 === 0) await site.idle(t, 1)
  }
  t.match(await site.idle(t, 1), { openFiles: 1, entries: 1 })
})

siteTest(t, 'P34 clients that leave in the middle of 32 MiB, 200 times', {}, async (t, site) => {
  sparse(join(site.root, 'big.bin'), 32 * MIB)
  for (let i = 0; i < 200; i++) {
    const connection = await site.connect()
    connection.request('/big.bin')
    await connection.head()
    connection.destroy()
  }
  await site.idle(t, 1)
})

siteTest(t, 'P35 20 parallel readers of one descriptor', { plugin: { openFileCache: { minUses: 1 } } }, async (t, site) => {
  const bytes = bytesOf(8 * MIB)
  writeFileSync(join(site.root, 'big.bin'), bytes)
  await site.request('/big.bin', { Range: 'bytes=0-0' })
  const { opens } = await site.idle(t, 1)
  const wanted = sha256(bytes)
  const answers = await Promise.all(Array.from({ length: 20 }, () => site.request('/big.bin')))
  for (const { body } of answers) t.equal(sha256(body), wanted)
  t.equal(site.stats().opens, opens, 'nobody opened it again')
})

t.test('P36 special files', async (t) => {
  const open = new Map<number, string>()
  const wrong: string[] = []
  siteTest(t, 'a FIFO, a socket and a directory are closed once each', {
    files: { dir: {} },
    cache: { valid: 0, errors: false, minUses: 1 },
    fileSystem: (real) => ({
      open: async (path) => {
        const fd = await real.open(path)
        if (open.has(fd)) wrong.push(`${fd} was opened for ${path} and for ${open.get(fd)}`)
        open.set(fd, path)
        return fd
      },
      close: async (fd) => {
        if (!open.delete(fd)) wrong.push(`${fd} was closed and is not open`)
        await real.close(fd)
      }
    })
  }, async (t, site) => {
    const paths = ['/socket', '/dir', '/dir/']
    try {
      execFileSync('mkfifo', [join(site.root, 'fifo')])
      paths.push('/fifo')
    } catch {
      t.comment('no mkfifo here: no FIFO')
    }
    // Relative, as the address of a socket has room for some hundred bytes.
    const workingDirectory = process.cwd()
    process.chdir(site.root)
    const server = net.createServer().listen('socket')
    await once(server, 'listening')
    process.chdir(workingDirectory)
    t.ok(lstatSync(join(site.root, 'socket')).isSocket())
    writeFileSync(join(site.root, 'x.txt'), 'x')
    await Promise.all(Array.from({ length: 10 }, async () => {
      const connection = await site.connect()
      for (let i = 0; i < 10; i++) {
        for (const path of [...paths, '/x.txt']) {
          connection.request(path)
          const { status } = await connection.answer()
          if (status !== (path === '/x.txt' ? 200 : 404)) t.fail(`${path}: ${status}`)
        }
      }
    }))
    server.close()
    await site.idle(t, 1)
    await site.cache?.close()
    t.ok(await until(() => open.size === 0), 'each was closed')
    t.strictSame(wrong, [])
  })
})

siteTest(t, 'P37 a deleted file gives its disk space back, without any traffic', {
  cache: { valid: V, inactive: 30_000, minUses: 1 }
}, async (t, site) => {
  const path = join(site.root, 'big.bin')
  sparse(path, 1024 * MIB)
  t.equal((await site.request('/big.bin', { Range: 'bytes=-10' })).status, 206)
  await site.idle(t, 1)
  rmSync(path)
  await site.clock.advance(31_000)
  await site.idle(t, 0)
})

siteTest(t, 'P37 the same of one that was used since its last check: by then at the latest', {
  cache: { valid: V, inactive: Infinity, minUses: 1 }
}, async (t, site) => {
  const path = join(site.root, 'big.bin')
  sparse(path, MIB)
  for (let i = 0; i < 2; i++) await site.request('/big.bin', { Range: 'bytes=-10' })
  rmSync(path)
  await site.clock.advance(V + 1000)
  await site.idle(t, 0)
})

siteTest(t, 'P38 evicted and replaced while it is being sent', {
  plugin: { openFileCache: { max: 1, minUses: 1, memory: false } },
  files: { 'b.txt': 'b', 'c.txt': 'c', 'd.txt': 'd' }
}, async (t, site) => {
  const bytes = bytesOf(12 * MIB)
  writeFileSync(join(site.root, 'a.bin'), bytes)
  const connection = await site.connect()
  connection.request('/a.bin')
  const head = await connection.head()
  for (const name of ['b', 'c', 'd']) t.match(await site.request(`/${name}.txt`), { status: 200, body: Buffer.from(name) })
  replace(join(site.root, 'a.bin'), 'new')
  t.match(await site.request('/a.bin'), { status: 200, body: Buffer.from('new') })
  t.equal(site.stats().leases, 1, 'still being sent')
  const { body, complete } = await connection.body(head)
  t.ok(complete)
  t.equal(sha256(body), sha256(bytes), 'the old version whole')
  await site.idle(t, 1)
})

siteTest(t, 'P39 nothing is left to the garbage collector', {}, async (t, site) => {
  const warnings: string[] = []
  const note = (warning: Error): void => { warnings.push(warning.message) }
  process.on('warning', note)
  t.teardown(() => process.off('warning', note))
  for (let i = 0; i < 100; i++) {
    writeFileSync(join(site.root, `${i}.bin`), bytesOf(200_000, i))
    for (let use = 0; use < 2; use++) t.equal((await site.request(`/${i}.bin`, { Range: 'bytes=0-9' })).status, 206)
  }
  t.equal((await site.idle(t, 100)).openFiles, 100)
  await site.app.close()
  await site.idle(t, 0)
  globalThis.gc?.()
  await setImmediate()
  t.strictSame(warnings, [])
})

t.test('P40 one cache for two roots', async (t) => {
  const root = t.testdir({ one: { 'index.html': 'site one' }, two: { 'index.html': 'site two' } })
  const site = await openSite(t, root, {
    plugin: { root: join(root, 'one'), prefix: '/one' },
    after: async (app) => {
      await app.register(cachedStatic, { root: join(root, 'two'), prefix: '/two', decorateReply: false })
    }
  })
  for (let i = 0; i < 3; i++) {
    for (const name of ['one', 'two']) {
      for (const path of [`/${name}/`, `/${name}/index.html`]) {
        t.match(await site.request(path), { status: 200, body: Buffer.from(`site ${name}`) })
      }
    }
  }
  t.equal(site.stats().entries, 2)
  await site.end(t)
})

siteTest(t, 'P44 a file grows while it is sent', { files: { 'small.txt': 'small' } }, async (t, site) => {
  const path = join(site.root, 'big.bin')
  const bytes = bytesOf(12 * MIB)
  writeFileSync(path, bytes)
  const connection = await site.connect()
  connection.request('/big.bin')
  const head = await connection.head()
  appendFileSync(path, bytesOf(MIB, 5))
  const { body, complete } = await connection.body(head)
  t.ok(complete)
  t.equal(sha256(body), sha256(bytes), 'exactly what was promised')
  connection.request('/small.txt')
  t.match(await connection.answer(), { status: 200, body: Buffer.from('small') }, 'the connection can be used again')
})

t.test('P46 clients that leave', async (t) => {
  for (const when of ['after the head', 'before the head'] as const) {
    siteTest(t, `${when}: no error in the log, one reply, the process lives`, {}, async (t, site) => {
      sparse(join(site.root, 'image.bin'), 5 * MIB)
      let replies = 0
      site.app.server.on('request', (_request, response) => {
        const writeHead = response.writeHead.bind(response) as (...parameters: unknown[]) => typeof response
        response.writeHead = (...parameters: unknown[]) => {
          replies++
          return writeHead(...parameters)
        }
      })
      for (let i = 0; i < 50; i++) {
        const connection = await site.connect()
        connection.request('/image.bin')
        if (when === 'after the head') await connection.head()
        connection.destroy()
      }
      await site.idle(t, 1)
      t.ok(replies <= 50, `${replies} replies to 50 requests`)
      t.equal((await site.request('/image.bin', { Range: 'bytes=0-9' })).status, 206)
      t.strictSame(site.log.filter(({ level }) => level >= 40).map(({ msg }) => msg), [], 'nor a warning')
    })
  }
})

for (const [how, cache] of [
  ['the cache as it is', {}], ['valid: 0', { valid: 0 }], ['descriptors only', { minUses: 1, memory: false }], ['no cache', false]
] as const) {
  siteTest(t, `P47 replaced by rename as fast as possible, ${how}`, { plugin: { openFileCache: cache } }, async (t, site) => {
    const path = join(site.root, 'x.txt')
    const versions = ['a'.repeat(10), 'b'.repeat(20)]
    writeFileSync(path, versions[0] as string)
    const over = new AbortController()
    const replacing = (async () => {
      for (let i = 0; !over.signal.aborted; i++) {
        await writeFile(`${path}.tmp`, versions[i % 2] as string)
        await rename(`${path}.tmp`, path)
      }
    })()
    let mismatches = 0
    await Promise.all(Array.from({ length: 5 }, async () => {
      const connection = await site.connect()
      for (let i = 0; i < 200; i++) {
        connection.request('/x.txt')
        const { status, headers, body } = await connection.answer()
        const length = headers['content-length']
        const isRight = status === 200 && versions.includes(body.toString()) && length === String(body.length) &&
          headers.etag?.startsWith(`W/"${body.length.toString(16)}-`)
        if (isRight !== true) mismatches++
      }
    }))
    over.abort()
    await replacing
    t.equal(mismatches, 0)
  })
}

t.test('P48 closing while a client holds on', async (t) => {
  for (const forceCloseConnections of [true, false]) {
    siteTest(t, `forceCloseConnections: ${forceCloseConnections}`, { fastify: { forceCloseConnections } }, async (t, site) => {
      const timers = process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length
      const bytes = bytesOf(12 * MIB)
      writeFileSync(join(site.root, 'big.bin'), bytes)
      const connection = await site.connect()
      connection.request('/big.bin', { Connection: 'close' })
      const head = await connection.head()
      let isClosed = false
      const closing = site.app.close().then(() => { isClosed = true })
      if (forceCloseConnections) {
        t.ok(await until(() => isClosed), 'resolves though the client reads nothing')
      } else {
        for (let turn = 0; turn < 100; turn++) await setImmediate()
        t.notOk(isClosed, 'waits for the client')
        const { body, complete } = await connection.body(head)
        t.ok(complete)
        t.equal(sha256(body), sha256(bytes))
      }
      await closing
      await site.idle(t, 0)
      connection.destroy()
      t.ok(process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length <= timers, 'no timer keeps the process alive')
    })
  }
})

t.test('P49 HEAD', async (t) => {
  let reads = 0
  siteTest(t, 'has the status and the fields of GET, and reads no file', {
    files: { 'a.txt': 'hello', 'big.bin': bytesOf(200_000), dir: { 'index.html': 'index' }, bare: {} },
    cache: { minUses: 1 },
    fileSystem: (real) => ({
      read: (...parameters) => {
        reads++
        real.read(...parameters)
      }
    })
  }, async (t, site) => {
    // Cold, then warm: GET is asked afterwards.
    for (const round of ['cold', 'warm']) {
      const heads: Array<Awaited<ReturnType<LiveSite['request']>>> = []
      const cases: Array<[path: string, headers: Record<string, string>, status: number]> = [
        ['/a.txt', {}, 200],
        ['/a.txt', { Range: 'bytes=0-1' }, 200],
        ['/a.txt', { Range: 'bytes=99-' }, 200],
        ['/big.bin', {}, 200],
        ['/dir', {}, 200],
        ['/dir/', {}, 200],
        ['/bare', {}, 404],
        ['/none', {}, 404],
        ['/a%5cb', {}, 403]
      ]
      reads = 0
      for (const [path, headers] of cases) heads.push(await site.request(path, headers, 'HEAD'))
      t.equal(reads, 0, `${round}: nothing was read`)
      for (const [i, [path, , status]] of cases.entries()) {
        const { headers: { date: _, ...fields }, status: headStatus, body } = heads[i] as typeof heads[0]
        const get = await site.request(path)
        const { date: __, ...same } = get.headers
        t.equal(headStatus, status, path)
        t.equal(get.status, status, path)
        // The default not-found message names the method.
        if (status === 404) {
          delete fields['content-length']
          delete same['content-length']
        }
        t.strictSame(fields, same, `${round}: ${path}`)
        t.equal(body.length, 0)
      }
    }
  })
})

siteTest(t, 'P50 positions beyond 32 bits', {}, async (t, site) => {
  const size = 5 * 1024 * MIB
  const path = join(site.root, 'huge.bin')
  sparse(path, size)
  writeFileSync(path, '0123456789', { flag: 'r+' })
  appendFileSync(path, 'the end')
  const total = size + 7
  t.match(await site.request('/huge.bin', { Range: 'bytes=4294967296-4294967305' }), {
    status: 206, headers: { 'content-range': `bytes 4294967296-4294967305/${total}`, 'content-length': '10' }, body: Buffer.alloc(10)
  })
  t.match(await site.request('/huge.bin', {}, 'HEAD'), { status: 200, headers: { 'content-length': String(total) } })
  t.match(await site.request('/huge.bin', { Range: 'bytes=-7' }), {
    status: 206, headers: { 'content-range': `bytes ${size}-${total - 1}/${total}` }, body: Buffer.from('the end')
  })
  t.match(await site.request('/huge.bin', { Range: `bytes=${size + 4}-` }), { status: 206, body: Buffer.from('end') })
  t.match(await site.request('/huge.bin', { Range: `bytes=${total}-` }), { status: 416, headers: { 'content-range': `bytes */${total}` } })
})

siteTest(t, 'P51 a part, then another request on the connection', {
  files: { 'x.txt': bytesOf(124), 'y.txt': 'second' }
}, async (t, site) => {
  const connection = await site.connect()
  for (let i = 0; i < 4; i++) {
    connection.request('/x.txt', { Range: 'bytes=0-10' })
    t.match(await connection.answer(), { status: 206, headers: { 'content-length': '11' }, body: bytesOf(124).subarray(0, 11) })
    connection.request('/y.txt')
    t.match(await connection.answer(), { status: 200, body: Buffer.from('second') })
  }
})
