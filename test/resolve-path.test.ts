import { Agent, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { posix, resolve, win32 } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import fastify from 'fastify'
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import { childPath, longerPath, parentPath, resolveName, resolvePath } from '../lib/resolve-path'
import type { DotfilesPolicy, Rejection, Target, TargetPath } from '../lib/resolve-path'
import { referenceName, referenceUrl } from './fixtures/path-reference'

const numRuns = Number(process.env.FUZZ_RUNS ?? 2000)
const root = '/srv/site'
const policies: DotfilesPolicy[] = ['allow', 'deny', 'ignore']

/** What becomes of a remainder that hides nothing on the wire. */
const outcome = (remainder: string, dotfiles: DotfilesPolicy = 'allow', windows = false) =>
  brief(resolvePath(remainder, '/', root, dotfiles, false, windows))
const named = (name: string, dotfiles: DotfilesPolicy = 'allow', windows = false) =>
  brief(resolveName(name, root, dotfiles, windows))
const brief = (result: Target | Rejection) => typeof result === 'string' ? result : result.path
const target = (remainder: string, below = root): Target => {
  const result = resolvePath(remainder, '/', below, 'allow', false, false)
  if (typeof result === 'string') throw new Error(`${remainder}: ${result}`)
  return result
}
const table = <T>(t: Test, rows: Array<[name: string, wanted: T]>, run: (name: string) => T) => {
  for (const [name, wanted] of rows) t.equal(run(name), wanted, JSON.stringify(name.length > 40 ? name.slice(0, 40) + '…' : name))
}

t.test('a clean remainder is a path below the root', async (t) => {
  t.strictSame(target('a.txt'), { path: '/srv/site/a.txt', pathname: '/a.txt', trailingSlash: false })
  t.strictSame(target('assets/js/app.js'), { path: '/srv/site/assets/js/app.js', pathname: '/assets/js/app.js', trailingSlash: false })
  t.strictSame(target('docs/'), { path: '/srv/site/docs', pathname: '/docs/', trailingSlash: true })
  t.strictSame(target(''), { path: '/srv/site', pathname: '/', trailingSlash: true })
})

t.test('the root / needs no second slash', async (t) => {
  t.strictSame(target('', '/'), { path: '/', pathname: '/', trailingSlash: true })
  t.strictSame(target('etc/', '/'), { path: '/etc', pathname: '/etc/', trailingSlash: true })
  t.strictSame(target('a', '/'), { path: '/a', pathname: '/a', trailingSlash: false })
})

t.test('what looks encoded in a remainder is a name: nothing is decoded twice', async (t) => {
  table(t, [
    ['a%20.md', '/srv/site/a%20.md'],
    ['%2e%2e/x', '/srv/site/%2e%2e/x'],
    ['%2fa', '/srv/site/%2fa'],
    ['%5c', '/srv/site/%5c'],
    ['%00', '/srv/site/%00'],
    ['%', '/srv/site/%'],
    ['a?b#c;d', '/srv/site/a?b#c;d']
  ], outcome)
})

t.test('dot segments and empty segments are forbidden wherever they stand', async (t) => {
  for (const run of [outcome, named]) {
    table<string>(t, [
      ['..', 'forbidden'],
      ['../', 'forbidden'],
      ['../x', 'forbidden'],
      ['a/..', 'forbidden'],
      ['a/../', 'forbidden'],
      ['a/../b', 'forbidden'],
      ['.', 'forbidden'],
      ['./', 'forbidden'],
      ['./a', 'forbidden'],
      ['a/.', 'forbidden'],
      ['a/./', 'forbidden'],
      ['a/./b', 'forbidden'],
      ['//', 'forbidden'],
      ['//a', 'forbidden'],
      ['a//', 'forbidden'],
      ['a//b', 'forbidden']
    ], run)
  }
})

t.test('three dots, and dots within a name, are a name', async (t) => {
  table(t, [
    ['...', '/srv/site/...'],
    ['..a', '/srv/site/..a'],
    ['.a', '/srv/site/.a'],
    ['a..', '/srv/site/a..'],
    ['a./b', '/srv/site/a./b']
  ], outcome)
})

t.test('a leading slash is an empty segment in a remainder, and the root in a file name', async (t) => {
  t.equal(outcome('/'), 'forbidden')
  t.equal(outcome('/a.txt'), 'forbidden')
  t.equal(named('/'), root)
  t.equal(named('/a.txt'), '/srv/site/a.txt')
  t.equal(named('a.txt'), '/srv/site/a.txt')
  t.equal(named(''), root)
  t.equal(named('/etc/passwd'), '/srv/site/etc/passwd')
  t.equal(named('/srv/site/a.txt'), '/srv/site/srv/site/a.txt')
  t.equal(named('/../x'), 'forbidden')
})

t.test('NUL is malformed, whatever else is wrong', async (t) => {
  for (const name of ['\0', 'a.txt\0.html', '../\0', '\\\0', '.env/\0', 'a'.repeat(300) + '\0', 'a//b/\0']) {
    for (const policy of policies) {
      t.equal(outcome(name, policy), 'malformed', JSON.stringify(name))
      t.equal(named(name, policy), 'malformed', JSON.stringify(name))
    }
  }
  t.equal(resolvePath('a/b\0', '/a%2Fb%00', root, 'allow'), 'malformed', 'before an encoded slash')
  t.equal(resolvePath('\\\0', '/%5c%00', root, 'allow'), 'malformed', 'before an encoded backslash')
})

t.test('a backslash is forbidden: on POSIX too, decoded or not', async (t) => {
  for (const name of ['\\', 'a\\b', 'a/\\', '..\\x', 'a\\']) {
    t.equal(outcome(name), 'forbidden', name)
    t.equal(named(name), 'forbidden', name)
  }
  for (const url of ['/a\\b', '/a%5cb', '/a%5Cb', '/%5c', '/x\\', '/p%5cq/a', 'http://h/a%5cb']) {
    t.equal(resolvePath('a', url, root, 'allow'), 'forbidden', url)
  }
})

t.test('an encoded slash names nothing, anywhere in the path', async (t) => {
  for (const url of ['/a%2fb', '/a%2Fb', '/%2f', '/prefix%2Fq/a', '/a%2f', '/%2e%2e%2fa', '/a%25%2fb', '/a%%2fb', 'http://h/a%2fb', 'HTTPS://h:1/a%2fb']) {
    t.equal(resolvePath('a', url, root, 'allow'), 'not-found', url)
  }
  t.equal(resolvePath('..', '/..%2f', root, 'allow'), 'not-found', 'before dot segments: without it the segments are not known')
  t.equal(resolvePath('a', '/a%2fb%5cc', root, 'allow'), 'forbidden', 'after a backslash')
})

t.test('other escapes are the business of the router', async (t) => {
  for (const url of ['/a%252fb', '/a%255cb', '/%2', '/%5', '/%', '/a%2', '/%2e', '/%5f', '/%5b%5d', '/%3f', '/%4f', '/%2c', '/%3c', '/%6f', '/%6c']) {
    t.equal(brief(resolvePath('a', url, root, 'allow')), '/srv/site/a', url)
  }
})

t.test('the raw path ends where the router ends it', async (t) => {
  const served = (url: string, semicolon = false) => t.equal(brief(resolvePath('a', url, root, 'allow', semicolon)), '/srv/site/a', url)
  const refused = (url: string, semicolon = false) => t.equal(resolvePath('a', url, root, 'allow', semicolon), 'not-found', url)

  served('/a?u=%2f&v=%5c\\')
  served('/a#%2f')
  served('/a?x#%2f')
  served('/a;x=%2f', true)
  served('http://h/a?u=%2f')
  served('http://h%2f\\h/a')
  served('http://h')
  served('http://h?u=%2f')
  served('*')
  served('')
  refused('/%2f?')
  refused('/%2f#')
  refused('/a;x=%2f')
  refused('/a%2f;x', true)
  refused('/a%3f%2f')
  refused('/a%23%2f')
  refused('/a/http://h/%2f')
  refused('http://h?/a%2fb')
})

t.test('a dotfile is served, forbidden or not there, by policy', async (t) => {
  for (const name of ['.env', '.env/', 'a/.env', '.git/config', 'a/.git/config', '...', '..a', '.well-known2', '.well-knowN/x', '.well-know/x', 'a/.well-known/x']) {
    t.match(outcome(name, 'allow'), root, name)
    t.equal(outcome(name, 'deny'), 'forbidden', name)
    t.equal(outcome(name, 'ignore'), 'not-found', name)
    t.equal(named('/' + name, 'deny'), 'forbidden', name)
    t.equal(named('/' + name, 'ignore'), 'not-found', name)
  }
  for (const name of ['a.env', 'a./b', 'a/b.c']) {
    for (const policy of policies) t.match(outcome(name, policy), root, name)
  }
})

t.test('RFC 8615: a first segment .well-known is served, other dotfiles below it are not', async (t) => {
  for (const policy of policies) {
    t.equal(outcome('.well-known/acme-challenge/t', policy), '/srv/site/.well-known/acme-challenge/t')
    t.equal(outcome('.well-known/', policy), '/srv/site/.well-known')
    t.equal(outcome('.well-known', policy), '/srv/site/.well-known')
    t.equal(named('/.well-known/x', policy), '/srv/site/.well-known/x')
  }
  for (const name of ['.well-known/.env', '.well-known/a/.env', '.well-known/.well-known']) {
    t.equal(outcome(name, 'deny'), 'forbidden', name)
    t.equal(outcome(name, 'ignore'), 'not-found', name)
  }
})

t.test('a hidden dotfile does not make a path with dot segments milder', async (t) => {
  table<string>(t, [
    ['.env/.', 'forbidden'],
    ['.env/..', 'forbidden'],
    ['.env/../a', 'forbidden'],
    ['./.env', 'forbidden'],
    ['.env//', 'forbidden'],
    ['.env\\', 'forbidden']
  ], (name) => outcome(name, 'ignore'))
})

t.test('a segment has at most 255 bytes', async (t) => {
  for (const [unit, count, rest] of [['a', 255, ''], ['é', 127, 'a'], ['€', 85, ''], ['😀', 63, 'abc'], ['\ud800', 85, '']] as const) {
    const fits = unit.repeat(count) + rest
    for (const name of [fits, fits + '/', 'a/' + fits, fits + '/a', `${fits}/${fits}`]) {
      t.match(outcome(name), root, `${unit} in ${name.length} units fits`)
    }
    for (const name of [fits + 'a', fits + 'a/', 'a/' + fits + 'a', fits + 'a/a', `${fits}/${fits}a`]) {
      t.equal(outcome(name), 'not-found', `${unit} in ${name.length} units does not fit`)
    }
  }
  t.equal(outcome('a'.repeat(5000)), 'not-found')
  t.equal(outcome('../' + 'a'.repeat(300)), 'forbidden', 'dot segments come first')
  t.equal(outcome('.' + 'a'.repeat(300), 'deny'), 'forbidden', 'so does a denied dotfile')
})

t.test('a path, root included, has at most 4095 bytes', async (t) => {
  for (const unit of ['a', '€', 'é']) {
    const segment = unit.repeat(Math.floor(255 / Buffer.byteLength(unit)))
    const many = (segment + '/').repeat(15)
    const rest = 'x'.repeat(4095 - Buffer.byteLength(`${root}/${many}`) - 200) + '/' + 'y'.repeat(199)

    t.match(outcome(many + rest), root, unit)
    t.match(outcome(many + rest + '/'), root, 'the trailing slash is not part of it')
    t.equal(outcome(many + rest + 'a'), 'not-found', unit)
    t.equal(brief(resolvePath(many + rest, '/', root + '2', 'allow')), 'not-found', 'a longer root')
  }
})

t.test('Windows: a name that opens something else is not there', async (t) => {
  for (const name of [
    'a:b', 'C:', 'C:/x', 'a.txt::$DATA', 'a.txt:', 'x/a:b', 'a.', 'a ', 'a. .', 'a./b', 'a /b', '...',
    'con', 'CON', 'nul.txt', 'x/aux', 'aux/x', 'prn ', 'con .txt', 'com1', 'COM0.log', 'lpt9', 'com¹', 'LPT³.a', 'conin$', 'CONOUT$.x'
  ]) {
    t.equal(outcome(name, 'allow', true), 'not-found', name)
    t.equal(named(name, 'allow', true), 'not-found', name)
    t.match(outcome(name, 'allow', false), root, `${name} is a name on POSIX`)
  }
  for (const name of ['a.b', 'a b', 'acon', 'icon.png', 'console', 'com', 'com10', 'lpt', 'contact.html', 'nulls', 'x.con', 'con-x', 'a/', '']) {
    t.match(outcome(name, 'allow', true), root, name)
  }
  t.equal(outcome('../a:b', 'allow', true), 'forbidden', 'dot segments come first')
  t.equal(outcome('a:b\\', 'allow', true), 'forbidden', 'so does a backslash')
})

t.test('a child is the parent, a slash, and a name that is one', async (t) => {
  const child = (name: string, remainder = 'docs', below = root) => childPath(target(remainder, below).path, name)

  t.equal(child('index.html'), '/srv/site/docs/index.html')
  t.equal(child('index.html', ''), '/srv/site/index.html')
  t.equal(child('index.html', '', '/'), '/index.html')
  t.equal(child('en/index.html'), '/srv/site/docs/en/index.html')
  t.equal(child('.index'), '/srv/site/docs/.index', 'the dotfiles policy is for what was asked')
  for (const name of ['', '/', '/a', 'a/', '.', '..', '../a', 'a/../b', 'a\\b', 'a\0']) t.equal(child(name), undefined, JSON.stringify(name))
  t.equal(childPath(root as TargetPath, 'a:b', true), undefined)
  t.equal(childPath(root as TargetPath, 'a:b', false), '/srv/site/a:b')
})

t.test('a child that is too long is none', async (t) => {
  const { path } = target('docs')
  t.equal(childPath(path, 'a'.repeat(255)), `${path}/${'a'.repeat(255)}`)
  t.equal(childPath(path, 'a'.repeat(256)), undefined)
  t.equal(childPath(path, '€'.repeat(86)), undefined)

  const deep = target(('a'.repeat(199) + '/').repeat(20) + 'b'.repeat(75)).path
  t.equal(deep.length, 4085)
  t.equal(childPath(deep, '123456789'), deep + '/123456789')
  t.equal(childPath(deep, '1234567890'), undefined)
})

// What follows asks the real router what a request on the wire becomes.

interface Routed {
  status: number
  remainder: string
  rawUrl: string
}

const agent = new Agent({ keepAlive: true })
t.teardown(() => agent.destroy())

async function listen (t: Test, useSemicolonDelimiter = false) {
  // Not in routerOptions: Fastify 5.0 has none, and the types of 5.12 do not name it there.
  const app = fastify({ ...(useSemicolonDelimiter ? { useSemicolonDelimiter } : {}), forceCloseConnections: true })
  for (const url of ['/*', '/static/*', '/app/:version/*']) {
    app.get(url, async ({ params, raw }) => ({ remainder: (params as { '*': string })['*'], rawUrl: raw.url }))
  }
  await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(() => app.close())
  const { port } = app.server.address() as AddressInfo

  return (path: string) => new Promise<Routed>((resolve, reject) => {
    request({ port, host: '127.0.0.1', path, agent }, async (response) => {
      const body = (await response.toArray()).join('')
      resolve({ ...JSON.parse(body), status: response.statusCode })
    }).on('error', reject).end()
  })
}

const inside = (below: string) => root + below

t.test('public cases, as the router hands them over', async (t) => {
  const route = await listen(t)

  const cases: Array<[id: string, url: string, wanted: string, policy?: DotfilesPolicy]> = [
    ['P82', '/bunny%20%25%25%20copy.mp4', inside('/bunny %% copy.mp4')],
    ['P83', '/a%20.md', inside('/a .md')],
    ['P83', '/a%2520.md', inside('/a%20.md')],
    ['P85', '/a%23b.txt', inside('/a#b.txt')],
    ['P85', '/a%3Fb.txt', inside('/a?b.txt')],
    ['P85', '/a?b.txt', inside('/a')],
    ['P86', '/%5Bid%5D-x.js', inside('/[id]-x.js')],
    ['P86', '/[id]-x.js', inside('/[id]-x.js')],
    ['P87', '/%', 'bad-url'],
    ['P87', '/%zz', 'bad-url'],
    ['P87', '/%E0%A4%A', 'bad-url'],
    ['P87', '/%FF.txt', 'bad-url'],
    ['P87', '/%c0%ae%c0%ae/x', 'bad-url'],
    ['P88', '/caf%C3%A9', inside('/caf\u00e9')],
    ['P88', '/cafe%CC%81', inside('/cafe\u0301')],
    ['P89', '/TEN.TXT', inside('/TEN.TXT')],
    ['P90', '/' + 'a'.repeat(300), 'not-found'],
    ['P90', '/' + 'a'.repeat(5000), 'not-found'],
    ['P91', '/ten.txt/x', inside('/ten.txt/x')],
    ['P91', '/ten.txt/x/', inside('/ten.txt/x')],
    ['P92', '/ten.txt/', inside('/ten.txt')],
    ['P92', '/ten.txt//', 'forbidden'],
    ['P93', '/admin%2Fsecret.txt', 'not-found'],
    ['P93', '/admin%2fsecret.txt', 'not-found'],
    ['P93', '/admin%5Csecret.txt', 'forbidden'],
    ['P93', '/admin%252Fsecret.txt', inside('/admin%2Fsecret.txt')],
    ['P95', '/app/1/%2e%2e/%2e%2e/x', 'forbidden'],
    ['P95', '/static/x/../../guarded', 'forbidden'],
    ['P95', '/app/%2e%2e/secret', inside('/secret')],
    ['P95', '/app/1%2f/secret', 'not-found'],
    ['P96', '/..%2f..%2fsecret', 'not-found'],
    ['P96', '/%2e%2e/', 'forbidden'],
    ['P96', '/..%5c..%5c', 'forbidden'],
    ['P96', '/%252e%252e/', inside('/%2e%2e')],
    ['P96', '/static-secret/x', inside('/static-secret/x')],
    ['P97', '/../private.txt', 'forbidden'],
    ['P97', '/static/../private.txt', 'forbidden'],
    ['P98', '/a//%5c../%5c../etc/passwd', 'forbidden'],
    ['P99', '/.env', 'not-found', 'ignore'],
    ['P99', '/.env', 'forbidden', 'deny'],
    ['P99', '/.env/.', 'forbidden', 'ignore'],
    ['P99', '/.env/.', 'forbidden', 'deny'],
    ['P99', '/./.env', 'forbidden', 'ignore'],
    ['P99', '/x/%2eenv', 'not-found', 'ignore'],
    ['P99', '/x/%2eenv', 'forbidden', 'deny'],
    ['P99', '/.git/config', 'not-found', 'ignore'],
    ['P100', '/.well-known/acme-challenge/t', inside('/.well-known/acme-challenge/t'), 'ignore'],
    ['P100', '/.well-known/acme-challenge/t', inside('/.well-known/acme-challenge/t'), 'deny'],
    ['P102', '//evil.com/%2e%2e', 'forbidden'],
    ['P102', '//dir', 'forbidden'],
    ['P102', '/\\evil.com/..', 'forbidden'],
    ['P102', '///dir', 'forbidden'],
    ['P102', '/%5cevil.com/%2e%2e', 'forbidden'],
    ['P102', '/dir?x=//y', inside('/dir')],
    ['P103', '/..%2f', 'not-found'],
    ['P103', '/sub/../../', 'forbidden'],
    ['P104', '/ten.txt%00.html', 'malformed'],
    ['P104', '/%00', 'malformed'],
    ['P105', '/%3Cimg%20src=x%3E', inside('/<img src=x>')],
    ['P105', '/a%0D%0Ab', inside('/a\r\nb')],
    ['P106', '/%61dmin', inside('/admin')],
    ['absolute-form', 'http://h/a%20b?u=%2f', inside('/a b')],
    ['absolute-form', 'http://h/a%2fb', 'not-found'],
    ['absolute-form', 'http://h', root],
    ['prefix', '/static/', root],
    ['prefix', '/static//a', 'forbidden']
  ]
  for (const [id, url, wanted, policy = 'allow'] of cases) {
    const { status, remainder, rawUrl } = await route(url)
    const result = status === 400 ? 'bad-url' : brief(resolvePath(remainder, rawUrl, root, policy))
    t.equal(result, wanted, `${id} ${url.slice(0, 40)} (${policy})`)
  }
})

t.test('with useSemicolonDelimiter the router ends the path at a semicolon', async (t) => {
  for (const semicolon of [true, false]) {
    const route = await listen(t, semicolon)
    const { remainder, rawUrl } = await route('/a;b=%2f')
    t.equal(remainder, semicolon ? 'a' : 'a;b=/')
    t.equal(brief(resolvePath(remainder, rawUrl, root, 'allow', semicolon)), semicolon ? inside('/a') : 'not-found')
  }
})

const holds = <T>(t: Test, property: fc.IProperty<T>) => t.doesNotThrow(() => fc.assert(property, { numRuns }), `${numRuns} runs`)

const policy = fc.constantFrom(...policies)
const roots = fc.constantFrom('/', '/srv/site', '/a', '/srv/.hidden/ü')
const unit = fc.nat(0xffff).map((code) => String.fromCharCode(code))
const piece = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('/', '/', '.', '..', 'a', 'b.txt') },
  { weight: 2, arbitrary: fc.constantFrom('.well-known', '.env', ' ', ':', 'con', 'é', '😀', '%2e', '%2f', '%5c', '//') },
  { weight: 1, arbitrary: fc.constantFrom('\0', '\\', '?', '#', ';', 'x'.repeat(250), '€'.repeat(84), ('y'.repeat(200) + '/').repeat(10)) },
  { weight: 1, arbitrary: unit }
)
const names = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''))
const cleanSegment = fc.constantFrom('a', 'b.txt', '.well-known', '.env', '...', 'é', 'c d', '%2e', 'z'.repeat(254))
const cleanNames = fc.tuple(fc.array(cleanSegment, { maxLength: 20 }), fc.constantFrom('', '/'))
  .map(([segments, slash]) => segments.length === 0 ? '' : segments.join('/') + slash)
