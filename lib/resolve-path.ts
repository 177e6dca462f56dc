import { sep } from 'node:path'

declare const targetPath: unique symbol

/**
 * An absolute file name below a root (RFC 9110 7.1: what the target resource
 * is mapped to): decoded once, checked. Only this module makes one.
 */
export type TargetPath = string & { readonly [targetPath]: true }

export type DotfilesPolicy = 'allow' | 'deny' | 'ignore'

export type Rejection =
  | 'malformed' // 400
  | 'forbidden' // 403
  | 'not-found' // 404

export interface Target {
  /** Below the root, without trailing slash; the root itself for ''. */
  readonly path: TargetPath
  /** Canonical, relative to the root, with leading '/'; a trailing slash is kept. */
  readonly pathname: string
  /** The request names a directory; '' counts as with slash. */
  readonly trailingSlash: boolean
}

const onWindows = sep === '\\'

const maxSegmentBytes = 255 // NAME_MAX
const maxPathBytes = 4095 // PATH_MAX without its NUL
const maxBytesPerUnit = 3 // UTF-8 bytes per UTF-16 code unit; a pair has 4 for its 2

const NUL = 0x00
const SPACE = 0x20
const HASH = 0x23
const PERCENT = 0x25
const DOT = 0x2e
const SLASH = 0x2f
const DIGIT_2 = 0x32
const DIGIT_5 = 0x35
const SEMICOLON = 0x3b
const QUESTION_MARK = 0x3f
const BACKSLASH = 0x5c
const LOWER_C = 0x63
const LOWER_F = 0x66
const LOWER_CASE_BIT = 0x20

const wellKnown = '.well-known' // RFC 8615 3

const windowsDevice = /^(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$) *(?:\.|$)/i

/**
 * @param remainder `request.params['*']`, which the router has decoded. A leading '/' is an empty segment.
 * @param rawUrl `request.raw.url`, for what decoding has hidden
 * @param root absolute, normalised, without trailing slash unless it is '/'
 * @param useSemicolonDelimiter the router's option of that name
 */
export function resolvePath (
  remainder: string,
  rawUrl: string,
  root: string,
  dotfiles: DotfilesPolicy,
  useSemicolonDelimiter = false,
  windows = onWindows
): Target | Rejection {
  const refusal = inspectRaw(rawUrl, useSemicolonDelimiter)
  if (refusal !== undefined) return remainder.includes('\0') ? 'malformed' : refusal
  return place(remainder, root, dotfiles, windows)
}

/** For `sendFile` and `download`: `name` is a file name, never decoded; absolute means from the root. */
export function resolveName (
  name: string,
  root: string,
  dotfiles: DotfilesPolicy,
  windows = onWindows
): Target | Rejection {
  return place(name.charCodeAt(0) === SLASH ? name.slice(1) : name, root, dotfiles, windows)
}

export function withSlash (path: string): string {
  return path.endsWith('/') ? path : `${path}/`
}

/** `name` in the directory `parent`: an index file, a directory's entry. Dotfiles are the caller's matter. */
export function childPath (parent: TargetPath, name: string, windows = onWindows): TargetPath | undefined {
  return isFileName(name, windows) ? fitting(withSlash(parent) + name) : undefined
}

/** The directory that `file` is in. */
export function parentPath (file: TargetPath): TargetPath {
  return (file.slice(0, file.lastIndexOf('/')) || '/') as TargetPath
}

/** `file` with a longer name: the file beside it, of a content coding. */
export function longerPath (file: TargetPath, suffix: string): TargetPath | undefined {
  const name = file.length - file.lastIndexOf('/') - 1 + suffix.length
  const isTooLong = name * maxBytesPerUnit > maxSegmentBytes &&
    Buffer.byteLength(file.slice(file.lastIndexOf('/') + 1) + suffix) > maxSegmentBytes
  return isTooLong ? undefined : fitting(file + suffix)
}

