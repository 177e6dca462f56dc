// Hostile requests over a raw socket, to a real server with real files: each is refused, or gets what it may have.
import { join } from 'node:path'
import t from 'tap'
import { bytesOf, sha256, versionOf } from './fixtures/files'
import { openSite, siteTest } from './fixtures/live-site'
import { Thread } from './fixtures/thread'
import type { HostileOptions, Report } from './fixtures/hostile'

/** Far more than is needed on an idle machine. */
t.setTimeout(300_000)

/** Links, FIFOs, and names that it does not have. */
const skip = process.platform === 'win32'

/** Paths, each below the prefix of each mount. */
const RUNS = Number(process.env.FUZZ_RUNS ?? 700)

const threads = [new Thread(), new Thread()]
t.teardown(() => Promise.all(threads.map((thread) => thread.end())))

async function attack (thread: number, folder: string, options: HostileOptions): Promise<Report> {
  return await (threads[thread] as Thread).call<Report>(join(__dirname, 'fixtures', 'hostile'), 'attack', folder, options)
}

const LONG = 'n'.repeat(255)

const NAMED = [
  // The files, so that refusing everything is no answer.
  '', 'a.txt', 'd', 'd/', 'd/a.txt', 'd/d', 'd/d/', 'd/coded.js', 'page', 'page.html', 'index.html', 'bare', 'bare/', 'bare/b.txt', 'only', 'only.txt', 'd/only.txt',
  'a%20.md', 'a%2520.md', 'b%20c.txt', '%C3%BCn%C3%AF.txt', 'hash%23.txt', 'q%3F.txt', 'semi;colon.txt', 'semi%3Bcolon.txt', 'amp&.txt', 'amp%26.txt', '100%25.txt', '...', 'dots..txt',
  '[id].js', '%252e%252e', LONG, `${LONG}/x`, 'a.txt/', 'a.txt/x', 'a.txt.br', 'fifo', 'none', 'none/', 'none/none', 'A.TXT', 'D/a.txt',
  // Names that objects have.
  '__proto__', '__proto__/', '__proto__/x', 'constructor', 'constructor/prototype', 'hasOwnProperty', 'hasOwnProperty/', 'toString', 'toString/a.txt', 'valueOf', '%5f%5fproto%5f%5f',
  'a.txt?__proto__[x]=1', 'a.txt?__proto__=1&constructor[prototype]=1&hasOwnProperty=1', '?format=__proto__', 'd?format=constructor', '?format[]=html&format=x', 'd/?__proto__',
  // Links.
  'l-in.txt', 'l-dir', 'l-dir/', 'l-dir/a.txt', 'l-dir/.env', 'l-dot', 'l-out.txt', 'l-outside', 'l-outside/', 'l-outside/secret.txt', 'l-outside/.env', 'l-second/only.txt', 'l-beside/a.txt', 'l-beside', 'l-back',
  'l-loop', 'l-loop/x', 'l-none', 'l-self/a.txt', 'l-self/l-self/l-self/a.txt', 'd/l-up.txt', 'd/l-out.txt',
  // P93
  'admin/secret.txt', 'admin%2Fsecret.txt', 'admin%2fsecret.txt', 'admin%5Csecret.txt', 'admin%252Fsecret.txt', 'admin\\secret.txt', '/admin/secret.txt', './admin/secret.txt',
  // P95, P96, P98, P103
  '../secret.txt', '%2e%2e/secret.txt', '..%2fsecret.txt', '..%2f..%2fsecret.txt', '%2e%2e%2fsecret.txt', '..%5csecret.txt', '..\\secret.txt', '..%252fsecret.txt', '%252e%252e/secret.txt',
  'd/../a.txt', 'd/%2e%2e/%2e%2e/secret.txt', 'x/../../guarded', '/%5c../%5c../etc/passwd', 'd//%5c../%5c../secret.txt', '..%2f', 'd/../../', '..', '../', '.', './', 'd/..', 'd/.', '..;/secret.txt',
  '..%3b/secret.txt', '..;', '.%00./secret.txt', '..%00/secret.txt', '%c0%ae%c0%ae/secret.txt', '%e0%80%ae%e0%80%ae/secret.txt', '..%c0%afsecret.txt', '..%ef%bc%8fsecret.txt', '%u002e%u002e/secret.txt',
  '....//secret.txt', '.../secret.txt', '..../secret.txt', '.. /secret.txt', '..%20/secret.txt', '%20../secret.txt', '..%09/secret.txt', 'd/..%0d%0a', '/etc/passwd', '//etc/passwd', '%2Fetc%2Fpasswd',
  // P97
  '../root-private/secret.txt', '%2e%2e/root-private/secret.txt', '-private/secret.txt', '../root.txt', '.txt',
  // P99, P100
  '.env', '.env/.', './.env', '.env/', '%2eenv', 'd/.env', 'd/%2eenv', '.git/config', '.git', '.git/', '.well-known/acme', '.well-known/.env', '.well-known/../.env', '.well-known%2f.env', 'd/.well-known/x',
  '.dot', '.dot/', '.dot/index.html', 'bare/.hidden', '.ENV', '.env%00', '.env%20', '.env.', '.env::$DATA', '.env~', '.env;x', '.env?x', '.env#x',
  // P102
  '/evil.com/%2e%2e', '/evil.com/', '/d', '//d', '\\evil.com', '\\evil.com/..', '%5cevil.com/%2e%2e', 'd?x=//y', 'd?//evil.com', 'd?\\evil.com', 'd#//evil.com', 'd%0d%0aSet-Cookie:%20x', 'd%09', 'd;//evil',
  'd?a=%0d%0ab', 'd?%zz', 'd?"<>', 'd/?x',
  // P104
  'a.txt%00.html', '%00', 'a.txt%00', '%00a.txt', 'd%00/a.txt', 'd/%00', 'none%00', 'a\0.txt', '\0',
  // Malformed, and what no parser should take.
  '%', '%%', '%2', '%zz', 'a.txt%', '%E0%A4%A', '%FF', '%FF.txt', '%C3', '%ed%a0%80', '%f4%90%80%80', '%u0061.txt', 'a b', 'a\tb', 'a\x7f', '\xc3\xbcn\xc3\xaf.txt', '\xff', 'a.txt#x', '#', '?', '?#', ';', '&', '%20',
  '%EF%BB%BFa.txt', 'a.txt%20', 'a.txt.', '*', ':v', ':v/a.txt', '**', '+', '@', '|', '^', '`', '{}', '<script>',
  // Too long.
  'x'.repeat(256), `${LONG}n`, `${LONG}.br`, '%C3%A9'.repeat(128), 'x'.repeat(5000), 'x/'.repeat(2500), '/'.repeat(5000), './'.repeat(3000), '../'.repeat(3000), 'd/../'.repeat(1500),
  '%2e%2e/'.repeat(1500), '%25'.repeat(3000), '%'.repeat(8000), `${'y'.repeat(250)}/`.repeat(17), '?'.repeat(5000), `?${'a=b&'.repeat(3000)}`, `d?${'x'.repeat(15_000)}`, 'a.txt'.padEnd(15_000, '?x')
]