const anyNames = fc.oneof(names, cleanNames)
const urls = fc.tuple(fc.constantFrom('', '/', 'http://h/', 'http://'), names).map((parts) => parts.join(''))

t.test('property: no string throws, and every answer is one of the four', async (t) => {
  holds(t, fc.property(anyNames, urls, roots, policy, fc.boolean(), fc.boolean(), (name, url, root, policy, semicolon, windows) => {
    for (const result of [resolvePath(name, url, root, policy, semicolon, windows), resolveName(name, root, policy, windows)]) {
      if (typeof result === 'string') {
        if (!['malformed', 'forbidden', 'not-found'].includes(result)) return false
      } else {
        childPath(result.path, url, windows)
      }
    }
    return true
  }))
})

t.test('property: a path is the root and the segments of its pathname, never more', async (t) => {
  holds(t, fc.property(anyNames, roots, policy, (name, root, policy) => {
    const result = resolvePath(name, '/', root, policy, false, false)
    if (typeof result === 'string') return true
    const rootSegments = root.split('/').filter(Boolean)
    const segments = result.path.split('/').slice(1)
    return resolve(result.path) === result.path &&
      result.path === posix.join(root, result.pathname.replace(/\/$/, '')) &&
      rootSegments.every((segment, i) => segments[i] === segment) &&
      result.pathname === '/' + name &&
      result.trailingSlash === result.pathname.endsWith('/')
  }))
})

