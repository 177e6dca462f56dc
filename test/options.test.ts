import { pathToFileURL } from 'node:url'
import t from 'tap'
import * as errors from '../lib/errors'
import { isOpenFileCache, readOptions, readSendOptions } from '../lib/options'
import { OpenFileCache } from '../lib/open-file-cache'
import { fakeWorld } from './fixtures/fake-world'
import type { Test } from 'tap'
import type { CachedStaticOptions, SendOptions } from '../types/index'

const root = '/www'

// What a caller in JavaScript may pass, whatever the types say.
const read = (options: object) => readOptions({ root, ...options } as CachedStaticOptions)
const readForCall = (options: object, registered: object = {}) =>
  readSendOptions(options as SendOptions, { root, ...registered } as CachedStaticOptions)

function refuses (t: Test, options: object, message: string, make: (options: object) => unknown = read): void {
  const isValue = message.includes(', but is ')
  const expected = isValue ? errors.INVALID_OPTION_VALUE : errors.INVALID_OPTION
  try {
    make(options)
    t.fail(`refused: ${message}`)
  } catch (error) {
    t.ok(error instanceof expected, `is coded: ${message}`)
    t.match(error, { code: isValue ? 'FST_STATIC_INVALID_OPTION_VALUE' : 'FST_STATIC_INVALID_OPTION', statusCode: 500 })
    t.equal((error as Error).message, message)
    if (isValue) t.ok(error instanceof TypeError, 'a wrong value is a TypeError')
  }
}

function deepFreeze<T> (value: T): T {
  if (typeof value === 'object' && value !== null) {
    Object.freeze(value)
    for (const inner of Object.values(value)) deepFreeze(inner)
  }
  return value
}

t.test('the defaults, when only the root is given', async (t) => {
  t.strictSame(readOptions({ root }), {
    send: {
      root: '/www',
      acceptRanges: true,
      cacheControl: 'public, max-age=0',
      dotfiles: 'ignore',
      etag: true,
      index: ['index.html'],
      lastModified: true,
      maxContentRangeChunkSize: undefined
    },
    prefix: '/',
    serve: true,
    decorateReply: true,
    setHeaders: undefined,
    types: new Map(),
    fallback: undefined,
    preCompressed: [],
    openFileCache: {}
  })
})

t.test('an option of value undefined means its default', async (t) => {
  const names = [
    'acceptRanges', 'cacheControl', 'maxAge', 'immutable', 'dotfiles', 'etag', 'index', 'lastModified', 'prefix', 'serve',
    'decorateReply', 'setHeaders', 'types', 'fallback', 'preCompressed', 'maxContentRangeChunkSize', 'openFileCache',
    // Of @fastify/static, not built.
    'allowedPath', 'constraints', 'contentType', 'extensions', 'globIgnore', 'list', 'logLevel', 'onFile',
    'prefixAvoidTrailingSlash', 'redirect', 'schemaHide', 'serveDotFiles', 'suppressWarning', 'wildcard'
  ]
  t.strictSame(read(Object.fromEntries(names.map((name) => [name, undefined]))), readOptions({ root }))
})

t.test('the settings cannot be changed', async (t) => {
  const settings = read({ index: ['a.html', 'b.html'] })
  t.ok(Object.isFrozen(settings))
  t.ok(Object.isFrozen(settings.send))
  t.ok(Object.isFrozen(settings.send.index))
})

t.test('the options of the caller are neither changed nor kept', async (t) => {
  const index = ['a.html']
  const types = { '.ts': 'text/plain' }
  const options = { root: '/www/', prefix: '/p', index, types, openFileCache: { max: 5, memory: { max: 100 } } }
  const before = structuredClone(options)
  const settings = read(deepFreeze(options))
  t.strictSame(options, before)
  t.strictSame(settings.send.root, '/www')

  const changing = { index: ['a.html'], types: { '.ts': 'text/plain' } }
  const kept = read(changing)
  changing.index.push('b.html')
  changing.types['.ts'] = 'text/x'
  t.strictSame(kept.send.index, ['a.html'])
  t.equal(kept.types.get('ts'), 'text/plain')
})

