// Sections A5 (ranges), A6 (conditional requests) and A8 (URL to file name) of the public cases.
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import compress from '@fastify/compress'
import t from 'tap'
import { bytesOf, sha256, versionOf } from './fixtures/files'
import { siteTest } from './fixtures/live-site'
import type { LiveSite } from './fixtures/live-site'
import type { Answer } from './fixtures/raw-client'

type Tap = Parameters<typeof siteTest>[0]

const DIGITS = '0123456789'

/** A range of `/ten.txt`, whose ten bytes are the digits. */
async function ranged (t: Tap, site: LiveSite, range: string, expected: { status: number, body?: string, contentRange?: string }): Promise<void> {
  const answer = await site.request('/ten.txt', { Range: range })
  t.equal(answer.status, expected.status, range)
  t.equal(answer.headers['content-range'], expected.contentRange, range)
  if (expected.body !== undefined) {
    t.equal(answer.body.toString(), expected.body, range)
    t.equal(answer.headers['content-length'], String(expected.body.length), range)
  }
}

// Cases are asked for three times: from a descriptor, from a descriptor that stays, and from memory.
const whole = { status: 200, body: DIGITS }
const ten = { files: { 'ten.txt': DIGITS } }

siteTest(t, 'P53 the last bytes', ten, async (t, site) => {
  for (let times = 0; times < 3; times++) {
    await ranged(t, site, 'bytes=-3', { status: 206, body: '789', contentRange: 'bytes 7-9/10' })
    await ranged(t, site, 'bytes=-8', { status: 206, body: '23456789', contentRange: 'bytes 2-9/10' })
    await ranged(t, site, 'bytes=-99', { status: 206, body: DIGITS, contentRange: 'bytes 0-9/10' })
  }
})

siteTest(t, 'P54 zero is a number', ten, async (t, site) => {
  for (let times = 0; times < 3; times++) {
    await ranged(t, site, 'bytes=0-0', { status: 206, body: '0', contentRange: 'bytes 0-0/10' })
    await ranged(t, site, 'bytes=-0', { status: 416, contentRange: 'bytes */10' })
    await ranged(t, site, 'bytes=9-9', { status: 206, body: '9', contentRange: 'bytes 9-9/10' })
    await ranged(t, site, 'bytes=10-', { status: 416, contentRange: 'bytes */10' })
  }
})

siteTest(t, 'P55 numbers that are none', ten, async (t, site) => {
  for (const range of ['hello', 'bytes', 'bytes=', 'bytes=abc', 'bytes=5-2', 'bytes=1e3-', 'bytes= 0-1', 'bytes=--1', 'bytes=0x1-', 'bytes=-', 'bytes=1', 'bytes=1.5-2']) {
    await ranged(t, site, range, whole)
  }
  await ranged(t, site, 'bytes=0-99999999999999999999', { status: 206, body: DIGITS, contentRange: 'bytes 0-9/10' })
  await ranged(t, site, 'bytes=99999999999999999999-', { status: 416, contentRange: 'bytes */10' })
  await ranged(t, site, 'bytes=-99999999999999999999', { status: 206, body: DIGITS, contentRange: 'bytes 0-9/10' })
  // RFC 9110 5.6.1.2: an empty element of a list is ignored.
  await ranged(t, site, 'bytes=0-1,', { status: 206, body: '01', contentRange: 'bytes 0-1/10' })
})

siteTest(t, 'P56 several ranges get the whole file', ten, async (t, site) => {
  for (const range of ['bytes=0-1,5-6', 'bytes=0-3,2-6', 'bytes=0-1, 8-', 'bytes=-1,-2']) await ranged(t, site, range, whole)
})

siteTest(t, 'P57 hundreds of ranges', { files: { 'mib.bin': bytesOf(1024 * 1024) } }, async (t, site) => {
  const wanted = sha256(bytesOf(1024 * 1024))
  for (const range of [Array(200).fill('0-').join(), Array.from({ length: 1000 }, (_, i) => `${2 * i}-${2 * i}`).join()]) {
    const answer = await site.request('/mib.bin', { Range: `bytes=${range}` })
    t.match(answer, { status: 200, headers: { 'content-length': String(1024 * 1024) } })
    t.equal(sha256(answer.body), wanted)
  }
})

