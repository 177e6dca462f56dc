import { parseHttpDate } from './http-date'

export interface Validators {
  readonly etag: string | undefined
  /** Milliseconds since the epoch, truncated to the second. */
  readonly lastModified: number | undefined
}

export type Verdict = 'proceed' | 'not-modified' | 'precondition-failed'

export interface ConditionalFields {
  readonly 'if-match'?: string | undefined
  readonly 'if-none-match'?: string | undefined
  readonly 'if-modified-since'?: string | undefined
  readonly 'if-unmodified-since'?: string | undefined
}

/**
 * RFC 9110 13.2.2, in its order, for a representation that exists.
 * A request's Cache-Control has no part in it: `no-cache` does not switch 304 off.
 */
export function evaluatePreconditions (method: string, fields: ConditionalFields, validators: Validators): Verdict {
  // Step 1.
  const ifMatch = fields['if-match']
  if (ifMatch !== undefined) {
    // 13.1.1: strong comparison.
    if (!matches(ifMatch, validators.etag, true)) return 'precondition-failed'
  // Step 2. 13.1.4: only without If-Match.
  } else if (modifiedSince(fields['if-unmodified-since'], validators.lastModified) === true) {
    return 'precondition-failed'
  }

  // Step 3.
  const ifNoneMatch = fields['if-none-match']
  if (ifNoneMatch !== undefined) {
    // 13.1.2: weak comparison.
    if (!matches(ifNoneMatch, validators.etag, false)) return 'proceed'
    return isGetOrHead(method) ? 'not-modified' : 'precondition-failed'
  }

  // Step 4. 13.1.3: only without If-None-Match, only for GET and HEAD.
  if (modifiedSince(fields['if-modified-since'], validators.lastModified) === false && isGetOrHead(method)) {
    return 'not-modified'
  }
  return 'proceed'
}

function isGetOrHead (method: string): boolean {
  return method === 'GET' || method === 'HEAD'
}

/** undefined: the condition must be ignored, for want of a valid date or of a date to compare it with (13.1.3, 13.1.4). */
function modifiedSince (field: string | undefined, lastModified: number | undefined): boolean | undefined {
  if (field === undefined || lastModified === undefined) return undefined
  const date = parseHttpDate(field)
  return date === undefined ? undefined : lastModified > date
}

const ANY = /^[\t ]*\*[\t ]*$/

/** Whether `"*" / #entity-tag` matches `etag`. A list with an error anywhere matches nothing, not even before the error. */
function matches (field: string, etag: string | undefined, strong: boolean): boolean {
  if (ANY.test(field)) return true
  if (etag === undefined) return false
  const weakOwn = etag.startsWith('W/')
  if (strong && weakOwn) return false
  const opaque = weakOwn ? etag.slice(2) : etag

  let found = false
  let needsComma = false
  let at = 0
  while (at < field.length) {
    const char = field[at]
    if (char === ' ' || char === '\t') {
      at++
    } else if (char === ',') {
      // 5.6.1.2: empty list elements are ignored.
      needsComma = false
      at++
    } else {
      const weak = field.startsWith('W/', at)
      const start = weak ? at + 2 : at
      const end = endOfOpaqueTag(field, start)
      if (needsComma || end === -1) return false
      // 8.8.3.2: tags of equal text match; strongly only when neither is weak.
      if (!(strong && weak) && end - start === opaque.length && field.startsWith(opaque, start)) found = true
      needsComma = true
      at = end
    }
  }
  return found
}

/** The position after the opaque-tag (8.8.3) that starts at `start`, or -1. */
function endOfOpaqueTag (field: string, start: number): number {
  if (field[start] !== '"') return -1
  for (let at = start + 1; at < field.length; at++) {
    const code = field.charCodeAt(at)
    if (code === 0x22) return at + 1
    // etagc, which unlike a quoted-string has neither a space nor an escape.
    if (code < 0x21 || code === 0x7f || code > 0xff) return -1
  }
  return -1
}