t.test('named ones: cold, hot, while nothing is there, and again', { skip }, async (t) => {
  const dir = t.testdir({})
  const reports = await Promise.all(threads.map((_, i) => attack(i, join(dir, String(i)), { named: NAMED.filter((_, at) => at % threads.length === i) })))
  for (const { failures, kinds, stats } of reports) {
    t.strictSame(failures, [])
    t.ok(kinds.file > 400 && kinds.listing > 5 && kinds.redirect > 5 && kinds.refused > 1000, JSON.stringify(kinds))
    t.ok(stats.negativeHits > 500, `${stats.negativeHits} from negative entries`)
  }
})

t.test('generated ones', { skip }, async (t) => {
  const dir = t.testdir({})
  const reports = await Promise.all(threads.map((_, i) => attack(i, join(dir, String(i)), { count: Math.ceil(RUNS / 2), seed: 1 + i })))
  for (const { failures, kinds, stats } of reports) {
    t.strictSame(failures, [])
    t.ok(kinds.file > RUNS / 2 && kinds.listing > RUNS / 100 && kinds.redirect > RUNS / 200 && kinds.refused > RUNS, JSON.stringify(kinds))
    t.ok(stats.hits > RUNS && stats.negativeHits > RUNS && stats.directoryHits > RUNS / 10, JSON.stringify(stats))
  }
})

