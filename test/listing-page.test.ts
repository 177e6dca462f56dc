import { equal, ok } from 'node:assert/strict'
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { LISTING_CSP, listingPage } from '../lib/listing-page'
import type { ListedFile } from '../lib/listing-page'

const MTIME = Date.UTC(2024, 1, 29, 9, 5, 59, 999)

const entry = (name: string, { href = 'x', size = 0, mtimeMs = MTIME } = {}): ListedFile => ({ href, name, stats: { size, mtimeMs } })
const pageOf = (...files: ListedFile[]) => listingPage('/', [], files, undefined)

/** Where the two parts are, or the test fails: `between` of a text that has each of them once. */
function between (text: string, before: string, after: string): string {
  const parts = text.split(before)
  equal(parts.length, 2, before)
  const [inside, ...rest] = (parts[1] as string).split(after)
  ok(rest.length > 0, after)
  return inside as string
}

t.test('the page of a directory', async (t) => {
  const page = listingPage('/public/docs/', [
    entry('images', { href: '/public/docs/images/', size: 4096 })
  ], [
    entry('a.txt', { href: '/public/docs/a.txt', size: 5 }),
    entry('b.txt', { href: '/public/docs/b.txt', size: 1536, mtimeMs: 0 })
  ], '/public/')

  const style = between(page, '<style>', '</style>')
  t.equal(page.replace(style, ''), `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Index of /public/docs/</title>
<style></style>
</head>
<body>
<main>
<h1 id="index">Index of <bdi>/public/docs/</bdi></h1>
<p><a href="/public/">Parent directory</a></p>
<table aria-labelledby="index">
<thead>
<tr><th scope="col">Name</th><th scope="col">Size</th><th scope="col">Modified (UTC)</th></tr>
</thead>
<tbody class="dirs">
<tr><th scope="row"><a href="/public/docs/images/"><bdi>images/</bdi></a></th><td>\u2013</td><td><time datetime="2024-02-29T09:05Z">2024-02-29 09:05</time></td></tr>
</tbody>
<tbody>
<tr><th scope="row"><a href="/public/docs/a.txt"><bdi>a.txt</bdi></a></th><td><data value="5">5\u00a0B</data></td><td><time datetime="2024-02-29T09:05Z">2024-02-29 09:05</time></td></tr>
<tr><th scope="row"><a href="/public/docs/b.txt"><bdi>b.txt</bdi></a></th><td><data value="1536" title="1536 bytes">1.5\u00a0KiB</data></td><td><time datetime="1970-01-01T00:00Z">1970-01-01 00:00</time></td></tr>
</tbody>
</table>
</main>
</body>
</html>
`)
})

