import { join } from 'node:path'
import t from 'tap'
import cachedStatic from '../lib/index'
import { readDirectory } from '../lib/directory-list'
import { LISTING_CSP } from '../lib/listing-page'
import { OpenFileCache } from '../lib/open-file-cache'
import { deliver, deliverAll, engineTest } from './fixtures/engine'
import { makeHot, MTIME, put, ROOT, siteTest } from './fixtures/fake-site'
import { settled } from './fixtures/fake-world'
import { openSite, siteTest as liveTest } from './fixtures/live-site'
import type { Test } from 'tap'
import type { Site, SiteOptions } from './fixtures/fake-site'
import type { CachedStaticOptions } from '../types/index'
import type { ListedEntry } from '../types/open-file-cache'

type List = NonNullable<CachedStaticOptions['list']>

const onWindows = process.platform === 'win32' && 'Windows has none of this'

const FORBIDDEN = { statusCode: 403, code: 'FST_STATIC_FORBIDDEN_PATH', error: 'Forbidden', message: 'Forbidden' }
const FILES = {
  'd/a.txt': 'a',
  'd/b.txt': 'bb',
  'd/sub/inner.txt': 'inner',
  'i/index.html': 'index',
  'i/x': 'x',
  'top.txt': 'top'
}
const D = { dirs: ['sub'], files: ['a.txt', 'b.txt'] }
const TOP = { dirs: ['d', 'i'], files: ['top.txt'] }

function listing (list: List, options: Partial<CachedStaticOptions> = {}, more: SiteOptions = {}): SiteOptions {
  return { files: FILES, options: { list, ...options } as CachedStaticOptions, ...more }
}

/** The links of a page, as a browser reads them. */
function hrefsIn (html: string): string[] {
  return [...html.matchAll(/href="([^"]*)"/g)].map(([, href]) => (href as string).replaceAll('&amp;', '&').replaceAll('&#39;', "'"))
}

/** Nothing was logged that an operator should see: no second reply, no error. */
function isCalm (t: Test, { log }: Pick<Site, 'log'>): void {
  t.strictSame(log.filter(({ level }) => level >= 40), [], 'the log is calm')
}

