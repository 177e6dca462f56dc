import { OutgoingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { ByteRange } from './range'
import type { BufferPool, Lease, Turns } from '../types/open-file-cache'

/** Bytes read at a time into memory that is not used again. */
const CHUNK = 64 * 1024
/** Buffers of one body that are being read or written. */
const IN_FLIGHT = 2

const NO_BYTES = Buffer.alloc(0)

export interface BodyOptions {
  /** Called before the stream errors, when it errors, for the error: the response must not look complete. */
  readonly onFault: (cause: Error) => Error
  /** Bytes read at a time; then no buffer of the pool is used. */
  readonly chunkSize?: number | undefined
  readonly pool?: BufferPool | undefined
}

interface Chunk {
  readonly bytes: Buffer
  /** Where the bytes are, if that is the pool's. */
  readonly pooled: Buffer | undefined
}

/** The file is not any more what the head of the response says. */
export class BodyFault extends Error {
  readonly code = 'ERR_FILE_CHANGED'
}

/**
 * Some bytes of a leased file: positional reads, no byte more than promised, none of a file that was overwritten or cut
 * meanwhile. Owns the lease.
 */
export class FileBody extends Readable {
  /** For `onSend` hooks, as that of `fs.ReadStream`. */
  readonly path: string
  readonly #lease: Lease
  readonly #size: number
  readonly #mtimeNs: bigint
  readonly #onFault: (cause: Error) => Error
  readonly #pool: BufferPool | undefined
  #position: number
  #remaining: number
  #first: Chunk | undefined
  #isReading = false
  /** Waits for its turn to read. */
  #isQueued = false
  #leaveAll: (() => void) | undefined
  #afterRead: (() => void) | undefined

  /**
   * Reads the first bytes before anything is sent, so that a file that cannot be read still gets a right status.
   * @throws the errno error of the read, or a BodyFault; the lease is then still the caller's
   */
  static async open (lease: Lease, path: string, range: ByteRange, options: BodyOptions): Promise<FileBody> {
    const body = new FileBody(lease, path, range, options)
    const pool = body.#pool
    body.#first = await new Promise<Chunk>((resolve, reject) => {
      inTurn(pool?.reads, () => {
        body.#read(pool?.take(), (error, chunk) => {
          pool?.reads.done()
          if (error === null) return resolve(chunk)
          body.#giveBack(chunk)
          reject(error)
        })
      })
    })
    return body
  }

  private constructor (lease: Lease, path: string, range: ByteRange, { onFault, chunkSize, pool }: BodyOptions) {
    super({ highWaterMark: chunkSize ?? CHUNK })
    this.path = path
    this.#lease = lease
    this.#size = lease.snapshot.size
    this.#mtimeNs = lease.snapshot.mtimeNs
    this.#onFault = onFault
    this.#pool = chunkSize === undefined ? pool : undefined
    this.#position = range.start
    this.#remaining = range.end - range.start + 1
  }

  /** Into a response of HTTP/1.1 as it is: double-buffered, in memory of the pool. Into anything else: as any stream. */
  override pipe<T extends NodeJS.WritableStream> (destination: T, options?: { end?: boolean }): T {
    const first = this.#first
    // Anything but null: somebody reads it besides, or has begun to.
    const isRead = first === undefined || this.readableFlowing !== null
    const pool = this.#pool
    if (pool === undefined || isRead || !isPlainResponse(destination)) return super.pipe(destination, options)
    this.#first = undefined
    this.#pump(pool, first, destination, options?.end !== false)
    return destination
  }

  #pump (pool: BufferPool, first: Chunk, response: ServerResponse, endsResponse: boolean): void {
    const written = new Set<Chunk>()
    // When the connection breaks, some callbacks say nothing of it and some never come. Whoever still reads that memory
    // must not see the bytes of others in it.
    this.#leaveAll = () => {
      for (const chunk of written) this.#leaveBehind(chunk)
      written.clear()
    }

    const advance = (): void => {
      if (this.#isReading || this.#isQueued || this.#remaining === 0 || this.destroyed || written.size === IN_FLIGHT) return
      this.#isQueued = true
      inTurn(pool.reads, () => {
        this.#isQueued = false
        const pooled = this.destroyed ? undefined : pool.take()
        // A slow reader holds no more than this when the pool has nothing left.
        if (this.destroyed || (pooled === undefined && written.size > 0)) return pool.reads.done()
        this.#isReading = true
        this.#read(pooled, (error, chunk) => {
          pool.reads.done()
          this.#isReading = false
          if (this.#afterRead !== undefined) {
            this.#giveBack(chunk)
            this.#afterRead()
          } else if (error !== null) {
            this.#giveBack(chunk)
            this.destroy(this.#onFault(error))
          } else {
            write(chunk)
            advance()
          }
        })
      })
    }
    const write = (chunk: Chunk): void => {
      if (response.writableEnded || !isIntact(response)) {
        this.#giveBack(chunk)
        this.destroy()
        return
      }
      written.add(chunk)
      response.write(chunk.bytes, (error) => {
        if (!written.delete(chunk)) return
        if (error != null || !isIntact(response)) return this.#leaveBehind(chunk)
        this.#giveBack(chunk)
        advance()
      })
      if (this.#remaining > 0) return
      this.#lease.release()
      if (endsResponse) response.end()
      this.push(null)
      this.resume()
    }
    write(first)
    advance()
  }

  /** The response is over, complete or not: nobody will tell any more that something of it was written. */
  abandon (): void {
    this.#leaveAll?.()
    this.destroy()
  }

  #giveBack ({ pooled }: Chunk): void {
    if (pooled !== undefined) this.#pool?.give(pooled)
  }

  #leaveBehind ({ pooled }: Chunk): void {
    if (pooled !== undefined) this.#pool?.drop()
  }

  override _read (): void {
    // Who asks now is late: each byte goes into the response, once.
    if (this.#leaveAll !== undefined) return
    const first = this.#first
    if (first !== undefined) {
      this.#first = undefined
      this.#leaveBehind(first)
      this.#deliver(first.bytes)
      return
    }
    this.#isReading = true
    this.#read(undefined, (error, { bytes }) => {
      this.#isReading = false
      if (this.#afterRead !== undefined) {
        this.#afterRead()
      } else if (error === null) {
        this.#deliver(bytes)
      } else {
        this.destroy(this.#onFault(error))
      }
    })
  }

  #deliver (bytes: Buffer): void {
    const isLast = this.#remaining === 0
    if (isLast) this.#lease.release()
    this.push(bytes)
    if (isLast) this.push(null)
  }

  /** The next bytes, in memory of the pool or in new memory. */
  #read (pooled: Buffer | undefined, callback: (error: Error | null, chunk: Chunk) => void): void {
    try {
      const buffer = pooled ?? Buffer.allocUnsafeSlow(Math.min(this.readableHighWaterMark, this.#remaining))
      const length = Math.min(buffer.length, this.#remaining)
      this.#lease.read(buffer, 0, length, this.#position, (error, bytesRead) => {
        const chunk = { bytes: bytesRead === buffer.length ? buffer : buffer.subarray(0, bytesRead), pooled }
        if (error !== null) return callback(error, chunk)
        if (bytesRead === 0) return callback(new BodyFault('the file ends before the bytes that were promised'), chunk)
        this.#position += bytesRead
        this.#remaining -= bytesRead
        if (this.#remaining > 0) callback(null, chunk)
        else this.#checkVersion((fault) => callback(fault, chunk))
      })
    } catch (error) {
      // No memory; or the lease was released, its client gone, before the turn came. Thrown, it would leave a body that
      // waits for the end of a read that never began.
      callback(error as Error, { bytes: NO_BYTES, pooled })
    }
  }

  /** Before the last bytes go out: were all of them of one version? */
  #checkVersion (callback: (fault: Error | null) => void): void {
    this.#currentVersion().then(({ mtimeNs, size }) => {
      // Grown, it was appended to: what was promised is still there.
      const isOverwritten = mtimeNs !== this.#mtimeNs && size <= this.#size
      callback(isOverwritten ? new BodyFault('the file was overwritten while it was being sent') : null)
    }, callback)
  }

  async #currentVersion (): Promise<{ mtimeNs: bigint, size: number }> {
    return await this.#lease.current()
  }

  override _destroy (error: Error | null, callback: (error?: Error | null) => void): void {
    const finish = (): void => {
      if (this.#first !== undefined) this.#giveBack(this.#first)
      this.#first = undefined
      this.#lease.release()
      callback(error)
    }
    // A read under way writes into memory that is ours until it ends.
    if (this.#isReading) this.#afterRead = finish
    else finish()
  }
}

function inTurn (turns: Turns | undefined, start: () => void): void {
  if (turns === undefined || turns.take()) start()
  else turns.wait(start)
}

/** Before anybody has wrapped it. */
const { write } = OutgoingMessage.prototype

/** One that does with the bytes what Node does: who wraps `write` may keep them, who hears of `pipe` may read them too. */
function isPlainResponse (destination: NodeJS.WritableStream): destination is ServerResponse & NodeJS.WritableStream {
  return destination instanceof ServerResponse && destination.write === write && destination.listenerCount('pipe') === 0
}

/** Neither the response nor its connection is broken or gone; what is closed is destroyed too. */
function isIntact ({ destroyed, socket }: ServerResponse): boolean {
  return !destroyed && socket?.destroyed !== true
}
