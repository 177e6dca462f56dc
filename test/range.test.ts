import { deepEqual, equal } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import type { Validators } from '../lib/preconditions'
import { contentRange, evaluateRange, ifRangeHolds, unsatisfiedContentRange, type RangeOutcome } from '../lib/range'
import { holds, nearly, referenceIfRange, referenceRange } from './fixtures/rfc-reference'

const bytes = (start: number, end: number): RangeOutcome => ({ start, end })

t.test('evaluateRange on ten bytes', t => {
  const rows: Array<[title: string, field: string | undefined, expected: RangeOutcome]> = [
    ['no Range', undefined, 'whole'],
    ['14.1.2 int-range', 'bytes=2-5', bytes(2, 5)],
    ['14.1.2 one byte', 'bytes=5-5', bytes(5, 5)],
    ['14.1.2 without last-pos', 'bytes=3-', bytes(3, 9)],
    ['14.1.2 all', 'bytes=0-9', bytes(0, 9)],
    ['14.1.2 all, without last-pos', 'bytes=0-', bytes(0, 9)],
    ['14.1.2 last-pos at the size', 'bytes=0-10', bytes(0, 9)],
    ['14.1.2 last-pos beyond the size', 'bytes=8-99', bytes(8, 9)],
    ['14.1.2 first-pos at the size', 'bytes=10-10', 'unsatisfiable'],
    ['14.1.2 first-pos beyond the size', 'bytes=99-100', 'unsatisfiable'],
    ['14.1.2 suffix-range', 'bytes=-4', bytes(6, 9)],
    ['14.1.2 suffix as long as the representation', 'bytes=-10', bytes(0, 9)],
    ['14.1.2 suffix longer than the representation', 'bytes=-11', bytes(0, 9)],
    ['14.1.1 leading zeros', 'bytes=002-0000000000000000000005', bytes(2, 5)],
    ['14.1.1 leading zeros do not make a number greater', 'bytes=09-8', 'whole'],
    ['14.1.1 leading zeros do not make a number less', 'bytes=9-09', bytes(9, 9)],
    ['P53', 'bytes=-3', bytes(7, 9)],
    ['P53', 'bytes=-8', bytes(2, 9)],
    ['P54', 'bytes=0-0', bytes(0, 0)],
    ['P54 14.1.2 suffix of nothing', 'bytes=-0', 'unsatisfiable'],
    ['P54', 'bytes=-000', 'unsatisfiable'],
    ['P54', 'bytes=9-9', bytes(9, 9)],
    ['P54', 'bytes=10-', 'unsatisfiable'],
    ['P55', 'hello', 'whole'],
    ['P55 14.1.1 other-range', 'bytes=abc', 'whole'],
    ['P55 14.1.1 last-pos less than first-pos', 'bytes=5-2', 'whole'],
    ['P55 14.1.1 the same beyond the size', 'bytes=50-20', 'whole'],
    ['P55 14.1.1 the same by the number of digits', 'bytes=10-9', 'whole'],
    ['P55 14.1.2 20 digits', 'bytes=0-99999999999999999999', bytes(0, 9)],
    ['P55 14.1.2 400 digits', `bytes=1-${'9'.repeat(400)}`, bytes(1, 9)],
    ['P55 20 digits first', 'bytes=99999999999999999999-', 'unsatisfiable'],
    ['P55 400 digits first', `bytes=${'9'.repeat(400)}-`, 'unsatisfiable'],
    ['P55 20 digits of suffix', 'bytes=-99999999999999999999', bytes(0, 9)],
    ['P55 400 digits of suffix', `bytes=-${'9'.repeat(400)}`, bytes(0, 9)],
    ['P55 14.1.1 one double, last-pos less', 'bytes=9007199254740993-9007199254740992', 'whole'],
    ['P55 14.1.1 one double, last-pos greater', 'bytes=9007199254740992-9007199254740993', 'unsatisfiable'],
    ['P55 14.1.1 one double, the same number', 'bytes=9007199254740993-9007199254740993', 'unsatisfiable'],
    ['P55', 'bytes=1e3-', 'whole'],
    ['P55 5.6.1.2 white space without a comma', 'bytes= 0-1', 'whole'],
    ['P55 5.6.1.2 an empty element behind', 'bytes=0-1,', bytes(0, 1)],
    ['P55', 'bytes=--1', 'whole'],
    ['5.6.1.2 an empty element before', 'bytes=,0-1', bytes(0, 1)],
    ['5.6.1.2 an empty element before, with OWS', 'bytes= \t, \t0-1', bytes(0, 1)],
    ['5.6.1.2 an empty element behind, with OWS', 'bytes=0-1 \t, \t', bytes(0, 1)],
    ['5.6.1.2 many empty elements', 'bytes=,, ,0-1,\t,,', bytes(0, 1)],
    ['5.6.1.2 only empty elements', 'bytes=,', 'whole'],
    ['5.6.1.2 white space behind without a comma', 'bytes=0-1 ', 'whole'],
    ['5.6.3 a no-break space is not OWS', 'bytes=0-1\xa0,', 'whole'],
    ['5.6.3 a no-break space is not OWS', 'bytes=,\xa00-1', 'whole'],
    ['white space in a range', 'bytes=0 -1', 'whole'],
    ['white space in a range', 'bytes=0- 1', 'whole'],
    ['white space before the unit', ' bytes=0-1', 'whole'],
    ['white space behind the unit', 'bytes =0-1', 'whole'],
    ['14.1.1 no range', 'bytes=', 'whole'],
    ['14.1.1 no number', 'bytes=-', 'whole'],
    ['14.1.1 one number', 'bytes=1', 'whole'],
    ['14.1.1 three numbers', 'bytes=1-2-3', 'whole'],
    ['14.1.1 sign', 'bytes=+1-2', 'whole'],
    ['14.1.1 minus', 'bytes=1--2', 'whole'],
    ['14.1.1 fraction', 'bytes=0.5-2', 'whole'],
    ['14.1.1 hexadecimal', 'bytes=0x1-', 'whole'],
    ['14.1.1 digits of another script', 'bytes=\u0660-\u0661', 'whole'],
    ['14.1.1 line end', 'bytes=0-1\n', 'whole'],
    ['14.1.1 equals sign twice', 'bytes==0-1', 'whole'],
    ['14.1.1 colon', 'bytes:0-1', 'whole'],
    ['14.4 the form of Content-Range', 'bytes 0-1/10', 'whole'],
    ['empty', '', 'whole'],
    ['P56 two ranges', 'bytes=0-1,5-6', 'whole'],
    ['P56 overlapping ranges', 'bytes=0-3,2-6', 'whole'],
    ['P56 two ranges, one of them satisfiable', 'bytes=0-1, 99-', 'whole'],
    ['P56 two ranges, none satisfiable', 'bytes=90-91, 99-', 'whole'],
    ['P56 two ranges, one of them bad', 'bytes=0-1, junk', 'whole'],
    ['P56 two ranges with empty elements', 'bytes=,0-1,,-1', 'whole'],
    ['P57 many ranges', 'bytes=' + '0-,'.repeat(200), 'whole'],
    ['P59', 'bytes=0-1', bytes(0, 1)],
    ['P59', 'bytes=7-', bytes(7, 9)],
    ['P65 14.1 unit in capitals', 'Bytes=0-1', bytes(0, 1)],
    ['P65 14.1 unit in capitals', 'BYTES=-1', bytes(9, 9)],
    ['P65 14.2 unknown unit', 'items=0-1', 'whole'],
    ['14.2 unit that starts alike', 'bytesx=0-1', 'whole'],
    ['14.2 unit that ends alike', 'xbytes=0-1', 'whole'],
    ['14.2 no unit', '=0-1', 'whole'],
    ['14.2 none', 'none', 'whole']
  ]
  for (const [title, field, expected] of rows) t.strictSame(evaluateRange(field, 10), expected, `${title}: ${field?.slice(0, 60)}`)
  t.end()
})

