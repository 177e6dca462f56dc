import { constants } from 'node:http2'
import { Readable } from 'node:stream'
import { READ_FAILED } from './errors'
import { FileBody } from './file-body'
import type { FastifyReply } from 'fastify'
import type { ServerHttp2Stream } from 'node:http2'
import type { BodyOptions } from './file-body'
import type { FilePlan, Refusal } from './respond'
import type { ByteRange } from './range'
import type { Lease } from '../types/open-file-cache'

// RFC 9110 15.4.5: no content, nothing to say of it, whoever has said it.
const CONTENT_FIELDS = ['content-length', 'content-type', 'content-encoding', 'content-range', 'content-language']

/** The plan whose head the reply has. */
export const kHead = Symbol('fastify-cached-static.head')

type HeadedReply = FastifyReply & { [kHead]?: FilePlan | null }

/** Status and fields of the plan, then what the user's `setHeaders` has to add. */
export function setHead (
  reply: HeadedReply, plan: FilePlan, disposition: string | undefined, setHeaders: (() => void) | undefined
): void {
  reply[kHead] = plan
  if (plan.status !== undefined) reply.code(plan.status)
  reply.headers(plan.fields)
  if (disposition !== undefined) reply.header('content-disposition', disposition)
  setHeaders?.()
  if (plan.status === 304) for (const name of CONTENT_FIELDS) reply.removeHeader(name)
}

/** Before an error goes out, whoever made it: it must not carry the file's status, validators or lifetime. */
export function withdrawHead (reply: HeadedReply): void {
  const plan = reply[kHead]
  if (plan == null) return
  reply[kHead] = null
  if (plan.status !== undefined) reply.code(200)
  for (const name of [...Object.keys(plan.fields), 'content-disposition']) reply.removeHeader(name)
}

/** Once, beside what is there; `*` says it already. */
export function varyByAcceptEncoding (reply: FastifyReply): void {
  const value = reply.getHeader('vary')
  if (value === undefined) {
    reply.header('vary', 'accept-encoding')
    return
  }
  const present = [value].flat().join(', ')
  if (/(?:^|,)\s*(?:\*|accept-encoding)\s*(?:,|$)/i.test(present)) return
  reply.header('vary', present === '' ? 'accept-encoding' : `${present}, accept-encoding`)
}

export function refuseWith (reply: FastifyReply, { error, fields }: Refusal): void {
  if (error === undefined) {
    reply.callNotFound()
    return
  }
  reply.headers(fields)
  reply.send(error)
}

/** A part of bytes in memory. `onSend` hooks read its `path`, as that of a file stream. */
export function sendBytes (reply: FastifyReply, bytes: Buffer, range: ByteRange, path: string): void {
  const isWhole = range.start === 0 && range.end === bytes.length - 1
  const payload: Buffer & { path?: string } = isWhole ? bytes : bytes.subarray(range.start, range.end + 1)
  payload.path ??= path
  reply.send(payload)
}

/** The same as a stream, to which Fastify adds neither type nor length. */
export function sendStream (reply: FastifyReply, bytes: Buffer, range: ByteRange, path: string): void {
  const payload = Readable.from([bytes.subarray(range.start, range.end + 1)], { objectMode: false })
  reply.send(Object.assign(payload, { path }))
}

/** The first bytes of a body that is read from a leased descriptor; the head can still change. */
export function openBody (
  reply: FastifyReply, lease: Lease, range: ByteRange, path: string, options: Omit<BodyOptions, 'onFault'>
): Promise<FileBody> {
  const onFault = (cause: Error): Error => {
    reset(reply)
    // A hook may have held the head back: then this is what the client is told.
    return Object.assign(new READ_FAILED(), { cause })
  }
  // A session of HTTP/2 refuses streams when more than a few MiB are waiting in it.
  const pool = streamOf(reply) === undefined ? options.pool : undefined
  return FileBody.open(lease, path, range, { ...options, pool, onFault })
}

export function sendBody (reply: FastifyReply, body: FileBody): void {
  // Hooks may fail, or wrap the body and leave it: the response ends it in any case.
  onClose(reply, () => body.abandon())
  if (!isAbandoned(reply)) reply.send(body)
}

/** Calls back when the response is over, complete or not; at once when it is. */
export function onClose (reply: FastifyReply, callback: () => void): void {
  if (isOver(reply)) return callback()
  const { raw } = reply
  raw.once('close', callback)
  // When the client leaves, Node closes neither an HTTP/2 stream that is reset with NO_ERROR while it is blocked ...
  streamOf(reply)?.once('aborted', callback)
  // ... nor a pipelined response that waits for its turn, without a socket.
  if (raw.socket === null) {
    const { socket } = reply.request.raw
    socket.setMaxListeners(socket.getMaxListeners() + 1)
    socket.once('close', callback)
    raw.once('close', () => {
      socket.off('close', callback)
      socket.setMaxListeners(socket.getMaxListeners() - 1)
    })
  }
}

/** The client left before it was answered: there is nobody to send to, and that is no error. */
export function isAbandoned (reply: FastifyReply): boolean {
  return isOver(reply) && !reply.sent
}

function isOver (reply: FastifyReply): boolean {
  // The response does not always know: over HTTP/2 its stream does, over HTTP/1.1 the socket.
  const stream = streamOf(reply)
  return reply.raw.destroyed || (stream === undefined ? reply.request.raw.socket.destroyed : stream.destroyed || stream.aborted)
}

function streamOf (reply: FastifyReply): ServerHttp2Stream | undefined {
  return (reply.raw as { stream?: ServerHttp2Stream }).stream
}

/** Over HTTP/2 destroying the response would end the stream with NO_ERROR: a complete answer, to the client. */
function reset (reply: FastifyReply): void {
  streamOf(reply)?.close(constants.NGHTTP2_INTERNAL_ERROR)
}
