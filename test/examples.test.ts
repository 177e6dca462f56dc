// Each example as a reader starts it: by the line in its head, from dist.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import http from 'node:http'
import http2 from 'node:http2'
import https from 'node:https'
import { join } from 'node:path'
import t from 'tap'
import type { ChildProcess } from 'node:child_process'
import type { Test } from 'tap'
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http'

const root = join(__dirname, '..')
const read = (file: string) => readFileSync(join(root, 'examples', file), 'utf8')

interface Answer {
  status: number | undefined
  headers: IncomingHttpHeaders
  body: string
}

function headOf (file: string): string {
  return /^(?:'use strict'\n|\/\/.*\n|\n)*/.exec(read(file))?.[0] ?? ''
}

/** The one line by which the head comment says to start it. */
function startLine (file: string): string {
  const lines = [...headOf(file).matchAll(/^\/\/ +(?:npm run build && )?((?:node|npx) .+)$/gm)]
  if (lines.length !== 1) throw new Error(`examples/${file} has ${lines.length} lines in its head that start it`)
  return lines[0]?.[1] as string
}

// What `fastify start` and @fastify/autoload do with an application: neither is a dependency.
const autoload = `
  import { readdirSync } from 'node:fs'
  import { join } from 'node:path'
  import { pathToFileURL } from 'node:url'

  export default async function autoload (fastify, { dir, options }) {
    for (const name of readdirSync(dir)) {
      const content = await import(pathToFileURL(join(dir, name)))
      const config = { ...content.autoConfig, ...options }
      const prefix = (config.prefix ?? '') + (content.autoPrefix ?? '')
      fastify.register(content.default, { ...config, ...(prefix !== '' && { prefix }) })
    }
  }
  autoload[Symbol.for('skip-override')] = true
`
const dataUrl = (source: string) => `data:text/javascript,${encodeURIComponent(source)}`
const hooks = `
  export const resolve = (specifier, context, next) => specifier === '@fastify/autoload'
    ? { url: ${JSON.stringify(dataUrl(autoload))}, shortCircuit: true }
    : next(specifier, context)
`
const fastifyStart = `
  import { register } from 'node:module'
  import { pathToFileURL } from 'node:url'
  import Fastify from 'fastify'

  register(${JSON.stringify(dataUrl(hooks))})
  const fastify = Fastify()
  const app = await import(pathToFileURL(process.argv[1]))
  await fastify.register(app.default, {})
  process.once('SIGTERM', () => fastify.close())
  console.log(await fastify.listen({ host: process.env.HOST, port: process.env.PORT }))
`

function argumentsOf (file: string): string[] {
  const [command, ...args] = startLine(file).split(' ')
  return command === 'node' ? args : ['--input-type=module', '-e', fastifyStart, args.at(-1) as string]
}

class Example {
  output = ''
  readonly ended: Promise<string | number | null>
  readonly #child: ChildProcess

  constructor (t: Test, file: string) {
    this.#child = spawn(process.execPath, argumentsOf(file), {
      cwd: root,
      // Not tap's loaders: the example runs as it is.
      env: { ...process.env, NODE_OPTIONS: '', HOST: '127.0.0.1', PORT: '0' },
      timeout: 30_000,
      killSignal: 'SIGKILL'
    })
    const add = (chunk: string) => { this.output += chunk }
    this.#child.stdout?.setEncoding('utf8').on('data', add)
    this.#child.stderr?.setEncoding('utf8').on('data', add)
    this.ended = new Promise((resolve) => {
      this.#child.once('close', (code, signal) => resolve(code ?? signal))
    })
    t.teardown(() => this.#child.kill('SIGKILL'))
  }

  /** The address that it prints. */
  async address (): Promise<string> {
    const printed = new Promise<string>((resolve) => {
      this.#child.stdout?.on('data', () => {
        const address = /https?:\/\/127\.0\.0\.1:\d+(?=\s)/.exec(this.output)?.[0]
        if (address !== undefined) resolve(address)
      })
    })
    const ended = this.ended.then((how): never => {
      throw new Error(`ended (${how}) before it printed an address:\n${this.output}`)
    })
    return await Promise.race([printed, ended])
  }

  async stop (t: Test): Promise<void> {
    this.#child.kill('SIGTERM')
    // Windows has no SIGTERM to handle.
    t.equal(await this.ended, process.platform === 'win32' ? 'SIGTERM' : 0, 'ends with code 0', { output: this.output })
  }
}

