import { pathToFileURL } from 'node:url'
import t from 'tap'
import * as errors from '../lib/errors'
import { isOpenFileCache, readOptions, readSendOptions, unknownOptions } from '../lib/options'
import { OpenFileCache } from '../lib/open-file-cache'
import { fakeWorld } from './fixtures/fake-world'
import type { Test } from 'tap'
import type { CachedStaticOptions, SendOptions } from '../types/index'

const root = '/www'

// What a caller in JavaScript may pass, whatever the types say.
const read = (options: object) => readOptions({ root, ...options } as CachedStaticOptions)
const readForCall = (options: object, registered: object = {}) =>
  readSendOptions(options as SendOptions, { root, ...registered } as CachedStaticOptions)

/** As a caller may write them, one name each, so that none is forgotten. */
const everyOption: Record<Exclude<keyof CachedStaticOptions, 'root' | 'logSerializers'>, undefined> = {
  acceptRanges: undefined,
  allowedPath: undefined,
  cacheControl: undefined,
  constraints: undefined,
  contentType: undefined,
  decorateReply: undefined,
  dotfiles: undefined,
  etag: undefined,
  extensions: undefined,
  fallback: undefined,
  globIgnore: undefined,
  highWaterMark: undefined,
  immutable: undefined,
  index: undefined,
  lastModified: undefined,
  list: undefined,
  logLevel: undefined,
  maxAge: undefined,
  maxContentRangeChunkSize: undefined,
  onFile: undefined,
  openFileCache: undefined,
  preCompressed: undefined,
  prefix: undefined,
  prefixAvoidTrailingSlash: undefined,
  redirect: undefined,
  schemaHide: undefined,
  serve: undefined,
  serveDotFiles: undefined,
  setHeaders: undefined,
  suppressWarning: undefined,
  symlinks: undefined,
  types: undefined,
  wildcard: undefined
}

const everyOptionOfACall: Record<keyof SendOptions, undefined> = {
  acceptRanges: undefined,
  cacheControl: undefined,
  contentType: undefined,
  dotfiles: undefined,
  end: undefined,
  etag: undefined,
  extensions: undefined,
  highWaterMark: undefined,
  immutable: undefined,
  index: undefined,
  lastModified: undefined,
  maxAge: undefined,
  maxContentRangeChunkSize: undefined,
  onFile: undefined,
  root: undefined,
  serveDotFiles: undefined,
  start: undefined
}

const DEFAULT_SEND = {
  roots: ['/www'],
  acceptRanges: true,
  cacheControl: 'public, max-age=0',
  contentType: true,
  dotfiles: 'ignore',
  etag: true,
  extensions: [],
  index: ['index.html'],
  lastModified: true,
  onFile: undefined,
  start: 0,
  end: Infinity,
  maxContentRangeChunkSize: undefined,
  highWaterMark: undefined
}

function refuses (t: Test, options: object, message: string, make: (options: object) => unknown = read): void {
  // That a root is relative is told as @fastify/static tells it.
  const isValue = /, but (?:is|has) |; "list" may have: /.test(message) && !message.includes('must be an absolute path, but is ')
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
    send: DEFAULT_SEND,
    prefix: '/',
    prefixAvoidTrailingSlash: false,
    serve: true,
    wildcard: true,
    globIgnore: [],
    serveDotFiles: false,
    redirect: false,
    decorateReply: true,
    suppressWarning: false,
    route: { constraints: undefined, logLevel: undefined, schemaHide: true },
    symlinks: 'follow',
    setHeaders: undefined,
    allowedPath: undefined,
    types: new Map(),
    fallback: undefined,
    list: undefined,
    preCompressed: [],
    openFileCache: {}
  })
})

t.test('an option of value undefined means its default', async (t) => {
  t.strictSame(read(everyOption), readOptions({ root }))
  t.strictSame(read({ start: undefined, end: undefined }), readOptions({ root }))
})

t.test('the settings cannot be changed', async (t) => {
  const settings = read({
    root: [root], index: ['a.html'], extensions: ['html'], globIgnore: ['*.map'], preCompressed: ['br'], list: { names: ['/'] }
  })
  for (const [name, value] of Object.entries({
    settings,
    send: settings.send,
    route: settings.route,
    roots: settings.send.roots,
    index: settings.send.index,
    extensions: settings.send.extensions,
    globIgnore: settings.globIgnore,
    preCompressed: settings.preCompressed,
    list: settings.list,
    'list.names': settings.list?.names
  })) t.ok(Object.isFrozen(value), name)
  t.ok(Object.isFrozen(readForCall({})), 'nor those of one call')
})

