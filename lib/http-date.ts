interface DateFields {
  readonly day: string
  readonly month: string
  readonly year: string
  readonly hour: string
  readonly minute: string
  readonly second: string
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

const MONTH = `(?<month>${MONTHS.join('|')})`
// RFC 9110 5.6.7: 00:00:00 to 23:59:60, so a leap second has one place only.
const TIME = '(?<hour>[01]\\d|2[0-3]):(?<minute>[0-5]\\d):(?<second>[0-5]\\d|(?<=23:59:)60)'
// Only the name is checked, not that it is the day of that date: 5.6.7 asks recipients to be robust,
// and a client that computes a weekday wrongly still means the date.
const DAY_NAME = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)'
const DAY_NAME_L = '(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day'

const IMF_FIXDATE = new RegExp(`^${DAY_NAME}, (?<day>\\d\\d) ${MONTH} (?<year>\\d{4}) ${TIME} GMT$`)
const RFC850_DATE = new RegExp(`^${DAY_NAME_L}, (?<day>\\d\\d)-${MONTH}-(?<year>\\d\\d) ${TIME} GMT$`)
const ASCTIME_DATE = new RegExp(`^${DAY_NAME} ${MONTH} (?<day>[ \\d]\\d) ${TIME} (?<year>\\d{4})$`)

/** Milliseconds since the epoch; undefined when `text` is none of the three forms of RFC 9110 5.6.7. */
export function parseHttpDate (text: string, now = Date.now()): number | undefined {
  const match = IMF_FIXDATE.exec(text) ?? RFC850_DATE.exec(text) ?? ASCTIME_DATE.exec(text)
  if (match === null) return undefined
  const { day, month, year, hour, minute, second } = match.groups as unknown as DateFields

  // setUTCFullYear, because Date.UTC takes the years 0 to 99 for 1900 to 1999.
  const date = new Date(0)
  const timeIn = (fullYear: number) => {
    date.setUTCFullYear(fullYear, MONTHS.indexOf(month), Number(day))
    return date.getTime() + ((Number(hour) * 60 + Number(minute)) * 60 + Number(second)) * 1000
  }

  let time: number
  if (year.length === 4) {
    time = timeIn(Number(year))
  } else {
    // 5.6.7: what appears to be more than 50 years ahead is the most recent past year with these digits.
    const horizon = new Date(now)
    horizon.setUTCFullYear(horizon.getUTCFullYear() + 50)
    const latest = horizon.getUTCFullYear()
    const fullYear = latest - (latest - Number(year)) % 100
    time = timeIn(fullYear)
    if (time > horizon.getTime()) time = timeIn(fullYear - 100)
  }
  // A day that the month does not have has moved the date.
  return date.getUTCDate() === Number(day) ? time : undefined
}

/** IMF-fixdate of the second that `ms` falls in. */
export function formatHttpDate (ms: number): string {
  // ECMA-262 defines toUTCString as IMF-fixdate, but Date drops the fraction of a
  // millisecond towards zero, which before 1970 is the next second.
  return new Date(Math.floor(ms / 1000) * 1000).toUTCString()
}