t.test('what is listed', async (t) => {
  siteTest(t, 'a directory without its trailing slash, by names, whatever index it has', listing(true), async (t, site) => {
    for (let round = 0; round < 3; round++) {
      const response = await site.get('/d')
      t.equal(response.statusCode, 200)
      t.strictSame(response.json(), D)
      t.match(response.headers, { 'content-type': 'application/json; charset=utf-8' })
      for (const name of ['etag', 'last-modified', 'cache-control', 'accept-ranges', 'content-security-policy']) {
        t.notOk(name in response.headers, name)
      }
      t.strictSame((await site.get('/i')).json(), { dirs: [], files: ['index.html', 'x'] })
    }
    isCalm(t, site)
  })

  siteTest(t, 'a directory with its trailing slash only where it has no index because of index: false', listing(true), async (t, site) => {
    for (let round = 0; round < 2; round++) {
      t.equal((await site.get('/d/')).statusCode, 404)
      t.equal((await site.get('/')).statusCode, 404)
      t.match(await site.get('/i/'), { statusCode: 200, body: 'index' })
    }
    isCalm(t, site)
  })

  siteTest(t, 'a directory with its trailing slash under index: false', listing(true, { index: false }), async (t, site) => {
    for (let round = 0; round < 2; round++) {
      t.strictSame((await site.get('/d/')).json(), D)
      t.strictSame((await site.get('/')).json(), TOP)
      t.strictSame((await site.get('/i/')).json(), { dirs: [], files: ['index.html', 'x'] })
    }
    isCalm(t, site)
  })

  siteTest(t, "with the name '/': any directory with its trailing slash and without index", listing({ names: ['/'] }), async (t, site) => {
    for (let round = 0; round < 2; round++) {
      t.strictSame((await site.get('/d/')).json(), D)
      t.strictSame((await site.get('/')).json(), TOP)
      t.match(await site.get('/i/'), { statusCode: 200, body: 'index' })
      for (const url of ['/none/', '/top.txt/']) t.equal((await site.get(url)).statusCode, 404, url)
    }
    isCalm(t, site)
  })

  siteTest(t, 'the directory of a name that asks for it, where no such file is', listing({ names: ['index.json', 'x'] }), async (t, site) => {
    for (let round = 0; round < 2; round++) {
      t.strictSame((await site.get('/d/index.json')).json(), D)
      t.strictSame((await site.get('/d/x')).json(), D)
      t.strictSame((await site.get('/index.json')).json(), TOP)
      t.match(await site.get('/i/x'), { statusCode: 200, body: 'x' })
      for (const url of ['/none/index.json', '/top.txt/index.json', '/d/other', '/d/', '/none']) t.equal((await site.get(url)).statusCode, 404, url)
    }
    isCalm(t, site)
  })

  siteTest(t, 'nothing for a name whose file may not be read', listing({ names: ['x'] }), async (t, { get, fs }) => {
    fs.chmod('/www/i/x', false)
    t.strictSame((await get('/i/x')).json(), FORBIDDEN)
  })

  siteTest(t, 'the root of the file system', listing({ names: ['/'], extendedFolderInfo: true, jsonFormat: 'extended' }, { root: '/' }), async (t, { get }) => {
    t.match((await get('/')).json(), { dirs: [{ name: 'www', extendedInfo: { fileCount: 1, totalFileCount: 6, folderCount: 2, totalFolderCount: 3 } }], files: [] })
  })

  siteTest(t, 'a directory that is empty', listing(true, {}, { before: (_app, { fs }) => { fs.mkdir('/www/e') } }), async (t, { get }) => {
    t.strictSame((await get('/e')).json(), { dirs: [], files: [] })
    t.match((await get('/e?format=html')).body, /<p>This directory is empty\.<\/p>/)
  })

  siteTest(t, 'rather than redirected to', listing(true, { redirect: true }), async (t, site) => {
    t.strictSame((await site.get('/d')).json(), D)
    isCalm(t, site)
  })

  for (const [dotfiles, names] of [
    [undefined, ['x']], ['ignore', ['x']], ['deny', ['x']], ['allow', ['.env', 'x']]
  ] as const) {
    siteTest(t, `names with a dot only where they are served: ${dotfiles ?? 'by default'}`, listing(true, { ...dotfiles && { dotfiles } }, {
      files: { 'd/.env': 'secret', 'd/x': 'x', 'd/.git/config': 'secret' }
    }), async (t, { get }) => {
      t.strictSame((await get('/d')).json(), { dirs: dotfiles === 'allow' ? ['.git'] : [], files: names })
      const hidden = (await get('/d?format=html')).body.match(/\.git|\.env/g)
      t.equal(hidden === null, dotfiles !== 'allow')
    })
  }

  siteTest(t, 'nothing without the option', { files: FILES, options: { index: false } }, async (t, { get }) => {
    t.equal((await get('/d')).statusCode, 404)
    t.strictSame((await get('/d/')).json(), FORBIDDEN)
  })
})

t.test('JSON', async (t) => {
  siteTest(t, 'extended: with what is known of each file', listing({ jsonFormat: 'extended' }), async (t, site) => {
    const { dirs, files } = (await site.get('/d')).json()
    t.strictSame(dirs.map(({ name }: { name: string }) => name), D.dirs)
    t.notOk('extendedInfo' in dirs[0])
    t.match(files, [
      { name: 'a.txt', stats: { size: 1, mtimeMs: MTIME } },
      { name: 'b.txt', stats: { size: 2 } }
    ])
    t.strictSame(Object.keys(files[0]), ['name', 'stats'])
    isCalm(t, site)
  })

  const html = (response: { headers: object }) => 'content-security-policy' in response.headers
  for (const format of [undefined, 'json', 'html'] as const) {
    const list = { ...format && { format } } as List
    siteTest(t, `or HTML, as the query asks, else as registered: ${format ?? 'by default'}`, listing(list), async (t, site) => {
      const registered = format === 'html'
      for (const [query, isHtml] of [
        ['', registered], ['?', registered], ['?other=1', registered], ['?format=json', false], ['?format=html', true],
        ['?format=xml', false], ['?format=', registered], ['?format=HTML', false],
        ['?format=html&format=html', false], ['?format=json&format=html', false]
      ] as const) {
        const response = await site.get(`/d${query}`)
        t.equal(response.statusCode, 200)
        t.equal(html(response), isHtml, query)
        t.equal(response.headers['content-type'], isHtml ? 'text/html; charset=utf-8' : 'application/json; charset=utf-8', query)
        if (!isHtml) t.strictSame(response.json(), D, query)
      }
      isCalm(t, site)
    })
  }
})

