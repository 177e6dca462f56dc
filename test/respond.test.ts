import t from 'tap'
import * as errors from '../lib/errors'
import { readSendOptions } from '../lib/options'
import { describe } from '../lib/representation'
import { refuse, respond } from '../lib/respond'
import { LAST_MODIFIED, MTIME } from './fixtures/fake-site'
import { errnoError } from './fixtures/fake-world'
import type { SendOptions } from '../types/index'
import type { FileSnapshot } from '../types/open-file-cache'
import type { RequestFacts } from '../lib/respond'

const EARLIER = 'Thu, 29 Feb 2024 12:30:14 GMT'
const ETAG = '"abc"'

function representationOf (size: number, etag = ETAG, call: SendOptions = {}) {
  const snapshot = { kind: 'file', size, mtimeNs: BigInt(MTIME) * 1_000_000n } as FileSnapshot
  const settings = readSendOptions(call, { root: '/www', etag: () => etag })
  return describe({ pathname: '/a.txt', coding: undefined }, snapshot, settings, new Map(), etag, Date.now())
}

interface Request extends Partial<RequestFacts> {
  size?: number
  etag?: string
  /** Options of one call, about the bytes that are sent. */
  call?: Pick<SendOptions, 'start' | 'end'>
  acceptRanges?: boolean
  maxContentRangeChunkSize?: number
}

function planOf (request: Request) {
  const { method = 'GET', headers = {}, hasOwnStatus = false, size = 10, etag = ETAG, call, acceptRanges = true, maxContentRangeChunkSize } = request
  return respond(representationOf(size, etag, call), { method, headers, hasOwnStatus }, { acceptRanges, maxContentRangeChunkSize })
}

const { fields, notModifiedFields } = representationOf(10)

const whole = { kind: 'file', status: undefined, fields, body: { start: 0, end: 9 } }
const head = { kind: 'file', status: undefined, fields, body: undefined }
const notModified = { kind: 'file', status: 304, fields: notModifiedFields, body: undefined }
const part = (start: number, end: number) => ({
  kind: 'file',
  status: 206,
  fields: {
    ...fields,
    'content-range': `bytes ${start}-${end}/10`,
    'content-length': String(end - start + 1)
  },
  body: { start, end }
})

t.test('GET is answered by the whole file', async (t) => {
  t.strictSame(planOf({}), whole)
})

t.test('HEAD is answered by the same fields, without a body', async (t) => {
  t.strictSame(planOf({ method: 'HEAD' }), head)
})

t.test('the whole of an empty file is no byte', async (t) => {
  t.match(planOf({ size: 0 }), { status: undefined, fields: { 'content-length': '0' }, body: { start: 0, end: -1 } })
})

t.test('a plan for the whole file has the memoised fields themselves', async (t) => {
  const representation = representationOf(10)
  const plan = respond(representation, { method: 'GET', headers: {}, hasOwnStatus: false }, { acceptRanges: true, maxContentRangeChunkSize: undefined })
  t.equal(plan.fields, representation.fields)
})

t.test('preconditions, in the order of RFC 9110 13.2.2', async (t) => {
  const cases: Array<[string, Record<string, string>, 'whole' | 'not-modified' | 'failed']> = [
    ['If-None-Match that matches', { 'if-none-match': ETAG }, 'not-modified'],
    ['If-None-Match that matches weakly', { 'if-none-match': `W/${ETAG}` }, 'not-modified'],
    ['If-None-Match with any', { 'if-none-match': '*' }, 'not-modified'],
    ['If-None-Match that does not match', { 'if-none-match': '"x"' }, 'whole'],
    ['If-Match that matches', { 'if-match': ETAG }, 'whole'],
    ['If-Match that matches weakly only', { 'if-match': `W/${ETAG}` }, 'failed'],
    ['If-Match that does not match', { 'if-match': '"x"' }, 'failed'],
    ['If-Unmodified-Since of the same second', { 'if-unmodified-since': LAST_MODIFIED }, 'whole'],
    ['If-Unmodified-Since of an earlier second', { 'if-unmodified-since': EARLIER }, 'failed'],
    ['If-Unmodified-Since beside If-Match', { 'if-match': ETAG, 'if-unmodified-since': EARLIER }, 'whole'],
    ['If-Modified-Since of the same second', { 'if-modified-since': LAST_MODIFIED }, 'not-modified'],
    ['If-Modified-Since of an earlier second', { 'if-modified-since': EARLIER }, 'whole'],
    ['If-Modified-Since beside If-None-Match', { 'if-none-match': '"x"', 'if-modified-since': LAST_MODIFIED }, 'whole'],
    ['If-Match before If-None-Match', { 'if-match': '"x"', 'if-none-match': ETAG }, 'failed'],
    ['Cache-Control: no-cache', { 'if-none-match': ETAG, 'cache-control': 'no-cache' }, 'not-modified']
  ]
  for (const [name, headers, outcome] of cases) {
    for (const method of ['GET', 'HEAD']) {
      const plan = planOf({ method, headers })
      if (outcome === 'whole') t.strictSame(plan, method === 'GET' ? whole : head, `${method} ${name}`)
      else if (outcome === 'not-modified') t.strictSame(plan, notModified, `${method} ${name}: 304`)
      else t.match(plan, { kind: 'refusal', error: { statusCode: 412 }, fields: {} }, `${method} ${name}: 412`)
    }
  }
})