siteTest(t, 'P58 an empty file', { files: { 'empty.txt': '' } }, async (t, site) => {
  for (let times = 0; times < 3; times++) {
    for (const range of ['bytes=0-', 'bytes=0-0']) {
      t.match(await site.request('/empty.txt', { Range: range }), { status: 416, headers: { 'content-range': 'bytes */0' } }, range)
    }
    const suffix = await site.request('/empty.txt', { Range: 'bytes=-5' })
    t.match(suffix, { status: 200, headers: { 'content-length': '0' } })
    t.equal(suffix.headers['content-range'], undefined)
    t.match(await site.request('/empty.txt'), { status: 200, headers: { 'content-length': '0' } })
  }
})

t.test('P59 video players', async (t) => {
  const video = bytesOf(500_000)
  const files = { 'film.mp4': video }

  async function plays (t: Tap, site: LiveSite, ifRange: (first: Answer) => string | undefined): Promise<void> {
    const first = await site.request('/film.mp4', { Range: 'bytes=0-1' })
    t.match(first, { status: 206, headers: { 'content-range': 'bytes 0-1/500000', 'content-length': '2', 'content-type': 'video/mp4', 'accept-ranges': 'bytes' } })
    const all = await site.request('/film.mp4', { Range: 'bytes=0-' })
    t.match(all, { status: 206, headers: { 'content-range': 'bytes 0-499999/500000' } })
    t.equal(sha256(all.body), sha256(video))
    const validator = ifRange(first)
    const rest = await site.request('/film.mp4', { Range: 'bytes=300000-', ...validator !== undefined && { 'If-Range': validator } })
    t.match(rest, { status: 206, headers: { 'content-range': 'bytes 300000-499999/500000', 'accept-ranges': 'bytes' } })
    t.equal(sha256(rest.body), sha256(video.subarray(300_000)))
    const whole = await site.request('/film.mp4')
    t.match(whole, { status: 200, headers: { 'accept-ranges': 'bytes' } })
    for (const { headers } of [first, all, rest]) t.equal(headers.etag, whole.headers.etag, 'one tag for 200 and 206')
  }

  siteTest(t, 'resume by date', { files }, async (t, site) => await plays(t, site, ({ headers }) => headers['last-modified']))
  siteTest(t, 'resume by a strong tag', { files, plugin: { etag: () => '"strong"' } }, async (t, site) => {
    await plays(t, site, ({ headers }) => headers.etag)
  })
})

siteTest(t, 'P60 If-Range compares strongly', ten, async (t, site) => {
  const { etag } = versionOf(join(site.root, 'ten.txt'))
  const opaque = etag.slice(3, -1)
  for (const ifRange of [etag, `"${opaque}"`, `"zz${opaque}zz"`, `W/"zz${opaque}zz"`, '"zz"', '*', `${etag}, ${etag}`, 'Thu, 01 Jan 1970 00:00:00 GMT', 'junk']) {
    const answer = await site.request('/ten.txt', { 'If-Range': ifRange, Range: 'bytes=0-1' })
    t.match(answer, { status: 200, body: Buffer.from(DIGITS) }, ifRange)
  }
})

siteTest(t, 'P63 a part is not compressed', {
  files: { 'text.txt': 'All work and no play. '.repeat(1000) },
  before: async (app) => { await app.register(compress, { global: true, threshold: 0 }) }
}, async (t, site) => {
  const { body } = versionOf(join(site.root, 'text.txt'))
  for (let times = 0; times < 3; times++) {
    const part = await site.request('/text.txt', { Range: 'bytes=0-99', 'Accept-Encoding': 'gzip' })
    t.match(part, { status: 206, headers: { 'content-range': `bytes 0-99/${body.length}`, 'content-length': '100' }, body: body.subarray(0, 100) })
    t.equal(part.headers['content-encoding'], undefined)
    t.match(await site.request('/text.txt', { 'Accept-Encoding': 'gzip' }), { status: 200, headers: { 'content-encoding': 'gzip' } })
  }
})

siteTest(t, 'P65 units', ten, async (t, site) => {
  for (const unit of ['Bytes', 'BYTES', 'bYtEs']) await ranged(t, site, `${unit}=0-1`, { status: 206, body: '01', contentRange: 'bytes 0-1/10' })
  for (const unit of ['items', 'byte', 'bytesx', 'none']) await ranged(t, site, `${unit}=0-1`, whole)
})