t.test('all options but functions can be written in JSON', async (t) => {
  const json = `{
    "prefix": "/static/", "serve": true, "decorateReply": false, "acceptRanges": false, "cacheControl": true,
    "maxAge": "1d", "immutable": true, "dotfiles": "deny", "etag": false, "index": ["index.html", "index.htm"],
    "lastModified": false, "maxContentRangeChunkSize": 1024, "types": { ".ts": "text/plain" }, "fallback": "index.html",
    "preCompressed": ["br", "gzip"],
    "openFileCache": { "valid": "Infinity", "errors": true, "memory": false }
  }`
  t.strictSame(read(JSON.parse(json)), {
    send: {
      root: '/www',
      acceptRanges: false,
      cacheControl: 'public, max-age=86400, immutable',
      dotfiles: 'deny',
      etag: false,
      index: ['index.html', 'index.htm'],
      lastModified: false,
      maxContentRangeChunkSize: 1024
    },
    prefix: '/static/',
    serve: true,
    decorateReply: false,
    setHeaders: undefined,
    types: new Map([['ts', 'text/plain']]),
    fallback: 'index.html',
    preCompressed: ['br', 'gzip'],
    openFileCache: { valid: 'Infinity', errors: true, memory: false }
  })
})

t.test('root', async (t) => {
  t.test('is required, unless the plugin serves nothing', async (t) => {
    refuses(t, {}, '"root" option is required, unless "serve" is false', (options) => readOptions(options))
    refuses(t, { root: undefined }, '"root" option is required, unless "serve" is false')
    t.equal(readOptions({ serve: false }).send.root, undefined)
    t.equal(readOptions({ serve: false, root }).send.root, root)
  })

  t.test('is normalised, and not resolved against the disk', async (t) => {
    for (const [given, expected] of [
      ['/www/', '/www'], ['/www//a/../b', '/www/b'], ['/', '/'], ['/no/such/directory', '/no/such/directory']
    ]) t.equal(read({ root: given }).send.root, expected)
  })

  t.test('may be a file URL', async (t) => {
    t.equal(read({ root: pathToFileURL('/www/a b/') }).send.root, '/www/a b')
    t.equal(read({ root: new URL('file:///w%C3%BC/x') }).send.root, '/wü/x')
  })

  t.test('is refused when it is no absolute path', async (t) => {
    refuses(t, { root: 'public' }, '"root" option must be an absolute path, but is "public"')
    refuses(t, { root: './' }, '"root" option must be an absolute path, but is "./"')
    refuses(t, { root: '' }, '"root" option must be an absolute path, but is ""')
    refuses(t, { root: '/www\0' }, '"root" option must be an absolute path, but is "/www\\u0000"')
    refuses(t, { root: 5 }, '"root" option must be an absolute path or a file URL, but is 5')
    refuses(t, { root: null }, '"root" option must be an absolute path or a file URL, but is null')
    refuses(t, { root: {} }, '"root" option must be an absolute path or a file URL, but is an object')
    refuses(t, { root: () => root }, '"root" option must be an absolute path or a file URL, but is a function')
    refuses(t, { root: 'relative', serve: false }, '"root" option must be an absolute path, but is "relative"')
  })

  t.test('is refused when it is a URL that names no local file', async (t) => {
    const expected = '"root" option must be an absolute path or a file URL, but is'
    refuses(t, { root: new URL('https://example.com/a') }, `${expected} "https://example.com/a"`)
    refuses(t, { root: new URL('file://host/share') }, `${expected} "file://host/share"`)
    refuses(t, { root: new URL('file:///a%2Fb') }, `${expected} "file:///a%2Fb"`)
    refuses(t, { root: new URL('file:///a%00b') }, '"root" option must be an absolute path, but is "/a\\u0000b"')
  })

  t.test('may not be several roots yet', async (t) => {
    const message = '"root" option is an array, but several roots are not supported yet'
    refuses(t, { root: [root, '/other'] }, message)
    refuses(t, { root: [root] }, message)
    refuses(t, { root: [] }, message)
  })
})

