import { equal } from 'node:assert/strict'
import type { IncomingHttpHeaders } from 'node:http'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { evaluatePreconditions, type ConditionalFields, type Validators, type Verdict } from '../lib/preconditions'
import { holds, nearly, referenceVerdict } from './fixtures/rfc-reference'

const SECOND = Date.UTC(2024, 1, 29, 12, 30, 15)
const AT = 'Thu, 29 Feb 2024 12:30:15 GMT'
const BEFORE = 'Thu, 29 Feb 2024 12:30:14 GMT'
const AFTER = 'Thu, 29 Feb 2024 12:30:16 GMT'

const WEAK: Validators = { etag: 'W/"1f-18df"', lastModified: SECOND }
const STRONG: Validators = { etag: '"1f-18df"', lastModified: SECOND }
const COMMA: Validators = { etag: '"a,b"', lastModified: SECOND }
const NO_TAG: Validators = { etag: undefined, lastModified: SECOND }
const NO_DATE: Validators = { etag: '"1f-18df"', lastModified: undefined }

type Row = [title: string, method: string, fields: ConditionalFields, validators: Validators, expected: Verdict]

function table (t: Test, rows: Row[]): void {
  for (const [title, method, fields, validators, expected] of rows) {
    t.equal(evaluatePreconditions(method, fields, validators), expected, `${title}: ${method} ${JSON.stringify(fields)} on ${validators.etag}`)
  }
  t.end()
}

t.test('13.2.2 step 1, If-Match', t => table(t, [
  ['no condition', 'GET', {}, WEAK, 'proceed'],
  ['13.1.1 the tag', 'GET', { 'if-match': '"1f-18df"' }, STRONG, 'proceed'],
  ['13.1.1 another tag', 'GET', { 'if-match': '"zz"' }, STRONG, 'precondition-failed'],
  ['13.1.1 for HEAD', 'HEAD', { 'if-match': '"zz"' }, STRONG, 'precondition-failed'],
  ['13.1.1 for other methods', 'PUT', { 'if-match': '"zz"' }, STRONG, 'precondition-failed'],
  ['13.1.1 one of a list', 'GET', { 'if-match': '"zz", W/"x",\t"1f-18df"' }, STRONG, 'proceed'],
  ['13.1.1 none of a list', 'GET', { 'if-match': '"zz", "x"' }, STRONG, 'precondition-failed'],
  ['P70 13.1.1 strong: the strong tag sent as weak', 'GET', { 'if-match': 'W/"1f-18df"' }, STRONG, 'precondition-failed'],
  ['P70 13.1.1 strong: our weak tag', 'GET', { 'if-match': 'W/"1f-18df"' }, WEAK, 'precondition-failed'],
  ['P70 13.1.1 strong: our weak tag sent as strong', 'GET', { 'if-match': '"1f-18df"' }, WEAK, 'precondition-failed'],
  ['P70 13.1.1 "*"', 'GET', { 'if-match': '*' }, WEAK, 'proceed'],
  ['13.1.1 "*" without a tag of ours', 'GET', { 'if-match': '*' }, NO_TAG, 'proceed'],
  ['13.1.1 a list without a tag of ours', 'GET', { 'if-match': '"1f-18df"' }, NO_TAG, 'precondition-failed'],
  ['bad syntax matches nothing', 'GET', { 'if-match': '1f-18df' }, STRONG, 'precondition-failed'],
  ['an empty list matches nothing', 'GET', { 'if-match': '' }, STRONG, 'precondition-failed'],
  ['true goes on to step 3', 'GET', { 'if-match': '"1f-18df"', 'if-none-match': '"1f-18df"' }, STRONG, 'not-modified'],
  ['true goes on to step 4', 'GET', { 'if-match': '"1f-18df"', 'if-modified-since': AT }, STRONG, 'not-modified'],
  ['false ends before step 3', 'GET', { 'if-match': '"zz"', 'if-none-match': '"1f-18df"' }, STRONG, 'precondition-failed']
]))