t.test('evaluateRange on other sizes', t => {
  const big = Number.MAX_SAFE_INTEGER
  const rows: Array<[title: string, field: string, size: number, expected: RangeOutcome]> = [
    ['P58 14.1.2 int-range on nothing', 'bytes=0-', 0, 'unsatisfiable'],
    ['P58 14.1.2 int-range on nothing', 'bytes=0-0', 0, 'unsatisfiable'],
    ['P58 14.1.2 suffix-range on nothing is satisfiable', 'bytes=-1', 0, 'whole'],
    ['14.1.2 suffix-range of nothing on nothing', 'bytes=-0', 0, 'unsatisfiable'],
    ['bad syntax on nothing', 'bytes=1-0', 0, 'whole'],
    ['one byte', 'bytes=0-0', 1, bytes(0, 0)],
    ['one byte, suffix', 'bytes=-1', 1, bytes(0, 0)],
    ['the greatest size, its last byte', `bytes=${big - 1}-`, big, bytes(big - 1, big - 1)],
    ['the greatest size, beyond', `bytes=${big}-`, big, 'unsatisfiable'],
    ['the greatest size, clipped', 'bytes=0-9007199254740993', big, bytes(0, big - 1)],
    ['the greatest size, suffix', `bytes=-${big - 1}`, big, bytes(1, big - 1)],
    ['the greatest size, clipped suffix', 'bytes=-9007199254740993', big, bytes(0, big - 1)]
  ]
  for (const [title, field, size, expected] of rows) t.strictSame(evaluateRange(field, size), expected, `${title}: ${field} of ${size}`)
  t.end()
})

