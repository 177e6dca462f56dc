import t from 'tap'
import { INVALID_REDIRECT_URL } from '../lib/errors'
import { requestTarget } from '../lib/request-target'
import type { Test } from 'tap'

/** `'path query'`, so that a table reads well. */
function targetsAre (t: Test, cases: Array<[rawUrl: string, path: string, query?: string]>, cutsAtSemicolon = false): void {
  for (const [rawUrl, path, query = ''] of cases) {
    t.strictSame(requestTarget(rawUrl, cutsAtSemicolon), { path, query }, JSON.stringify(rawUrl))
  }
}

t.test('origin-form is told as it came (RFC 9112 3.2.1)', async (t) => {
  targetsAre(t, [
    ['/', '/'], ['/a/b', '/a/b'], ['/a/b/', '/a/b/'], ['/a//b', '/a//b'], ['/a/../b', '/a/../b'], ['/%61%2Fb', '/%61%2Fb'],
    ['/a+b,c;d=e&f@g:h!$\'()*~', '/a+b,c;d=e&f@g:h!$\'()*~'], ['/http://host/a', '/http://host/a']
  ])
})

t.test('of absolute-form only the path counts (RFC 9112 3.2.2)', async (t) => {
  targetsAre(t, [
    ['http://host', '/'], ['http://host/', '/'], ['http://host/a/b/', '/a/b/'], ['https://host:8443/a?b=c', '/a', '?b=c'],
    ['HTTP://HOST/A', '/A'], ['http://host?a=/b', '/', '?a=/b'], ['http://host#/b', '/'], ['http://user:secret@host/a', '/a'],
    ['http://host/%C3%BC', '/%C3%BC'], ['http://host/ü', '/%C3%BC'], ['other://host/a', '/a'], ['other:a', '/a']
  ])
})

t.test('slashes and backslashes in front are one slash: two would name another host', async (t) => {
  targetsAre(t, [
    ['//evil.example', '/evil.example'], ['///evil.example/a', '/evil.example/a'], ['/\\evil.example', '/evil.example'],
    ['\\\\evil.example', '/evil.example'], ['\\/evil.example', '/evil.example'], ['/\\/\\evil.example//', '/evil.example//'],
    ['//', '/'], ['\\', '/'], ['http://host//evil.example', '/evil.example'], ['http://host/\\evil.example', '/evil.example'],
    ['http:////host//evil.example', '/evil.example'], ['other://host//evil.example', '/evil.example'], ['//evil.example?//x', '/evil.example', '?//x']
  ])
})

t.test('slashes elsewhere are left alone, and those in front that are encoded', async (t) => {
  targetsAre(t, [['/%2F%2Fevil.example', '/%2F%2Fevil.example'], ['/%5cevil.example', '/%5cevil.example'], ['/a//', '/a//']])
})

t.test('the query is kept, the fragment is not', async (t) => {
  targetsAre(t, [
    ['/a?', '/a', '?'], ['/a?b=c&d', '/a', '?b=c&d'], ['/a?b?c/d', '/a', '?b?c/d'], ['/a?b%20c=%C3%BC', '/a', '?b%20c=%C3%BC'],
    ['/a#b', '/a'], ['/a#b?c', '/a'], ['/a?b#c', '/a', '?b'], ['/a?b#c#d?e', '/a', '?b'], ['/a?#', '/a', '?'], ['/a?b#\nc', '/a', '?b']
  ])
})

t.test('a semicolon ends the path where the router says so, and is a part of it elsewhere', async (t) => {
  targetsAre(t, [['/a;b=c', '/a', ';b=c'], ['/a;b?c#d', '/a', ';b?c'], ['/a?b;c', '/a', '?b;c'], ['/a#b;c', '/a'], ['http://host;x/', '/', ';x/']], true)
  targetsAre(t, [['/a;b=c', '/a;b=c'], ['/a;b?c', '/a;b', '?c']])
})

t.test('what no field may carry as it is is percent-encoded, in path and query alike', async (t) => {
  targetsAre(t, [
    ['/a b', '/a%20b'], ['/ü', '/%C3%BC'], ['/日本/☃', '/%E6%97%A5%E6%9C%AC/%E2%98%83'], ['/🎉', '/%F0%9F%8E%89'],
    ['/a\r\nset-cookie: x', '/a%0D%0Aset-cookie:%20x'], ['/\0\t\x1f\x7f\x80', '/%00%09%1F%7F%C2%80'],
    ['/"<>\\^`{|}', '/%22%3C%3E%5C%5E%60%7B%7C%7D'],
    ['/a?b c=ü&"<>\r\n', '/a', '?b%20c=%C3%BC&%22%3C%3E%0D%0A'],
    ['/100%', '/100%'], ['/%zz', '/%zz']
  ])
  targetsAre(t, [['/a;b c', '/a', ';b%20c']], true)
})

t.test('a lone surrogate becomes U+FFFD, which has a UTF-8 form', async (t) => {
  targetsAre(t, [
    ['/\ud800', '/%EF%BF%BD'], ['/\udc00a\ud83d', '/%EF%BF%BDa%EF%BF%BD'], ['/a?\ud800', '/a', '?%EF%BF%BD'],
    ['http://host/\ud800', '/%EF%BF%BD']
  ])
})

t.test('what is neither origin-form nor absolute-form is an error of the request', async (t) => {
  for (const rawUrl of ['', 'a', 'a/b', '*', 'http://', 'http://[/a', 'http://a b/', 'http://host:99999/a', '?a', '#a']) {
    const [target] = rawUrl.split(/[?#]/)
    t.throws(() => requestTarget(rawUrl, false), {
      code: 'FST_STATIC_INVALID_REDIRECT_URL', statusCode: 400, message: `Invalid redirect URL: "${target}"`
    }, JSON.stringify(rawUrl))
    try {
      requestTarget(rawUrl, false)
    } catch (error) {
      t.ok(error instanceof INVALID_REDIRECT_URL)
    }
  }
})