t.test('the options of the caller are neither changed nor kept', async (t) => {
  const options = {
    root: ['/www/', '/other/'],
    prefix: '/p',
    index: ['a.html'],
    extensions: ['html'],
    globIgnore: ['*.map'],
    preCompressed: ['br'],
    types: { '.ts': 'text/plain' },
    openFileCache: { max: 5, memory: { max: 100 } }
  }
  const before = structuredClone(options)
  t.strictSame(read(deepFreeze(options)).send.roots, ['/www', '/other'])
  t.strictSame(options, before)

  const changing = { ...structuredClone(before), root: ['/www'], list: { names: ['index.json'] } }
  const kept = read(changing)
  changing.root.push('/more')
  changing.index.push('b.html')
  changing.extensions.push('htm')
  changing.globIgnore.push('*.ts')
  changing.preCompressed.push('gzip')
  changing.types['.ts'] = 'text/x'
  changing.list.names.push('/')
  t.strictSame(kept.send.roots, ['/www'])
  t.strictSame(kept.send.index, ['a.html'])
  t.strictSame(kept.send.extensions, ['html'])
  t.strictSame(kept.globIgnore, ['*.map'])
  t.strictSame(kept.preCompressed, ['br'])
  t.equal(kept.types.get('ts'), 'text/plain')
  t.strictSame(kept.list?.names, ['index.json'])
})

t.test('all options but functions can be written in JSON', async (t) => {
  const json = `{
    "prefix": "/static/", "prefixAvoidTrailingSlash": true, "serve": true, "decorateReply": false, "redirect": true,
    "wildcard": true, "globIgnore": ["**/*.map"], "serveDotFiles": true, "suppressWarning": true, "schemaHide": false,
    "constraints": { "host": "example.com" }, "logLevel": "warn", "symlinks": "deny", "acceptRanges": false,
    "cacheControl": true, "contentType": false, "maxAge": "1d", "immutable": true, "dotfiles": "deny", "etag": false,
    "index": ["index.html", "index.htm"], "extensions": ["html"], "lastModified": false, "maxContentRangeChunkSize": 1024,
    "highWaterMark": 4096, "types": { ".ts": "text/plain" }, "fallback": "index.html", "preCompressed": ["br", "gzip"],
    "list": { "names": ["index.json", "/"], "format": "html", "jsonFormat": "extended", "extendedFolderInfo": true },
    "openFileCache": { "valid": "Infinity", "errors": true, "memory": false }
  }`
  t.strictSame(read(JSON.parse(json)), {
    send: {
      roots: ['/www'],
      acceptRanges: false,
      cacheControl: 'public, max-age=86400, immutable',
      contentType: false,
      dotfiles: 'deny',
      etag: false,
      extensions: ['html'],
      index: ['index.html', 'index.htm'],
      lastModified: false,
      onFile: undefined,
      start: 0,
      end: Infinity,
      maxContentRangeChunkSize: 1024,
      highWaterMark: 4096
    },
    prefix: '/static/',
    prefixAvoidTrailingSlash: true,
    serve: true,
    wildcard: true,
    globIgnore: ['**/*.map'],
    serveDotFiles: true,
    redirect: true,
    decorateReply: false,
    suppressWarning: true,
    route: { constraints: { host: 'example.com' }, logLevel: 'warn', schemaHide: false },
    symlinks: 'deny',
    setHeaders: undefined,
    allowedPath: undefined,
    types: new Map([['ts', 'text/plain']]),
    fallback: 'index.html',
    list: { names: ['index.json', '/'], format: 'html', jsonFormat: 'extended', extendedFolderInfo: true, render: undefined },
    preCompressed: ['br', 'gzip'],
    openFileCache: { valid: 'Infinity', errors: true, memory: false }
  })
})