siteTest(t, 'P66 Cache-Control: no-cache in a request does not switch 304 off', ten, async (t, site) => {
  const { etag, lastModified } = versionOf(join(site.root, 'ten.txt'))
  for (const cacheControl of ['no-cache', 'max-age=0', 'no-store']) {
    t.match(await site.request('/ten.txt', { 'If-None-Match': etag, 'Cache-Control': cacheControl, Pragma: 'no-cache' }), { status: 304 })
    t.match(await site.request('/ten.txt', { 'If-Modified-Since': lastModified, 'Cache-Control': cacheControl }), { status: 304 })
  }
})

t.test('P67 If-None-Match', async (t) => {
  siteTest(t, 'lists, and the star', ten, async (t, site) => {
    const { etag } = versionOf(join(site.root, 'ten.txt'))
    const strong = etag.slice(2)
    for (const field of [etag, strong, `"zz", W/"x", ${etag}`, `"zz",${etag},"y"`, `W/"x" , ${strong}`, '*', ' * ', `, ,${etag}`]) {
      const answer = await site.request('/ten.txt', { 'If-None-Match': field })
      t.match(answer, { status: 304, headers: { etag } }, field)
      t.equal(answer.headers['content-length'], undefined)
    }
    for (const field of ['"zz"', 'W/"x", "zz"', strong.slice(1), strong.slice(0, -1), strong.slice(1, -1), `w/${strong}`, `"zz" ${etag}`, '"*"', `* , ${etag}`]) {
      t.match(await site.request('/ten.txt', { 'If-None-Match': field }), { status: 200, body: Buffer.from(DIGITS) }, field)
    }
  })

  siteTest(t, 'a tag with a comma in it', { ...ten, plugin: { etag: () => '"a,b"' } }, async (t, site) => {
    for (const field of ['"a,b"', '"x", "a,b"', 'W/"a,b", "y"']) {
      t.match(await site.request('/ten.txt', { 'If-None-Match': field }), { status: 304, headers: { etag: '"a,b"' } }, field)
    }
    for (const field of ['"a"', '"b"', '"a", "b"', 'a,b']) {
      t.match(await site.request('/ten.txt', { 'If-None-Match': field }), { status: 200 }, field)
    }
  })
})

siteTest(t, 'P68 If-Modified-Since is ignored beside If-None-Match', ten, async (t, site) => {
  const { etag, lastModified } = versionOf(join(site.root, 'ten.txt'))
  t.match(await site.request('/ten.txt', { 'If-None-Match': '"zz"', 'If-Modified-Since': lastModified }), { status: 200, body: Buffer.from(DIGITS) })
  t.match(await site.request('/ten.txt', { 'If-None-Match': etag, 'If-Modified-Since': 'Thu, 01 Jan 1970 00:00:00 GMT' }), { status: 304 })
})

siteTest(t, 'P69 dates', ten, async (t, site) => {
  utimesSync(join(site.root, 'ten.txt'), 1_000_000_000.9, 1_000_000_000.9)
  for (const [date, status] of [
    ['Sun, 09 Sep 2001 01:46:40 GMT', 304],
    ['Sun, 09 Sep 2001 01:46:41 GMT', 304],
    ['Mon, 09 Sep 2002 01:46:40 GMT', 304],
    ['Sun, 09 Sep 2001 01:46:39 GMT', 200],
    ['Sunday, 09-Sep-01 01:46:40 GMT', 304],
    ['Sun Sep  9 01:46:40 2001', 304],
    ['yesterday', 200],
    ['2001-09-09T01:46:40Z', 200],
    ['1000000000', 200],
    ['Sun, 99 Sep 2001 01:46:40 GMT', 200]
  ] as const) {
    t.match(await site.request('/ten.txt', { 'If-Modified-Since': date }), {
      status, headers: { 'last-modified': 'Sun, 09 Sep 2001 01:46:40 GMT' }
    }, date)
  }
})

