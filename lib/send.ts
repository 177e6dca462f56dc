import { constants } from 'node:http2'
import { FileBody } from './file-body'
import type { FastifyReply } from 'fastify'
import type { ServerHttp2Stream } from 'node:http2'
import type { FilePlan, Refusal } from './respond'
import type { ByteRange } from './range'
import type { Lease } from '../types/open-file-cache'

/** Status and fields of the plan, then what the user's `setHeaders` has to add. */
export function setHead (reply: FastifyReply, plan: FilePlan, setHeaders: (() => void) | undefined): void {
  if (plan.status !== undefined) reply.code(plan.status)
  reply.headers(plan.fields)
  if (setHeaders === undefined) return
  try {
    setHeaders()
  } catch (error) {
    // An error must not carry the file's validators or lifetime.
    for (const name of Object.keys(plan.fields)) reply.removeHeader(name)
    throw error
  }
}

export function refuseWith (reply: FastifyReply, { error, fields }: Refusal): void {
  if (error === undefined) {
    reply.callNotFound()
    return
  }
  reply.headers(fields)
  reply.send(error)
}

/** A part of bytes in memory. */
export function sendBytes (reply: FastifyReply, bytes: Buffer, range: ByteRange, path: string): void {
  const isWhole = range.start === 0 && range.end === bytes.length - 1
  const payload: Buffer & { path?: string } = isWhole ? bytes : bytes.subarray(range.start, range.end + 1)
  // `onSend` hooks read it, as that of a file stream.
  payload.path ??= path
  reply.send(payload)
}

/** The first bytes of a body that is read from a leased descriptor; the head can still change. */
export function openBody (reply: FastifyReply, lease: Lease, range: ByteRange, path: string): Promise<FileBody> {
  return FileBody.open(lease, path, range, () => reset(reply))
}

export function sendBody (reply: FastifyReply, body: FileBody): void {
  // Hooks may fail, or wrap the body and leave it: the response ends it in any case.
  onClose(reply, () => body.destroy())
  reply.send(body)
}

/** Calls back when the response is over, complete or not; at once when it is. */
export function onClose (reply: FastifyReply, callback: () => void): void {
  // The response of HTTP/2's compatibility API does not know that it was destroyed: its stream does.
  if (reply.raw.destroyed || streamOf(reply)?.destroyed === true) callback()
  else reply.raw.once('close', callback)
}

function streamOf (reply: FastifyReply): ServerHttp2Stream | undefined {
  return (reply.raw as { stream?: ServerHttp2Stream }).stream
}

/** Over HTTP/2 destroying the response would end the stream with NO_ERROR: a complete answer, to the client. */
function reset (reply: FastifyReply): void {
  streamOf(reply)?.close(constants.NGHTTP2_INTERNAL_ERROR)
}
