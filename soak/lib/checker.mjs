// Compares each answer with the states that the files were in. An answer is judged once all is known that happened before
// its end.
import { isPartOf } from './content.mjs'
import { isMidWrite } from './history.mjs'
import { ERRORS, HELD, VALID } from './site.mjs'

/**
 * What answers may be older than `valid` by. Nothing: a state ends, for us, when its change had been made, and a request
 * begins before it is written to its socket, so that whatever delays the server makes an answer look younger than it is.
 * All clocks are the one monotonic clock of the machine; this is for the rounding of its readings.
 */
export const TOLERANCE = 0.1

const EXAMPLES = 5

const toSeconds = (ns) => ns / 1_000_000_000n
const toMilliseconds = (ns) => Number(toSeconds(ns)) * 1000 + Number(ns % 1_000_000_000n) / 1e6

function etagOf ({ options: { etag } }, size, mtimeNs) {
  const mtimeMs = toMilliseconds(mtimeNs)
  return etag === 'strong' ? `"${size}-${mtimeMs}"` : `W/"${size.toString(16)}-${Math.round(mtimeMs).toString(16)}"`
}

/** Last-Modified is of whole seconds, of the time rounded to milliseconds. */
const lastModifiedOf = (mtimeNs) => new Date(Math.floor(Math.round(toMilliseconds(mtimeNs)) / 1000) * 1000).toUTCString()

/** Counts of milliseconds, by size. */
class Ages {
  max = 0
  total = 0
  #counts = new Uint32Array(60_001)

  add (age) {
    this.max = Math.max(this.max, age)
    this.total++
    this.#counts[Math.min(60_000, Math.ceil(age))]++
  }

  percentile (share) {
    let rest = this.total * share
    for (const [age, count] of this.#counts.entries()) {
      rest -= count
      if (rest <= 0) return Math.min(age, this.max)
    }
    return this.max
  }

  /** Answers that were not true any more when they were asked for. */
  get old () {
    return this.total - this.#counts[0]
  }
}

export class Checker {
  checked = 0
  /** Of answers that show a file. */
  ages = new Ages()
  /** Of answers that show none. */
  absences = new Ages()
  midWrite = 0
  explainedResets = 0
  explainedErrors = 0
  /** The first few of those that have an excuse, for who wonders. */
  explained = []
  /** By kind: how many, and the first few. */
  failures = new Map()
  #history
  #waiting = []

  constructor (history) {
    this.#history = history
  }

  get waiting () {
    return this.#waiting.length
  }

  add (answer) {
    this.#waiting.push(answer)
  }