t.test('prefix', async (t) => {
  t.test('ends with a slash, given or not', async (t) => {
    for (const [given, expected] of [['/', '/'], ['', '/'], ['/a', '/a/'], ['/a/', '/a/'], ['/:version/x', '/:version/x/']]) {
      t.equal(read({ prefix: given }).prefix, expected)
    }
  })

  t.test('begins with a slash', async (t) => {
    for (const [given, shown] of [['a', '"a"'], ['a/', '"a/"'], ['*', '"*"'], [5, '5'], [null, 'null'], [['/a'], 'an array']]) {
      refuses(t, { prefix: given }, `"prefix" option must be a text that begins with '/', but is ${shown}`)
    }
  })
})

t.test('switches are true or false, nothing that is merely truthy', async (t) => {
  for (const name of ['serve', 'decorateReply', 'acceptRanges', 'cacheControl', 'immutable', 'lastModified']) {
    for (const [given, shown] of [['false', '"false"'], [1, '1'], [0, '0'], [null, 'null'], [{}, 'an object']]) {
      refuses(t, { [name]: given }, `"${name}" option must be true or false, but is ${shown}`)
    }
  }
  refuses(t, { etag: 'weak' }, '"etag" option must be true or false or a function, but is "weak"')
  refuses(t, { etag: null }, '"etag" option must be true or false or a function, but is null')
})

t.test('preCompressed is true for every coding, false for none, or a list', async (t) => {
  t.strictSame(read({ preCompressed: true }).preCompressed, ['br', 'zstd', 'gzip', 'deflate'])
  t.strictSame(read({ preCompressed: false }).preCompressed, [])
  t.strictSame(read({ preCompressed: ['gzip', 'br'] }).preCompressed, ['gzip', 'br'])
  for (const [given, shown] of [['br', '"br"'], [['brotli'], 'an array'], [['__proto__'], 'an array'], [1, '1'], [null, 'null'], [{}, 'an object']]) {
    refuses(t, { preCompressed: given },
      `"preCompressed" option must be true, false or a list of 'br', 'zstd', 'gzip', 'deflate', but is ${shown}`)
  }
})

t.test('maxContentRangeChunkSize is a number of bytes', async (t) => {
  t.equal(read({ maxContentRangeChunkSize: 1 }).send.maxContentRangeChunkSize, 1)
  t.equal(readForCall({ maxContentRangeChunkSize: 4096 }).maxContentRangeChunkSize, 4096)
  for (const [given, shown] of [[0, '0'], [-1, '-1'], [1.5, '1.5'], [NaN, 'NaN'], ['4', '"4"'], [null, 'null']]) {
    refuses(t, { maxContentRangeChunkSize: given },
      `"maxContentRangeChunkSize" option must be a whole number of bytes >= 1, but is ${shown}`)
  }
})

t.test('serve, decorateReply, acceptRanges, lastModified and etag are taken as given', async (t) => {
  const etag = () => '"tag"'
  t.match(read({ serve: false, decorateReply: false }), { serve: false, decorateReply: false })
  t.match(read({ acceptRanges: false, lastModified: false, etag: false }).send,
    { acceptRanges: false, lastModified: false, etag: false })
  t.equal(read({ etag }).send.etag, etag)
})

