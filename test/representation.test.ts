import t from 'tap'
import { readOptions, readSendOptions } from '../lib/options'
import { describe } from '../lib/representation'
import { LAST_MODIFIED, MTIME, tagOf } from './fixtures/fake-site'
import type { Coding } from '../lib/content-coding'
import type { CachedStaticOptions, SendOptions } from '../types/index'
import type { FileSnapshot } from '../types/open-file-cache'

const DAY = 86_400_000

function snapshotOf (size: number, mtimeNs = BigInt(MTIME) * 1_000_000n): FileSnapshot {
  return Object.freeze({
    kind: 'file',
    dev: 1n,
    ino: 2n,
    size,
    mtimeNs,
    ctimeNs: mtimeNs,
    atimeNs: mtimeNs,
    birthtimeNs: mtimeNs,
    mode: 0o100644,
    nlink: 1,
    uid: 0,
    gid: 0,
    rdev: 0,
    blksize: 4096,
    blocks: 8
  })
}

interface Case {
  pathname?: string
  snapshot?: FileSnapshot
  options?: CachedStaticOptions
  /** Of one call. */
  call?: SendOptions
  etag?: string
  now?: number
  coding?: Coding
}

function made ({ pathname = '/a.txt', snapshot = snapshotOf(4), options, call = {}, etag, now = MTIME + DAY, coding }: Case = {}) {
  const registered = { root: '/www', ...options }
  return describe({ pathname, coding }, snapshot, readSendOptions(call, registered), readOptions(registered).types, etag, now)
}

const typeOf = (pathname: string, types = {}) => made({ pathname, options: { types } }).fields['content-type']

t.test('the fields of a 200, in the order in which they are sent', async (t) => {
  t.strictSame(Object.entries(made().fields), [
    ['accept-ranges', 'bytes'],
    ['cache-control', 'public, max-age=0'],
    ['last-modified', LAST_MODIFIED],
    ['etag', tagOf(4)],
    ['content-type', 'text/plain; charset=utf-8'],
    ['content-length', '4']
  ])
})

t.test('the fields of a 304 are those of the 200 without Content-Length and Content-Type', async (t) => {
  t.strictSame(Object.entries(made().notModifiedFields), [
    ['accept-ranges', 'bytes'],
    ['cache-control', 'public, max-age=0'],
    ['last-modified', LAST_MODIFIED],
    ['etag', tagOf(4)]
  ])
})

t.test('what an option switches off is absent, not empty', async (t) => {
  const off: CachedStaticOptions = { acceptRanges: false, cacheControl: false, contentType: false, lastModified: false, etag: false }
  const representation = made({ options: off })
  t.strictSame(Object.keys(representation.fields), ['content-length'])
  t.strictSame(representation.notModifiedFields, {})
  t.equal(representation.etag, undefined)
  t.equal(representation.lastModified, undefined)
})

t.test('it is made once, and cannot be changed by those who share it', async (t) => {
  const representation = made()
  t.ok(Object.isFrozen(representation))
  t.ok(Object.isFrozen(representation.fields))
  t.ok(Object.isFrozen(representation.notModifiedFields))
})

t.test('it knows the snapshot that it describes', async (t) => {
  const snapshot = snapshotOf(7)
  t.equal(made({ snapshot }).snapshot, snapshot)
})

t.test('the entity-tag', async (t) => {
  t.test('is weak, of size and modification time in hexadecimal', async (t) => {
    t.equal(made({ snapshot: snapshotOf(255, 1_700_000_000_000_000_000n) }).etag, 'W/"ff-18bcfe56800"')
    t.equal(made({ snapshot: snapshotOf(0, 0n) }).etag, 'W/"0-0"')
  })

  t.test('rounds the modification time to a millisecond, as fs.Stats does', async (t) => {
    t.equal(made({ snapshot: snapshotOf(1, 1_499_999n) }).etag, 'W/"1-1"')
    t.equal(made({ snapshot: snapshotOf(1, 1_500_000n) }).etag, 'W/"1-2"')
  })

  t.test('is that of the time on the disk, also when it lies in the future', async (t) => {
    t.equal(made({ now: MTIME - DAY }).etag, tagOf(4))
  })

  t.test('is the one that was given, with etag as a function', async (t) => {
    const representation = made({ options: { etag: () => 'unused here' }, etag: '"abc"' })
    t.equal(representation.etag, '"abc"')
    t.equal(representation.fields.etag, '"abc"')
    t.equal(representation.notModifiedFields.etag, '"abc"')
  })

  t.test('is absent when the function gave none', async (t) => {
    const { etag, fields } = made({ options: { etag: () => undefined } })
    t.equal(etag, undefined)
    t.notOk('etag' in fields)
  })
})

t.test('Last-Modified', async (t) => {
  t.test('is truncated to the second', async (t) => {
    const { fields, lastModified } = made({ snapshot: snapshotOf(4, BigInt(MTIME) * 1_000_000n + 999_000_000n) })
    t.equal(fields['last-modified'], LAST_MODIFIED)
    t.equal(lastModified, MTIME)
  })

  t.test('is the present for a time in the future (RFC 9110 8.8.2.1)', async (t) => {
    const { fields, lastModified } = made({ now: MTIME - DAY + 500 })
    t.equal(fields['last-modified'], 'Wed, 28 Feb 2024 12:30:15 GMT')
    t.equal(lastModified, MTIME - DAY)
  })

  t.test('may lie before 1970', async (t) => {
    t.equal(made({ snapshot: snapshotOf(4, -1n) }).fields['last-modified'], 'Thu, 01 Jan 1970 00:00:00 GMT')
    t.equal(made({ snapshot: snapshotOf(4, -1_000_000n) }).fields['last-modified'], 'Wed, 31 Dec 1969 23:59:59 GMT')
  })
})

