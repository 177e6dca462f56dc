import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { siteTest } from './fixtures/live-site'
import type { LiveSite } from './fixtures/live-site'

type Tap = Parameters<typeof siteTest>[0]

const SCRIPT = 'console.log(1)'.repeat(20)

/** Each form has a text of its own, so that a body says which form it is. */
const files = {
  'all.js': SCRIPT,
  'all.js.br': 'all as br',
  'all.js.zst': 'all as zstd',
  'all.js.gz': 'all as gzip',
  'only-gzip.html': '<p>plain</p>',
  'only-gzip.html.gz': 'only gzip',
  'no-plain.svg.br': 'drawing as br',
  'plain.txt': 'plain',
  'module.wasm': 'wasm',
  'module.wasm.br': 'wasm as br',
  'folder.js': 'a file',
  'folder.js.br': {},
  docs: { 'index.html': '<p>docs</p>', 'index.html.br': 'docs as br' },
  bare: { 'index.html.gz': 'bare as gzip' }
}
const on = { files, plugin: { preCompressed: true } }

interface Expected {
  coding?: string
  type?: string
  body?: string
}

async function asked (t: Tap, site: LiveSite, path: string, accept: string | undefined, { coding, type, body }: Expected): Promise<void> {
  // Asked for until it comes from memory.
  for (let times = 0; times < 3; times++) {
    const answer = await site.request(path, accept === undefined ? {} : { 'Accept-Encoding': accept })
    const name = `${path} for ${accept ?? 'no field'}`
    t.equal(answer.status, 200, name)
    t.equal(answer.headers['content-encoding'], coding, name)
    t.equal(answer.headers.vary, 'accept-encoding', name)
    if (type !== undefined) t.equal(answer.headers['content-type'], type, name)
    if (body !== undefined) t.equal(answer.body.toString(), body, name)
    t.equal(answer.headers['content-length'], String(answer.body.length), name)
  }
}

const br = { coding: 'br', body: 'all as br' }
const zstd = { coding: 'zstd', body: 'all as zstd' }
const gzip = { coding: 'gzip', body: 'all as gzip' }
const plain = { body: SCRIPT }

siteTest(t, 'P77 quality values decide, and ties go to the server', on, async (t, site) => {
  await asked(t, site, '/all.js', 'gzip, br', br)
  await asked(t, site, '/all.js', 'gzip;q=1, br;q=0.5', gzip)
  await asked(t, site, '/all.js', 'br;q=0, gzip', gzip)
  await asked(t, site, '/all.js', 'GZIP', gzip)
  await asked(t, site, '/all.js', '*', br)
  await asked(t, site, '/all.js', 'gzip;q=0', plain)
  await asked(t, site, '/all.js', '*;q=0', plain)
  await asked(t, site, '/all.js', 'identity;q=0', plain)
  await asked(t, site, '/all.js', '', plain)
  await asked(t, site, '/all.js', undefined, plain)
})

siteTest(t, 'P76 the acceptable codings are tried until one has a file', on, async (t, site) => {
  await asked(t, site, '/only-gzip.html', 'br, gzip', { coding: 'gzip', body: 'only gzip' })
  await asked(t, site, '/only-gzip.html', 'deflate, gzip;q=0.9', { coding: 'gzip', body: 'only gzip' })
  await asked(t, site, '/only-gzip.html', 'br', { body: '<p>plain</p>' })
  await asked(t, site, '/plain.txt', 'br, gzip, zstd', { body: 'plain' })
  await asked(t, site, '/folder.js', 'br', { body: 'a file' })
})

siteTest(t, 'P75 the type is that of the plain file', on, async (t, site) => {
  await asked(t, site, '/only-gzip.html', 'gzip', { coding: 'gzip', type: 'text/html; charset=utf-8' })
  await asked(t, site, '/no-plain.svg', 'br', { coding: 'br', type: 'image/svg+xml', body: 'drawing as br' })
  await asked(t, site, '/module.wasm', 'br', { coding: 'br', type: 'application/wasm' })
  const direct = await site.request('/all.js.gz', { 'Accept-Encoding': 'gzip' })
  t.match(direct.headers, { 'content-type': 'application/gzip' })
  t.equal(direct.headers['content-encoding'], undefined, 'under its own name it is no coding')
  await asked(t, site, '/all.js', 'gzip', gzip)
})