t.test('Cache-Control', async (t) => {
  const field = (options: object) => read(options).send.cacheControl

  t.test('has maxAge in whole seconds, from milliseconds or a text', async (t) => {
    t.equal(field({ maxAge: 0 }), 'public, max-age=0')
    t.equal(field({ maxAge: 1999 }), 'public, max-age=1')
    t.equal(field({ maxAge: 60_000 }), 'public, max-age=60')
    t.equal(field({ maxAge: '500ms' }), 'public, max-age=0')
    t.equal(field({ maxAge: '20s' }), 'public, max-age=20')
    t.equal(field({ maxAge: '1d' }), 'public, max-age=86400')
  })

  t.test('promises a year at most', async (t) => {
    for (const maxAge of ['2y', Infinity, 'Infinity', 365 * 86_400_000, 365 * 86_400_000 + 1000]) {
      t.equal(field({ maxAge }), 'public, max-age=31536000', String(maxAge))
    }
    t.equal(field({ maxAge: 365 * 86_400_000 - 1 }), 'public, max-age=31535999')
  })

  t.test('says immutable when asked to', async (t) => {
    t.equal(field({ immutable: true, maxAge: '1y' }), 'public, max-age=31536000, immutable')
    t.equal(field({ immutable: false }), 'public, max-age=0')
  })

  t.test('is left out by cacheControl: false, whatever maxAge and immutable say', async (t) => {
    t.equal(field({ cacheControl: false, immutable: true, maxAge: '1d' }), undefined)
  })

  t.test('refuses a maxAge that is no duration, also when it has no use for it', async (t) => {
    const expected = "a duration (milliseconds >= 0, or a text such as '20s', '500ms', '1m')"
    for (const [given, shown] of [[-1, '-1'], [NaN, 'NaN'], ['soon', '"soon"'], ['-1s', '"-1s"'], [true, 'true'], [null, 'null'], [5n, '5n']]) {
      refuses(t, { maxAge: given }, `"maxAge" option must be ${expected}, but is ${shown}`)
      refuses(t, { maxAge: given, cacheControl: false }, `"maxAge" option must be ${expected}, but is ${shown}`)
    }
  })
})

t.test('dotfiles is one of three words', async (t) => {
  for (const dotfiles of ['allow', 'deny', 'ignore']) t.equal(read({ dotfiles }).send.dotfiles, dotfiles)
  for (const [given, shown] of [['Allow', '"Allow"'], ['', '""'], [true, 'true'], [false, 'false'], [null, 'null']]) {
    refuses(t, { dotfiles: given }, `"dotfiles" option must be 'allow', 'deny' or 'ignore', but is ${shown}`)
  }
})

t.test('index', async (t) => {
  t.test('is a name, several in order, or false for none', async (t) => {
    t.strictSame(read({ index: 'home.html' }).send.index, ['home.html'])
    t.strictSame(read({ index: ['b.html', 'a.html'] }).send.index, ['b.html', 'a.html'])
    t.strictSame(read({ index: 'sub/index.html' }).send.index, ['sub/index.html'])
    t.strictSame(read({ index: [] }).send.index, [])
    t.strictSame(read({ index: false }).send.index, [])
  })

  t.test('is refused when it can name no file below a directory', async (t) => {
    const wrong: Array<[unknown, string]> = [
      [true, 'true'], [null, 'null'], [5, '5'], ['', '""'], ['a/', '"a/"'], ['../a.html', '"../a.html"'],
      ['/a.html', '"/a.html"'], ['a//b.html', '"a//b.html"'], ['./a.html', '"./a.html"'], ['a\\b', '"a\\\\b"'],
      ['a\0', '"a\\u0000"'], ['x'.repeat(256), JSON.stringify('x'.repeat(256))]
    ]
    for (const [given, shown] of wrong) {
      const message = `"index" option must be a file name, a list of them, or false, but is ${shown}`
      refuses(t, { index: given }, message)
      refuses(t, { index: ['index.html', given] }, message)
    }
  })
})