t.test('a failed precondition carries no field', async (t) => {
  const plan = planOf({ headers: { 'if-match': '"x"' } })
  if (plan.kind !== 'refusal') throw new Error('not refused')
  t.ok(plan.error instanceof errors.PRECONDITION_FAILED)
  t.strictSame(plan.fields, {})
})

t.test('ranges', async (t) => {
  t.test('one range is answered by 206 and its bytes', async (t) => {
    for (const [range, start, end] of [
      ['bytes=0-3', 0, 3], ['bytes=4-', 4, 9], ['bytes=-2', 8, 9], ['bytes=5-500', 5, 9], ['bytes=0-9', 0, 9], ['BYTES=9-9', 9, 9]
    ] as const) t.strictSame(planOf({ headers: { range } }), part(start, end), range)
  })

  t.test('the fields of a 206 are in order, Content-Range before Content-Length', async (t) => {
    t.strictSame(Object.keys(planOf({ headers: { range: 'bytes=0-3' } }).fields), [
      'accept-ranges', 'cache-control', 'last-modified', 'etag', 'content-type', 'content-range', 'content-length'
    ])
  })

  t.test('several ranges, an unknown unit and bad syntax are ignored', async (t) => {
    for (const range of ['bytes=0-1,3-4', 'lines=0-1', 'bytes=a-b', 'bytes=', '0-1', '']) {
      t.strictSame(planOf({ headers: { range } }), whole, range)
    }
  })

  t.test('a range beyond the end is answered by 416 with the size', async (t) => {
    for (const [range, size] of [['bytes=10-', 10], ['bytes=-0', 10], ['bytes=0-', 0], ['bytes=0-0', 0]] as const) {
      const plan = planOf({ headers: { range }, size })
      if (plan.kind !== 'refusal') throw new Error('not refused')
      t.ok(plan.error instanceof errors.RANGE_NOT_SATISFIABLE, range)
      t.strictSame(plan.fields, { 'content-range': `bytes */${size}` })
    }
  })

  t.test('a suffix of an empty file is the whole file', async (t) => {
    t.match(planOf({ headers: { range: 'bytes=-5' }, size: 0 }), { status: undefined, body: { start: 0, end: -1 } })
  })

  t.test('are ignored on HEAD, satisfiable or not', async (t) => {
    t.strictSame(planOf({ method: 'HEAD', headers: { range: 'bytes=0-3' } }), head)
    t.strictSame(planOf({ method: 'HEAD', headers: { range: 'bytes=99-' } }), head)
  })

  t.test('are ignored with acceptRanges: false', async (t) => {
    t.strictSame(planOf({ acceptRanges: false, headers: { range: 'bytes=0-3' } }), whole)
    t.strictSame(planOf({ acceptRanges: false, headers: { range: 'bytes=99-' } }), whole)
  })

  t.test('come after the preconditions', async (t) => {
    t.strictSame(planOf({ headers: { range: 'bytes=0-3', 'if-none-match': ETAG } }), notModified)
    t.match(planOf({ headers: { range: 'bytes=99-', 'if-match': '"x"' } }), { error: { statusCode: 412 } })
  })

  t.test('hold while If-Range is the present version, by strong comparison or by its date', async (t) => {
    const range = 'bytes=0-3'
    t.strictSame(planOf({ headers: { range, 'if-range': ETAG } }), part(0, 3))
    t.strictSame(planOf({ headers: { range, 'if-range': LAST_MODIFIED } }), part(0, 3))
    t.strictSame(planOf({ headers: { range, 'if-range': '"x"' } }), whole)
    t.strictSame(planOf({ headers: { range, 'if-range': EARLIER } }), whole)
    t.match(planOf({ headers: { range, 'if-range': 'W/"a"' }, etag: 'W/"a"' }), { status: undefined, body: { start: 0, end: 9 } })
    t.strictSame(planOf({ headers: { range: 'bytes=99-', 'if-range': '"x"' } }), whole, 'else even an unsatisfiable one is ignored')
  })
})