t.test('extendedFolderInfo', async (t) => {
  const list = { extendedFolderInfo: true, jsonFormat: 'extended' } as const
  const files = { 'd/a': '1', 'd/b': '22', 'd/s/c': '333', 'd/s/t/e': '4444', 'd/s/t/u/f': '', 'e/g': '7777777' }

  siteTest(t, 'counts what is in a directory, and what is below', listing(list, { index: false }, { files }), async (t, { get, fs }) => {
    fs.utimes('/www/d/s/t/e', BigInt(MTIME + 5000) * 1_000_000n)
    const { dirs } = (await get('/')).json()
    t.strictSame(dirs.map(({ extendedInfo }: { extendedInfo: unknown }) => extendedInfo), [
      { totalSize: 10, fileCount: 2, totalFileCount: 5, folderCount: 1, totalFolderCount: 3, lastModified: MTIME + 5000 },
      { totalSize: 7, fileCount: 1, totalFileCount: 1, folderCount: 0, totalFolderCount: 0, lastModified: MTIME }
    ])
  })

  for (const [dotfiles, count] of [['ignore', 1], ['deny', 1], ['allow', 4]] as const) {
    const hidden = { 'd/a': '1', 'd/.env': '22', 'd/.git/config': '333', 'd/.git/b': '4444' }
    siteTest(t, `counts what would be listed: dotfiles ${dotfiles}`, listing(list, { index: false, dotfiles }, { files: hidden }), async (t, { get }) => {
      t.match((await get('/')).json().dirs[0].extendedInfo, {
        totalSize: count === 1 ? 1 : 10, totalFileCount: count, totalFolderCount: count === 1 ? 0 : 1
      })
    })
  }

  siteTest(t, 'is zero for a directory without files', listing(list, { index: false }, { files: {}, before: (_app, { fs }) => { fs.mkdir('/www/d') } }), async (t, { get }) => {
    t.strictSame((await get('/')).json().dirs[0].extendedInfo, {
      totalSize: 0, fileCount: 0, totalFileCount: 0, folderCount: 0, totalFolderCount: 0, lastModified: 0
    })
  })

  siteTest(t, 'goes to render too', listing({ ...list, format: 'html', render: (dirs) => JSON.stringify(dirs) }, { index: false }, { files }), async (t, { get }) => {
    t.match((await get('/')).json(), [{ name: 'd', href: '/d', extendedInfo: { totalFileCount: 5 } }, { name: 'e' }])
  })

  siteTest(t, 'counts each directory once, however links lead round', listing(list, { index: false }, { files }), async (t, { get, fs }) => {
    fs.link('/www/d/self', '/www/d')
    fs.link('/www/d/s/up', '/www/d')
    fs.link('/www/d/s/t/beside', '/www/d/s')
    const [{ extendedInfo }] = (await get('/')).json().dirs
    t.strictSame({ ...extendedInfo, lastModified: 0 }, {
      totalSize: 10, fileCount: 2, totalFileCount: 5, folderCount: 2, totalFolderCount: 6, lastModified: 0
    })
  })

  siteTest(t, 'leaves out what may not be read', listing(list, { index: false }, { files }), async (t, { get, fs }) => {
    fs.chmod('/www/d/s', false)
    t.match((await get('/')).json().dirs[0].extendedInfo, { totalSize: 3, fileCount: 2, totalFileCount: 2, totalFolderCount: 1 })
  })

  siteTest(t, 'fails the listing when a failure may pass', listing(list, { index: false }, { files }), async (t, { get, fs }) => {
    fs.fail('readdir', 'EMFILE', 1, '/www/d/s')
    t.equal((await get('/')).statusCode, 503)
    t.match((await get('/')).json().dirs[0].extendedInfo, { totalFileCount: 5 })
  })

  engineTest(t, 'counts 100 000 names below a directory, and no more', {}, async (t, { cache, fs }) => {
    fs.write('/f', '12')
    fs.mkdir('/d')
    const [[directory], [file]] = [await cache.list('/'), await cache.list('/')].map((entries, i) =>
      (entries as ListedEntry[]).filter(({ snapshot }) => snapshot.kind === (i === 0 ? 'directory' : 'file'))) as [[ListedEntry], [ListedEntry]]
    /** `/d` has 39 999 files and one directory, which has as many, and so on without end. */
    const asked: string[] = []
    const endless = {
      list: async (path: string) => {
        asked.push(path)
        if (path === '/') return [directory]
        const inner = { ...directory, snapshot: { ...directory.snapshot, ino: BigInt(asked.length + 1000) } }
        return [inner, ...Array(39_999).fill(file)]
      }
    } as unknown as OpenFileCache
    const list = { names: [], format: 'json', jsonFormat: 'extended', extendedFolderInfo: true, render: undefined } as const
    const answer = await readDirectory(endless, '/', cache.policy(), list, 'allow')
    t.match(answer, { dirs: [{ extendedInfo: { totalFileCount: 99_997, totalFolderCount: 3, fileCount: 39_999, totalSize: 199_994 } }] })
    t.strictSame(asked, ['/', '/d', '/d/d', '/d/d/d'])
  })
})