t.test('setHeaders is a function', async (t) => {
  const setHeaders = () => {}
  t.equal(read({ setHeaders }).setHeaders, setHeaders)
  for (const [given, shown] of [[true, 'true'], [{}, 'an object'], ['x', '"x"'], [null, 'null'], [false, 'false']]) {
    refuses(t, { setHeaders: given }, `"setHeaders" option must be a function, but is ${shown}`)
  }
})

t.test('types', async (t) => {
  t.test('are known by extension, in any case, without its dot', async (t) => {
    t.strictSame([...read({ types: { '.ts': 'text/plain', '.GLB': 'model/gltf-binary', '.x-y': 'a/b; c=d' } }).types],
      [['ts', 'text/plain'], ['glb', 'model/gltf-binary'], ['x-y', 'a/b; c=d']])
  })

  t.test('are refused when they are no object of extensions', async (t) => {
    for (const [given, shown] of [[[], 'an array'], ['text/plain', '"text/plain"'], [null, 'null'], [false, 'false']]) {
      refuses(t, { types: given }, `"types" option must be an object such as { '.ts': 'text/plain' }, but is ${shown}`)
    }
    for (const name of ['ts', '', '.', '.a.b', './a', '.a/b', '.a\\b']) {
      refuses(t, { types: { [name]: 'text/plain' } },
        `"types['${name}']" option must be named by an extension such as '.ts', but is "text/plain"`)
    }
  })

  t.test('are refused when a value cannot be sent as a media type', async (t) => {
    const wrong: Array<[unknown, string]> = [
      ['text', '"text"'], ['text/', '"text/"'], ['/plain', '"/plain"'], ['', '""'], ['a/b/c', '"a/b/c"'], [5, '5'],
      [null, 'null'], [undefined, 'undefined'], ['a/b; c\r\nset-cookie: d', '"a/b; c\\r\\nset-cookie: d"'],
      ['a/b\n;c', '"a/b\\n;c"'], ['a/b; c=\0', '"a/b; c=\\u0000"'], ['a/b; c=☃', '"a/b; c=☃"'], ['a/b\n', '"a/b\\n"']
    ]
    for (const [given, shown] of wrong) {
      refuses(t, { types: { '.ts': given } }, `"types['.ts']" option must be a media type such as 'text/plain', but is ${shown}`)
    }
  })
})

t.test('fallback is a file name below the root', async (t) => {
  t.equal(read({ fallback: 'app/index.html' }).fallback, 'app/index.html')
  t.equal(read({ fallback: '/index.html' }).fallback, '/index.html')
  for (const [given, shown] of [[true, 'true'], [false, 'false'], [null, 'null'], ['', '""'], ['a/', '"a/"'], [['a'], 'an array']]) {
    refuses(t, { fallback: given }, `"fallback" option must be a file name, but is ${shown}`)
  }
})

t.test('openFileCache', async (t) => {
  t.test('is an object of options, a cache, or false', async (t) => {
    const cache = new OpenFileCache({}, fakeWorld())
    t.equal(read({ openFileCache: cache }).openFileCache, cache)
    t.equal(read({ openFileCache: false }).openFileCache, false)
    t.strictSame(read({ openFileCache: { max: 3 } }).openFileCache, { max: 3 })
    for (const [given, shown] of [[true, 'true'], [null, 'null'], ['off', '"off"'], [0, '0'], [() => {}, 'a function']]) {
      refuses(t, { openFileCache: given },
        `"openFileCache" option must be an object of options, an OpenFileCache, or false, but is ${shown}`)
    }
  })

  t.test('is told from its options by its shape', async (t) => {
    t.ok(isOpenFileCache(new OpenFileCache({}, fakeWorld())))
    t.notOk(isOpenFileCache({}))
    t.notOk(isOpenFileCache(false))
  })
})

