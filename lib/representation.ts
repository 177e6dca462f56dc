import { isUtf8MimeType, mime } from '@fastify/send'
import { toMilliseconds } from './file-times'
import { formatHttpDate } from './http-date'
import type { Coding } from './content-coding'
import type { SendSettings } from './options'
import type { Validators } from './preconditions'
import type { ByteRange } from './range'
import type { FileSnapshot } from '../types/open-file-cache'

export type Fields = Readonly<Record<string, string>>

/** RFC 9110 3.2: one version of a file, and what is said of it. */
export interface Representation extends Validators {
  readonly snapshot: FileSnapshot
  /** The bytes of the file that are its content. */
  readonly content: ByteRange
  /** Of a 200, in the order in which they are sent. */
  readonly fields: Fields
  /** Of a 304: RFC 9110 15.4.5. */
  readonly notModifiedFields: Fields
}

export interface Described {
  /** Of the file without its coding. */
  readonly pathname: string
  readonly coding: Coding | undefined
}

/**
 * @param etag the entity-tag, when it is not ours to make
 * @param now wall-clock milliseconds
 */
export function describe (
  { pathname, coding }: Described, snapshot: FileSnapshot, settings: SendSettings, types: ReadonlyMap<string, string>,
  etag: string | undefined, now: number
): Representation {
  const mtimeMs = Math.round(toMilliseconds(snapshot.mtimeNs))
  const tag = settings.etag === true ? weakTag(snapshot.size, mtimeMs) : etag
  // 8.8.2.1: a modification time in the future is replaced by the present.
  const lastModified = settings.lastModified ? Math.floor(Math.min(mtimeMs, now) / 1000) * 1000 : undefined

  const notModifiedFields: Record<string, string> = {}
  if (settings.acceptRanges) notModifiedFields['accept-ranges'] = 'bytes'
  if (settings.cacheControl !== undefined) notModifiedFields['cache-control'] = settings.cacheControl
  if (lastModified !== undefined) notModifiedFields['last-modified'] = formatHttpDate(lastModified)
  if (tag !== undefined) notModifiedFields.etag = tag
  const content = { start: settings.start, end: Math.max(Math.min(settings.end, snapshot.size - 1), settings.start - 1) }
  const fields = {
    ...notModifiedFields,
    // Of the file before it was encoded: 8.4.
    ...settings.contentType && { 'content-type': mediaType(pathname, types) },
    ...coding !== undefined && { 'content-encoding': coding },
    'content-length': String(content.end - content.start + 1)
  }

  return Object.freeze({
    snapshot,
    content,
    etag: tag,
    lastModified,
    fields: Object.freeze(fields),
    notModifiedFields: Object.freeze(notModifiedFields)
  })
}

/** The text that @fastify/static makes of the same file, so that a migration keeps clients' caches. */
function weakTag (size: number, mtimeMs: number): string {
  return `W/"${size.toString(16)}-${mtimeMs.toString(16)}"`
}

function mediaType (path: string, types: ReadonlyMap<string, string>): string {
  const type = types.get(extensionOf(path)) ?? mime.getType(path) ?? 'application/octet-stream'
  return isUtf8MimeType(type) && !/;\s*charset=/i.test(type) ? `${type}; charset=utf-8` : type
}

function extensionOf (path: string): string {
  return path.slice(path.lastIndexOf('.') + 1).toLowerCase()
}