t.test('a status that was set before switches ranges and preconditions off', async (t) => {
  for (const headers of [
    { range: 'bytes=0-3' }, { range: 'bytes=99-' }, { 'if-none-match': ETAG }, { 'if-match': '"x"' },
    { 'if-modified-since': LAST_MODIFIED }, { 'if-unmodified-since': EARLIER }
  ]) {
    t.strictSame(planOf({ hasOwnStatus: true, headers }), whole, JSON.stringify(headers))
    t.strictSame(planOf({ hasOwnStatus: true, headers, method: 'HEAD' }), head, JSON.stringify(headers))
  }
})

t.test('a method other than GET and HEAD switches them off too', async (t) => {
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'QUERY']) {
    for (const headers of [{ range: 'bytes=0-3' }, { range: 'bytes=99-' }, { 'if-none-match': ETAG }, { 'if-match': '"x"' }]) {
      t.strictSame(planOf({ method, headers }), whole, `${method} ${JSON.stringify(headers)}`)
    }
  }
})

t.test('why no file answers', async (t) => {
  t.test('what is missing is left to the not-found handler', async (t) => {
    for (const reason of ['not-found', 'ENOENT', 'ENOTDIR', 'ENAMETOOLONG', errnoError('ENOENT')]) {
      t.strictSame(refuse(reason), { kind: 'refusal', error: undefined, fields: {} })
    }
  })

  t.test('the rest is a coded error of one status', async (t) => {
    const cases: Array<[string, keyof typeof errors, number, string, object]> = [
      ['malformed', 'MALFORMED_PATH', 400, 'Bad Request', {}],
      ['forbidden', 'FORBIDDEN_PATH', 403, 'Forbidden', {}],
      ['EACCES', 'FORBIDDEN_PATH', 403, 'Forbidden', {}],
      ['EPERM', 'FORBIDDEN_PATH', 403, 'Forbidden', {}],
      ['ELOOP', 'FORBIDDEN_PATH', 403, 'Forbidden', {}],
      ['EISDIR', 'FORBIDDEN_PATH', 403, 'Forbidden', {}],
      ['EMFILE', 'EXHAUSTED', 503, 'Service Unavailable', { 'retry-after': '1' }],
      ['ENFILE', 'EXHAUSTED', 503, 'Service Unavailable', { 'retry-after': '1' }],
      ['ENOMEM', 'EXHAUSTED', 503, 'Service Unavailable', { 'retry-after': '1' }],
      ['EIO', 'READ_FAILED', 500, 'Internal Server Error', {}],
      ['ESTALE', 'READ_FAILED', 500, 'Internal Server Error', {}],
      ['ERR_FILE_CHANGED', 'READ_FAILED', 500, 'Internal Server Error', {}]
    ]
    for (const [code, name, statusCode, message, fields] of cases) {
      const refusals = code.startsWith('E') ? [refuse(code), refuse(errnoError(code))] : [refuse(code)]
      for (const { error, fields: given } of refusals) {
        t.ok(error instanceof errors[name], `${code} is ${String(name)}`)
        t.match(error, { code: `FST_STATIC_${String(name)}`, statusCode })
        t.equal(error?.message, message, 'which says no path and no errno')
        t.strictSame(given, fields)
      }
    }
  })

  t.test('something without a code is a failed read', async (t) => {
    for (const reason of [new Error('odd'), null, undefined, {}]) {
      t.ok(refuse(reason).error instanceof errors.READ_FAILED)
    }
  })

  t.test('the cause of a failure is kept, for the log', async (t) => {
    for (const code of ['EIO', 'EMFILE']) {
      const cause = errnoError(code)
      t.equal(refuse(cause).error?.cause, cause)
    }
  })

  t.test('what a request can cause at will captures no stack', async (t) => {
    const raised = [refuse('malformed').error, refuse('forbidden').error, refuse('EACCES').error]
    for (const plan of [planOf({ headers: { 'if-match': '"x"' } }), planOf({ headers: { range: 'bytes=99-' } })]) {
      if (plan.kind === 'refusal') raised.push(plan.error)
    }
    t.equal(raised.length, 5)
    for (const error of raised) t.notMatch(error?.stack ?? '', /\n +at /)
  })

  t.test('each refusal is an error of its own, so that nobody writes into that of another request', async (t) => {
    t.not(refuse('forbidden').error, refuse('forbidden').error)
  })
})