t.test('HTML', async (t) => {
  siteTest(t, 'is our page, under the strictest policy that it allows', listing({ format: 'html' }), async (t, { get }) => {
    const response = await get('/d')
    t.match(response, { statusCode: 200, headers: { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': LISTING_CSP } })
    t.match(response.body, /<title>Index of \/d\/<\/title>/)
    t.strictSame(hrefsIn(response.body), ['/', '/d/sub/', '/d/a.txt', '/d/b.txt'])
  })

  siteTest(t, 'leads to no parent of the root', listing({ format: 'html', names: ['/', 'index.htm'] }, { prefix: '/static/' }), async (t, { get }) => {
    for (const url of ['/static/', '/static/index.htm']) {
      t.strictSame(hrefsIn((await get(url)).body), ['/static/d/', '/static/i/', '/static/top.txt'], url)
    }
    t.strictSame(hrefsIn((await get('/static/d/sub')).body), ['/static/d/', '/static/d/sub/inner.txt'])
    t.strictSame(hrefsIn((await get('/static/d/index.htm')).body)[0], '/static/')
  })

  const rendered: unknown[] = []
  siteTest(t, 'is what render makes, with links to the directories and files, and no policy of ours', listing({
    format: 'html',
    render: (dirs, files) => {
      rendered.push(...dirs, ...files)
      return '<p>mine</p>'
    }
  }, { prefix: '/static/' }), async (t, { get }) => {
    const response = await get('/static/d')
    t.match(response, { statusCode: 200, body: '<p>mine</p>', headers: { 'content-type': 'text/html; charset=utf-8' } })
    t.notOk('content-security-policy' in response.headers)
    t.match(rendered, [
      { href: '/static/d/sub', name: 'sub', stats: { mode: Number } },
      { href: '/static/d/a.txt', name: 'a.txt', stats: { size: 1, mtimeMs: MTIME } },
      { href: '/static/d/b.txt', name: 'b.txt', stats: { size: 2 } }
    ])
    t.equal((rendered[1] as { stats: { isFile (): boolean } }).stats.isFile(), true)
    t.equal((rendered[0] as { stats: { isDirectory (): boolean } }).stats.isDirectory(), true)
    t.notOk('extendedInfo' in (rendered[0] as object))
  })

  siteTest(t, 'is made by render for a query, and not for JSON', listing({ render: () => 'mine' }), async (t, { get }) => {
    t.equal((await get('/d?format=html')).body, 'mine')
    t.strictSame((await get('/d')).json(), D)
  })

  const failing: List = { format: 'html', render: () => { throw Object.assign(new Error('mine'), { code: 'EACCES' }) } }
  siteTest(t, 'whose render throws goes to the error handler, whatever the error looks like', listing(failing, {}, {
    before: (app) => {
      app.setErrorHandler((error: Error, _request, reply) => { reply.code(418).send({ seen: error.message }) })
      app.get('/call', (_request, reply) => { reply.sendFile('d') })
    }
  }), async (t, { get }) => {
    for (const url of ['/d', '/call']) {
      const response = await get(url)
      t.match(response, { statusCode: 418, headers: { 'content-type': 'application/json; charset=utf-8' } })
      t.strictSame(response.json(), { seen: 'mine' })
      t.notOk('content-security-policy' in response.headers)
    }
    t.strictSame((await get('/d?format=json')).json(), D)
  })
})

t.test('a link in a listing', async (t) => {
  const list: List = { format: 'html', names: ['/', 'index.htm'] }

  siteTest(t, 'begins with the path that was asked for, below outer prefixes and prefixes with parameters', {
    files: FILES,
    register: (app, { cache: openFileCache }) => {
      app.register(async (outer) => {
        outer.register(cachedStatic, { root: ROOT, openFileCache, list, prefix: '/app/:version/' })
      }, { prefix: '/outer' })
    }
  }, async (t, { get }) => {
    for (const [url, base] of [
      ['/outer/app/v1/d', '/outer/app/v1/d/'],
      ['/outer/app/v%202/d/', '/outer/app/v%202/d/'],
      ['/outer/app/%C3%BC/d/index.htm?format=html', '/outer/app/%C3%BC/d/']
    ] as const) {
      const { statusCode, body } = await get(url)
      t.equal(statusCode, 200, url)
      t.strictSame(hrefsIn(body).slice(1), [`${base}sub/`, `${base}a.txt`, `${base}b.txt`], url)
      t.equal((await get(`${base}a.txt`)).body, 'a')
    }
  })

  siteTest(t, 'is right where the prefix answers without its slash', listing(list, { prefix: '/static', prefixAvoidTrailingSlash: true }), async (t, { get }) => {
    for (const url of ['/static', '/static/']) t.strictSame(hrefsIn((await get(url)).body), ['/static/d/', '/static/i/', '/static/top.txt'], url)
  })

  siteTest(t, 'never leads to another host', listing(list, {}, { server: { routerOptions: { ignoreDuplicateSlashes: true } } }), async (t, { get }) => {
    for (const url of ['//d', '///d/']) {
      const { statusCode, body } = await get(url)
      t.equal(statusCode, 200, url)
      t.notOk(hrefsIn(body).some((href) => href.startsWith('//')), url)
    }
  })

  siteTest(t, 'of a call of sendFile begins with the prefix of the registration', {
    files: { ...FILES, 'a#b?c%25/x#y': 'odd', '\ud800/z': 'z' },
    register: (app, { cache: openFileCache }) => {
      app.register(async (outer) => {
        outer.register(cachedStatic, { root: ROOT, openFileCache, list, prefix: '/s p/' })
        outer.get('/call', (request, reply) => { reply.sendFile(JSON.parse(String(request.headers['x-name'])) as string) })
      }, { prefix: '/outer' })
    }
  }, async (t, site) => {
    const listed = async (name: string) => {
      const { statusCode, body } = await site.get('/outer/call', { 'x-name': JSON.stringify(name) })
      t.equal(statusCode, 200, name)
      return hrefsIn(body)
    }
    for (const name of ['d', '/d', 'd/', 'd/index.htm']) {
      t.strictSame(await listed(name), ['/outer/s%20p/', '/outer/s%20p/d/sub/', '/outer/s%20p/d/a.txt', '/outer/s%20p/d/b.txt'], name)
    }
    t.equal((await listed('')).length, 5)
    const odd = await listed('a#b?c%25')
    t.strictSame(odd, ['/outer/s%20p/', '/outer/s%20p/a%23b%3Fc%2525/x%23y'])
    t.equal((await site.get(odd[1] as string)).body, 'odd')
    // A lone surrogate has no UTF-8 form.
    t.strictSame(await listed('\ud800'), ['/outer/s%20p/', '/outer/s%20p/%EF%BF%BD/z'])
  })

  t.test('leads to the file, whatever its name', { skip: onWindows }, async (t) => {
    const names = [
      'plain', 'two words', 'a#b', 'a?b', '100%', '%41', 'ü', '日本', '🎉', '"quoted"', "'", '<b>', 'a&amp;b', 'a;b', 'a:b', '[x]', 'a+b', '~', '-', 'line\nbreak',
      'b{c}', 'a|b', 'a^b', '`', '*', '@', '$&', ',', '!'
    ]
    liveTest(t, 'in a directory with as odd a name', {
      files: { 'o #?%41 d': { ...Object.fromEntries(names.map((name) => [name, name])), '?dir#': { x: 'x' } } }, plugin: { list }
    }, async (t, site) => {
      const page = await site.request('/o%20%23%3F%2541%20d')
      t.equal(page.status, 200)
      const [parent, directory, ...files] = hrefsIn(page.body.toString())
      t.equal(parent, '/')
      t.equal(files.length, names.length)
      t.strictSame(hrefsIn((await site.request(directory as string)).body.toString()), ['/o%20%23%3F%2541%20d/', `${directory}x`])
      const contents: string[] = []
      for (const href of files) {
        // A browser leaves these as they are.
        t.equal(new URL(href, 'http://localhost').href, `http://localhost${href}`, href)
        contents.push((await site.request(href)).body.toString())
      }
      t.strictSame(contents.sort(), [...names].sort())
    })
  })
})

t.test('a reply', async (t) => {
  const urls = ['/d', '/i', '/d?format=html', '/d/', '/', '/none/', '/d/index.json', '/none/index.json', '/i/', '/d/a.txt', '/none', '/d/sub']
  for (const redirect of [false, true]) {
    const replies: string[] = []
    siteTest(t, `is made once for each request, GET or HEAD${redirect ? ', beside redirects' : ''}`, listing({ names: ['/', 'index.json'] }, { redirect }, {
      before: (app) => app.addHook('onSend', async ({ url }) => { replies.push(url) })
    }), async (t, site) => {
      for (let round = 0; round < 2; round++) {
        for (const url of urls) {
          replies.length = 0
          const { statusCode, headers: { date, ...headers } } = await site.get(url)
          const head = await site.head(url)
          t.equal(head.statusCode, statusCode, url)
          t.equal(head.body, '')
          if (statusCode === 200) t.strictSame({ ...head.headers, date }, { ...headers, date }, url)
          await settled()
          t.strictSame(replies, [url, url])
        }
      }
      isCalm(t, site)
    })
  }

  let raw: { destroy (): void } | undefined
  siteTest(t, 'is not made for a client that left while the directory was read', listing(true, {}, {
    before: (app) => app.addHook('onRequest', async (_request, reply) => { raw = reply.raw })
  }), async (t, site) => {
    await makeHot(site, '/d/a.txt')
    site.fs.isManual = true
    const request = site.get('/d')
    request.catch(() => {})
    for (const call of ['open', 'fstat', 'readdir']) await deliver(site.fs, call)
    raw?.destroy()
    site.fs.isManual = false
    await deliverAll(site.fs)
    await t.rejects(request, { code: 'LIGHT_ECONNRESET' })
    isCalm(t, site)
  })

  siteTest(t, 'of a call of sendFile has its length on the HEAD that Fastify makes of GET', listing(true, {}, {
    before: (app) => { app.get('/call', (_request, reply) => { reply.sendFile('d') }) }
  }), async (t, { get, head }) => {
    for (const url of ['/call', '/call?format=html']) {
      const { statusCode, body, headers: { date, ...headers } } = await get(url)
      const response = await head(url)
      t.match(response, { statusCode, body: '', headers: { ...headers, 'content-length': String(Buffer.byteLength(body)) } }, url)
    }
  })

  siteTest(t, 'of a call of sendFile keeps the status that was set', listing({ names: ['/'] }, {}, {
    before: (app) => {
      app.get('/call', (_request, reply) => { reply.code(203).sendFile('d') })
      app.get('/download', (_request, reply) => { reply.download('d/') })
    }
  }), async (t, site) => {
    const response = await site.get('/call')
    t.equal(response.statusCode, 203)
    t.strictSame(response.json(), D)
    const download = await site.get('/download')
    t.strictSame(download.json(), D)
    t.notOk('content-disposition' in download.headers)
    isCalm(t, site)
  })

  siteTest(t, 'of a call of sendFile lists the directory of the root that has it, by the rules of the call', listing({ names: [] }, { symlinks: 'within-root' }, {
    before: (app, engine) => {
      put(engine, '/one/x', 'x')
      put(engine, '/two/d/.hidden', 'hidden')
      put(engine, '/two/d/shown', 'shown')
      engine.fs.link('/two/d/linked', '/two/d/shown')
      engine.fs.link('/two/d/out', '/one/x')
      app.get('/call', (_request, reply) => { reply.sendFile('d', { root: ['/one', '/two'], dotfiles: 'allow' }) })
    }
  }), async (t, { get }) => {
    t.strictSame((await get('/call')).json(), { dirs: [], files: ['.hidden', 'linked', 'shown'] })
  })
})

t.test('a listing that was made before', async (t) => {
  siteTest(t, 'asks the disk for nothing', listing({ names: ['/', 'index.json'], extendedFolderInfo: true, jsonFormat: 'extended' }), async (t, site) => {
    for (const url of ['/d', '/d/', '/d/index.json', '/', '/d?format=html']) {
      const first = (await site.get(url)).body
      const calls = { ...site.fs.calls }
      for (let round = 0; round < 3; round++) t.equal((await site.get(url)).body, first)
      await site.held()
      t.strictSame(site.fs.calls, calls, url)
    }
  })

  siteTest(t, 'follows a directory that changed, at most valid later', listing(true, {}, { cache: { valid: '5s' } }), async (t, site) => {
    await site.get('/d')
    put(site, '/www/d/c.txt', 'c')
    t.strictSame((await site.get('/d')).json(), D)
    site.clock.jump(5_000)
    t.strictSame((await site.get('/d')).json(), { dirs: ['sub'], files: ['a.txt', 'b.txt', 'c.txt'] })
    site.fs.unlink('/www/d/a.txt')
    site.clock.jump(5_000)
    t.strictSame((await site.get('/d')).json(), { dirs: ['sub'], files: ['b.txt', 'c.txt'] })
  })

  siteTest(t, 'is made anew each time without a cache that may be old', listing(true, {}, { cache: { valid: 0 } }), async (t, site) => {
    await site.get('/d')
    put(site, '/www/d/c.txt', 'c')
    t.strictSame((await site.get('/d')).json().files, ['a.txt', 'b.txt', 'c.txt'])
  })

  siteTest(t, 'and cannot be made now is 503, and not remembered', listing(true), async (t, site) => {
    for (const code of ['EMFILE', 'ENFILE', 'ENOMEM']) {
      site.cache.clear()
      site.fs.fail('readdir', code, 1, '/www/d')
      const response = await site.get('/d')
      t.match(response, { statusCode: 503, headers: { 'retry-after': '1' } }, code)
      t.equal(response.json().code, 'FST_STATIC_EXHAUSTED')
      t.strictSame((await site.get('/d')).json(), D, code)
    }
    site.cache.clear()
    site.fs.fail('readdir', 'EIO', 1, '/www/d')
    t.equal((await site.get('/d')).json().code, 'FST_STATIC_READ_FAILED')
    t.strictSame((await site.get('/d')).json(), D)
  })

  siteTest(t, 'is 403 where the directory may not be read', listing(true), async (t, { get, fs }) => {
    fs.chmod('/www/d', false)
    for (let round = 0; round < 2; round++) t.strictSame((await get('/d')).json(), FORBIDDEN)
    t.equal((await get('/d/a.txt')).body, 'a')
  })

  siteTest(t, 'is 404 where the directory is gone since it was selected', listing(true), async (t, { get, fs, cache, clock }) => {
    await get('/d')
    clock.jump(30_000)
    fs.fail('readdir', 'ENOENT', 1, '/www/d')
    cache.clear()
    t.equal((await get('/d')).statusCode, 404)
  })
})

t.test('a listing of the disk', async (t) => {
  for (const [symlinks, names] of [
    ['follow', { dirs: ['dir', 'to-dir', 'to-outside'], files: ['file', 'to-file'] }],
    ['within-root', { dirs: ['dir', 'to-dir'], files: ['file', 'to-file'] }],
    ['deny', { dirs: ['dir'], files: ['file'] }]
  ] as const) {
    t.test(`has the links that are served: ${symlinks}`, { skip: onWindows }, async (t) => {
      const dir = t.testdir({
        outside: { secret: 'secret' },
        root: {
          dir: { inner: 'inner' },
          file: 'file',
          'to-dir': t.fixture('symlink', 'dir'),
          'to-file': t.fixture('symlink', 'file'),
          'to-outside': t.fixture('symlink', '../outside'),
          dangling: t.fixture('symlink', 'nowhere')
        }
      })
      const site = await openSite(t, join(dir, 'root'), { plugin: { list: { names: ['/'] }, symlinks } })
      for (let round = 0; round < 2; round++) {
        const { status, body } = await site.request('/')
        t.equal(status, 200)
        t.strictSame(JSON.parse(body.toString()), names)
        for (const [name, kind] of [...names.dirs.map((name) => [name, 'dirs']), ...names.files.map((name) => [name, 'files'])]) {
          t.equal((await site.request(`/${name}`)).status, 200, `${kind} ${name}`)
        }
        t.equal((await site.request('/to-outside')).status, symlinks === 'follow' ? 200 : 403)
      }
      await site.end(t)
    })
  }
})