t.test('13.2.2 step 2, If-Unmodified-Since', t => table(t, [
  ['13.1.4 the date', 'GET', { 'if-unmodified-since': AT }, WEAK, 'proceed'],
  ['13.1.4 a later date', 'GET', { 'if-unmodified-since': AFTER }, WEAK, 'proceed'],
  ['13.1.4 an earlier date', 'GET', { 'if-unmodified-since': BEFORE }, WEAK, 'precondition-failed'],
  ['13.1.4 for HEAD', 'HEAD', { 'if-unmodified-since': BEFORE }, WEAK, 'precondition-failed'],
  ['13.1.4 for other methods', 'DELETE', { 'if-unmodified-since': BEFORE }, WEAK, 'precondition-failed'],
  ['13.1.4 a junk date is ignored', 'GET', { 'if-unmodified-since': 'junk' }, WEAK, 'proceed'],
  ['13.1.4 two dates are no date', 'GET', { 'if-unmodified-since': `${BEFORE}, ${BEFORE}` }, WEAK, 'proceed'],
  ['13.1.4 ignored without a date of ours', 'GET', { 'if-unmodified-since': BEFORE }, NO_DATE, 'proceed'],
  ['13.1.4 ignored beside an If-Match that is true', 'GET', { 'if-match': '*', 'if-unmodified-since': BEFORE }, WEAK, 'proceed'],
  ['13.1.4 ignored beside an If-Match that is false', 'GET', { 'if-match': '"zz"', 'if-unmodified-since': AFTER }, WEAK, 'precondition-failed'],
  ['13.1.4 ignored beside an empty If-Match', 'GET', { 'if-match': '', 'if-unmodified-since': AFTER }, WEAK, 'precondition-failed'],
  ['true goes on to step 3', 'GET', { 'if-unmodified-since': AT, 'if-none-match': '*' }, WEAK, 'not-modified'],
  ['true goes on to step 4', 'GET', { 'if-unmodified-since': AT, 'if-modified-since': AT }, WEAK, 'not-modified'],
  ['false ends before step 3', 'GET', { 'if-unmodified-since': BEFORE, 'if-none-match': '*' }, WEAK, 'precondition-failed']
]))

t.test('13.2.2 step 3, If-None-Match', t => table(t, [
  ['13.1.2 our weak tag', 'GET', { 'if-none-match': 'W/"1f-18df"' }, WEAK, 'not-modified'],
  ['13.1.2 weak comparison: sent as strong', 'GET', { 'if-none-match': '"1f-18df"' }, WEAK, 'not-modified'],
  ['13.1.2 weak comparison: strong sent as weak', 'GET', { 'if-none-match': 'W/"1f-18df"' }, STRONG, 'not-modified'],
  ['13.1.2 our strong tag', 'GET', { 'if-none-match': '"1f-18df"' }, STRONG, 'not-modified'],
  ['13.1.2 for HEAD', 'HEAD', { 'if-none-match': '"1f-18df"' }, STRONG, 'not-modified'],
  ['13.1.2 other methods: 412', 'PUT', { 'if-none-match': '"1f-18df"' }, STRONG, 'precondition-failed'],
  ['13.1.2 other methods, "*"', 'PUT', { 'if-none-match': '*' }, STRONG, 'precondition-failed'],
  ['13.1.2 other methods, another tag', 'PUT', { 'if-none-match': '"zz"' }, STRONG, 'proceed'],
  ['9.1 methods are case-sensitive', 'get', { 'if-none-match': '*' }, STRONG, 'precondition-failed'],
  ['13.1.2 another tag', 'GET', { 'if-none-match': '"zz"' }, WEAK, 'proceed'],
  ['our tag with more behind', 'GET', { 'if-none-match': '"1f-18dfff"' }, WEAK, 'proceed'],
  ['our tag with more before', 'GET', { 'if-none-match': '"ff1f-18df"' }, WEAK, 'proceed'],
  ['the start of our tag', 'GET', { 'if-none-match': '"1f-18d"' }, WEAK, 'proceed'],
  ['8.8.3 tags are case-sensitive', 'GET', { 'if-none-match': '"1F-18DF"' }, WEAK, 'proceed'],
  ['P67 a list', 'GET', { 'if-none-match': '"zz", W/"x", W/"1f-18df"' }, WEAK, 'not-modified'],
  ['P67 "*"', 'GET', { 'if-none-match': '*' }, WEAK, 'not-modified'],
  ['P67 " * "', 'GET', { 'if-none-match': ' *\t' }, WEAK, 'not-modified'],
  ['P67 a comma in our tag', 'GET', { 'if-none-match': '"a,b"' }, COMMA, 'not-modified'],
  ['P67 a comma in our tag, in a list', 'GET', { 'if-none-match': '"x","a,b" , "y"' }, COMMA, 'not-modified'],
  ['P67 a comma in another tag', 'GET', { 'if-none-match': '"1f,x", "y,1f-18df"' }, WEAK, 'proceed'],
  ['P67 what a split at commas would find', 'GET', { 'if-none-match': '"x,"1f-18df",y"' }, STRONG, 'proceed'],
  ['P66 Cache-Control has no part in it', 'GET', { 'if-none-match': 'W/"1f-18df"', 'cache-control': 'no-cache', pragma: 'no-cache' } as ConditionalFields, WEAK, 'not-modified'],
  ['13.1.2 "*" without a tag of ours', 'GET', { 'if-none-match': '*' }, NO_TAG, 'not-modified'],
  ['13.1.2 a list without a tag of ours', 'GET', { 'if-none-match': '"1f-18df"' }, NO_TAG, 'proceed'],
  ['5.6.1.2 empty elements', 'GET', { 'if-none-match': ', ,\t,"1f-18df",, ' }, WEAK, 'not-modified'],
  ['8.8.3 the empty tag', 'GET', { 'if-none-match': '""' }, { etag: 'W/""', lastModified: SECOND }, 'not-modified'],
  ['8.8.3 obs-text', 'GET', { 'if-none-match': '"\x80\xff"' }, { etag: '"\x80\xff"', lastModified: SECOND }, 'not-modified'],
  ['8.8.3 the ends of etagc', 'GET', { 'if-none-match': '"!#~"' }, { etag: '"!#~"', lastModified: SECOND }, 'not-modified'],
  ['an invalid tag of ours, from a user\'s function, matches nothing', 'GET', { 'if-none-match': '"1f-18df"' }, { etag: '"1f', lastModified: SECOND }, 'proceed'],
  ['an empty tag of ours matches nothing', 'GET', { 'if-none-match': '"1f-18df"' }, { etag: '', lastModified: SECOND }, 'proceed'],
  ['8.8.3 a backslash does not escape', 'GET', { 'if-none-match': '"a\\"' }, { etag: '"a\\"', lastModified: SECOND }, 'not-modified']
]))