siteTest(t, 'P70 If-Match compares strongly', ten, async (t, site) => {
  const { etag } = versionOf(join(site.root, 'ten.txt'))
  for (let times = 0; times < 3; times++) {
    for (const field of [etag, etag.slice(2), '"other"', `"other", ${etag}`]) {
      const answer = await site.request('/ten.txt', { 'If-Match': field })
      t.match(answer, { status: 412 }, field)
      for (const name of ['etag', 'last-modified', 'cache-control']) t.equal(answer.headers[name], undefined, `no ${name} on an error`)
    }
    t.match(await site.request('/ten.txt', { 'If-Match': '*' }), { status: 200, body: Buffer.from(DIGITS) })
  }
  t.match(await site.request('/none.txt', { 'If-Match': '*' }), { status: 404 })
})

siteTest(t, 'P70 a strong tag matches', { ...ten, plugin: { etag: () => '"strong"' } }, async (t, site) => {
  t.match(await site.request('/ten.txt', { 'If-Match': '"other", "strong"' }), { status: 200 })
  t.match(await site.request('/ten.txt', { 'If-Match': 'W/"strong"' }), { status: 412 })
})

t.test('P72 a directory and If-Modified-Since', async (t) => {
  const now = new Date(Date.now() + 60_000).toUTCString()
  const past = 'Thu, 01 Jan 1970 00:00:00 GMT'
  const files = { dir: { 'index.html': 'index' }, bare: {} }
  siteTest(t, 'with index: judged by the index', { files }, async (t, site) => {
    utimesSync(join(site.root, 'dir'), 1, 1)
    for (const path of ['/dir', '/dir/']) {
      t.match(await site.request(path, { 'If-Modified-Since': now }), { status: 304 })
      t.match(await site.request(path, { 'If-Modified-Since': past }), { status: 200, body: Buffer.from('index') })
    }
    for (const path of ['/bare', '/bare/']) t.match(await site.request(path, { 'If-Modified-Since': now, 'If-None-Match': '*' }), { status: 404 })
  })
  siteTest(t, 'without: never 304', { files, plugin: { index: false } }, async (t, site) => {
    for (const path of ['/dir', '/dir/', '/bare', '/bare/']) {
      for (const headers of [{ 'If-Modified-Since': now }, { 'If-None-Match': '*' }]) {
        const { status } = await site.request(path, headers as Record<string, string>)
        t.equal(status, path.endsWith('/') ? 403 : 404, path)
      }
    }
  })
})

siteTest(t, 'P73 416 through an error handler of the application', {
  ...ten,
  before: (app) => {
    app.setErrorHandler((error, _request, reply) => { reply.send(error) })
  }
}, async (t, site) => {
  for (let times = 0; times < 3; times++) {
    const answer = await site.request('/ten.txt', { Range: 'bytes=99-' })
    t.match(answer, { status: 416, headers: { 'content-range': 'bytes */10', 'content-type': /json/ } })
    t.match(JSON.parse(answer.body.toString()), { statusCode: 416, error: 'Range Not Satisfiable' })
    for (const name of ['etag', 'last-modified', 'cache-control', 'accept-ranges']) t.equal(answer.headers[name], undefined)
  }
})

/** Paths and what they get. A text is the body of a 200. */
function paths (t: Tap, name: string, files: Record<string, string>, cases: Array<[path: string, expected: string | number]>): void {
  siteTest(t, name, {}, async (t, site) => {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(join(site.root, path, '..'), { recursive: true })
      writeFileSync(join(site.root, path), text)
    }
    for (const [path, expected] of cases) {
      // Cold, and known.
      for (let i = 0; i < 3; i++) {
        const answer = await site.request(path)
        if (typeof expected === 'number') t.equal(answer.status, expected, path)
        else t.match(answer, { status: 200, body: Buffer.from(expected) }, path)
        t.equal((await site.request(path, {}, 'HEAD')).status, answer.status, `HEAD ${path}`)
      }
    }
    t.equal((await site.request('/')).status, 404, 'the server lives')
  })
}

paths(t, 'P82 a percent sign in a name', { 'bunny %% copy.mp4': 'bunny', '100%.txt': 'all' }, [
  ['/bunny%20%25%25%20copy.mp4', 'bunny'],
  ['/100%25.txt', 'all'],
  ['/100%.txt', 400]
])

paths(t, 'P83 decoded exactly once', { 'a .md': 'space', 'a%20.md': 'percent', 'b%2541': 'twice', bA: 'wrong' }, [
  ['/a%20.md', 'space'],
  ['/a%2520.md', 'percent'],
  ['/a%252520.md', 404],
  ['/b%252541', 'twice'],
  ['/b%2541', 404]
])