t.test('root', async (t) => {
  t.test('is required, unless the plugin serves nothing', async (t) => {
    refuses(t, {}, '"root" option is required, unless "serve" is false', (options) => readOptions(options))
    refuses(t, { root: undefined }, '"root" option is required, unless "serve" is false')
    t.strictSame(readOptions({ serve: false }).send.roots, [])
    t.strictSame(readOptions({ serve: false, root }).send.roots, [root])
  })

  t.test('is normalised, and not resolved against the disk', async (t) => {
    for (const [given, expected] of [
      ['/www/', '/www'], ['/www//a/../b', '/www/b'], ['/', '/'], ['/no/such/directory', '/no/such/directory']
    ]) t.strictSame(read({ root: given }).send.roots, [expected])
  })

  t.test('may be a file URL', async (t) => {
    t.strictSame(read({ root: pathToFileURL('/www/a b/') }).send.roots, ['/www/a b'])
    t.strictSame(read({ root: new URL('file:///w%C3%BC/x') }).send.roots, ['/wü/x'])
  })

  t.test('may be several, in the order in which they are tried', async (t) => {
    t.strictSame(read({ root: ['/b', '/a/', pathToFileURL('/c d')] }).send.roots, ['/b', '/a', '/c d'])
    t.strictSame(read({ root: ['/b'] }).send.roots, ['/b'])
  })

  t.test('is refused when it is no absolute path', async (t) => {
    const expected = '"root" option must be an absolute path, a file URL, or a list of them, but is'
    refuses(t, { root: 'public' }, '"root" option must be an absolute path, but is "public"')
    refuses(t, { root: './' }, '"root" option must be an absolute path, but is "./"')
    refuses(t, { root: '' }, '"root" option must be an absolute path, but is ""')
    refuses(t, { root: '/www\0' }, '"root" option must be an absolute path, but is "/www\\u0000"')
    refuses(t, { root: 5 }, `${expected} 5`)
    refuses(t, { root: null }, `${expected} null`)
    refuses(t, { root: {} }, `${expected} an object`)
    refuses(t, { root: () => root }, `${expected} a function`)
    refuses(t, { root: 'relative', serve: false }, '"root" option must be an absolute path, but is "relative"')
    for (const url of ['file:///www', 'FILE:///www', 'file:www']) {
      refuses(t, { root: url }, `"root" option must be an absolute path, but is "${url}"; for a URL pass new URL("${url}")`)
    }
    refuses(t, { root: 'https://example.com/' }, '"root" option must be an absolute path, but is "https://example.com/"')
  })

  t.test('is refused when it is a URL that names no local file', async (t) => {
    const expected = '"root" option must be an absolute path or a file URL, but is'
    refuses(t, { root: new URL('https://example.com/a') }, `${expected} "https://example.com/a"`)
    refuses(t, { root: new URL('file://host/share') }, `${expected} "file://host/share"`)
    refuses(t, { root: new URL('file:///a%2Fb') }, `${expected} "file:///a%2Fb"`)
    refuses(t, { root: new URL('file:///a%00b') }, '"root" option must be an absolute path, but is "/a\\u0000b"')
  })

  t.test('is refused when one of several is no absolute path', async (t) => {
    refuses(t, { root: [root, 'public'] }, '"root" option must be an absolute path, but is "public"')
    for (const [given, shown] of [[5, '5'], [null, 'null'], [undefined, 'undefined'], [['/a'], 'an array']]) {
      refuses(t, { root: [root, given] }, `"root" option must be an absolute path, a file URL, or a list of them, but is ${shown}`)
    }
    refuses(t, { root: [new URL('file://host/share')] }, '"root" option must be an absolute path or a file URL, but is "file://host/share"')
  })

  t.test('is refused as a list of none, or with one of them twice, however it is written', async (t) => {
    refuses(t, { root: [] }, '"root" option array requires one or more paths')
    for (const again of ['/www', '/www/', '/a/../www', pathToFileURL('/www')]) {
      refuses(t, { root: ['/www', '/other', again] }, '"root" option array contains duplicate paths: "/www"')
    }
  })
})

t.test('prefix', async (t) => {
  t.test('is kept as it is given, for the routes', async (t) => {
    for (const prefix of ['/', '', '/a', '/a/', '/:version/x']) t.equal(read({ prefix }).prefix, prefix)
  })

  t.test('has no wildcard, except in the pattern of a parameter', async (t) => {
    for (const prefix of ['/a*', '/*', '/a*/b', '/:version(\\d*)/*', '/*/:version(\\d*)']) {
      refuses(t, { prefix }, `"prefix" option must not contain '*', but is ${JSON.stringify(prefix)}`)
    }
    for (const prefix of ['/:version(\\d*)', '/:version(\\d*)/', '/:a(x*)/:b(y*)/c']) t.equal(read({ prefix }).prefix, prefix)
  })

  t.test('begins with a slash', async (t) => {
    for (const [given, shown] of [['a', '"a"'], ['a/', '"a/"'], ['*', '"*"'], [5, '5'], [null, 'null'], [['/a'], 'an array']]) {
      refuses(t, { prefix: given }, `"prefix" option must be a text that begins with '/', but is ${shown}`)
    }
  })
})