t.test('the policy lets this style in, and nothing else', async (t) => {
  const page = pageOf(entry('a.txt'))
  const style = between(page, '<style>', '</style>')
  const hash = createHash('sha256').update(style).digest('base64')
  t.equal(LISTING_CSP, `default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-${hash}'`)
  t.notMatch(page, /style=|<script|<link|\bsrc=|url\(|@import/, 'and the page needs no more')
  t.match(style, 'color-scheme:light dark')
  t.match(style, '@media(prefers-color-scheme:dark)')
  t.match(style, ':focus-visible')
  t.ok(Buffer.byteLength(style) < 1200, 'the style is small')
})

t.test('an empty directory', async (t) => {
  const empty = '<p>This directory is empty.</p>'
  const page = listingPage('/a/', [], [], '/')
  t.match(page, `<p><a href="/">Parent directory</a></p>\n${empty}`)
  t.notMatch(page, '<table')
  t.notMatch(listingPage('/', [], [], undefined), '<a ')
  t.notMatch(pageOf(entry('a')), empty)
  t.notMatch(listingPage('/', [entry('a')], [], undefined), empty)
})

t.test('a parent, only when there is one, and before all else', async (t) => {
  const page = listingPage('/', [entry('d')], [entry('f')], '/up/')
  t.ok(page.indexOf('<a href="/up/">Parent directory</a>') < page.indexOf('<table'))
  t.notMatch(listingPage('/', [entry('d')], [entry('f')], undefined), 'Parent')
})

t.test('directories come first; the order is otherwise that of the caller', async (t) => {
  const page = listingPage('/', [entry('z'), entry('y')], [entry('b'), entry('a')], undefined)
  t.strictSame(page.split('<bdi>').slice(2).map((rest) => rest.split('</bdi>')[0]), ['z/', 'y/', 'b', 'a'])
  t.notMatch(listingPage('/', [], [entry('a')], undefined), '<tbody class="dirs">')
  t.equal(listingPage('/', [entry('a')], [], undefined).split('<tbody').length, 2)
})

const hostile: ReadonlyArray<[what: string, name: string, html: string]> = [
  ['an element', '<img src=x onerror=alert(1)>', '&lt;img src=x onerror=alert(1)&gt;'],
  ['the end of an attribute', '"><script>alert(1)</script>', '&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;'],
  ['the other quote', "' onmouseover='x", '&#39; onmouseover=&#39;x'],
  ['the end of the title', '</title></style></bdi><!--', '&lt;/title&gt;&lt;/style&gt;&lt;/bdi&gt;&lt;!--'],
  ['a reference', '&lt;&amp;&copy', '&amp;lt;&amp;amp;&amp;copy'],
  ['a replacement pattern', "$&$'$`$1", '$&amp;$&#39;$`$1'],
  ['lines', 'a\nb\rc\td', 'a\ufffdb\ufffdc\ufffdd'],
  ['other controls', '\0\x1b[31m\x7f\x85', '\ufffd\ufffd[31m\ufffd\ufffd'],
  ['Unicode lines', 'a\u2028b\u2029c', 'a\ufffdb\ufffdc'],
  ['an override', 'invoice\u202egpj.exe', 'invoice\ufffdgpj.exe'],
  ['the end of an isolate', '\u2069\u202ba\u2066', '\ufffd\ufffda\ufffd'],
  ['right-to-left text and its marks', '\u200fשלום\u200e \u061c12.pdf', '\u200fשלום\u200e \u061c12.pdf'],
  ['lone surrogates', '\ud800a\udc00', '\ufffda\ufffd'],
  ['a pair of surrogates', '👩‍👧', '👩‍👧'],
  ['noncharacters', '\ufffe\uffff\ufdd0\u{10ffff}', '\ufffd\ufffd\ufffd\ufffd'],
  ['spaces', '  a  b  ', '  a  b  '],
  ['255 bytes', '"'.repeat(255), '&quot;'.repeat(255)]
]

t.test('any name is text: the rest of the page stays as it is', async (t) => {
  // So the whole page is compared: nothing of the name can be anywhere else, or in another form.
  const HOLE = 'HOLE'
  const made = (name: string) => listingPage(name, [entry(name)], [entry(name)], undefined)
  const template = made(HOLE).split(HOLE)
  t.equal(template.length, 5, 'title, heading, directory, file')
  for (const [what, name, html] of hostile) t.equal(made(name), template.join(html), what)
})

t.test('hrefs are kept, and escaped for their attribute', async (t) => {
  const HOLE = 'HOLE'
  const made = (href: string) => listingPage('/', [entry('d', { href })], [entry('f', { href })], href)
  const template = made(HOLE).split(`"${HOLE}"`)
  t.equal(template.length, 4, 'parent, directory, file')
  for (const [href, html] of [
    ['/a%20b/%D7%A9%22%3C%F0%9F%98%80.txt', '/a%20b/%D7%A9%22%3C%F0%9F%98%80.txt'],
    ['/a&b;c=1?x=1&amp#y', '/a&amp;b;c=1?x=1&amp;amp#y'],
    ['/"onclick="x', '/&quot;onclick=&quot;x'],
    ["/it's<b>", '/it&#39;s&lt;b&gt;'],
    ['', '']
  ] as const) t.equal(made(href), template.join(`"${html}"`), href)
})

t.test('property: a name adds no markup, and what can be shown reads as it was', async () => {
  const DECODED: Record<string, string> = { '&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'" }
  const count = (text: string, character: string) => text.split(character).length
  const bare = pageOf(entry(''))
  const [before, after] = pageOf(entry('HOLE')).split('HOLE') as [string, string]
  fc.assert(fc.property(fc.oneof(
    fc.string({ unit: 'binary' }),
    // Code units rather than characters: surrogates come alone.
    fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => String.fromCharCode(...units)),
    fc.string({ unit: fc.constantFrom('<', '>', '&', '"', "'", ';', '#', 'amp', 'lt', '\n', '\0', '\u202e', '\ud800', '\udc00') })
  ), (name) => {
    const page = pageOf(entry(name))
    for (const character of '<>"\'\n') equal(count(page, character), count(bare, character))
    ok(page.startsWith(before) && page.endsWith(after))
    const html = page.slice(before.length, page.length - after.length)
    const text = html.replace(/&[^;]*;?/g, (reference) => DECODED[reference] ?? 'not a reference that we make')
    equal(text, [...name].map((character) => isShown(character) ? character : '\ufffd').join(''))
  }), { numRuns: 2000 })
})

function isShown (character: string): boolean {
  const code = character.codePointAt(0) as number
  if (code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0xd800 && code < 0xe000)) return false
  if ((code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069)) return false
  return (code & 0xfffe) !== 0xfffe && (code < 0xfdd0 || code > 0xfdef)
}