paths(t, 'P85 # and ? in names', { 'a#b.txt': 'hash', 'a?b.txt': 'mark', 'a;b.txt': 'semicolon' }, [
  ['/a%23b.txt', 'hash'],
  ['/a%3Fb.txt', 'mark'],
  ['/a%3fb.txt?x=1', 'mark'],
  ['/a?b.txt', 404],
  ['/a#b.txt', 404],
  ['/a;b.txt', 'semicolon'],
  ['/a%3Bb.txt', 'semicolon']
])

paths(t, 'P86 brackets', { '[id]-x.js': 'brackets' }, [
  ['/%5Bid%5D-x.js', 'brackets'],
  ['/%5bid%5d-x.js', 'brackets'],
  ['/[id]-x.js', 'brackets']
])

paths(t, 'P87 malformed escapes', { '%': 'percent', '%zz': 'zz' }, [
  ['/%', 400],
  ['/%zz', 400],
  ['/%E0%A4%A', 400],
  ['/%FF.txt', 400],
  ['/%c0%ae%c0%ae/x', 400],
  ['/x/%', 400],
  ['/%25', 'percent'],
  ['/%25zz', 'zz']
])

t.test('P88 composed and decomposed forms', { skip: process.platform === 'darwin' && 'its file systems normalise names' }, async (t) => {
  const nfc = 'caf\u00e9.txt'
  const nfd = 'cafe\u0301.txt'
  paths(t, 'only the composed name is there', { [nfc]: 'composed' }, [
    [`/${encodeURIComponent(nfd)}`, 404],
    [`/${encodeURIComponent(nfc)}`, 'composed'],
    [`/${encodeURIComponent(nfd)}`, 404]
  ])
  paths(t, 'only the decomposed name is there', { [nfd]: 'decomposed' }, [
    [`/${encodeURIComponent(nfd)}`, 'decomposed'],
    [`/${encodeURIComponent(nfc)}`, 404]
  ])
  paths(t, 'both are', { [nfd]: 'decomposed', [nfc]: 'composed' }, [
    [`/${encodeURIComponent(nfd)}`, 'decomposed'],
    [`/${encodeURIComponent(nfc)}`, 'composed']
  ])
})

t.test('P89 upper case', { skip: process.platform !== 'linux' && 'file systems may not tell case here' }, async (t) => {
  paths(t, 'is another name', { 'ten.txt': DIGITS, 'secret/x.txt': 'secret' }, [
    ['/TEN.TXT', 404],
    ['/ten.txt', DIGITS],
    ['/Ten.txt', 404],
    ['/SECRET/x.txt', 404]
  ])
})

paths(t, 'P90 over-long names', { ['n'.repeat(255)]: 'long', ['é'.repeat(127)]: 'bytes' }, [
  [`/${'a'.repeat(300)}`, 404],
  [`/${'a'.repeat(256)}`, 404],
  [`/${'a'.repeat(5000)}`, 404],
  [`/${'a/'.repeat(3000)}x`, 404],
  [`/${'n'.repeat(255)}`, 'long'],
  [`/${'%C3%A9'.repeat(127)}`, 'bytes'],
  [`/${'%C3%A9'.repeat(128)}`, 404]
])

siteTest(t, 'P90 they do not reach the disk, nor the cache', { cache: { errors: true } }, async (t, site) => {
  for (const path of [`/${'a'.repeat(300)}`, `/${'a'.repeat(5000)}`, `/x/${'b'.repeat(256)}/y`]) await site.request(path)
  t.match(site.stats(), { negativeEntries: 0, misses: 0 })
})

paths(t, 'P91 a file used as a directory', { 'ten.txt': DIGITS }, [
  ['/ten.txt/x', 404],
  ['/ten.txt/x/', 404],
  ['/ten.txt/x/y', 404],
  ['/ten.txt', DIGITS]
])

// An empty segment is refused, as by @fastify/static.
paths(t, 'P92 a slash after a file name', { 'ten.txt': DIGITS }, [
  ['/ten.txt/', 404],
  ['/ten.txt//', 403],
  ['/ten.txt', DIGITS],
  ['/ten.txt/', 404]
])