t.test('If-None-Match: bad syntax matches nothing', t => table(t, [
  'junk',
  '1f-18df',
  '"1f-18df',
  '1f-18df"',
  'W/1f-18df',
  'W/',
  '"',
  'w/"1f-18df"',
  'W"1f-18df"',
  'W /"1f-18df"',
  'W/ "1f-18df"',
  '\'1f-18df\'',
  '"1f-18df" "zz"',
  '"1f-18df""zz"',
  '"1f-18df"; "zz"',
  '"zz" "1f-18df"',
  '"1f-18df", junk',
  'junk, "1f-18df"',
  '"1f-18df", *',
  '*, "1f-18df"',
  '**',
  '\xa0*',
  '"1f-18df", "a b"',
  '"1f-18df", "a\tb"',
  '"1f-18df", "\x7f"',
  '"1f-18df", "\x00"',
  '"1f-18df", "\u0100"',
  '"1f-18df", "zz',
  '"1f-18df"\xa0',
  ''
].map((field): Row => ['8.8.3, 5.6.1', 'GET', { 'if-none-match': field }, WEAK, 'proceed'])))

t.test('13.2.2 step 4, If-Modified-Since', t => table(t, [
  ['13.1.3 the date', 'GET', { 'if-modified-since': AT }, WEAK, 'not-modified'],
  ['13.1.3 for HEAD', 'HEAD', { 'if-modified-since': AT }, WEAK, 'not-modified'],
  ['13.1.3 not for other methods', 'PUT', { 'if-modified-since': AT }, WEAK, 'proceed'],
  ['13.1.3 an earlier date', 'GET', { 'if-modified-since': BEFORE }, WEAK, 'proceed'],
  ['P69 a later date', 'GET', { 'if-modified-since': AFTER }, WEAK, 'not-modified'],
  ['P69 a year later', 'GET', { 'if-modified-since': 'Fri, 28 Feb 2025 12:30:15 GMT' }, WEAK, 'not-modified'],
  ['P69 junk', 'GET', { 'if-modified-since': 'junk' }, WEAK, 'proceed'],
  ['P69 empty', 'GET', { 'if-modified-since': '' }, WEAK, 'proceed'],
  ['5.6.7 rfc850-date', 'GET', { 'if-modified-since': 'Thursday, 29-Feb-24 12:30:15 GMT' }, WEAK, 'not-modified'],
  ['5.6.7 asctime-date', 'GET', { 'if-modified-since': 'Thu Feb 29 12:30:15 2024' }, WEAK, 'not-modified'],
  ['13.1.3 ignored without a date of ours', 'GET', { 'if-modified-since': AT }, NO_DATE, 'proceed'],
  ['the epoch is a date', 'GET', { 'if-modified-since': 'Thu, 01 Jan 1970 00:00:00 GMT' }, { etag: undefined, lastModified: 0 }, 'not-modified'],
  ['P68 13.1.3 ignored beside If-None-Match', 'GET', { 'if-none-match': '"zz"', 'if-modified-since': AT }, WEAK, 'proceed'],
  ['13.1.3 ignored beside a bad If-None-Match', 'GET', { 'if-none-match': 'junk', 'if-modified-since': AT }, WEAK, 'proceed'],
  ['13.1.3 ignored beside an empty If-None-Match', 'GET', { 'if-none-match': '', 'if-modified-since': AT }, WEAK, 'proceed'],
  ['13.1.3 ignored beside If-None-Match without a tag of ours', 'GET', { 'if-none-match': '"zz"', 'if-modified-since': AT }, NO_TAG, 'proceed'],
  ['a match counts although the date is older', 'GET', { 'if-none-match': 'W/"1f-18df"', 'if-modified-since': BEFORE }, WEAK, 'not-modified']
]))

