// Clients of both protocols: what they ask for, and how they read it.
import http from 'node:http'
import http2 from 'node:http2'
import { now, sleep } from './clock.mjs'
import { readBody } from './content.mjs'
import { ALL, ENCODINGS, FILES, MOUNTS, candidatesOf } from './site.mjs'

const HTTP1_CLIENTS = 20
const HTTP2_SESSIONS = 3
const HTTP2_CLIENTS = 8
/** Streams of a session that broke. Node counts their bytes as memory of the session for ever, and refuses streams when that is 10 MB. */
const MOST_BROKEN = 50
/** Milliseconds between an answer and the next request of the same client, in the mean. */
const PAUSE = 12
const GIVE_UP = 20_000
/** Milliseconds of load, and then of none: an entry that nobody used meanwhile must not be as good as before. */
const WAVE = [1500, 6000]
const LULL = [200, 4000]

const GONE_WRONG = ['.env', 'admin.php', '.git/config', 'wp-login.php', '..%2f..%2fetc/passwd', '%2e%2e/%2e%2e/etc/passwd']

const mountNamed = (name) => ALL.find((mount) => mount.name === name)

/** What may be asked for: `[mount, pathname, share]`. */
function targets () {
  const list = []
  const add = (name, pathname, share = 1) => list.push({ mount: mountNamed(name), pathname, share })
  const below = (root) => FILES.filter(({ path }) => path.startsWith(`${root}/`)).map((file) => ({ ...file, pathname: file.path.slice(root.length + 1) }))
  for (const { pathname, kind } of [...below('a'), ...below('b')]) {
    add('site', pathname, kind === 'large' ? 1 : 3)
    if (kind === 'small') {
      add('send', pathname)
      add('slice', pathname)
    }
    add('download', pathname, 0.3)
  }
  for (const { pathname } of below('a')) add('now', pathname)
  for (let i = 0; i < 4; i++) {
    add('site', `page${i}`, 3)
    add('now', `page${i}`)
    add('site', `d${i}/`, 3)
    add('site', `d${i}`, 3)
    add('now', `d${i}`)
  }
  for (const { pathname } of below('list')) add('list', pathname)
  for (const name of ['', ...below('spa').map(({ pathname }) => pathname)]) add('spa', name, 3)
  for (let i = 0; i < 5; i++) add('spa', `some/way/${i}`)
  for (const { pathname } of below('links')) for (const name of ['follow', 'within', 'deny']) add(name, pathname, 2)
  for (const name of ['', ...below('current').map(({ pathname }) => pathname)]) add('release', name, 5)
  for (const { pathname } of below('calm')) add('calm', pathname, 8)
  for (const { pathname } of below('large')) add('large', pathname, 2)
  for (const { pathname } of below('dots')) {
    add('dots', pathname, 2)
    add('nodots', pathname, 2)
  }
  return list
}

export class Clients {
  counts = { sent: 0, bytes: 0, aborted: 0, reset: 0, slow: 0 }
  byKind = {}
  byStatus = {}
  inFlight = 0
  #random
  #onAnswer
  #ports
  #targets = targets()
  #largeTargets = this.#targets.filter(({ mount, pathname }) => pathname.endsWith('.bin') && mount.send === undefined)
  #share = 0
  #validators = new Map()
  #agent = new http.Agent({ keepAlive: true, maxSockets: HTTP1_CLIENTS })
  #sessions = []
  #isRunning = true
  #workers = []
  #lull = Promise.resolve()

