import createError from '@fastify/error'

export const INVALID_OPTION = createError('FST_STATIC_INVALID_OPTION', '"%s" option %s', 500)
export const INVALID_OPTION_VALUE = createError('FST_STATIC_INVALID_OPTION_VALUE', '"%s" option %s', 500, TypeError)
/** The same code for what is no option: an argument of a call. */
export const INVALID_ARGUMENT = createError('FST_STATIC_INVALID_OPTION_VALUE', '%s', 500, TypeError)
export const MULTIROOT_LIST_CONFLICT = createError(
  'FST_STATIC_MULTIROOT_LIST_CONFLICT', 'multi-root with list option is not supported', 500, TypeError
)
export const CACHE_CONFLICT = createError(
  'FST_STATIC_CACHE_CONFLICT',
  'the cache that an earlier registration made has another %s; leave it out here, or pass one OpenFileCache instance as "openFileCache" to both',
  500
)

// What a client sees: never a path, an errno or a stack. Requests can cause the first five at will: no stack is captured.
export const MALFORMED_PATH = createError('FST_STATIC_MALFORMED_PATH', 'Bad Request', 400, Error, false)
export const FORBIDDEN_PATH = createError('FST_STATIC_FORBIDDEN_PATH', 'Forbidden', 403, Error, false)
export const INVALID_REDIRECT_URL = createError('FST_STATIC_INVALID_REDIRECT_URL', 'Invalid redirect URL: "%s"', 400, Error, false)
export const PRECONDITION_FAILED = createError('FST_STATIC_PRECONDITION_FAILED', 'Precondition Failed', 412, Error, false)
export const RANGE_NOT_SATISFIABLE = createError('FST_STATIC_RANGE_NOT_SATISFIABLE', 'Range Not Satisfiable', 416, Error, false)
export const READ_FAILED = createError('FST_STATIC_READ_FAILED', 'Internal Server Error', 500)
export const EXHAUSTED = createError('FST_STATIC_EXHAUSTED', 'Service Unavailable', 503)
