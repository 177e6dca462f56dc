import { Readable } from 'node:stream'
import type { ByteRange } from './range'
import type { Lease } from '../types/open-file-cache'

/** Bytes read at a time. */
const CHUNK = 64 * 1024

const NO_BYTES = Buffer.alloc(0)

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
  #position: number
  #remaining: number
  #first: Buffer | undefined
  #isReading = false
  #afterRead: (() => void) | undefined

  /**
   * Reads the first bytes before anything is sent, so that a file that cannot be read still gets a right status.
   * @param onFault called before the stream errors, when it errors, for the error: the response must not look complete
   * @throws the errno error of the read, or a BodyFault; the lease is then still the caller's
   */
  static async open (
    lease: Lease, path: string, range: ByteRange, onFault: (cause: Error) => Error, chunkSize = CHUNK
  ): Promise<FileBody> {
    const body = new FileBody(lease, path, range, onFault, chunkSize)
    body.#first = await new Promise<Buffer>((resolve, reject) => {
      body.#next((error, chunk) => {
        if (error === null) resolve(chunk)
        else reject(error)
      })
    })
    return body
  }

  private constructor (
    lease: Lease, path: string, range: ByteRange, onFault: (cause: Error) => Error, chunkSize: number
  ) {
    super({ highWaterMark: chunkSize })
    this.path = path
    this.#lease = lease
    this.#size = lease.snapshot.size
    this.#mtimeNs = lease.snapshot.mtimeNs
    this.#onFault = onFault
    this.#position = range.start
    this.#remaining = range.end - range.start + 1
  }

  override _read (): void {
    const first = this.#first
    if (first !== undefined) {
      this.#first = undefined
      this.#deliver(first)
      return
    }
    this.#isReading = true
    this.#next((error, chunk) => {
      this.#isReading = false
      if (this.#afterRead !== undefined) {
        this.#afterRead()
      } else if (error === null) {
        this.#deliver(chunk)
      } else {
        this.destroy(this.#onFault(error))
      }
    })
  }

  #deliver (chunk: Buffer): void {
    const isLast = this.#remaining === 0
    if (isLast) this.#lease.release()
    this.push(chunk)
    if (isLast) this.push(null)
  }

  #next (callback: (error: Error | null, chunk: Buffer) => void): void {
    let buffer: Buffer
    try {
      buffer = Buffer.allocUnsafeSlow(Math.min(this.readableHighWaterMark, this.#remaining))
    } catch (error) {
      // Thrown, it would leave a body that waits for the end of a read that never began.
      return callback(error as Error, NO_BYTES)
    }
    this.#lease.read(buffer, 0, buffer.length, this.#position, (error, bytesRead) => {
      if (error !== null) return callback(error, buffer)
      if (bytesRead === 0) return callback(new BodyFault('the file ends before the bytes that were promised'), buffer)
      this.#position += bytesRead
      this.#remaining -= bytesRead
      const chunk = bytesRead === buffer.length ? buffer : buffer.subarray(0, bytesRead)
      if (this.#remaining > 0) callback(null, chunk)
      else this.#checkVersion((fault) => callback(fault, chunk))
    })
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
      this.#lease.release()
      callback(error)
    }
    // A read under way writes into memory that is ours until it ends.
    if (this.#isReading) this.#afterRead = finish
    else finish()
  }
}