t.test('property: Windows, too, keeps every path in the root', async (t) => {
  holds(t, fc.property(anyNames, fc.constantFrom('C:\\srv\\site', 'C:\\', '\\\\host\\share\\x'), policy, (name, root, policy) => {
    const result = resolveName(name, root, policy, true)
    if (typeof result === 'string') return true
    const below = win32.relative(root, win32.resolve(result.path))
    return !win32.isAbsolute(below) && '/' + below.replaceAll('\\', '/') === (result.pathname.replace(/\/$/, '') || '/')
  }))
})

t.test('property: children stay in the root', async (t) => {
  holds(t, fc.property(anyNames, roots, anyNames, (name, root, other) => {
    const result = resolvePath(name, '/', root, 'allow', false, false)
    if (typeof result === 'string') return true
    const child = childPath(result.path, other, false)
    return child === undefined || (child === resolve(result.path, other) && child.startsWith(posix.join(result.path, '/')))
  }))
})

t.test('property: to resolve a pathname again changes nothing', async (t) => {
  holds(t, fc.property(anyNames, roots, policy, (name, root, policy) => {
    const result = resolveName(name, root, policy, false)
    return typeof result === 'string' || (
      isDeepStrictEqual(resolveName(result.pathname, root, policy, false), result) &&
      isDeepStrictEqual(resolvePath(result.pathname.slice(1), '/', root, policy, false, false), result)
    )
  }))
})