function get (url: string, headers: OutgoingHttpHeaders = {}): Promise<Answer> {
  const options = { headers, agent: false as const, rejectUnauthorized: false, signal: AbortSignal.timeout(10_000) }
  return new Promise((resolve, reject) => {
    const request = url.startsWith('https:') ? https.get(url, options) : http.get(url, options)
    request.on('error', reject).on('response', (response) => {
      let body = ''
      response.setEncoding('utf8').on('data', (chunk) => { body += chunk })
      response.on('error', reject).on('end', () => {
        resolve({ status: response.statusCode, headers: response.headers, body })
      })
    })
  })
}

function getOverHttp2 (address: string, path: string): Promise<Answer & { protocol: string | undefined }> {
  return new Promise((resolve, reject) => {
    const session = http2.connect(address, { rejectUnauthorized: false }).on('error', reject)
    let answer: http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader = {}
    let body = ''
    const stream = session.request({ ':path': path }).setEncoding('utf8')
    stream.on('response', (headers) => { answer = headers }).on('data', (chunk) => { body += chunk }).on('error', reject)
    // The session stays open, as that of a browser: the example must end all the same.
    stream.on('end', () => {
      resolve({ status: answer[':status'], headers: answer, body, protocol: session.alpnProtocol })
    })
  })
}