siteTest(t, 'P81 a list chooses and orders', { files, plugin: { preCompressed: ['zstd', 'gzip'] } }, async (t, site) => {
  await asked(t, site, '/all.js', 'gzip, br, zstd', zstd)
  await asked(t, site, '/all.js', 'br', plain)
})

siteTest(t, 'P80 an index has codings, asked for with or without slash', on, async (t, site) => {
  for (const path of ['/docs', '/docs/']) {
    await asked(t, site, path, 'br', { coding: 'br', type: 'text/html; charset=utf-8', body: 'docs as br' })
    await asked(t, site, path, 'gzip', { body: '<p>docs</p>' })
  }
  await asked(t, site, '/bare/', 'gzip', { coding: 'gzip', body: 'bare as gzip' })
  t.equal((await site.request('/bare/')).status, 404)
})

siteTest(t, 'P74 Vary is merged once on every answer, 304, HEAD and plain file included', {
  ...on,
  before: async (app) => {
    app.addHook('onRequest', async (request, reply) => {
      const present = request.headers['x-vary']
      if (present !== undefined) reply.header('vary', present)
    })
  }
}, async (t, site) => {
  const varied = async (present: string) => (await site.request('/plain.txt', { 'X-Vary': present })).headers.vary
  t.equal(await varied('Origin'), 'Origin, accept-encoding')
  t.equal(await varied('*'), '*')
  t.equal(await varied('ACCEPT-ENCODING'), 'ACCEPT-ENCODING')
  t.equal(await varied('Origin, Accept-Encoding'), 'Origin, Accept-Encoding')
  const { headers: { etag } } = await site.request('/all.js', { 'Accept-Encoding': 'br' })
  const notModified = await site.request('/all.js', { 'Accept-Encoding': 'br', 'If-None-Match': etag as string })
  t.equal(notModified.status, 304)
  t.match(notModified.headers, { vary: 'accept-encoding', etag })
  t.equal(notModified.headers['content-encoding'], undefined)
})

siteTest(t, 'P74 without the option there is no Vary and no coding', { files }, async (t, site) => {
  const answer = await site.request('/all.js', { 'Accept-Encoding': 'br' })
  t.equal(answer.headers.vary, undefined)
  t.equal(answer.body.toString(), SCRIPT)
})

siteTest(t, 'P62 ranges count the encoded bytes, and a tag belongs to one coding', on, async (t, site) => {
  const encoded = gzipSync(SCRIPT)
  writeFileSync(join(site.root, 'packed.js'), SCRIPT)
  writeFileSync(join(site.root, 'packed.js.gz'), encoded)
  for (let times = 0; times < 3; times++) {
    const part = await site.request('/packed.js', { 'Accept-Encoding': 'gzip', Range: 'bytes=0-1' })
    t.equal(part.status, 206)
    t.equal(part.headers['content-range'], `bytes 0-1/${encoded.length}`)
    t.strictSame(part.body, encoded.subarray(0, 2))
    const identity = await site.request('/packed.js')
    t.not(part.headers.etag, identity.headers.etag)
    const resumed = await site.request('/packed.js', {
      'Accept-Encoding': 'gzip', Range: 'bytes=2-', 'If-Range': identity.headers.etag as string
    })
    t.equal(resumed.status, 200)
  }
})

siteTest(t, 'P90 a name that is too long with its suffix is passed over', {
  files: { ['a'.repeat(253)]: 'long' }, plugin: { preCompressed: true }
}, async (t, site) => {
  await asked(t, site, '/' + 'a'.repeat(253), 'br, gzip', { body: 'long' })
})

siteTest(t, 'P49 HEAD of a coding has the fields of GET', on, async (t, site) => {
  const get = await site.request('/all.js', { 'Accept-Encoding': 'br' })
  const head = await site.request('/all.js', { 'Accept-Encoding': 'br' }, 'HEAD')
  t.equal(head.headers['content-length'], get.headers['content-length'])
  t.equal(head.headers['content-encoding'], 'br')
  t.equal(head.body.length, 0)
})