t.test('Content-Type', async (t) => {
  t.test('goes by the extension, in any case', async (t) => {
    t.equal(typeOf('/a.png'), 'image/png')
    t.equal(typeOf('/a.PNG'), 'image/png')
    t.equal(typeOf('/a.b.svg'), 'image/svg+xml')
    t.equal(typeOf('/m.js.gz'), 'application/gzip')
  })

  t.test('says that texts are UTF-8', async (t) => {
    t.equal(typeOf('/a.html'), 'text/html; charset=utf-8')
    t.equal(typeOf('/a.js'), 'application/javascript; charset=utf-8')
    t.equal(typeOf('/a.json'), 'application/json; charset=utf-8')
    t.equal(typeOf('/a.wasm'), 'application/wasm')
  })

  t.test('is application/octet-stream for what has no known extension', async (t) => {
    for (const pathname of ['/LICENSE', '/a.no-such-type', '/a.', '/html', '/w.html/x', '/.html']) {
      t.equal(typeOf(pathname), 'application/octet-stream', pathname)
    }
  })

  t.test('is switched off alone, also for a type that was given, and with a coding', async (t) => {
    t.strictSame(Object.keys(made({ coding: 'gzip', call: { contentType: false }, options: { types: { '.txt': 'text/x' } } }).fields),
      ['accept-ranges', 'cache-control', 'last-modified', 'etag', 'content-encoding', 'content-length'])
  })

  t.test('is that of the types option before all others', async (t) => {
    const types = { '.TS': 'text/plain', '.html': 'application/xhtml+xml', '.x': 'text/x; Charset=latin1' }
    t.equal(typeOf('/a.ts', types), 'text/plain; charset=utf-8')
    t.equal(typeOf('/a.TS', types), 'text/plain; charset=utf-8')
    t.equal(typeOf('/a.html', types), 'application/xhtml+xml')
    t.equal(typeOf('/a.x', types), 'text/x; Charset=latin1', 'a charset of its own stays')
    t.equal(typeOf('/a.png', types), 'image/png')
    t.equal(typeOf('/ts', types), 'application/octet-stream', 'a name without a dot has no extension')
  })
})

t.test('Content-Length is the size of the version described', async (t) => {
  t.equal(made({ snapshot: snapshotOf(0) }).fields['content-length'], '0')
  t.equal(made({ snapshot: snapshotOf(5_000_000_000) }).fields['content-length'], '5000000000')
})

t.test('the content', async (t) => {
  const contentOf = (size: number, call: SendOptions = {}) => {
    const { content, fields } = made({ snapshot: snapshotOf(size), call })
    return { ...content, length: fields['content-length'] }
  }

  t.test('is the whole file, which may be no byte', async (t) => {
    t.strictSame(contentOf(4), { start: 0, end: 3, length: '4' })
    t.strictSame(contentOf(0), { start: 0, end: -1, length: '0' })
  })

  t.test('is the part of it that a call chose, the last byte included', async (t) => {
    t.strictSame(contentOf(10, { start: 3 }), { start: 3, end: 9, length: '7' })
    t.strictSame(contentOf(10, { end: 3 }), { start: 0, end: 3, length: '4' })
    t.strictSame(contentOf(10, { start: 3, end: 5 }), { start: 3, end: 5, length: '3' })
    t.strictSame(contentOf(10, { start: 9, end: 9 }), { start: 9, end: 9, length: '1' })
    t.strictSame(contentOf(10, { start: 0, end: 9 }), { start: 0, end: 9, length: '10' })
  })

  t.test('ends where the file ends', async (t) => {
    t.strictSame(contentOf(10, { end: 10 }), { start: 0, end: 9, length: '10' })
    t.strictSame(contentOf(10, { start: 3, end: 500 }), { start: 3, end: 9, length: '7' })
    t.strictSame(contentOf(0, { end: 5 }), { start: 0, end: -1, length: '0' })
  })

  t.test('is no byte of a file that ends before its start', async (t) => {
    for (const start of [10, 11, 500]) {
      t.equal(contentOf(10, { start }).length, '0', `from ${start} on`)
      t.equal(contentOf(10, { start, end: start + 5 }).length, '0', `from ${start} on, some bytes`)
    }
  })

  t.test('of a part has the validators of the file', async (t) => {
    const { etag, lastModified, snapshot } = made({ call: { start: 1, end: 2 } })
    t.strictSame({ etag, lastModified, size: snapshot.size }, { etag: tagOf(4), lastModified: MTIME, size: 4 })
  })
})

t.test('a coding is named in a 200 and not in a 304, and the type is that of the plain file', async (t) => {
  const { fields, notModifiedFields } = made({ pathname: '/a.svg', coding: 'br' })
  t.equal(fields['content-encoding'], 'br')
  t.equal(fields['content-type'], 'image/svg+xml')
  t.notOk('content-encoding' in notModifiedFields)
})
