// The states that each path of the tree has had, and when each may have been visible.
import { isFragmentOf, isPartOf, versionAt } from './content.mjs'

const MISSING = { state: 'missing', size: 0, pieces: [], mtimeNs: 0n, via: 'plain', from: -Infinity, to: Infinity, previous: undefined }

/** Milliseconds for which a state is kept after its end: longer than any answer and any doubt about it. */
const KEPT = 30_000

export class History {
  /** All that happened before this moment is known. */
  until = 0
  #states = new Map()

  add (events, until) {
    for (const { path, from, to, ...rest } of events) {
      let states = this.#states.get(path)
      if (states === undefined) this.#states.set(path, states = [])
      const previous = states.at(-1)
      // The old one may have been seen until the change was made, the new one since it began.
      if (previous !== undefined) previous.to = to
      const state = { ...rest, path, mtimeNs: BigInt(rest.mtimeNs), from, changedAt: to, to: Infinity, previous, passing: [] }
      if (rest.isInPlace && previous !== undefined && rest.size < previous.size) {
        // A file that is being cut has for a moment its new size and its old time (ext4), or the other way round.
        state.passing.push(
          { ...state, isPassing: true, mtimeNs: previous.mtimeNs, to },
          { ...previous, isPassing: true, mtimeNs: state.mtimeNs, from, to, previous: undefined }
        )
      }
      states.push(state)
    }
    this.until = until
  }

  prune () {
    for (const states of this.#states.values()) {
      const first = states.findIndex(({ to }) => to > this.until - KEPT)
      if (first <= 0) continue
      states.splice(0, first)
      states[0].previous = undefined
    }
  }

  get size () {
    let size = 0
    for (const states of this.#states.values()) size += states.length
    return size
  }

  /** All that is known of a path. */
  of (path) {
    return this.#states.get(path) ?? [MISSING]
  }

  /** The same, with what could be seen while a file was being cut. */
  withPassing (path) {
    return this.of(path).flatMap((state) => state.passing === undefined ? [state] : [...state.passing, state])
  }

  /** Whether there ever was anything at a path. */
  has (path) {
    return this.#states.has(path)
  }

  /** Those that may have been visible at some moment between the two. */
  between (path, from, to) {
    return this.of(path).filter((state) => state.from <= to && state.to >= from)
  }
}

/**
 * Whether a body may have been read while a state was being made by one write(2), which no reader can tell from a state of
 * its own: bytes of the new state and, where it had not come to yet, of the old one.
 */
export function isMidWrite (state, body, size) {
  const { previous, id } = state
  if (!state.isInPlace || previous === undefined || body.fault !== undefined) return false
  if (body.id !== undefined && body.id !== id) return false
  if (size < Math.min(previous.size, state.size) || size > Math.max(previous.size, state.size)) return false
  const isOf = ({ pieces }, { version, start, end }) => isPartOf({ ...body, fragments: [], runs: [{ version, start, end }], start, length: end - start }, id, pieces)
  let isOld = false
  const areBoth = body.runs.every((run) => {
    if (!isOld && isOf(state, run)) return true
    isOld = true
    return isOf(previous, run)
  })
  return areBoth && body.fragments.every(({ offset, bytes }) => [state, previous].some(({ pieces }) => isFragmentOf(id, versionAt(pieces, offset), offset, bytes)))
}