t.test('routers that take more than one path for the same', { skip }, async (t) => {
  const dir = t.testdir({})
  const router = { ignoreTrailingSlash: true, ignoreDuplicateSlashes: true, useSemicolonDelimiter: true }
  const reports = await Promise.all([
    attack(0, join(dir, '0'), { router, named: NAMED }),
    attack(1, join(dir, '1'), { router: { ...router, caseSensitive: false }, count: Math.ceil(RUNS / 10), seed: 7 })
  ])
  for (const { failures } of reports) t.strictSame(failures, [])
})

t.test('the request line', async (t) => {
  siteTest(t, 'up to the limit of the head, and over it', { files: { 'a.txt': 'a' }, cache: { errors: true } }, async (t, site) => {
    const connection = await site.connect()
    const statusOf = async (path: string): Promise<number> => (await site.request(path)).status
    for (const [length, status] of [[4096, 404], [8192, 404], [16_000, 404], [16_384, 431], [20_000, 431], [100_000, 431]] as const) {
      for (let i = 0; i < 2; i++) {
        t.equal(await statusOf(`/${'x'.repeat(length - 1)}`), status, `a name of ${length}`)
        t.equal(await statusOf(`/${'%41'.repeat(length / 3)}`), status, `escapes of ${length}`)
        t.equal(await statusOf(`/a.txt?${'x'.repeat(length - 7)}`), status === 404 ? 200 : status, `a query of ${length}`)
      }
      connection.request('/a.txt')
      t.match(await connection.answer(), { status: 200, body: Buffer.from('a') }, 'others are served')
    }
    t.match(site.stats(), { negativeEntries: 0 }, 'nothing of it is remembered')
  })
})

t.test('absolute-form, asterisk-form and authority-form', async (t) => {
  const dir = t.testdir({ root: { 'a.txt': 'a', d: { 'index.html': 'd' } }, 'a.txt': 'secret' })
  const site = await openSite(t, join(dir, 'root'), { plugin: { redirect: true } })
  for (const way of ['cold', 'hot']) {
    for (const [target, status, location] of [
      ['http://localhost/a.txt', 200], ['HTTP://EVIL.COM/a.txt', 200], ['https://u:p@h:1/a.txt', 200], ['http://[::1]:80/a.txt?x', 200], ['http://localhost/d', 301, '/d/'],
      ['http://evil.com/d?x=//y', 301, '/d/?x=//y'], ['http://evil.com//d', 403], ['http://evil.com/d/../a.txt', 403], ['http://evil.com/..%2fa.txt', 404], ['http://evil.com/%2e%2e/a.txt', 403],
      ['http://evil.com/..\\a.txt', 403], ['http:///a.txt', 400], ['http://[::bad/a.txt', 400], ['http://', 400], ['http:/a.txt', 400], ['http:a.txt', 400], ['//evil/..', 403], ['//evil/d', 403], ['//d', 403],
      ['///d', 403], ['file:///a.txt', 400], ['javascript:alert(1)', 400], ['a.txt', 400], ['d', 400], ['../a.txt', 400], ['localhost:80', 400], ['?', 400], ['#', 400], ['\\a.txt', 400],
      ['http://localhost', 404], ['http://localhost?/a.txt', 404], ['*', 404], ['**', 400], ['*/a.txt', 400]
    ] as Array<[string, number, string?]>) {
      const { status: got, headers, body } = await site.request(target)
      t.equal(got, status, `${way} ${target}`)
      t.equal(headers.location, location, target)
      t.notMatch(body.toString(), 'secret', target)
    }
  }
  await site.end(t)
})

siteTest(t, 'a redirect names no other host, even where slashes do not count', {
  files: { d: { 'index.html': 'd' } }, plugin: { redirect: true }, fastify: { routerOptions: { ignoreDuplicateSlashes: true } }
}, async (t, site) => {
  for (const way of ['cold', 'hot']) {
    for (const target of ['//d', '///d', '////d', 'http://evil.com//d', 'http://evil.com///d']) {
      const { status, headers: { location } } = await site.request(target)
      t.ok(status === 301 ? location === '/d/' : status >= 400 && location === undefined, `${way} ${target}: ${status} ${location}`)
    }
    t.match(await site.request('//d?//evil.com'), { status: 301, headers: { location: '/d/?//evil.com' } })
  }
})