t.test('P64 a chunk size cuts every 206, and Content-Range says so', async (t) => {
  const cut = (range: string) => planOf({ headers: { range }, maxContentRangeChunkSize: 4 })
  t.strictSame(cut('bytes=0-'), part(0, 3))
  t.strictSame(cut('bytes=2-9'), part(2, 5))
  t.strictSame(cut('bytes=-5'), part(5, 8))
  t.strictSame(cut('bytes=8-'), part(8, 9))
  t.strictSame(planOf({ maxContentRangeChunkSize: 4 }), whole, 'but not what was not asked for in parts')
})

t.test('a part of a file that a call chose is answered as if it were the file', async (t) => {
  // Bytes 4 to 7 of a file of 10.
  const call = { start: 4, end: 7 }

  t.test('by its own bytes and their number', async (t) => {
    t.match(planOf({ call }), { status: undefined, fields: { 'content-length': '4' }, body: { start: 4, end: 7 } })
    t.match(planOf({ call, method: 'HEAD' }), { status: undefined, fields: { 'content-length': '4' }, body: undefined })
    t.match(planOf({ call, method: 'POST' }), { status: undefined, body: { start: 4, end: 7 } })
    t.match(planOf({ call, hasOwnStatus: true, headers: { range: 'bytes=0-0' } }), { status: undefined, body: { start: 4, end: 7 } })
  })

  t.test('ranges count from its first byte, and their total is its length', async (t) => {
    for (const [range, field, start, end] of [
      ['bytes=0-1', 'bytes 0-1/4', 4, 5], ['bytes=2-', 'bytes 2-3/4', 6, 7], ['bytes=-1', 'bytes 3-3/4', 7, 7],
      ['bytes=1-500', 'bytes 1-3/4', 5, 7], ['bytes=0-3', 'bytes 0-3/4', 4, 7]
    ] as const) {
      t.match(planOf({ call, headers: { range } }), {
        status: 206,
        fields: { 'content-range': field, 'content-length': String(end - start + 1) },
        body: { start, end }
      }, range)
    }
  })

  t.test('a chunk size cuts them within it', async (t) => {
    t.match(planOf({ call, headers: { range: 'bytes=1-' }, maxContentRangeChunkSize: 2 }),
      { status: 206, fields: { 'content-range': 'bytes 1-2/4', 'content-length': '2' }, body: { start: 5, end: 6 } })
  })

  t.test('a range beyond its end is not satisfiable, though the file has those bytes', async (t) => {
    t.match(planOf({ call, headers: { range: 'bytes=4-5' } }),
      { kind: 'refusal', error: { statusCode: 416 }, fields: { 'content-range': 'bytes */4' } })
  })

  t.test('none of it, in a file that ends before its start, is like an empty file', async (t) => {
    const none = { call: { start: 10 } }
    const whole = planOf(none)
    if (whole.kind !== 'file' || whole.body === undefined) throw new Error('no body')
    t.equal(whole.fields['content-length'], '0')
    t.equal(whole.body.end - whole.body.start + 1, 0)
    t.match(planOf({ ...none, headers: { range: 'bytes=0-0' } }), { error: { statusCode: 416 }, fields: { 'content-range': 'bytes */0' } })
    t.match(planOf({ ...none, headers: { range: 'bytes=-5' } }), { status: undefined, fields: { 'content-length': '0' } })
  })

  t.test('preconditions are those of the file', async (t) => {
    t.strictSame(planOf({ call, headers: { 'if-none-match': ETAG } }), notModified)
    t.match(planOf({ call, headers: { 'if-match': '"x"' } }), { error: { statusCode: 412 } })
  })
})