/** What the curl commands in `text` ask for. */
function suggestionsIn (text: string): { url: string, headers: OutgoingHttpHeaders }[] {
  return [...text.matchAll(/^(?:\/\/)? +curl (?:.* )?(\S+)$/gm)].map(([line, url]) => ({
    url: url as string,
    headers: Object.fromEntries([...line.matchAll(/-H '([^:]+): ([^']*)'/g)].map(([, name, value]) => [name, value]))
  }))
}

/** Starts it, asks what it suggests and what `check` asks, stops it. */
function serves (file: string, check: (t: Test, address: string) => Promise<void>): void {
  t.test(`examples/${file}`, async (t) => {
    const example = new Example(t, file)
    const address = await example.address()
    const suggestions = suggestionsIn(example.output + headOf(file).replaceAll('localhost:3000', address))
    t.ok(suggestions.length > 0, 'suggests curl commands', { output: example.output })
    for (const { url, headers } of suggestions) {
      t.ok(url.startsWith(address), `suggests its own address: ${url}`)
      const { status = 0 } = await get(url, headers)
      t.ok(url.includes('/no/such/') ? status === 404 : status < 300, `answers ${url}`, { status })
    }
    await check(t, address)
    await example.stop(t)
  })
}

const page = read('public/index.html')
const html = 'text/html; charset=utf-8'

async function isServed (t: Test, address: string): Promise<void> {
  const answer = await get(`${address}/`)
  t.match(answer, {
    status: 200,
    headers: { 'content-type': html, 'content-length': String(page.length), 'cache-control': 'public, max-age=0', etag: /^W\// },
    body: page
  })
  t.match(await get(`${address}/`, { 'if-none-match': answer.headers.etag }), { status: 304, body: '' })
  t.match(await get(`${address}/style.css`), { status: 200, headers: { 'content-type': 'text/css; charset=utf-8' } })
  t.match(await get(`${address}/missing`), { status: 404 })
}

const programs = [
  'basic.js', 'basic.mjs', 'two-mounts.js', 'spa/server.js', 'https-http2.js', 'engine-alone.js', 'app/app.mjs',
  ...['site/server.js'].filter((file) => existsSync(join(root, 'examples', file)))
]

t.test('examples/README.md', async (t) => {
  const rows = [...read('README.md').matchAll(/^\| \[(.+?)\]\((.+?)\) \| `(.+?)` \| .+ \|$/gm)]
  t.strictSame(rows.map(([, name, link, start]) => [name, link, start]),
    programs.map((file) => [file, file, startLine(file)]), 'has each program, with the line that starts it')
  for (const file of readdirSync(join(root, 'examples')).filter((name) => /\.m?js$/.test(name))) {
    t.ok(programs.includes(file), `${file} is run by this test`)
  }
})

if (existsSync(join(root, 'dist', 'index.js'))) runAll()
else t.fail('examples run from dist, which is missing: npm run build')

function runAll (): void {
  serves('basic.js', async (t, address) => {
    await isServed(t, address)
    t.match(await get(`${address}/greeting`, { range: 'bytes=0-4' }), {
      status: 206, headers: { 'content-range': 'bytes 0-4/13', 'content-type': 'text/plain; charset=utf-8' }, body: 'Hello'
    })
  })

  serves('basic.mjs', async (t, address) => {
    await isServed(t, address)
    t.match(await get(`${address}/greeting`), {
      status: 200, headers: { 'content-disposition': 'attachment; filename=greeting.txt' }, body: read('public/hello.txt')
    })
  })

  serves('two-mounts.js', async (t, address) => {
    const stats = async () => JSON.parse((await get(`${address}/stats`)).body)
    const notes = () => get(`${address}/downloads/notes.txt`)

    await isServed(t, address)
    t.match(await notes(), {
      status: 200, headers: { 'cache-control': 'public, max-age=3600' }, body: read('downloads/notes.txt')
    })
    const first = await stats()
    t.match(first, { entries: 3 }, 'one cache holds the files of both')

    await notes()
    const second = await stats()
    t.ok(second.hits > first.hits, 'a download is not looked at again', { first, second })

    await get(`${address}/`)
    const third = await stats()
    t.equal(third.hits, second.hits, 'a page is')
    t.ok(third.revalidations > second.revalidations, 'each time', { second, third })
  })

  serves('spa/server.js', async (t, address) => {
    const app = read('spa/public/index.html')
    const navigation = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }
    t.match(await get(`${address}/`, navigation), { status: 200, headers: { 'content-type': html }, body: app })
    t.match(await get(`${address}/orders/42`, navigation), {
      status: 200, headers: { 'content-type': html, 'cache-control': 'no-cache' }, body: app
    })
    t.match(await get(`${address}/orders/42`, { accept: 'application/json' }), { status: 404 }, 'no page for a program')

    const assets = [...app.matchAll(/"(\/assets\/[^"]+)"/g)].map(([, path]) => path as string)
    t.equal(assets.length, 2)
    for (const path of assets) {
      t.match(await get(address + path), {
        status: 200, headers: { 'cache-control': 'public, max-age=31536000, immutable' }, body: read(`spa/public${path}`)
      })
    }
    t.match(await get(`${address}/assets/of-an-old-release`, navigation), { status: 404 }, 'a missing asset is no page')
  })

  serves('https-http2.js', async (t, address) => {
    await isServed(t, address)
    t.match(await getOverHttp2(address, '/'), { protocol: 'h2', status: 200, headers: { 'content-type': html }, body: page })
  })

  serves('app/app.mjs', async (t, address) => {
    t.match(await get(`${address}/`), { status: 200, headers: { 'cache-control': 'public, max-age=0' }, body: page })
    t.match(await get(`${address}/static/hello.txt`), {
      status: 200, headers: { 'cache-control': 'public, max-age=3600' }, body: read('public/hello.txt')
    })
    t.match(await get(`${address}/static/.env`), { status: 403 }, 'dotfiles are denied by the JSON file')
    t.match(await get(`${address}/hello.txt`), { status: 404 }, 'the prefix is that of autoPrefix')
  })

  if (programs.includes('site/server.js')) {
    serves('site/server.js', async (t, address) => {
      t.match(await get(`${address}/`), { status: 200, headers: { 'content-type': html }, body: read('site/public/index.html') })
      const { status, headers, body } = await get(`${address}/-/cache`)
      t.match({ status, headers }, {
        status: 200, headers: { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' }
      })
      t.match(JSON.parse(body), { hits: Number, misses: Number, negativeHits: Number, entries: Number, openFiles: Number })
    })
  }

  t.test('examples/engine-alone.js', async (t) => {
    const example = new Example(t, 'engine-alone.js')
    t.equal(await example.ended, 0, 'ends by itself', { output: example.output })
    t.strictSame(example.output.trimEnd().split('\n'), [
      `hello.txt: ${JSON.stringify(read('public/hello.txt'))}`,
      `hello.txt: ${JSON.stringify(read('public/hello.txt'))}`,
      `index.html: ${JSON.stringify(page)}`,
      `index.html: ${JSON.stringify(page)}`,
      'missing.txt: "ENOENT"',
      'missing.txt: "ENOENT"',
      'known: 2, known to be missing: 1, bytes in memory: 13',
      'known: 1, known to be missing: 0, bytes in memory: 13',
      'open: 0'
    ])
  })
}