t.test('an option of @fastify/static that is not built is refused by name, rather than ignored', async (t) => {
  const asked: Record<string, unknown> = {
    allowedPath: () => true,
    constraints: { host: 'example.com' },
    contentType: false,
    extensions: ['html'],
    globIgnore: ['**/*.map'],
    list: true,
    logLevel: 'warn',
    onFile: () => {},
    prefixAvoidTrailingSlash: true,
    redirect: true,
    schemaHide: false,
    serveDotFiles: true,
    suppressWarning: true,
    wildcard: false
  }
  for (const [name, value] of Object.entries(asked)) {
    refuses(t, { [name]: value }, `"${name}" option of @fastify/static is not supported yet`)
  }
})

t.test('an option of @fastify/static that asks for what is done anyway is taken', async (t) => {
  t.strictSame(read({
    contentType: true,
    list: false,
    prefixAvoidTrailingSlash: false,
    redirect: false,
    schemaHide: true,
    serveDotFiles: false,
    suppressWarning: false,
    wildcard: true
  }), readOptions({ root }))
})

t.test('options of one call', async (t) => {
  t.test('go over those of the registration, and those over the defaults', async (t) => {
    const registered = { maxAge: '1d', immutable: true, etag: false, index: false }
    t.strictSame(readForCall({}, registered), read(registered).send)
    t.strictSame(readForCall({ maxAge: 1000, etag: true }, registered), {
      root: '/www',
      acceptRanges: true,
      cacheControl: 'public, max-age=1, immutable',
      dotfiles: 'ignore',
      etag: true,
      index: [],
      lastModified: true,
      maxContentRangeChunkSize: undefined
    })
  })

  t.test('of value undefined leave those of the registration', async (t) => {
    const registered = { maxAge: '1d', dotfiles: 'allow', acceptRanges: false }
    const names = ['acceptRanges', 'cacheControl', 'dotfiles', 'etag', 'immutable', 'index', 'lastModified', 'maxAge', 'maxContentRangeChunkSize', 'root']
    t.strictSame(readForCall(Object.fromEntries(names.map((name) => [name, undefined])), registered), read(registered).send)
  })

  t.test('may choose another root, also as a URL', async (t) => {
    t.equal(readForCall({ root: '/other/' }).root, '/other')
    t.equal(readForCall({ root: pathToFileURL('/other') }).root, '/other')
    t.equal(readForCall({}, { root: undefined, serve: false }).root, undefined)
  })

  t.test('are refused when they are known to a registration only, or to nobody', async (t) => {
    const list = 'acceptRanges, cacheControl, dotfiles, etag, immutable, index, lastModified, maxAge, maxContentRangeChunkSize, root'
    for (const name of ['prefix', 'serve', 'setHeaders', 'types', 'fallback', 'openFileCache', 'maxage', 'start', 'highWaterMark']) {
      refuses(t, { [name]: 'x' }, `"${name}" option is unknown here; a call may have: ${list}`, readForCall)
    }
    refuses(t, { extensions: ['html'] }, '"extensions" option of @fastify/static is not supported yet', readForCall)
  })

  t.test('are checked like those of a registration', async (t) => {
    refuses(t, { root: 'x' }, '"root" option must be an absolute path, but is "x"', readForCall)
    refuses(t, { maxAge: 'x' }, '"maxAge" option must be a duration (milliseconds >= 0, or a text such as ' +
      '\'20s\', \'500ms\', \'1m\'), but is "x"', readForCall)
    refuses(t, { dotfiles: 'x' }, '"dotfiles" option must be \'allow\', \'deny\' or \'ignore\', but is "x"', readForCall)
    refuses(t, { etag: 'x' }, '"etag" option must be true or false or a function, but is "x"', readForCall)
  })

  t.test('are not changed', async (t) => {
    const options = Object.freeze({ maxAge: 5, root: '/other/' })
    readForCall(options, Object.freeze({ root }))
    t.strictSame(options, { maxAge: 5, root: '/other/' })
  })
})
