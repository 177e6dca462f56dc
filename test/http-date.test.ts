import { equal } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { formatHttpDate, parseHttpDate } from '../lib/http-date'
import { holds, nearly, referenceHttpDate } from './fixtures/rfc-reference'

const NOV_1994 = Date.UTC(1994, 10, 6, 8, 49, 37)
const NOW = Date.UTC(2026, 5, 15, 12, 0, 0)

t.test('parseHttpDate', t => {
  const rows: Array<[title: string, text: string, expected: number | undefined]> = [
    ['5.6.7 IMF-fixdate', 'Sun, 06 Nov 1994 08:49:37 GMT', NOV_1994],
    ['5.6.7 rfc850-date', 'Sunday, 06-Nov-94 08:49:37 GMT', NOV_1994],
    ['5.6.7 asctime-date', 'Sun Nov  6 08:49:37 1994', NOV_1994],
    ['5.6.7 asctime-date, two digits of day', 'Wed Nov 16 08:49:37 1994', Date.UTC(1994, 10, 16, 8, 49, 37)],
    ['5.6.7 asctime-date, zero before the day (2DIGIT)', 'Sun Nov 06 08:49:37 1994', NOV_1994],
    ['the epoch', 'Thu, 01 Jan 1970 00:00:00 GMT', 0],
    ['before the epoch', 'Wed, 31 Dec 1969 23:59:59 GMT', -1000],
    ['the first year of four digits is not 1900', 'Sat, 01 Jan 0000 00:00:00 GMT', new Date('0000-01-01T00:00:00Z').getTime()],
    ['the last year of four digits', 'Fri, 31 Dec 9999 23:59:59 GMT', Date.UTC(9999, 11, 31, 23, 59, 59)],
    ['29 February of a leap year', 'Thu, 29 Feb 2024 00:00:00 GMT', Date.UTC(2024, 1, 29)],
    ['5.6.7 a wrong day-name is let through', 'Mon, 06 Nov 1994 08:49:37 GMT', NOV_1994],
    ['5.6.7 leap second', 'Sat, 31 Dec 2016 23:59:60 GMT', Date.UTC(2017, 0, 1)],
    ['5.6.7 leap second at another time', 'Sat, 31 Dec 2016 23:58:60 GMT', undefined],
    ['5.6.7 leap second at another hour', 'Sat, 31 Dec 2016 22:59:60 GMT', undefined],
    ['second 61', 'Sat, 31 Dec 2016 23:59:61 GMT', undefined],
    ['minute 60', 'Sun, 06 Nov 1994 08:60:37 GMT', undefined],
    ['hour 24', 'Sun, 06 Nov 1994 24:00:00 GMT', undefined],
    ['hour 23', 'Sun, 06 Nov 1994 23:00:00 GMT', Date.UTC(1994, 10, 6, 23)],
    ['day 0', 'Sun, 00 Nov 1994 08:49:37 GMT', undefined],
    ['day 31 in November', 'Thu, 31 Nov 1994 08:49:37 GMT', undefined],
    ['29 February of a common year', 'Wed, 29 Feb 2023 00:00:00 GMT', undefined],
    ['day 32', 'Thu, 32 Dec 1994 08:49:37 GMT', undefined],
    ['5.6.7 case-sensitive: month', 'Sun, 06 NOV 1994 08:49:37 GMT', undefined],
    ['5.6.7 case-sensitive: day', 'sun, 06 Nov 1994 08:49:37 GMT', undefined],
    ['5.6.7 case-sensitive: GMT', 'Sun, 06 Nov 1994 08:49:37 gmt', undefined],
    ['5.6.7 no other zone', 'Sun, 06 Nov 1994 08:49:37 UTC', undefined],
    ['no zone', 'Sun, 06 Nov 1994 08:49:37', undefined],
    ['5.6.7 no additional white space', 'Sun,  06 Nov 1994 08:49:37 GMT', undefined],
    ['space at the end', 'Sun, 06 Nov 1994 08:49:37 GMT ', undefined],
    ['space at the start', ' Sun, 06 Nov 1994 08:49:37 GMT', undefined],
    ['line end', 'Sun, 06 Nov 1994 08:49:37 GMT\n', undefined],
    ['one digit of day', 'Sun, 6 Nov 1994 08:49:37 GMT', undefined],
    ['IMF-fixdate with a space for a digit of the day', 'Sun,  6 Nov 1994 08:49:37 GMT', undefined],
    ['IMF-fixdate with two digits of year', 'Sun, 06 Nov 94 08:49:37 GMT', undefined],
    ['rfc850-date with four digits of year', 'Sunday, 06-Nov-1994 08:49:37 GMT', undefined],
    ['rfc850-date with a short day-name', 'Sun, 06-Nov-94 08:49:37 GMT', undefined],
    ['asctime-date with a zone', 'Sun Nov  6 08:49:37 1994 GMT', undefined],
    ['asctime-date with one space', 'Sun Nov 6 08:49:37 1994', undefined],
    ['13.1.3 two dates', 'Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT', undefined],
    ['P69 junk', 'junk', undefined],
    ['ISO 8601', '1994-11-06T08:49:37Z', undefined],
    ['a number', '784111777', undefined],
    ['empty', '', undefined]
  ]
  for (const [title, text, expected] of rows) t.equal(parseHttpDate(text, NOW), expected, `${title}: ${JSON.stringify(text)}`)
  t.end()
})

