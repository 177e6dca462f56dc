import { INVALID_REDIRECT_URL } from './errors'

/** RFC 9112 3.2, as the client wrote it: percent-encoded. */
export interface RequestTarget {
  /** With one leading '/': two would name another host. */
  readonly path: string
  /** With its '?', or ''. */
  readonly query: string
}

/**
 * @param rawUrl `request.raw.url`, which the router has found well-formed
 * @param cutsAtSemicolon the router's option `useSemicolonDelimiter`
 */
export function requestTarget (rawUrl: string, cutsAtSemicolon: boolean): RequestTarget {
  const end = rawUrl.search(cutsAtSemicolon ? /[?#;]/ : /[?#]/)
  const query = end === -1 ? '' : rawUrl.slice(end)
  return {
    path: absolutePath(end === -1 ? rawUrl : rawUrl.slice(0, end)),
    query: encodeRaw(query.replace(/#.*/s, ''))
  }
}

/** RFC 9112 3.2.1 and 3.2.2: origin-form, or the path of absolute-form. */
function absolutePath (target: string): string {
  const path = target.startsWith('/') || target.startsWith('\\') ? target : pathOf(target)
  return encodeRaw('/' + path.replace(/^[/\\]+/, ''))
}

function pathOf (absoluteForm: string): string {
  try {
    return new URL(absoluteForm).pathname
  } catch {
    throw new INVALID_REDIRECT_URL(absoluteForm)
  }
}

/** What a header field or an attribute should not carry as it is. Lone surrogates have no UTF-8 form. */
function encodeRaw (text: string): string {
  return Buffer.from(text).toString().replace(/[^\x21-\x7e]+|["<>\\^`{|}]/g, encodeURIComponent)
}