t.test('property: the reference, written with split, agrees', async (t) => {
  let served = 0
  holds(t, fc.property(anyNames, roots, policy, (name, root, policy) => {
    const wanted = JSON.stringify(referenceName(name, root, policy))
    if (wanted.startsWith('{')) served++
    const relative = name.startsWith('/') ? [] : [resolveName('/' + name, root, policy, false), resolveName(name, root, policy, false)]
    return [resolvePath(name, '/', root, policy, false, false), ...relative].every((result) => JSON.stringify(result) === wanted)
  }))
  t.ok(served > numRuns / 10, `${served} of ${numRuns} were paths`)
})

t.test('property: through the router, the reference that reads the wire agrees', async (t) => {
  const route = await listen(t)
  const escapes = fc.array(fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom('/', 'a', 'b', '.', '%2e', '%2E') },
    { weight: 3, arbitrary: fc.constantFrom('.well-known', '%2f', '%2F', '%5c', '%5C', '\\', '%25', '%252f', '%C3%A9', '%20', ';') },
    { weight: 1, arbitrary: fc.constantFrom('%00', '%', '%FF', '?', '#', '%3F', '%23', '%2525', 'n'.repeat(250)) }
  ), { maxLength: 10 }).map((pieces) => pieces.join(''))

  await fc.assert(fc.asyncProperty(fc.constantFrom('/', '/static/'), escapes, policy, async (prefix, rest, policy) => {
    const { status, remainder, rawUrl } = await route(prefix + rest)
    const result = status === 400 ? 'bad-url' : resolvePath(remainder, rawUrl, root, policy)
    return isDeepStrictEqual(result, referenceUrl(prefix + rest, prefix, root, policy))
  }), { numRuns })
  t.pass(`${numRuns} requests`)
})