t.test('14.4 Content-Range', t => {
  t.equal(contentRange({ start: 0, end: 1 }, 10), 'bytes 0-1/10')
  t.equal(contentRange({ start: 7, end: 9 }, 10), 'bytes 7-9/10', 'P53')
  t.equal(contentRange({ start: 0, end: 9007199254740990 }, 9007199254740991), 'bytes 0-9007199254740990/9007199254740991')
  t.equal(unsatisfiedContentRange(10), 'bytes */10', 'P54, P73')
  t.equal(unsatisfiedContentRange(0), 'bytes */0', 'P58')
  t.end()
})

const SECOND = Date.UTC(2024, 1, 29, 12, 30, 15)

t.test('13.1.5 If-Range', t => {
  const strong = { etag: '"1f-18df"', lastModified: SECOND }
  const weak = { etag: 'W/"1f-18df"', lastModified: SECOND }
  const none = { etag: undefined, lastModified: undefined }
  const rows: Array<[title: string, field: string | undefined, validators: Validators, expected: boolean]> = [
    ['no If-Range', undefined, strong, true],
    ['no If-Range, no validators', undefined, none, true],
    ['P59 the strong tag', '"1f-18df"', strong, true],
    ['another tag', '"zz"', strong, false],
    ['P60 strong comparison: the strong tag sent as weak', 'W/"1f-18df"', strong, false],
    ['P60 strong comparison: our weak tag', 'W/"1f-18df"', weak, false],
    ['P60 strong comparison: our weak tag sent as strong', '"1f-18df"', weak, false],
    ['P60 our tag within another', '"zz1f-18dfzz"', strong, false],
    ['P60 our tag within another', '"zz"1f-18df"zz"', strong, false],
    ['P60 the end of our tag', '"18df"', strong, false],
    ['P62 the tag of another coding', '"1f-18df-gzip"', strong, false],
    ['a list', '"1f-18df", "zz"', strong, false],
    ['a list of one', '"1f-18df",', strong, false],
    ['"*"', '*', strong, false],
    ['without quotes', '1f-18df', strong, false],
    ['a tag without one of ours', '"1f-18df"', none, false],
    ['P59 the date', 'Thu, 29 Feb 2024 12:30:15 GMT', weak, true],
    ['the date without a tag of ours', 'Thu, 29 Feb 2024 12:30:15 GMT', { etag: undefined, lastModified: SECOND }, true],
    ['the date in an obsolete form', 'Thursday, 29-Feb-24 12:30:15 GMT', weak, true],
    ['a date one second later', 'Thu, 29 Feb 2024 12:30:16 GMT', weak, false],
    ['a date one second earlier', 'Thu, 29 Feb 2024 12:30:14 GMT', weak, false],
    ['a date without one of ours', 'Thu, 29 Feb 2024 12:30:15 GMT', { etag: '"a"', lastModified: undefined }, false],
    ['junk', 'junk', strong, false],
    ['junk without validators', 'junk', none, false],
    ['empty', '', strong, false],
    ['empty without validators', '', none, false]
  ]
  for (const [title, field, validators, expected] of rows) t.equal(ifRangeHolds(field, validators), expected, `${title}: ${field} on ${validators.etag}`)
  t.end()
})