  constructor (ports, random, onAnswer) {
    this.#ports = ports
    this.#random = random
    this.#onAnswer = onAnswer
    for (const target of this.#targets) this.#share += target.share
  }

  start () {
    this.#ebb()
    for (let i = 0; i < HTTP1_CLIENTS; i++) this.#workers.push(this.#work((request) => this.#http1(request), 'http/1.1'))
    for (let i = 0; i < HTTP2_CLIENTS; i++) this.#workers.push(this.#work((request) => this.#http2(request, i % HTTP2_SESSIONS), 'h2c'))
  }

  /** Resolves when every answer has come to its end. */
  async stop () {
    this.#isRunning = false
    await Promise.all(this.#workers)
    this.#agent.destroy()
    for (const known of this.#sessions) known?.session.destroy()
  }

  async #ebb () {
    while (this.#isRunning) {
      await sleep(this.#random.integer(...WAVE))
      await (this.#lull = sleep(this.#random.integer(...LULL)))
    }
  }

  async #work (ask, protocol) {
    for (;;) {
      await this.#lull
      if (!this.#isRunning) return
      const request = this.#next(protocol)
      this.counts.sent++
      this.byKind[request.kind] = (this.byKind[request.kind] ?? 0) + 1
      this.inFlight++
      const answer = { request, sentAt: now(), endedAt: 0, outcome: undefined, status: undefined, headers: undefined, body: undefined, text: undefined }
      await ask(answer)
      answer.endedAt = now()
      this.inFlight--
      this.#count(answer)
      this.#onAnswer(answer)
      await sleep(2 * PAUSE * this.#random.next())
    }
  }

  #count ({ request, status, headers, outcome }) {
    if (outcome === 'aborted' || outcome === 'reset') this.counts[outcome]++
    else this.byStatus[status] = (this.byStatus[status] ?? 0) + 1
    if (headers?.etag !== undefined && status < 300) {
      this.#validators.set(request.url, { etag: headers.etag, lastModified: headers['last-modified'], size: Number(headers['content-length']) })
    }
  }

  #target (kind) {
    // To be slow, or to leave in the middle, takes a body that is not sent at once.
    if ((kind === 'slow' || kind === 'abort') && this.#random.chance(0.7)) return this.#random.of(this.#largeTargets)
    let rest = this.#random.next() * this.#share
    return this.#targets.find(({ share }) => (rest -= share) < 0) ?? this.#targets[0]
  }

  #next (protocol) {
    const random = this.#random
    const kind = random.weighted({ get: 40, head: 6, range: 14, 'none-match': 16, since: 4, 'if-range': 4, match: 2, bot: 9, list: 3, abort: 4, slow: 2 })
    if (kind === 'bot') return this.#bot(protocol)
    if (kind === 'list') return this.#list(protocol)
    const { mount, pathname } = this.#target(kind)
    const [encoding, accepted] = random.of(ENCODINGS)
    const wantsPage = mount.options.fallback !== undefined && random.chance(0.5)
    const url = mount.prefix + pathname + (random.chance(0.1) ? '?q=1' : '')
    const headers = {
      ...encoding !== undefined && { 'accept-encoding': encoding },
      accept: wantsPage ? 'text/html' : '*/*'
    }
    const known = this.#validators.get(url)
    let range
    if (mount.name !== 'slice') {
      if (kind === 'range' || kind === 'if-range') {
        range = this.#range(known?.size)
        headers.range = `bytes=${range.suffix === undefined ? `${range.first}-${range.last ?? ''}` : `-${range.suffix}`}`
        if (kind === 'if-range' && known !== undefined) headers['if-range'] = random.chance(0.5) ? known.lastModified : known.etag
      }
      if (kind === 'none-match' && known !== undefined) headers['if-none-match'] = known.etag
      if (kind === 'since' && known !== undefined) headers['if-modified-since'] = known.lastModified
      if (kind === 'match' && known !== undefined) headers['if-match'] = random.chance(0.2) ? '*' : known.etag
    }
    return {
      kind,
      protocol,
      method: kind === 'head' ? 'HEAD' : 'GET',
      url,
      mount,
      pathname,
      headers,
      range,
      candidates: candidatesOf(mount, pathname, accepted, wantsPage),
      /** Answered so whatever is there. */
      isHidden: pathname.startsWith('.secret') && mount.name !== 'dots'
    }
  }

  #range (size = 4096) {
    const random = this.#random
    if (random.chance(0.25)) return { suffix: random.integer(1, size + 100) }
    const first = random.integer(0, Math.max(0, size - 1))
    return random.chance(0.3) ? { first } : { first, last: first + random.integer(0, size) }
  }

  #bot (protocol) {
    const random = this.#random
    const mount = random.chance(0.4) ? mountNamed('calm') : random.of(MOUNTS)
    const name = random.chance(0.3) ? random.of(GONE_WRONG) : `${random.integer(0, 1e9).toString(36)}.php`
    return { kind: 'bot', protocol, method: 'GET', url: mount.prefix + name, mount, pathname: name, headers: {}, candidates: [], expected: [403, 404] }
  }

  #list (protocol) {
    const mount = mountNamed('list')
    const members = new Set(FILES.filter(({ path }) => path.startsWith('list/')).map(({ path }) => path.slice('list/'.length)))
    const pathname = this.#random.of(['', 'listing.json'])
    return { kind: 'list', protocol, method: 'GET', url: mount.prefix + pathname, mount, pathname, headers: {}, candidates: [], directory: 'list', members }
  }