function place (name: string, root: string, dotfiles: DotfilesPolicy, windows: boolean): Target | Rejection {
  const refusal = inspect(name, dotfiles, windows)
  if (refusal !== undefined) return refusal

  const pathname = '/' + name
  const trailingSlash = pathname.endsWith('/')
  const below = trailingSlash ? pathname.slice(0, -1) : pathname
  const path = fitting(root === '/' ? below || root : root + below)
  return path === undefined ? 'not-found' : { path, pathname, trailingSlash }
}

/**
 * A guard on `/admin/*` does not see `/admin%2Fsecret`, nor `/admin\secret`
 * where that is a separator: neither may name the file behind the guard.
 */
function inspectRaw (rawUrl: string, useSemicolonDelimiter: boolean): Rejection | undefined {
  // absolute-form, RFC 9112 3.2.2. The first find-my-way 9 take the first '/' for
  // the path even in `http://host?/a%2Fb`. To agree with them can only refuse more.
  const pathStart = rawUrl.charCodeAt(0) === SLASH ? 0 : rawUrl.indexOf('/', rawUrl.indexOf('://') + 3)
  let refusal: Rejection | undefined

  for (let i = pathStart + 1; i < rawUrl.length; i++) {
    const code = rawUrl.charCodeAt(i)
    if (code === BACKSLASH) return 'forbidden'
    if (code === PERCENT) {
      const high = rawUrl.charCodeAt(i + 1)
      const low = rawUrl.charCodeAt(i + 2) | LOWER_CASE_BIT
      if (high === DIGIT_5 && low === LOWER_C) return 'forbidden'
      if (high === DIGIT_2 && low === LOWER_F) refusal = 'not-found'
    } else if (code === QUESTION_MARK || code === HASH || (code === SEMICOLON && useSemicolonDelimiter)) {
      break
    }
  }
  return refusal
}

/** The most severe refusal wins, so that a second fault cannot turn a 400 or 403 into something milder. */
function inspect (name: string, dotfiles: DotfilesPolicy, windows: boolean): Rejection | undefined {
  let forbidden = false
  let unservable = false
  let start = 0

  for (let i = 0; i <= name.length; i++) {
    const code = i === name.length ? SLASH : name.charCodeAt(i)
    if (code === SLASH) {
      const length = i - start
      if (length === 0) {
        if (start !== name.length) forbidden = true
      } else if (name.charCodeAt(start) === DOT) {
        if (length === 1 || (length === 2 && name.charCodeAt(start + 1) === DOT)) {
          forbidden = true
        } else if (dotfiles !== 'allow' && !(start === 0 && length === wellKnown.length && name.startsWith(wellKnown))) {
          if (dotfiles === 'deny') forbidden = true
          else unservable = true
        }
      }
      if (length * maxBytesPerUnit > maxSegmentBytes && Buffer.byteLength(name.slice(start, i)) > maxSegmentBytes) {
        unservable = true
      }
      if (windows && opensAnotherName(name.slice(start, i))) unservable = true
      start = i + 1
    } else if (code === BACKSLASH) {
      forbidden = true
    } else if (code === NUL) {
      return 'malformed'
    }
  }
  return forbidden ? 'forbidden' : unservable ? 'not-found' : undefined
}

/** Windows opens a device, an alternate data stream, or the name without its last dots and spaces. */
function opensAnotherName (segment: string): boolean {
  const last = segment.charCodeAt(segment.length - 1)
  return last === DOT || last === SPACE || segment.includes(':') || windowsDevice.test(segment)
}

function isFileName (name: string, windows: boolean): boolean {
  return name !== '' && !name.endsWith('/') && inspect(name, 'allow', windows) === undefined
}

function fitting (path: string): TargetPath | undefined {
  return path.length * maxBytesPerUnit > maxPathBytes && Buffer.byteLength(path) > maxPathBytes
    ? undefined
    : path as TargetPath
}