t.test('a longer name is the file beside, unless it is too long', async (t) => {
  const name = (length: number) => target('x/' + 'a'.repeat(length)).path
  t.equal(longerPath(target('a.js').path, '.br'), '/srv/site/a.js.br')
  t.equal(longerPath(name(252), '.br'), `/srv/site/x/${'a'.repeat(252)}.br`)
  t.equal(longerPath(name(253), '.br'), undefined)
  t.equal(longerPath(target('ü'.repeat(126)).path, '.br'), '/srv/site/' + 'ü'.repeat(126) + '.br', 'bytes count, 255 of them')
  t.equal(longerPath(target('ü'.repeat(127)).path, '.br'), undefined)
  const deep = target(('a'.repeat(199) + '/').repeat(20) + 'b'.repeat(83)).path
  t.equal(longerPath(deep, '.x'), deep + '.x')
  t.equal(longerPath(deep, '.br'), undefined, 'the whole path, too')
})

t.test('the directory that a file is in', t => {
  for (const [root, name, directory] of [['/srv/site', 'a.js', '/srv/site'], ['/srv/site', 'x/a.js', '/srv/site/x'], ['/', 'a.js', '/'], ['/', 'x/a.js', '/x']] as const) {
    const target = resolveName(name, root, 'allow')
    if (typeof target === 'string') t.fail(target)
    else t.equal(parentPath(target.path), directory)
  }
  t.end()
})