t.test('sizes', async (t) => {
  for (const [size, text] of [
    [0, '0 B'],
    [1, '1 B'],
    [1023, '1023 B'],
    [1024, '1.0 KiB'],
    [1075, '1.0 KiB'],
    [1076, '1.1 KiB'],
    [10_240, '10.0 KiB'],
    [1_048_524, '1023.9 KiB'],
    [1_048_525, '1.0 MiB'],
    [1_048_575, '1.0 MiB'],
    [1_048_576, '1.0 MiB'],
    [2 ** 30 - 1, '1.0 GiB'],
    [2 ** 30, '1.0 GiB'],
    [2 ** 40, '1.0 TiB'],
    [2 ** 50, '1.0 PiB'],
    [Number.MAX_SAFE_INTEGER, '8.0 PiB'],
    [2 ** 60, '1.0 EiB'],
    [2 ** 70, '1024.0 EiB']
  ] as const) {
    const shown = between(pageOf(entry('a', { size })), '<td><data ', '</data>')
    const title = size < 1024 ? '' : ` title="${size} bytes"`
    t.equal(shown, `value="${size}"${title}>${text.replace(' ', '\u00a0')}`)
  }
})

t.test('times: the minute, in UTC', async (t) => {
  const NONE = '\u2013'
  for (const [mtimeMs, minute] of [
    [0, '1970-01-01 00:00'],
    [59_999.9999, '1970-01-01 00:00'],
    [60_000, '1970-01-01 00:01'],
    [-0.5, '1969-12-31 23:59'],
    [Date.UTC(2024, 11, 31, 23, 59, 59, 999) + 0.9, '2024-12-31 23:59'],
    [Date.UTC(9999, 11, 31, 23, 59), '9999-12-31 23:59'],
    [Date.UTC(10_000, 0), NONE],
    [Date.parse('0001-01-01T00:00:00Z'), '0001-01-01 00:00'],
    [Date.parse('0000-12-31T23:59:59.999Z'), NONE],
    [8.64e15, NONE],
    [8.65e15, NONE],
    [-8.65e15, NONE]
  ] as const) {
    const shown = between(pageOf(entry('a', { mtimeMs })), '</data></td><td>', '</td>')
    t.equal(shown, minute === NONE ? NONE : `<time datetime="${minute.replace(' ', 'T')}Z">${minute}</time>`, String(mtimeMs))
  }
})

t.test('a directory with more entries than a call can have arguments', async (t) => {
  const many = Array.from({ length: 150_000 }, () => entry('a'))
  t.equal(listingPage('/', many, many, undefined).split('<tr>').length, 300_002)
})
