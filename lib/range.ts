import { parseHttpDate } from './http-date'
import type { Validators } from './preconditions'

/** Both ends inclusive, as in Content-Range. */
export interface ByteRange {
  readonly start: number
  readonly end: number
}

/** `whole`: the Range field is absent or ignored. */
export type RangeOutcome = ByteRange | 'whole' | 'unsatisfiable'

// RFC 9110 14.1: range unit names are case-insensitive. 14.2: an unknown unit is ignored.
const BYTES_UNIT = /^bytes=/i
const RANGE_SPEC = /^(?<first>\d*)-(?<last>\d*)$/

export function evaluateRange (field: string | undefined, size: number): RangeOutcome {
  if (field === undefined || !BYTES_UNIT.test(field)) return 'whole'
  const spec = RANGE_SPEC.exec(onlyRangeSpec(field.slice('bytes='.length)))
  if (spec === null) return 'whole'
  const { first, last } = spec.groups as { first: string, last: string }

  if (first === '') {
    if (last === '') return 'whole'
    const length = Number(last)
    // 14.1.2: a suffix-range is satisfiable when its length is not zero ...
    if (length === 0) return 'unsatisfiable'
    // ... on an empty representation too, but no Content-Range can say "no bytes".
    if (size === 0) return 'whole'
    return { start: Math.max(size - length, 0), end: size - 1 }
  }

  // 14.1.1: an int-range whose last-pos is less than its first-pos is invalid.
  if (last !== '' && isLess(last, first)) return 'whole'
  // A number too long for a double is rounded, but never across `size`, which is a safe integer.
  const start = Number(first)
  if (start >= size) return 'unsatisfiable'
  // 14.1.2: a last-pos beyond the end means the end.
  return { start, end: last === '' ? size - 1 : Math.min(Number(last), size - 1) }
}

/**
 * The one range-spec of a range-set, with anything that may be wrong in it.
 * Empty when there is none, or when there are several: 14.2 lets a server ignore those.
 *
 * 5.6.1.2 has recipients ignore empty list elements, so `0-1,` is one range. It allows white space
 * around commas and nowhere else, so `bytes= 0-1` is an error and `bytes= ,0-1` is not.
 */
function onlyRangeSpec (set: string): string {
  let spec = ''
  let next = 0
  while (next < set.length) {
    let start = next
    const comma = set.indexOf(',', start)
    let end = comma === -1 ? set.length : comma
    next = end + 1
    if (start > 0) while (start < end && isOws(set, start)) start++
    if (comma !== -1) while (start < end && isOws(set, end - 1)) end--
    if (start === end) continue
    if (spec !== '') return ''
    spec = set.slice(start, end)
  }
  return spec
}

function isOws (text: string, at: number): boolean {
  return text[at] === ' ' || text[at] === '\t'
}

// As text: different numbers of 17 digits and more may be one double.
function isLess (left: string, right: string): boolean {
  const a = left.replace(/^0+/, '')
  const b = right.replace(/^0+/, '')
  return a.length < b.length || (a.length === b.length && a < b)
}

/** RFC 9110 13.1.5. False: the Range field must be ignored. */
export function ifRangeHolds (field: string | undefined, validators: Validators): boolean {
  if (field === undefined) return true
  // Strong comparison: a weak tag does not begin with a quote, on either side. One tag, not a list.
  if (field.startsWith('"')) return field === validators.etag
  // 13.1.5 wants a date only as a strong validator (8.8.2.2), and two changes within one second
  // would belie ours. We take it, as nginx and @fastify/static do: players resume by it.
  const date = parseHttpDate(field)
  return date !== undefined && date === validators.lastModified
}

export function contentRange (range: ByteRange, size: number): string {
  return `bytes ${range.start}-${range.end}/${size}`
}

/** For 416 (RFC 9110 15.5.17). */
export function unsatisfiedContentRange (size: number): string {
  return `bytes */${size}`
}