t.test('switches are true or false, nothing that is merely truthy', async (t) => {
  for (const name of [
    'acceptRanges', 'cacheControl', 'contentType', 'decorateReply', 'immutable', 'lastModified', 'prefixAvoidTrailingSlash',
    'redirect', 'schemaHide', 'serve', 'serveDotFiles', 'suppressWarning', 'wildcard'
  ]) {
    for (const [given, shown] of [['false', '"false"'], [1, '1'], [0, '0'], [null, 'null'], [{}, 'an object']]) {
      refuses(t, { [name]: given }, `"${name}" option must be true or false, but is ${shown}`)
    }
  }
  refuses(t, { etag: 'weak' }, '"etag" option must be true, false or a function, but is "weak"')
  refuses(t, { etag: null }, '"etag" option must be true, false or a function, but is null')
})

t.test('preCompressed is true for every coding, false for none, or a list', async (t) => {
  t.strictSame(read({ preCompressed: true }).preCompressed, ['br', 'zstd', 'gzip', 'deflate'])
  t.strictSame(read({ preCompressed: false }).preCompressed, [])
  t.strictSame(read({ preCompressed: ['gzip', 'br'] }).preCompressed, ['gzip', 'br'])
  const expected = '"preCompressed" option must be true, false or a list of \'br\', \'zstd\', \'gzip\', \'deflate\', but'
  for (const [given, shown] of [['br', '"br"'], [1, '1'], [null, 'null'], [{}, 'an object']]) {
    refuses(t, { preCompressed: given }, `${expected} is ${shown}`)
  }
  for (const [given, shown] of [
    ['gz', '"gz"'], ['BR', '"BR"'], ['__proto__', '"__proto__"'], [['br'], 'an array'], [true, 'true'], [undefined, 'undefined']
  ]) {
    refuses(t, { preCompressed: [given] }, `${expected} has ${shown}`)
    refuses(t, { preCompressed: ['br', given] }, `${expected} has ${shown}`)
  }
})

t.test('a number of bytes is whole, and at least one', async (t) => {
  for (const name of ['maxContentRangeChunkSize', 'highWaterMark'] as const) {
    t.equal(read({ [name]: 1 }).send[name], 1)
    t.equal(readForCall({ [name]: 4096 })[name], 4096)
    for (const [given, shown] of [
      [0, '0'], [-1, '-1'], [1.5, '1.5'], [NaN, 'NaN'], [Infinity, 'Infinity'], [2 ** 53, '9007199254740992'], ['4', '"4"'], [null, 'null']
    ]) {
      const message = `"${name}" option must be a whole number of bytes >= 1, but is ${shown}`
      refuses(t, { [name]: given }, message)
      refuses(t, { [name]: given }, message, readForCall)
    }
  }
})

t.test('start and end are refused at registration, whatever they are', async (t) => {
  for (const name of ['start', 'end']) {
    for (const given of [0, 5, 'x', null]) {
      refuses(t, { [name]: given }, `"${name}" option is for one call of sendFile or download, not for a registration`)
    }
  }
})

t.test('switches are taken as given', async (t) => {
  const switches = {
    serve: false,
    decorateReply: false,
    prefixAvoidTrailingSlash: true,
    redirect: true,
    serveDotFiles: true,
    suppressWarning: true,
    wildcard: false
  }
  t.match(read(switches), switches)
  t.equal(read({ schemaHide: false }).route.schemaHide, false)
  const sent = { acceptRanges: false, contentType: false, lastModified: false, etag: false }
  t.match(read(sent).send, sent)
  t.match(readForCall(sent), sent)
})