  fail (kind, answer, details) {
    let known = this.failures.get(kind)
    if (known === undefined) this.failures.set(kind, known = { count: 0, examples: [] })
    known.count++
    if (known.examples.length < EXAMPLES) known.examples.push(this.#described(answer, details))
  }

  #described (answer, details) {
    if (answer === undefined) return { details }
    const { request, status, headers, body, sentAt, endedAt } = answer
    const { method, url, protocol, candidates } = request
    const paths = headers?.['x-file'] === undefined ? candidates.map(({ path }) => path) : [headers['x-file']]
    const states = Object.fromEntries(paths.map((path) => [path, this.#history.of(path).slice(-6).map((state) => ({
      state: state.state,
      size: state.size,
      pieces: state.pieces.map(({ version, end }) => `${version}: -${end}`).join(', '),
      mtime: String(state.mtimeNs),
      via: state.via,
      isInPlace: state.isInPlace,
      from: Math.round(state.from - sentAt),
      to: Math.round(state.to - sentAt)
    }))]))
    return {
      details,
      request: `${protocol} ${method} ${url}`,
      sent: request.headers,
      status,
      headers,
      body: body && { start: body.start, length: body.length, runs: body.runs.slice(0, 10), fault: body.fault },
      took: Math.round(endedAt - sentAt),
      statesInMillisecondsFromTheRequest: states
    }
  }

  judgeWaiting () {
    const { until } = this.#history
    const later = []
    for (const answer of this.#waiting) {
      if (answer.endedAt >= until) later.push(answer)
      else this.#judge(answer)
    }
    this.#waiting = later
  }

  #judge (answer) {
    const { request: { kind }, outcome, status } = answer
    this.checked++
    if (outcome === 'aborted') return
    if (outcome === 'hung') return this.fail('no end of an answer', answer)
    if (outcome === 'reset') {
      if (this.#isExplained(answer)) this.explainedResets++
      else this.fail('reset without a change in place', answer)
      return
    }
    if (outcome === 'short') return this.fail('wrong length', answer, 'ended well before the bytes that Content-Length promised')
    if (status >= 500) {
      if (status === 500 && this.#isExplained(answer)) {
        this.explainedErrors++
        this.#explain(answer, 'a file changed in place')
      } else {
        this.fail('5xx', answer)
      }
      return
    }
    if (kind === 'bot') return this.#judgeBot(answer)
    if (kind === 'list') return this.#judgeList(answer)
    switch (status) {
      case 200:
      case 206:
        return this.#judgeContent(answer)
      case 304:
        return this.#judgeNotModified(answer)
      case 301:
        return this.#judgeRedirect(answer)
      case 404:
        return this.#judgeNotFound(answer)
      case 403:
        return this.#judgeForbidden(answer)
      case 412:
      case 416:
        return this.#judgeRefusal(answer)
      default:
        this.fail('wrong status', answer)
    }
  }

  #seenMidWrite (answer, how) {
    this.midWrite++
    this.#explain(answer, `while it was being ${how}`)
  }

  #explain (answer, why) {
    if (this.explained.length < 4 * EXAMPLES) this.explained.push(this.#described(answer, why))
  }

  /** The file was cut or overwritten while it was being sent, or read for it. */
  #isExplained ({ request: { candidates }, sentAt, endedAt }) {
    return candidates.some(({ path }) => this.#history.between(path, sentAt, endedAt)
      .some((state) => state.isInPlace && state.from <= endedAt && state.changedAt >= sentAt))
  }

  /** Cached for `valid`: how long before the request the answer ceased to be true, and whether it ever was. */
  #judgeAge (answer, states, limit, ages, kind) {
    const { sentAt, endedAt } = answer
    const known = states.filter(({ from }) => from <= endedAt)
    if (known.length === 0) return this.fail(kind, answer, 'it has never been so')
    const age = Math.max(0, sentAt - Math.max(...known.map(({ to }) => to)))
    if (age > limit + TOLERANCE) return this.fail('stale', answer, `${kind}: ${Math.round(age)} ms old, may be ${limit} ms`)
    ages.add(age)
  }

  #policyOf ({ request: { mount, protocol } }) {
    // The second server has the cache's own policy for all mounts.
    return protocol === 'h2c' ? { valid: VALID, errors: ERRORS } : mount.policy
  }

  #judgeContent (answer) {
    const { request, status, headers, body } = answer
    const { mount, candidates, method, range } = request
    const path = headers['x-file']
    const index = candidates.findIndex((candidate) => candidate.path === path)
    if (index === -1) return this.fail('wrong file', answer)
    if (candidates[index].coding !== headers['content-encoding']) return this.fail('wrong coding', answer)
    if (mount.options.preCompressed !== undefined && !/accept-encoding/i.test(headers.vary ?? '')) return this.fail('wrong coding', answer, 'no Vary')
    if (mount.name === 'download' && !headers['content-disposition']?.startsWith('attachment')) return this.fail('wrong fields', answer)
    if (status === 206 && (range === undefined || method === 'HEAD')) return this.fail('wrong status', answer)

    const promised = Number(headers['content-length'])
    if (method !== 'HEAD' && promised !== body.length) return this.fail('wrong length', answer)
    let size
    if (status === 206) {
      const [, first, last, total] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(headers['content-range']) ?? []
      size = Number(total)
      const expected = rangeOf(range, size, mount.options.maxContentRangeChunkSize)
      if (expected === undefined || expected.start !== Number(first) || expected.end !== Number(last)) return this.fail('wrong range', answer)
      if (Number(last) - Number(first) + 1 !== promised) return this.fail('wrong length', answer)
    } else if (mount.send !== undefined && mount.send.end !== undefined) {
      size = undefined
    } else {
      size = promised
    }

    const isSize = (state) => size === undefined ? sliceOf(mount, state.size) === promised : state.size === size
    const isWhole = (state) => method === 'HEAD' || isPartOf(body, state.id, state.pieces)
    const hasValidators = (state, of = state.size) => headers.etag === etagOf(mount, of, state.mtimeNs) &&
      headers['last-modified'] === lastModifiedOf(state.mtimeNs)
    const known = this.#history.withPassing(path).filter(({ state, via }) => state === 'file' && isAllowed(mount, via))
    let matching = known.filter((state) => isWhole(state) && isSize(state) && hasValidators(state))
    if (matching.length > 0 && matching.every(({ isPassing }) => isPassing)) this.#seenMidWrite(answer, 'cut')
    if (matching.length === 0 && method !== 'HEAD') {
      matching = known.filter((state) => size !== undefined && hasValidators(state, size) && isMidWrite(state, body, size))
        // Over when the write was.
        .map((state) => ({ ...state, to: state.changedAt }))
      if (matching.length > 0) this.#seenMidWrite(answer, 'written')
    }
    if (matching.length === 0 && method === 'HEAD' && size !== undefined) {
      matching = known.filter((state) => hasValidators(state, size) && isMidWrite(state, { runs: [], fragments: [] }, size))
    }
    if (matching.length === 0) {
      if (this.#history.of(path).some((state) => !isAllowed(mount, state.via) && isWhole(state) && isSize(state))) return this.fail('link against the policy', answer)
      if (!known.some(isWhole)) {
        const isTorn = body.fault === undefined && body.runs.length > 1
        return this.fail(promised > HELD ? (isTorn ? 'torn body' : 'wrong body') : 'wrong held body', answer)
      }
      // What was sent is what the file became in place after its head was made.
      if (promised > HELD && known.some((state) => state.isInPlace && isWhole(state) && isSize(state))) return this.fail('torn body', answer)
      if (!known.some((state) => isWhole(state) && isSize(state))) return this.fail('wrong length', answer, 'of another version than the bytes')
      return this.fail('wrong validators', answer, 'of another version than the bytes')
    }
    this.#judgeAge(answer, matching, this.#policyOf(answer).valid, this.ages, 'content')
    this.#judgeChoice(answer, candidates.slice(0, index))
    this.#judgeConditions(answer)
  }

  /** What the client would have preferred, or the mount, was not there. */
  #judgeChoice (answer, preferred) {
    const { mount } = answer.request
    for (const { path } of preferred.filter(({ path }) => this.#history.has(path))) {
      const absent = this.#history.of(path).filter((state) => !isThere(mount, state))
      this.#judgeAge(answer, absent, this.#policyOf(answer).errors, this.absences, `passed over ${path}`)
    }
  }

  /** A 200 or 206 where the validators ask for another answer. */
  #judgeConditions (answer) {
    const { request: { headers: sent, method, range }, status, headers } = answer
    const opaque = (tag) => tag?.replace(/^W\//, '')
    const { etag, 'last-modified': lastModified } = headers
    const noneMatch = sent['if-none-match']
    const sinceIsMet = sent['if-modified-since'] !== undefined && Date.parse(lastModified) <= Date.parse(sent['if-modified-since'])
    if (noneMatch === undefined ? sinceIsMet : opaque(noneMatch) === opaque(etag)) return this.fail('no 304', answer)
    const match = sent['if-match']
    if (match !== undefined && match !== '*' && (match !== etag || etag.startsWith('W/'))) return this.fail('no 412', answer)
    const ifRange = sent['if-range']
    if (range === undefined || method === 'HEAD') return
    const holds = ifRange === undefined || ifRange === lastModified || (ifRange === etag && !etag.startsWith('W/'))
    if (status === 206 && !holds) return this.fail('wrong range', answer, 'If-Range does not hold')
    const size = Number(headers['content-length'])
    if (status === 200 && holds && rangeOf(range, size) !== undefined) this.fail('wrong range', answer, 'the whole for a part')
  }

  #judgeNotModified (answer) {
    const { request: { mount, candidates, headers: sent }, headers } = answer
    const path = headers['x-file']
    if (!candidates.some((candidate) => candidate.path === path)) return this.fail('wrong file', answer)
    const { etag, 'last-modified': lastModified } = headers
    const noneMatch = sent['if-none-match']
    const isMet = noneMatch === undefined
      ? Date.parse(lastModified) <= Date.parse(sent['if-modified-since'])
      : noneMatch.replace(/^W\//, '') === etag?.replace(/^W\//, '')
    if (!isMet) return this.fail('wrong 304', answer, 'nothing asked for it')
    const states = this.#history.withPassing(path).filter((state) => state.state === 'file' && isAllowed(mount, state.via) &&
      lastModifiedOf(state.mtimeNs) === lastModified &&
      (etagOf(mount, state.size, state.mtimeNs) === etag || isMidSize(mount, state, etag)))
    this.#judgeAge(answer, states, this.#policyOf(answer).valid, this.ages, 'wrong 304')
    this.#judgeChoice(answer, candidates.slice(0, candidates.findIndex((candidate) => candidate.path === path)))
  }

  #judgeRedirect (answer) {
    const { request: { mount, pathname, url }, headers } = answer
    const [path, query] = url.split('?')
    const location = `${path}/${query === undefined ? '' : `?${query}`}`
    if (mount.options.redirect !== true || headers.location !== location) return this.fail('wrong redirect', answer)
    const states = mount.roots.flatMap((root) => this.#history.of(`${root}/${pathname}`)).filter(({ state }) => state === 'directory')
    this.#judgeAge(answer, states, this.#policyOf(answer).valid, this.ages, 'wrong redirect')
  }

  #judgeNotFound (answer) {
    const { request: { candidates, isHidden } } = answer
    if (isHidden) return
    for (const { path } of candidates.filter(({ path }) => this.#history.has(path))) {
      const absent = this.#history.of(path).filter((state) => state.state === 'missing' || state.state === 'directory')
      this.#judgeAge(answer, absent, this.#policyOf(answer).errors, this.absences, 'wrong 404')
    }
  }

  #judgeForbidden (answer) {
    const { request: { mount, candidates, isHidden } } = answer
    if (isHidden) return
    const states = candidates.flatMap(({ path }) => this.#history.of(path))
      .filter(({ state, via }) => state === 'denied' || (state === 'file' && !isAllowed(mount, via)))
    this.#judgeAge(answer, states, this.#policyOf(answer).errors, this.absences, 'wrong 403')
  }

  /** 412 and 416 show a size, or that a tag is not the present one. */
  #judgeRefusal (answer) {
    const { request: { mount, candidates, headers: sent, range }, status, headers } = answer
    const states = candidates.flatMap(({ path }) => this.#history.of(path)).filter(({ state }) => state === 'file')
    const [, size] = /^bytes \*\/(\d+)$/.exec(headers['content-range']) ?? []
    if (headers.etag !== undefined) return this.fail(`wrong ${status}`, answer, 'it has validators')
    const isTrue = status === 412
      ? (state) => sent['if-match'] !== undefined && (sent['if-match'] !== etagOf(mount, state.size, state.mtimeNs) || !sent['if-match'].startsWith('"'))
      : (state) => range !== undefined && state.size === Number(size) && rangeOf(range, state.size) === undefined
    const isMid = (state) => status === 416 && isMidWrite(state, { runs: [], fragments: [] }, Number(size))
    this.#judgeAge(answer, states.filter((state) => isTrue(state) || isMid(state)), this.#policyOf(answer).valid, this.ages, `wrong ${status}`)
  }

  #judgeBot (answer) {
    const { request: { expected }, status } = answer
    if (!expected.includes(status)) this.fail('wrong status', answer, `for what has never been there: ${status}`)
  }

  /** Each name that is listed was there, each that is not was not, at some moment. */
  #judgeList (answer) {
    const { request: { method, directory, members }, status, text } = answer
    if (status !== 200) return this.fail('wrong status', answer)
    if (method === 'HEAD') return
    const { files } = JSON.parse(text)
    if (files.some((name) => !members.has(name))) return this.fail('wrong listing', answer, text)
    for (const name of members) {
      const isListed = files.includes(name)
      const states = this.#history.of(`${directory}/${name}`).filter(({ state }) => (state !== 'missing') === isListed)
      this.#judgeAge(answer, states, this.#policyOf(answer).valid, this.ages, 'wrong listing')
    }
  }
}