t.test('node\'s own headers object is accepted', t => {
  const headers: IncomingHttpHeaders = { 'if-none-match': 'W/"1f-18df"', 'x-other': ['a', 'b'] }
  t.equal(evaluatePreconditions('GET', headers, WEAK), 'not-modified')
  t.end()
})

t.test('the time is linear in the length of the field', t => {
  const length = 400_000
  const fields = [
    '"x",'.repeat(length / 4),
    ','.repeat(length),
    ' '.repeat(length),
    ' '.repeat(length / 2) + '*' + ' '.repeat(length / 2) + 'x',
    '"'.repeat(length),
    '"' + 'x'.repeat(length),
    '"x'.repeat(length / 2),
    'W/'.repeat(length / 2),
    ' ,'.repeat(length / 2) + 'x',
    ('"' + 'a'.repeat(1000) + '",').repeat(length / 1000)
  ]
  const etag = '"' + 'a'.repeat(999) + 'b"'
  for (const field of fields) {
    const start = process.hrtime.bigint()
    t.equal(evaluatePreconditions('GET', { 'if-none-match': field }, { etag, lastModified: SECOND }), 'proceed')
    // Quadratic would be minutes.
    t.ok(process.hrtime.bigint() - start < 2_000_000_000n, JSON.stringify(field.slice(0, 20)))
  }
  t.end()
})

const opaque = fc.constantFrom('""', '"a"', '"a"', '"ab"', '"b"', '"a,b"', '", "', '"W/"', '"*"', '"\xe9"', '"a\\"')
const tag = fc.tuple(fc.constantFrom('', 'W/'), opaque).map((parts) => parts.join(''))
const separator = fc.constantFrom(',', ', ', ' ,', '\t, ', ',,', ', ,')
const list = fc.tuple(
  fc.constantFrom('', '', ',', ' , '),
  fc.array(fc.tuple(tag, separator), { maxLength: 4 }),
  fc.constantFrom('', '"a"', 'W/"a"')
).map(([before, members, last]) => before + members.map((parts) => parts.join('')).join('') + last)
const tagField = nearly(fc.oneof(list, tag, fc.constantFrom('*', ' * ')), '", \tW/*ab\x7f\u0100')

const seconds = fc.integer({ min: -2, max: 2 }).map((n) => SECOND + n * 1000)
const dateField = nearly(seconds.map((ms) => new Date(ms).toUTCString()), ' 0159:,')

const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })

t.test('evaluatePreconditions is the reference', t => {
  const request = fc.record({
    method: fc.constantFrom('GET', 'GET', 'HEAD', 'PUT', 'DELETE'),
    ifMatch: optional(tagField),
    ifNoneMatch: optional(tagField),
    ifModifiedSince: optional(dateField),
    ifUnmodifiedSince: optional(dateField)
  })
  const validators = fc.record({ etag: optional(tag), lastModified: optional(seconds) })
  holds(t, fc.property(request, validators, (request, validators) => {
    const fields: ConditionalFields = {
      'if-match': request.ifMatch,
      'if-none-match': request.ifNoneMatch,
      'if-modified-since': request.ifModifiedSince,
      'if-unmodified-since': request.ifUnmodifiedSince
    }
    const status = { proceed: 'perform', 'not-modified': 304, 'precondition-failed': 412 }
    equal(status[evaluatePreconditions(request.method, fields, validators)], referenceVerdict(request, validators, Date.now()))
  }))
  t.end()
})

for (const [name, key] of [['if-match', 'ifMatch'], ['if-none-match', 'ifNoneMatch']] as const) {
  t.test(`${name} alone is the reference`, t => {
    const request = { method: 'GET', ifMatch: undefined, ifNoneMatch: undefined, ifModifiedSince: undefined, ifUnmodifiedSince: undefined }
    holds(t, fc.property(tagField, tag, (field, etag) => {
      const validators = { etag, lastModified: SECOND }
      const verdict = evaluatePreconditions('GET', { [name]: field }, validators)
      equal(verdict === 'proceed', referenceVerdict({ ...request, [key]: field }, validators, Date.now()) === 'perform')
    }))
    t.end()
  })
}