t.test('constraints and the log level of the routes are passed on', async (t) => {
  const constraints = { host: 'example.com' }
  const { route } = read({ constraints, logLevel: 'warn' })
  t.equal(route.constraints, constraints)
  t.equal(route.logLevel, 'warn')
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

t.test('dotfiles', async (t) => {
  t.test('is one of three words', async (t) => {
    for (const dotfiles of ['allow', 'deny', 'ignore']) t.equal(read({ dotfiles }).send.dotfiles, dotfiles)
    for (const [given, shown] of [['Allow', '"Allow"'], ['', '""'], [true, 'true'], [false, 'false'], [null, 'null']]) {
      refuses(t, { dotfiles: given }, `"dotfiles" option must be 'allow', 'deny' or 'ignore', but is ${shown}`)
      refuses(t, { dotfiles: given, serveDotFiles: true }, `"dotfiles" option must be 'allow', 'deny' or 'ignore', but is ${shown}`)
    }
  })

  t.test('is "allow" by serveDotFiles, unless it is given', async (t) => {
    t.equal(read({ serveDotFiles: true }).send.dotfiles, 'allow')
    t.equal(read({ serveDotFiles: false }).send.dotfiles, 'ignore')
    for (const dotfiles of ['deny', 'ignore']) t.equal(read({ serveDotFiles: true, dotfiles }).send.dotfiles, dotfiles)
    t.equal(readForCall({}, { serveDotFiles: true }).dotfiles, 'allow')
    t.equal(readForCall({ dotfiles: 'deny' }, { serveDotFiles: true }).dotfiles, 'deny')
  })

  t.test('of one call does not follow from the serveDotFiles that it carries along', async (t) => {
    t.equal(readForCall({ serveDotFiles: true }).dotfiles, 'ignore')
    t.equal(readForCall({ serveDotFiles: true }, { dotfiles: 'deny' }).dotfiles, 'deny')
    t.equal(readForCall({ serveDotFiles: false }, { serveDotFiles: true }).dotfiles, 'allow')
  })
})

t.test('symlinks is one of three words', async (t) => {
  for (const symlinks of ['follow', 'within-root', 'deny']) t.equal(read({ symlinks }).symlinks, symlinks)
  for (const [given, shown] of [['Follow', '"Follow"'], ['', '""'], [true, 'true'], [false, 'false'], [null, 'null']]) {
    refuses(t, { symlinks: given }, `"symlinks" option must be 'follow', 'within-root' or 'deny', but is ${shown}`)
  }
})

t.test('extensions', async (t) => {
  t.test('are one, several in order, or false for none', async (t) => {
    t.strictSame(read({ extensions: 'html' }).send.extensions, ['html'])
    t.strictSame(read({ extensions: ['htm', 'html', 'tar.gz'] }).send.extensions, ['htm', 'html', 'tar.gz'])
    t.strictSame(read({ extensions: [] }).send.extensions, [])
    t.strictSame(read({ extensions: false }).send.extensions, [])
    t.strictSame(readForCall({ extensions: false }, { extensions: ['html'] }).extensions, [])
  })

  t.test('are refused with a dot in front, and when they can end no file name', async (t) => {
    for (const [given, shown] of [
      ['.html', '".html"'], ['', '""'], ['a/b', '"a/b"'], ['a\\b', '"a\\\\b"'], ['a\0', '"a\\u0000"'], [true, 'true'], [null, 'null'],
      [5, '5'], [{}, 'an object']
    ]) {
      const message = `"extensions" option must be a list of extensions without dot, such as ['html'], but is ${shown}`
      refuses(t, { extensions: given }, message)
      refuses(t, { extensions: ['html', given] }, message)
    }
  })
})

t.test('globIgnore is a pattern, or several', async (t) => {
  t.strictSame(read({ globIgnore: '**/*.map' }).globIgnore, ['**/*.map'])
  t.strictSame(read({ globIgnore: ['a/**', 'b'] }).globIgnore, ['a/**', 'b'])
  t.strictSame(read({ globIgnore: [] }).globIgnore, [])
  for (const [given, shown] of [['', '""'], [true, 'true'], [false, 'false'], [null, 'null'], [5, '5'], [{}, 'an object']]) {
    const message = `"globIgnore" option must be a list of glob patterns, but is ${shown}`
    refuses(t, { globIgnore: given }, message)
    refuses(t, { globIgnore: ['*.map', given] }, message)
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

t.test('setHeaders, allowedPath and onFile are functions', async (t) => {
  const given = () => true
  t.equal(read({ setHeaders: given }).setHeaders, given)
  t.equal(read({ allowedPath: given }).allowedPath, given)
  t.equal(read({ onFile: given }).send.onFile, given)
  t.equal(readForCall({ onFile: given }).onFile, given)
  t.equal(readForCall({}, { onFile: given }).onFile, given)
  for (const name of ['setHeaders', 'allowedPath', 'onFile']) {
    for (const [value, shown] of [[true, 'true'], [{}, 'an object'], ['x', '"x"'], [null, 'null'], [false, 'false']]) {
      refuses(t, { [name]: value }, `"${name}" option must be a function, but is ${shown}`)
    }
  }
  refuses(t, { onFile: true }, '"onFile" option must be a function, but is true', readForCall)
})

t.test('etag may be a function', async (t) => {
  const etag = () => '"tag"'
  t.equal(read({ etag }).send.etag, etag)
  t.equal(readForCall({ etag }, { etag: false }).etag, etag)
})

t.test('list', async (t) => {
  const names = { names: [], format: 'json', jsonFormat: 'names', extendedFolderInfo: false, render: undefined }

  t.test('is false for none, true for names in JSON, or says how', async (t) => {
    t.equal(read({ list: false }).list, undefined)
    t.strictSame(read({ list: true }).list, names)
    t.strictSame(read({ list: {} }).list, names)
    const render = () => ''
    const whole = { names: ['index.json', '/', '.list'], format: 'html', jsonFormat: 'extended', extendedFolderInfo: true, render }
    t.strictSame(read({ list: whole }).list, whole)
    t.equal(read({ list: { render } }).list?.render, render)
    t.equal(read({ list: { format: 'html' } }).list?.render, undefined, 'the plain page')
    t.strictSame(read({
      list: { names: undefined, format: undefined, jsonFormat: undefined, extendedFolderInfo: undefined, render: undefined }
    }).list, names)
  })

  t.test('is refused by the name of what is wrong in it', async (t) => {
    for (const [given, shown] of [['html', '"html"'], [null, 'null'], [1, '1'], [[], 'an array'], [() => '', 'a function']]) {
      refuses(t, { list: given }, `"list" option must be true, false or an object, but is ${shown}`)
    }
    for (const [given, shown] of [['xml', '"xml"'], ['JSON', '"JSON"'], [null, 'null'], [true, 'true']]) {
      refuses(t, { list: { format: given } }, `"list.format" option must be 'json' or 'html', but is ${shown}`)
      refuses(t, { list: { jsonFormat: given } }, `"list.jsonFormat" option must be 'names' or 'extended', but is ${shown}`)
      refuses(t, { list: { render: given } }, `"list.render" option must be a function, but is ${shown}`)
    }
    for (const [given, shown] of [['true', '"true"'], [1, '1'], [null, 'null']]) {
      refuses(t, { list: { extendedFolderInfo: given } }, `"list.extendedFolderInfo" option must be true or false, but is ${shown}`)
    }
    const expected = '"list.names" option must be a list of file names and \'/\', but is'
    for (const [given, shown] of [['index.json', '"index.json"'], [null, 'null'], [true, 'true'], [{}, 'an object']]) {
      refuses(t, { list: { names: given } }, `${expected} ${shown}`)
    }
    for (const [given, shown] of [
      ['', '""'], ['a/b', '"a/b"'], ['/a', '"/a"'], ['a/', '"a/"'], ['a\\b', '"a\\\\b"'], ['a\0', '"a\\u0000"'], [5, '5'], [null, 'null'],
      [undefined, 'undefined']
    ]) refuses(t, { list: { names: ['index.json', given] } }, `${expected} ${shown}`)
  })

  t.test('is refused with a name that it does not have', async (t) => {
    for (const [list, name] of [[{ name: ['/'] }, 'name'], [{ names: ['/'], Format: 'html' }, 'Format']] as const) {
      refuses(t, { list },
        `"list.${name}" option is unknown; "list" may have: names, format, jsonFormat, extendedFolderInfo, render`)
    }
  })

  t.test('does not go with several roots', async (t) => {
    for (const list of [true, {}, { format: 'html' }]) {
      t.throws(() => read({ root: ['/a', '/b'], list }), {
        constructor: errors.MULTIROOT_LIST_CONFLICT,
        code: 'FST_STATIC_MULTIROOT_LIST_CONFLICT',
        statusCode: 500,
        message: 'multi-root with list option is not supported'
      })
    }
    t.strictSame(read({ root: ['/a'], list: true }).list, names)
    t.equal(read({ root: ['/a', '/b'], list: false }).list, undefined)
    t.strictSame(readOptions({ serve: false, list: true }).list, names, 'but with none: a call may have a root')
  })
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
    for (const name of ['ts', '', '.', '.d.ts', './a', '.a/b', '.a\\b']) {
      refuses(t, { types: { [name]: 'text/plain' } },
        `"types" option must have names such as '.ts' (one dot, in front), but has ${JSON.stringify(name)}`)
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

t.test('fallback needs a route for the paths that are missing', async (t) => {
  refuses(t, { fallback: 'index.html', wildcard: false },
    '"fallback" option needs "wildcard": without it no route has the missing paths')
  t.equal(read({ wildcard: false }).wildcard, false)
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

  t.test('has no options that are for look-ups of others', async (t) => {
    const cache = new OpenFileCache({ links: { symlinks: 'deny', root }, spelledBelow: root }, fakeWorld())
    t.equal(read({ openFileCache: cache }).openFileCache, cache, 'an instance may')
    for (const links of [{ symlinks: 'deny', root }, 'deny', null]) {
      refuses(t, { openFileCache: { links } },
        '"openFileCache.links" option is for look-ups of your own; for a registration use "symlinks"')
    }
    refuses(t, { openFileCache: { spelledBelow: root } },
      '"openFileCache.spelledBelow" option is for look-ups of your own; a registration sets it to each "root" (for links use "symlinks")')
    t.throws(() => read({ openFileCache: { linkz: 5 } }), {
      code: 'FST_STATIC_INVALID_OPTION_VALUE',
      message: '"openFileCache.linkz" option is unknown; "openFileCache" may have: max, inactive, valid, minUses, errors, ' +
        'memory, maxNegative, directories'
    })
  })

  t.test('is told from its options by its shape', async (t) => {
    t.ok(isOpenFileCache(new OpenFileCache({}, fakeWorld())))
    t.notOk(isOpenFileCache({}))
    t.notOk(isOpenFileCache(false))
  })
})

t.test('names that no registration knows', async (t) => {
  const warnings = (options: object) => unknownOptions({ root, ...options } as CachedStaticOptions)

  t.test('are none of ours, of @fastify/static, or of Fastify', async (t) => {
    const values = Object.keys(everyOption).map((name) => [name, 'x'])
    t.strictSame(warnings({ ...Object.fromEntries(values), logSerializers: {} }), [])
  })

  t.test('are told, with the one that is meant when only its case is another', async (t) => {
    for (const [name, meant] of [['maxage', 'maxAge'], ['SETHEADERS', 'setHeaders'], ['Logserializers', 'logSerializers']] as const) {
      t.strictSame(warnings({ [name]: 'x' }), [`"${name}" option is unknown and ignored; did you mean "${meant}"?`])
    }
    t.strictSame(warnings({ cacheControll: true, redirect: true, x: null }),
      ['"cacheControll" option is unknown and ignored', '"x" option is unknown and ignored'])
    t.strictSame(warnings({ maxage: undefined }), [], 'of value undefined, none is given')
  })
})

t.test('options of one call', async (t) => {
  t.test('go over those of the registration, and those over the defaults', async (t) => {
    const registered = { maxAge: '1d', immutable: true, etag: false, index: false, extensions: ['html'], contentType: false }
    t.strictSame(readForCall({}, registered), read(registered).send)
    t.strictSame(readForCall({ maxAge: 1000, etag: true }, registered), {
      ...DEFAULT_SEND,
      cacheControl: 'public, max-age=1, immutable',
      contentType: false,
      extensions: ['html'],
      index: []
    })
  })

  t.test('of value undefined leave those of the registration', async (t) => {
    const registered = {
      maxAge: '1d', dotfiles: 'allow', acceptRanges: false, extensions: ['html'], contentType: false, highWaterMark: 10, onFile () {}
    }
    t.strictSame(readForCall(everyOptionOfACall, registered), read(registered).send)
  })

  t.test('may choose another root, or several, also as URLs', async (t) => {
    t.strictSame(readForCall({ root: '/other/' }).roots, ['/other'])
    t.strictSame(readForCall({ root: pathToFileURL('/other') }).roots, ['/other'])
    t.strictSame(readForCall({ root: ['/other', pathToFileURL('/more')] }).roots, ['/other', '/more'])
    t.strictSame(readForCall({ root: '/other' }, { root: ['/a', '/b'] }).roots, ['/other'])
    t.strictSame(readForCall({}, { root: ['/a', '/b'] }).roots, ['/a', '/b'])
    t.strictSame(readForCall({}, { root: undefined, serve: false }).roots, [])
    t.match(readSendOptions({ maxAge: 1000 }, { root }, '/other'), { roots: ['/other'], cacheControl: 'public, max-age=1' })
    t.strictSame(readSendOptions({ root: '/x' }, { root }, pathToFileURL('/other')).roots, ['/other'], 'beside the options')
  })

  t.test('may choose several roots where the registration lists', async (t) => {
    t.strictSame(readForCall({ root: ['/a', '/b'] }, { list: true }).roots, ['/a', '/b'])
  })

  t.test('may choose the bytes that are sent', async (t) => {
    t.match(readForCall({ start: 5 }), { start: 5, end: Infinity })
    t.match(readForCall({ end: 5 }), { start: 0, end: 5 })
    t.match(readForCall({ start: 5, end: 5 }), { start: 5, end: 5 })
    t.match(readForCall({ start: 0, end: 0 }), { start: 0, end: 0 })
    for (const [given, shown] of [[-1, '-1'], [1.5, '1.5'], [NaN, 'NaN'], [Infinity, 'Infinity'], ['4', '"4"'], [null, 'null']]) {
      for (const name of ['start', 'end']) {
        refuses(t, { [name]: given }, `"${name}" option must be a whole number of bytes >= 0, but is ${shown}`, readForCall)
      }
    }
    refuses(t, { start: 5, end: 4 }, '"end" option must be a whole number of bytes >= "start" (5), but is 4', readForCall)
    refuses(t, { start: 5, end: '9' }, '"end" option must be a whole number of bytes >= "start" (5), but is "9"', readForCall)
  })

  t.test('are refused when they are known to a registration only', async (t) => {
    const names = [...Object.keys(everyOption), 'logSerializers'].filter((name) => !Object.hasOwn(everyOptionOfACall, name))
    t.ok(names.includes('setHeaders'))
    for (const name of names) {
      refuses(t, { [name]: 'x' }, `"${name}" option is for a registration, not for one call of sendFile or download`, readForCall)
    }
  })

  t.test('are refused when they are known to nobody', async (t) => {
    const list = Object.keys(everyOptionOfACall).join(', ')
    for (const name of ['maxage', '__proto__']) {
      refuses(t, JSON.parse(`{ "${name}": "x" }`), `"${name}" option is unknown here; a call may have: ${list}`, readForCall)
    }
  })

  t.test('are refused when they are no object', async (t) => {
    for (const [given, shown] of [[5, '5'], ['x', '"x"'], [true, 'true'], [() => {}, 'a function'], [['/x'], 'an array']] as const) {
      const message = `"options" must be an object, but is ${shown}`
      refuses(t, given as object, message, readForCall)
      refuses(t, given as object, message, (options) => readSendOptions(options, { root }, '/other'))
    }
  })

  t.test('are checked like those of a registration', async (t) => {
    refuses(t, { root: 'x' }, '"root" option must be an absolute path, but is "x"', readForCall)
    refuses(t, { root: [] }, '"root" option array requires one or more paths', readForCall)
    refuses(t, { maxAge: 'x' }, '"maxAge" option must be a duration (milliseconds >= 0, or a text such as ' +
      '\'20s\', \'500ms\', \'1m\'), but is "x"', readForCall)
    refuses(t, { dotfiles: 'x' }, '"dotfiles" option must be \'allow\', \'deny\' or \'ignore\', but is "x"', readForCall)
    refuses(t, { etag: 'x' }, '"etag" option must be true, false or a function, but is "x"', readForCall)
    refuses(t, { contentType: 'x' }, '"contentType" option must be true or false, but is "x"', readForCall)
    refuses(t, { extensions: ['.x'] }, '"extensions" option must be a list of extensions without dot, such as [\'html\'], ' +
      'but is ".x"', readForCall)
  })

  t.test('are not changed', async (t) => {
    const options = Object.freeze({ maxAge: 5, root: '/other/', serveDotFiles: true })
    readForCall(options, Object.freeze({ root }))
    t.strictSame(options, { maxAge: 5, root: '/other/', serveDotFiles: true })
  })
})