t.test('fields', async (t) => {
  const big = bytesOf(300_000)
  const files = { 'small.txt': '0123456789', 'big.bin': big, 'x.js': 'plain', 'x.js.br': 'coded', 'page.html': 'page' }
  const LIMIT = 1024 * 1024
  /** As many items as have room. */
  const many = (bytes: number, item: (i: number) => string): string => {
    const items: string[] = []
    for (let i = 0, length = 0; length < bytes; i++) length += items[items.push(item(i)) - 1]?.length as number + 1
    return items.join(',')
  }
  for (const [name, room, ways, fastify] of [['in 15 KB', 15_000, 3, {}], ['in 900 KB, where the server takes them', 900_000, 1, { http: { maxHeaderSize: LIMIT } }]] as const) {
    siteTest(t, name, { files, fastify, plugin: { preCompressed: ['br'], fallback: 'page.html' } }, async (t, site) => {
      const paths = ['small.txt', 'big.bin'].map((file) => [`/${file}`, versionOf(join(site.root, file))] as const)
      const tags = many(room, (i) => `"${i}"`)
      for (let way = 0; way < ways; way++) {
        for (const [path, { etag, lastModified, body }] of paths) {
          const whole = async (field: string, value: string): Promise<void> => {
            const answer = await site.request(path, { [field]: value })
            t.match(answer, { status: 200, headers: { etag } }, `${field}: ${value.slice(0, 30)}`)
            t.equal(sha256(answer.body), sha256(body), path)
          }
          const status = async (field: string, value: string, wanted: number): Promise<void> => {
            t.equal((await site.request(path, { [field]: value })).status, wanted, `${field}: ${value.slice(0, 30)}…${value.slice(-30)}`)
          }
          await whole('If-None-Match', tags)
          await status('If-None-Match', `${tags},${etag}`, 304)
          await status('If-None-Match', `${etag},${tags}`, 304)
          for (const value of [`${etag},${tags}"`, '"'.repeat(room), '"'.repeat(room - 1), 'W/'.repeat(room / 2), `"${'x'.repeat(room)}`, `${' ,'.repeat(room / 2)}x`, 'x'.repeat(room)]) {
            await whole('If-None-Match', value)
          }
          await status('If-None-Match', `${', '.repeat(room / 2)}${etag}`, 304)
          await status('If-Match', tags, 412)
          await status('If-Match', `"${'x'.repeat(room)}`, 412)
          for (const junk of ['9'.repeat(room), 'Sun, '.repeat(room / 5), `Sun, 09 Sep 2001 01:46:40 ${' '.repeat(room)}GMT`, 'Sun, 09 Sep 99999999999 01:46:40 GMT', '\xff'.repeat(room), '-1', 'NaN', '{}', '__proto__']) {
            await whole('If-Modified-Since', junk)
            await whole('If-Unmodified-Since', junk)
            await whole('If-Range', junk)
          }
          await status('If-Modified-Since', `${lastModified}`, 304)

          for (const set of [
            many(room, (i) => `${i}-${i}`), many(room, () => '0-'), many(room, () => '-1'), many(room, (i) => `${i}-${2 * i}`), `0-1,${','.repeat(room)}2-3`, `${'9'.repeat(room)}-0`, `-${'x'.repeat(room)}`,
            '-'.repeat(room), `0${' '.repeat(room)}-1`, `${'0-1;'.repeat(room / 4)}`
          ]) await whole('Range', `bytes=${set}`)
          for (const unit of ['x'.repeat(room), 'bytes,items', '=', '__proto__', 'bytes'.repeat(room / 5), ' '.repeat(100) + 'byte', 'bytes ', 'b\xffytes']) await whole('Range', `${unit}=0-1`)
          for (const set of [`${'9'.repeat(room)}-`, `${size(body)}-`, '-0', `-${'0'.repeat(room)}`, '1e3-'.replace('e3', '0'.repeat(300)), `9007199254740993-${'9'.repeat(400)}`]) await status('Range', `bytes=${set}`, 416)
          for (const [set, start, end] of [
            [`0-${'9'.repeat(room)}`, 0, size(body) - 1], [`${'0'.repeat(room)}1-2`, 1, 2], [`-${'9'.repeat(room)}`, 0, size(body) - 1], [`${','.repeat(room)}0-1`, 0, 1], [`0-1${','.repeat(room)}`, 0, 1],
            [`0-1${' ,'.repeat(room / 2)}`, 0, 1], ['0-0', 0, 0]
          ] as const) {
            const answer = await site.request(path, { Range: `bytes=${set}` })
            t.match(answer, { status: 206, headers: { 'content-range': `bytes ${start}-${end}/${size(body)}` } }, set.slice(0, 30))
            t.equal(sha256(answer.body), sha256(body.subarray(start, end + 1)))
          }
        }

        const codings = many(room, (i) => `c${i};q=0.5`)
        for (const [field, body] of [
          [codings, 'plain'], [`${codings},br`, 'coded'], [`br,${codings}`, 'coded'], [`${codings},br;q=0`, 'plain'], [`${many(room, () => 'br')},br;q=0`, 'plain'], [`${codings},*`, 'coded'],
          [';q='.repeat(room / 3), 'plain'], [`br;q=0.${'9'.repeat(room)}`, 'plain'], [`br${' '.repeat(room)};q=1`, 'coded'], [`br;q=1${'\t'.repeat(room)}x`, 'plain'], ['__proto__,constructor,br', 'coded'],
          [`${' '.repeat(room)}x`, 'plain'], [','.repeat(room), 'plain'], [`${' ;'.repeat(room / 2)}`, 'plain']
        ] as const) {
          const answer = await site.request('/x.js', { 'Accept-Encoding': field })
          t.match(answer, { status: 200, body: Buffer.from(body) }, `Accept-Encoding: ${field.slice(0, 30)}…${field.slice(-10)}`)
        }

        for (const [accept, wanted] of [
          [many(room, (i) => `a/${i}`), 404], [`${many(room, (i) => `a/${i}`)},text/html`, 200], [`text/html${';'.repeat(room)}`, 200], [`text/html${' ;q=0'.repeat(room / 5)}`, 404],
          [`text/html;${' '.repeat(room)}q=0`, 404], [many(room, () => 'text/html;q=0'), 404], [many(room, () => 'text/html;q=0.x'), 200], [`text/html;${'q=0;'.repeat(room / 4)}x`, 404],
          [`${', '.repeat(room / 2)}text/htm`, 404], [`text/html;q=0.${'0'.repeat(room)}1`, 200], [`${'\t '.repeat(room / 2)}text/html`, 200], [`text/html${' '.repeat(room)}x`, 404]
        ] as const) {
          t.equal((await site.request('/none', { Accept: accept })).status, wanted, `Accept: ${accept.slice(0, 30)}…${accept.slice(-10)}`)
        }
      }
      await site.idle(t)
    })
  }

  siteTest(t, 'too many of them, or too long', { files: { 'a.txt': 'a' } }, async (t, site) => {
    t.equal((await site.request('/a.txt', { Range: `bytes=${'0-1,'.repeat(5000)}` })).status, 431)
    // Node 22 counts more for each than its bytes.
    const fields = Object.fromEntries(Array.from({ length: 800 }, (_, i) => [`a${i}`, '']))
    t.match(await site.request('/a.txt', fields), { status: 200, body: Buffer.from('a') })
    for (const fields of [
      { 'If-None-Match': '\x00' }, { Range: 'bytes=\x01' }, { 'a b': 'x' }, { 'If-None-Match ': '*' }, { '': 'x' }, { Host: 'a\r\nHost: b' }, { X: 'y\n z' }, { 'Content-Length': '1\r\nContent-Length: 2' }
    ] as Array<Record<string, string>>) {
      const answer = await site.request('/a.txt', fields)
      t.ok(answer.status === 400 || answer.body.toString() === 'a', `${JSON.stringify(fields)}: ${answer.status}`)
    }
    t.match(await site.request('/a.txt', { __proto__: 'x', constructor: 'y', hasownproperty: 'z' } as unknown as Record<string, string>), { status: 200 })
  })
})

function size ({ length }: Buffer): number {
  return length
}