t.test('the time is linear in the length of the field', t => {
  const length = 400_000
  const sets = [
    ','.repeat(length),
    ' '.repeat(length) + 'x',
    ' '.repeat(length) + ',' + ' '.repeat(length) + 'x' + ' '.repeat(length),
    ' ,'.repeat(length / 2) + 'x',
    '0-0,'.repeat(length / 4),
    '1'.repeat(length) + '-' + '0'.repeat(length),
    '0'.repeat(length) + '-' + '0'.repeat(length) + '-',
    '0'.repeat(length) + 'x',
    '-'.repeat(length),
    '-' + '0'.repeat(length) + 'x'
  ]
  for (const set of sets) {
    const start = process.hrtime.bigint()
    t.equal(evaluateRange('bytes=' + set, 10), 'whole')
    // Quadratic would be minutes.
    t.ok(process.hrtime.bigint() - start < 2_000_000_000n, JSON.stringify(set.slice(0, 20)))
  }
  t.end()
})

const number = fc.oneof(
  { arbitrary: fc.integer({ min: 0, max: 14 }).map(String), weight: 6 },
  { arbitrary: fc.integer({ min: 0, max: 14 }).map((n) => '0' + n), weight: 1 },
  { arbitrary: fc.bigInt({ min: 2n ** 53n - 3n, max: 2n ** 53n + 3n }).map(String), weight: 2 },
  { arbitrary: fc.bigInt({ min: 0n, max: 10n ** 25n }).map(String), weight: 1 }
)
const spec = fc.oneof(
  fc.tuple(number, number).map(([a, b]) => `${a}-${b}`),
  number.map((n) => `${n}-`),
  number.map((n) => `-${n}`)
)
const empty = fc.constantFrom('', '', '', ',', ' ,', ', ', '\t,', ' , ,')
const set = fc.oneof(
  { arbitrary: spec, weight: 4 },
  { arbitrary: fc.tuple(empty, spec, empty).map((parts) => parts.join('')), weight: 2 },
  { arbitrary: fc.array(spec, { minLength: 2, maxLength: 4 }).map((specs) => specs.join(', ')), weight: 1 }
)
const unit = fc.constantFrom('bytes=', 'bytes=', 'bytes=', 'Bytes=', 'BYTES=', 'items=')
const field = nearly(fc.tuple(unit, set).map((parts) => parts.join('')), ' \t,-=0159x')
const size = fc.oneof(fc.integer({ min: 0, max: 12 }), fc.integer({ min: Number.MAX_SAFE_INTEGER - 3, max: Number.MAX_SAFE_INTEGER }))

t.test('evaluateRange is the reference', t => {
  holds(t, fc.property(field, size, (field, size) => {
    deepEqual(evaluateRange(field, size), referenceRange(field, size))
  }))
  t.end()
})

t.test('a range lies within the representation', t => {
  holds(t, fc.property(field, size, (field, size) => {
    const range = evaluateRange(field, size)
    if (typeof range === 'string') return
    equal(Number.isSafeInteger(range.start) && Number.isSafeInteger(range.end), true)
    equal(range.start >= 0 && range.start <= range.end && range.end < size, true)
  }))
  t.end()
})

t.test('ifRangeHolds is the reference', t => {
  const tag = fc.constantFrom('"a"', '"a"', 'W/"a"', '"b"', '""', 'W/""', '"a,b"')
  const seconds = fc.integer({ min: -1, max: 1 }).map((n) => SECOND + n * 1000)
  const value = nearly(fc.oneof(tag, seconds.map((ms) => new Date(ms).toUTCString())), '" ,W/ab15')
  const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })
  const validators = fc.record({ etag: optional(tag), lastModified: optional(seconds) })
  holds(t, fc.property(optional(value), validators, (field, validators) => {
    equal(ifRangeHolds(field, validators), referenceIfRange(field, validators, Date.now()))
  }))
  t.end()
})