function isAllowed ({ options: { symlinks = 'follow' } }, via) {
  return via === 'plain' || symlinks === 'follow' || (symlinks === 'within-root' && via === 'inner')
}

function isThere (mount, { state, via }) {
  return state === 'file' && isAllowed(mount, via)
}

/** A tag of a size that the file had only while it was being written. */
function isMidSize (mount, { isInPlace, previous, size, mtimeNs }, etag) {
  if (!isInPlace || previous === undefined) return false
  const [, digits] = /^(?:W\/)?"([\da-f]+)-/.exec(etag) ?? []
  const mid = parseInt(digits, mount.options.etag === 'strong' ? 10 : 16)
  return mid >= Math.min(previous.size, size) && mid <= Math.max(previous.size, size) && etag === etagOf(mount, mid, mtimeNs)
}

function sliceOf ({ send: { start, end } }, size) {
  return Math.max(0, Math.min(end, size - 1) - start + 1)
}

/** RFC 9110 14.1.2. `range`: `{ first, last }` or `{ suffix }`. `undefined`: there are no such bytes. */
export function rangeOf ({ first, last, suffix }, size, most = Infinity) {
  if (size === 0) return undefined
  const start = suffix === undefined ? first : Math.max(0, size - suffix)
  const end = Math.min(last ?? Infinity, size - 1)
  return start > end ? undefined : { start, end: Math.min(end, start + most - 1) }
}
