import { EXHAUSTED, FORBIDDEN_PATH, MALFORMED_PATH, PRECONDITION_FAILED, RANGE_NOT_SATISFIABLE, READ_FAILED } from './errors'
import { evaluatePreconditions } from './preconditions'
import { contentRange, evaluateRange, ifRangeHolds, unsatisfiedContentRange } from './range'
import type { ConditionalFields } from './preconditions'
import type { ByteRange } from './range'
import type { Fields, Representation } from './representation'

/** What will be sent: a value, not an action. */
export type ResponsePlan = FilePlan | Refusal

export interface FilePlan {
  readonly kind: 'file'
  /** `undefined`: the one that the reply has. */
  readonly status: 206 | 304 | undefined
  readonly fields: Fields
  /** The bytes of the file to send; without for HEAD and 304. */
  readonly body: ByteRange | undefined
}

export interface Refusal {
  readonly kind: 'refusal'
  /** `undefined`: not found, for the not-found handler. */
  readonly error: Error | undefined
  readonly fields: Fields
}

export interface RequestFacts {
  readonly method: string
  readonly headers: ConditionalFields & { readonly range?: string | undefined, readonly 'if-range'?: string | undefined }
  /** Whether the status is ours to choose. */
  readonly hasOwnStatus: boolean
}

const NO_FIELDS: Fields = Object.freeze({})
const NOT_FOUND: Refusal = Object.freeze({ kind: 'refusal', error: undefined, fields: NO_FIELDS })

export interface RangeSettings {
  readonly acceptRanges: boolean
  readonly maxContentRangeChunkSize: number | undefined
}

/** RFC 9110 13.2.2: preconditions, then Range. */
export function respond (
  representation: Representation, request: RequestFacts, { acceptRanges, maxContentRangeChunkSize }: RangeSettings
): ResponsePlan {
  const { fields, content } = representation
  const { method, headers } = request
  const isHead = method === 'HEAD'
  const whole = isHead ? undefined : content

  // A 404 page, or the answer to a POST, is not the target resource: 13.2.1, 14.2.
  if (request.hasOwnStatus || (method !== 'GET' && !isHead)) return plan(undefined, fields, whole)

  const verdict = evaluatePreconditions(method, headers, representation)
  if (verdict === 'not-modified') return plan(304, representation.notModifiedFields, undefined)
  if (verdict === 'precondition-failed') return refusal(new PRECONDITION_FAILED())

  // 14.2: Range is defined for GET only.
  if (isHead || !acceptRanges || headers.range === undefined) return plan(undefined, fields, whole)
  if (!ifRangeHolds(headers['if-range'], representation)) return plan(undefined, fields, whole)
  const size = content.end - content.start + 1
  const outcome = evaluateRange(headers.range, size)
  if (outcome === 'whole') return plan(undefined, fields, whole)
  if (outcome === 'unsatisfiable') {
    return refusal(new RANGE_NOT_SATISFIABLE(), { 'content-range': unsatisfiedContentRange(size) })
  }
  // 14.2: a server may send less than was asked for, if Content-Range says so.
  const { start } = outcome
  const range = { start, end: Math.min(outcome.end, start + (maxContentRangeChunkSize ?? Infinity) - 1) }
  const { 'content-length': _, ...common } = fields
  return plan(206, {
    ...common,
    'content-range': contentRange(range, size),
    'content-length': String(range.end - range.start + 1)
  }, { start: content.start + range.start, end: content.start + range.end })
}

function plan (status: FilePlan['status'], fields: Fields, body: ByteRange | undefined): FilePlan {
  return { kind: 'file', status, fields, body }
}

function refusal (error: Error, fields = NO_FIELDS): Refusal {
  return { kind: 'refusal', error, fields }
}

/** Why no file answers: what `resolve-path` said, an errno, or the error of a call that failed. */
export function refuse (reason: unknown): Refusal {
  const code = typeof reason === 'string' ? reason : (reason as NodeJS.ErrnoException | null)?.code
  switch (code) {
    case 'not-found':
    case 'ENOENT':
    case 'ENOTDIR':
    case 'ENAMETOOLONG':
      return NOT_FOUND
    case 'malformed':
      return refusal(new MALFORMED_PATH())
    case 'forbidden':
    case 'EACCES':
    case 'EPERM':
    case 'ELOOP':
    case 'EISDIR':
      return refusal(new FORBIDDEN_PATH())
    case 'EMFILE':
    case 'ENFILE':
    case 'ENOMEM':
      return refusal(withCause(new EXHAUSTED(), reason), { 'retry-after': '1' })
    default:
      return refusal(withCause(new READ_FAILED(), reason))
  }
}

// For the log: no error handler sends it.
function withCause (error: Error, cause: unknown): Error {
  error.cause = cause
  return error
}