  /** Takes the body, at the pace of the request; whether it is the client that breaks off. */
  #receive (answer, stream, leave, done) {
    const { request } = answer
    const { kind } = request
    const random = this.#random
    const chunks = []
    let length = 0
    const leaveAt = kind === 'abort' ? random.integer(0, 300_000) : Infinity
    let pauses = kind === 'slow' ? random.integer(5, 25) : 0
    if (pauses > 0) this.counts.slow++
    stream.on('data', (chunk) => {
      chunks.push(chunk)
      length += chunk.length
      if (length >= leaveAt) {
        answer.outcome = 'aborted'
        leave()
      } else if (pauses-- > 0) {
        stream.pause()
        setTimeout(() => stream.resume(), random.integer(10, 150))
      }
    })
    stream.on('end', () => {
      if (answer.outcome !== undefined) return
      this.counts.bytes += length
      const promised = answer.headers['content-length']
      answer.outcome = promised === undefined || request.method === 'HEAD' || answer.status === 304 || Number(promised) === length ? 'complete' : 'short'
      if (answer.status === 200 || answer.status === 206) {
        if (kind === 'list') answer.text = Buffer.concat(chunks).toString()
        else answer.body = readBody(chunks, length, this.#startOf(answer))
      }
      done()
    })
  }

  #startOf ({ request: { mount }, status, headers }) {
    if (status === 206) return Number(/^bytes (\d+)-/.exec(headers['content-range'])?.[1])
    return mount.send?.start ?? 0
  }

  #http1 (answer) {
    const { method, url: path, headers } = answer.request
    return new Promise((resolve) => {
      const request = http.request({ host: '127.0.0.1', port: this.#ports.http1, agent: this.#agent, method, path, headers })
      const timer = setTimeout(() => {
        answer.outcome ??= 'hung'
        request.destroy()
      }, GIVE_UP)
      const done = () => {
        clearTimeout(timer)
        answer.outcome ??= 'reset'
        resolve()
      }
      request.on('error', done)
      request.on('close', done)
      request.on('response', (response) => {
        answer.status = response.statusCode
        answer.headers = response.headers
        response.on('error', done)
        this.#receive(answer, response, () => request.destroy(), done)
      })
      request.end()
    })
  }

  #http2 (answer, index) {
    const { method, url, headers } = answer.request
    let known = this.#sessions[index]
    if (known === undefined || known.session.closed || known.session.destroyed) {
      known = this.#sessions[index] = { session: http2.connect(`http://127.0.0.1:${this.#ports.http2}`), broken: 0 }
      known.session.on('error', () => {})
    }
    const { session } = known
    return new Promise((resolve) => {
      const stream = session.request({ ':method': method, ':path': url, ...headers })
      const timer = setTimeout(() => {
        answer.outcome ??= 'hung'
        stream.close(http2.constants.NGHTTP2_CANCEL)
      }, GIVE_UP)
      stream.on('response', (fields) => {
        answer.status = fields[':status']
        answer.headers = fields
      })
      stream.on('error', () => {})
      // The end of the data is not that of the stream: a reset may follow it.
      stream.on('close', () => {
        clearTimeout(timer)
        if (stream.rstCode !== http2.constants.NGHTTP2_NO_ERROR && answer.outcome !== 'hung' && answer.outcome !== 'aborted') answer.outcome = 'reset'
        answer.outcome ??= 'reset'
        if (answer.outcome !== 'complete' && ++known.broken === MOST_BROKEN) session.close()
        resolve()
      })
      // Not NO_ERROR: Node leaves a blocked stream that is reset by it, and its session, open for ever.
      const leave = () => stream.close(http2.constants.NGHTTP2_CANCEL)
      this.#receive(answer, stream, leave, () => {})
    })
  }
}
