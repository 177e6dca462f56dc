import { deepEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { acceptableCodings, CODING_SUFFIX, CodingNegotiator, type Coding } from '../lib/content-coding'
import { holds, nearly, referenceCodings } from './fixtures/rfc-reference'

const OFFERED: readonly Coding[] = ['br', 'zstd', 'gzip']
const ALL: readonly Coding[] = ['br', 'zstd', 'gzip', 'deflate']

t.test('P75 the suffix is not the token', t => {
  t.strictSame(CODING_SUFFIX, { br: '.br', zstd: '.zst', gzip: '.gz', deflate: '.deflate' })
  t.end()
})

t.test('acceptableCodings', t => {
  const rows: Array<[title: string, field: string | undefined, expected: Coding[], offered?: readonly Coding[]]> = [
    ['P74 12.5.3 no field: identity', undefined, []],
    ['P77 12.5.3 empty field: no coding', '', []],
    ['P74 one coding', 'zstd', ['zstd']],
    ['P74 one coding', 'gzip', ['gzip']],
    ['12.5.3 ties go to the order of the server', 'gzip, deflate, br, zstd', ['br', 'zstd', 'gzip']],
    ['12.5.3 ties go to the order of the server', 'gzip, br', ['gzip', 'br'], ['gzip', 'br']],
    ['12.5.3 ties below 1 too', 'gzip;q=0.5, br;q=0.50, zstd;q=0.500', ['br', 'zstd', 'gzip']],
    ['12.5.3 only what is offered', 'compress, gzip, exi', ['gzip']],
    ['12.5.3 nothing is offered', 'gzip', [], []],
    ['P75 a suffix is no token', 'gz, brotli, zst', []],
    ['P76 both in the order of quality', 'deflate, gzip;q=0.9', ['deflate', 'gzip'], ALL],
    ['P76', 'br, gzip', ['br', 'gzip']],
    ['P77 12.4.2 q=0 refuses', 'gzip;q=0', []],
    ['P77 12.4.2 q=0 refuses one', 'br;q=0, gzip', ['gzip']],
    ['12.4.2 q=0.0', 'gzip;q=0.0, br;q=0.00, zstd;q=0.000', []],
    ['12.4.2 q=0.', 'gzip;q=0.', []],
    ['P77 "*" refused', '*;q=0', []],
    ['P77 identity refused alone', 'identity;q=0', []],
    ['P77 12.5.3 the order of quality', 'gzip;q=1, br;q=0.5', ['gzip', 'br']],
    ['12.5.3 the order of quality', 'br;q=0.1, zstd;q=0.3, gzip;q=0.2', ['zstd', 'gzip', 'br']],
    ['12.4.2 the least quality', 'gzip;q=0.001', ['gzip']],
    ['12.4.2 three digits', 'br;q=0.998, gzip;q=0.999', ['gzip', 'br']],
    ['12.4.2 no weight is 1', 'br;q=0.999, gzip', ['gzip', 'br']],
    ['12.4.2 q=1.000', 'zstd;q=0.999, gzip;q=1.000, br;q=1.', ['br', 'gzip', 'zstd']],
    ['P77 8.4.1 case-insensitive', 'GZIP', ['gzip']],
    ['8.4.1 case-insensitive', 'Br, ZStd', ['br', 'zstd']],
    ['5.6.6 case-insensitive q', 'br;Q=0, gzip;Q=0.5', ['gzip']],
    ['P77 "*" is any', '*', ['br', 'zstd', 'gzip']],
    ['12.5.3 "*" is any that is not named', '*, br;q=0', ['zstd', 'gzip']],
    ['12.5.3 "*" is any that is not named', 'br;q=0, *', ['zstd', 'gzip']],
    ['12.5.3 "*" refuses those that are not named', 'gzip, *;q=0', ['gzip']],
    ['12.5.3 "*" has a quality', 'gzip;q=0.5, *;q=0.8', ['br', 'zstd', 'gzip']],
    ['12.5.3 "*" has a quality', 'gzip, *;q=0.1', ['gzip', 'br', 'zstd']],
    ['8.4.1.3 x-gzip is gzip', 'x-gzip', ['gzip']],
    ['8.4.1.3 x-gzip is gzip', 'X-GZIP;q=0.5, br;q=0.4', ['gzip', 'br']],
    ['P77 8.4.1.3 x-gzip refused', 'x-gzip;q=0, *', ['br', 'zstd']],
    ['12.5.3 identity preferred', 'identity, gzip;q=0.5', []],
    ['12.5.3 identity preferred to one', 'br;q=0.4, identity;q=0.5, gzip;q=0.6', ['gzip']],
    ['12.5.3 identity at the same quality is last', 'identity;q=0.5, gzip;q=0.5', ['gzip']],
    ['12.5.3 identity last', 'gzip;q=1.0, identity; q=0.5, *;q=0', ['gzip']],
    ['12.5.3 identity refused', 'identity;q=0, gzip;q=0.1', ['gzip']],
    ['12.5.3 "*" does not lift identity', 'gzip;q=0.5, *', ['br', 'zstd', 'gzip']],
    ['12.5.3 "*" does not lift identity', 'gzip;q=0.5, *', ['gzip'], ['gzip']],
    ['12.5.3 identity is case-insensitive', 'IDENTITY, gzip;q=0.5', []],
    ['12.5.3 "*" below identity', 'identity;q=0.5, *;q=0.4', []],
    ['a coding named twice: the lower quality', 'gzip;q=0, gzip, br', ['br']],
    ['a coding named twice: the lower quality', 'gzip, gzip;q=0, br', ['br']],
    ['a coding named twice: by its alias', 'gzip, x-gzip;q=0.5, br;q=0.6', ['br', 'gzip']],
    ['5.6.3 white space', ' gzip \t;\t q=0.5 \t,\tbr ', ['br', 'gzip']],
    ['5.6.3 no white space', 'gzip;q=0.5,br', ['br', 'gzip']],
    ['5.6.1.2 empty elements', ', ,gzip,,', ['gzip']],
    ['only white space and commas', ' , \t', []],
    ['a no-break space is not OWS', '\xa0gzip, br\xa0', []]
  ]
  for (const [title, field, expected, offered = OFFERED] of rows) {
    t.strictSame(acceptableCodings(field, offered), expected, `${title}: ${JSON.stringify(field)}`)
  }
  t.end()
})

t.test('a member with an error is ignored, the others are not', t => {
  const members = [
    'gzip;q=2', 'gzip;q=1.1', 'gzip;q=1.001', 'gzip;q=1.0000', 'gzip;q=0.1234', 'gzip;q=-1', 'gzip;q=.5', 'gzip;q=', 'gzip;q',
    'gzip;q=abc', 'gzip;q=0x1', 'gzip;q=1e0', 'gzip;q=00.5', 'gzip;q=NaN', 'gzip;q="1"', 'gzip;q=0,5', 'gzip;q=0.5;q=0.5',
    'gzip;q=0.5;level=1', 'gzip;level=1', 'gzip;', 'gzip;;q=1', 'gzip; q =1', 'gzip;q= 1', 'gzip q=1', 'gzip br', 'g zip', 'gzip/br',
    '"gzip"', 'gzip=1', ';q=1', 'q=1;', 'gzip@', 'gzip\n', 'gz\u0130p', '\u212Aip', '(gzip)'
  ]
  for (const member of members) {
    // `gzip;q=0,5` is two members, and the first of them is right: a refusal.
    t.strictSame(acceptableCodings(`${member}, br;q=0.3`, OFFERED), ['br'], JSON.stringify(member))
    t.strictSame(acceptableCodings(`br;q=0.3, ${member}`, OFFERED), ['br'], JSON.stringify(member))
  }
  t.strictSame(acceptableCodings('gzip;q=junk, *;q=0.5', OFFERED), ['br', 'zstd', 'gzip'], 'an ignored member names nothing')
  t.end()
})

t.test('the order of the server is not changed', t => {
  const offered = Object.freeze([...ALL])
  t.strictSame(acceptableCodings('deflate, br;q=0.5', offered), ['deflate', 'br'])
  t.strictSame(offered, ALL)
  t.end()
})

t.test('names of Object.prototype are codings like any other', t => {
  t.strictSame(acceptableCodings('__proto__, constructor;q=0.5, toString, gzip', OFFERED), ['gzip'])
  t.end()
})

t.test('the time is linear in the length of the field', t => {
  const length = 400_000
  const fields = [
    ','.repeat(length),
    ' '.repeat(length),
    'x' + ' '.repeat(length) + 'x',
    ' '.repeat(length) + ';' + ' '.repeat(length) + 'q=1x',
    'x'.repeat(length) + ' x',
    'x;q=1' + ' '.repeat(length) + 'x',
    ' ;'.repeat(length / 2),
    'x;q=0.5,'.repeat(length / 8),
    Array.from({ length: length / 8 }, (_, n) => `x${n};q=1`).join(',')
  ]
  for (const field of fields) {
    const start = process.hrtime.bigint()
    t.strictSame(acceptableCodings(field, OFFERED), [])
    // Quadratic would be minutes.
    t.ok(process.hrtime.bigint() - start < 2_000_000_000n, JSON.stringify(field.slice(0, 20)))
  }
  t.end()
})

const token = fc.constantFrom('br', 'gzip', 'zstd', 'deflate', 'x-gzip', 'identity', '*', 'GZIP', 'Br', 'compress', 'gz', 'bro')
const weight = fc.oneof(
  fc.constantFrom('', '', ';q=0', ';q=1', ';q=0.5', ' ; Q=0.5', ';q=1.000', ';q=0.', ';q=1.001', ';q=2', ';q=x', ';a=b'),
  fc.integer({ min: 0, max: 999 }).map((n) => `; q=0.${n}`)
)
const member = fc.tuple(token, weight).map((parts) => parts.join(''))
const list = fc.array(member, { maxLength: 6 }).map((members) => members.join(', '))

t.test('acceptableCodings is the reference', t => {
  const field = fc.option(nearly(list, ' \t,;=q.01*-x'), { nil: undefined })
  holds(t, fc.property(field, fc.shuffledSubarray([...ALL]), (field, offered) => {
    deepEqual(acceptableCodings(field, offered), referenceCodings(field, offered))
  }))
  t.end()
})

t.test('a negotiator', t => {
  t.test('says the same, the first time and again', t => {
    const field = fc.option(nearly(list, ' \t,;=q.01*-x'), { nil: undefined })
    const fields = fc.array(field, { minLength: 1, maxLength: 5 })
    holds(t, fc.property(fields, fc.shuffledSubarray([...ALL]), (fields, offered) => {
      const negotiator = new CodingNegotiator(offered)
      for (const field of [...fields, ...fields]) {
        deepEqual(negotiator.acceptable(field), acceptableCodings(field, offered))
      }
    }))
    t.end()
  })

  /** Whether an answer is remembered: the same object then, as no two answers are otherwise. */
  const isRemembered = (negotiator: CodingNegotiator, field: string): boolean => {
    const first = negotiator.acceptable(field)
    return negotiator.acceptable(field) === first
  }

  t.test('remembers what a text means, and nobody can change it', t => {
    const negotiator = new CodingNegotiator(OFFERED)
    t.ok(isRemembered(negotiator, 'gzip, br'))
    t.ok(isRemembered(negotiator, 'identity'), 'also when it means nothing')
    t.not(negotiator.acceptable('gzip, br'), negotiator.acceptable('gzip,br'))
    t.throws(() => { (negotiator.acceptable('gzip, br') as Coding[]).push('deflate') }, TypeError)
    t.strictSame(negotiator.acceptable('gzip, br'), ['br', 'gzip'])
    t.end()
  })

  t.test('each for the codings that it offers', t => {
    const one = new CodingNegotiator(['gzip'])
    const other = new CodingNegotiator(['br'])
    for (let i = 0; i < 2; i++) {
      t.strictSame(one.acceptable('gzip, br'), ['gzip'])
      t.strictSame(other.acceptable('gzip, br'), ['br'])
    }
    t.strictSame(new CodingNegotiator([]).acceptable('gzip'), [])
    t.strictSame(one.acceptable(undefined), [])
    t.end()
  })

  t.test('forgets the oldest of 100 texts', t => {
    const negotiator = new CodingNegotiator(OFFERED)
    const answers = Array.from({ length: 100 }, (_, i) => negotiator.acceptable(`br;q=0.${i + 100}`))
    answers.forEach((answer, i) => t.equal(negotiator.acceptable(`br;q=0.${i + 100}`), answer))
    negotiator.acceptable('gzip')
    for (let i = 1; i < 100; i++) t.equal(negotiator.acceptable(`br;q=0.${i + 100}`), answers[i])
    t.not(negotiator.acceptable('br;q=0.100'), answers[0])
    t.end()
  })

  t.test('remembers no long text', t => {
    const negotiator = new CodingNegotiator(OFFERED)
    t.ok(isRemembered(negotiator, 'gzip' + ' '.repeat(252)))
    const first = negotiator.acceptable('br')
    for (let i = 0; i < 200; i++) {
      const long = 'gzip' + ' '.repeat(253 + i)
      t.notOk(isRemembered(negotiator, long))
      t.strictSame(negotiator.acceptable(long), ['gzip'])
    }
    t.equal(negotiator.acceptable('br'), first, 'nor does one push a short one out')
    t.end()
  })
  t.end()
})