t.test('5.6.7 every name', t => {
  for (const [index, name] of 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ').entries()) {
    t.equal(parseHttpDate(`Sun, 09 ${name} 1994 00:00:00 GMT`), Date.UTC(1994, index, 9), name)
  }
  for (const name of 'Monday Tuesday Wednesday Thursday Friday Saturday Sunday'.split(' ')) {
    t.equal(parseHttpDate(`${name}, 06-Nov-94 08:49:37 GMT`, NOW), NOV_1994, name)
    t.equal(parseHttpDate(`${name.slice(0, 3)}, 06 Nov 1994 08:49:37 GMT`), NOV_1994, name.slice(0, 3))
    t.equal(parseHttpDate(`${name.slice(0, 3)} Nov  6 08:49:37 1994`), NOV_1994, name.slice(0, 3))
  }
  t.end()
})

t.test('5.6.7 two digits of year: more than 50 years ahead is the past', t => {
  const rows: Array<[title: string, now: number, text: string, expected: number | undefined]> = [
    ['this year', NOW, 'Monday, 15-Jun-26 12:00:00 GMT', NOW],
    ['50 years ahead to the second', NOW, 'Monday, 15-Jun-76 12:00:00 GMT', Date.UTC(2076, 5, 15, 12)],
    ['a second more', NOW, 'Monday, 15-Jun-76 12:00:01 GMT', Date.UTC(1976, 5, 15, 12, 0, 1)],
    ['51 years ahead', NOW, 'Monday, 01-Jan-77 00:00:00 GMT', Date.UTC(1977, 0, 1)],
    ['the turn of the century, from before', Date.UTC(1995, 0, 1), 'Monday, 01-Jan-01 00:00:00 GMT', Date.UTC(2001, 0, 1)],
    ['the turn of the century, from behind', Date.UTC(2002, 0, 1), 'Monday, 01-Jan-99 00:00:00 GMT', Date.UTC(1999, 0, 1)],
    ['29 February 2000', NOW, 'Tuesday, 29-Feb-00 00:00:00 GMT', Date.UTC(2000, 1, 29)],
    ['no 29 February in 1999', NOW, 'Tuesday, 29-Feb-99 00:00:00 GMT', undefined]
  ]
  for (const [title, now, text, expected] of rows) t.equal(parseHttpDate(text, now), expected, title)
  t.end()
})

t.test('without a second argument the clock is the system\'s', t => {
  const year = new Date().getUTCFullYear()
  const digits = (n: number) => String(n % 100).padStart(2, '0')
  t.equal(parseHttpDate(`Monday, 01-Jan-${digits(year + 49)} 00:00:00 GMT`), Date.UTC(year + 49, 0, 1))
  t.equal(parseHttpDate(`Monday, 01-Jan-${digits(year + 52)} 00:00:00 GMT`), Date.UTC(year - 48, 0, 1))
  t.end()
})

t.test('formatHttpDate', t => {
  const rows: Array<[title: string, ms: number, expected: string]> = [
    ['5.6.7 IMF-fixdate', NOV_1994, 'Sun, 06 Nov 1994 08:49:37 GMT'],
    ['P69 .9 s is truncated, not rounded', NOV_1994 + 999, 'Sun, 06 Nov 1994 08:49:37 GMT'],
    ['a fraction of a millisecond', NOV_1994 + 999.999, 'Sun, 06 Nov 1994 08:49:37 GMT'],
    ['the epoch', 0, 'Thu, 01 Jan 1970 00:00:00 GMT'],
    ['a fraction before the epoch', -0.5, 'Wed, 31 Dec 1969 23:59:59 GMT'],
    ['a year of three digits', new Date('0099-01-01T00:00:00Z').getTime(), 'Thu, 01 Jan 0099 00:00:00 GMT']
  ]
  for (const [title, ms, expected] of rows) t.equal(formatHttpDate(ms), expected, title)
  t.end()
})

const pad = (width: number) => (n: number) => String(n).padStart(width, '0')
const now = fc.integer({ min: 0, max: Date.UTC(2200, 0, 1) })

const shortDay = fc.constantFrom('Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun')
const longDay = fc.constantFrom('Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday')
const month = fc.constantFrom('Jan', 'Feb', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec')
const day = fc.oneof(fc.integer({ min: 1, max: 28 }), fc.integer({ min: 0, max: 32 }))
const year = fc.oneof(fc.integer({ min: 1900, max: 2100 }), fc.integer({ min: 0, max: 9999 }))
const twoDigits = fc.integer({ min: 0, max: 99 }).map(pad(2))
const time = fc.oneof(
  { arbitrary: fc.integer({ min: 0, max: 86_399_000 }).map((ms) => new Date(ms).toISOString().slice(11, 19)), weight: 4 },
  { arbitrary: fc.tuple(...[25, 61, 62].map((max) => fc.integer({ min: 0, max }).map(pad(2)))).map((parts) => parts.join(':')), weight: 1 },
  { arbitrary: fc.constantFrom('23:59:60', '23:59:59', '00:00:00', '24:00:00'), weight: 1 }
)

const dates = fc.oneof(
  fc.tuple(shortDay, day.map(pad(2)), month, year.map(pad(4)), time).map(([n, d, m, y, at]) => `${n}, ${d} ${m} ${y} ${at} GMT`),
  fc.tuple(longDay, day.map(pad(2)), month, twoDigits, time).map(([n, d, m, y, at]) => `${n}, ${d}-${m}-${y} ${at} GMT`),
  fc.tuple(shortDay, month, day.map((n) => String(n).padStart(2)), time, year.map(pad(4))).map(([n, m, d, at, y]) => `${n} ${m} ${d} ${at} ${y}`)
)

t.test('parseHttpDate is the reference', t => {
  holds(t, fc.property(nearly(dates, ' 0159:,-GMTS'), now, (text, now) => {
    equal(parseHttpDate(text, now), referenceHttpDate(text, now))
  }))
  t.end()
})

t.test('5.6.7 two digits of year near the limit are the reference', t => {
  const nearLimit = fc.tuple(now, fc.integer({ min: -3, max: 3 })).map(([now, days]) => {
    const at = new Date(now)
    at.setUTCFullYear(at.getUTCFullYear() + 50)
    const [, d, m, y, clock] = new Date(at.getTime() + days * 86_400_000).toUTCString().split(' ')
    return [now, `Sunday, ${d}-${m}-${String(y).slice(2)} ${clock} GMT`] as const
  })
  holds(t, fc.property(nearLimit, ([now, text]) => {
    equal(parseHttpDate(text, now), referenceHttpDate(text, now))
  }))
  t.end()
})

t.test('what formatHttpDate writes, parseHttpDate reads, to the second', t => {
  const years0To9999 = fc.integer({ min: new Date('0000-01-01T00:00:00Z').getTime(), max: Date.UTC(9999, 11, 31, 23, 59, 59, 999) })
  holds(t, fc.property(years0To9999, (ms) => {
    equal(parseHttpDate(formatHttpDate(ms)), Math.floor(ms / 1000) * 1000)
  }))
  t.end()
})
