// What the files hold: blocks of 64 bytes that say of which file and version they are, and where they stand in it, and
// then bytes that follow from these three. So a mix of two versions, a cut or a shift shows in any part of a file.

export const BLOCK = 64
const WORDS = BLOCK / 4
const HEADER = 12

function seedOf (id, version, index) {
  let x = Math.imul(id + 1, 0x9e3779b1) ^ Math.imul(version + 1, 0x85ebca77) ^ Math.imul(index + 1, 0xc2b2ae3d)
  x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d)
  return x ^ (x >>> 12) | 1
}

function writeBlock (words, at, id, version, index) {
  words[at] = id
  words[at + 1] = version
  words[at + 2] = index
  let x = seedOf(id, version, index)
  for (let i = 3; i < WORDS; i++) {
    x ^= x << 13
    x ^= x >>> 17
    x ^= x << 5
    words[at + i] = x
  }
}

function isBlock (words, at, id, version, index) {
  let x = seedOf(id, version, index)
  for (let i = 3; i < WORDS; i++) {
    x ^= x << 13
    x ^= x >>> 17
    x ^= x << 5
    if (words[at + i] !== x) return false
  }
  return true
}

/** The bytes `start` to `end` (without) of a version. */
export function bytesOf (id, version, start, end) {
  const first = Math.floor(start / BLOCK)
  const count = Math.max(0, Math.ceil(end / BLOCK) - first)
  const words = new Int32Array(count * WORDS)
  for (let i = 0; i < count; i++) writeBlock(words, i * WORDS, id, version, first + i)
  return Buffer.from(words.buffer, start - first * BLOCK, end - start)
}

/**
 * Which version is where in the chunks of a body that begins at the byte `start` of a file. `runs`: `{ version, start, end }`
 * one after the other; `fragments`: the parts of blocks at both ends that do not say what they are; `fault`: what no
 * version of any file has.
 */
export function readBody (chunks, length, start) {
  const pad = start % BLOCK
  const bytes = Buffer.from(new ArrayBuffer(Math.ceil((pad + length) / BLOCK) * BLOCK))
  let filled = pad
  for (const chunk of chunks) filled += chunk.copy(bytes, filled)
  const words = new Int32Array(bytes.buffer)
  const base = start - pad
  const end = start + length
  const body = { start, length, id: undefined, runs: [], fragments: [], fault: undefined }
  for (let offset = base; offset < end; offset += BLOCK) {
    const from = Math.max(offset, start)
    const to = Math.min(offset + BLOCK, end)
    const at = (offset - base) / 4
    if (from > offset || to < offset + HEADER) {
      body.fragments.push({ offset: from, bytes: Buffer.from(bytes.subarray(from - base, to - base)) })
      continue
    }
    const id = words[at]
    const version = words[at + 1]
    const isWhole = to === offset + BLOCK
    const isRight = words[at + 2] === offset / BLOCK && (body.id ?? id) === id && (isWhole
      ? isBlock(words, at, id, version, offset / BLOCK)
      : bytesOf(id, version, from, to).equals(bytes.subarray(from - base, to - base)))
    if (!isRight) {
      body.fault = `at byte ${offset}: a block of file ${id}, version ${version}, number ${words[at + 2]}`
      return body
    }
    body.id = id
    const last = body.runs.at(-1)
    if (last?.version === version && last.end === from) last.end = to
    else body.runs.push({ version, start: from, end: to })
  }
  return body
}

/** `pieces`: `{ version, end }` one after the other, from the first byte to the last. */
export function versionAt (pieces, offset) {
  return pieces.find(({ end }) => offset < end)?.version
}

/** Whether a body is that part of the file that `pieces` describe. */
export function isPartOf (body, id, pieces) {
  if (body.fault !== undefined || (body.id !== undefined && body.id !== id)) return false
  if (body.start + body.length > (pieces.at(-1)?.end ?? 0)) return body.length === 0
  return body.runs.every((run) => {
    for (let offset = run.start; offset < run.end;) {
      const piece = pieces.find(({ end }) => offset < end)
      if (piece === undefined || piece.version !== run.version) return false
      offset = piece.end
    }
    return true
  }) && body.fragments.every(({ offset, bytes }) => isFragmentOf(id, versionAt(pieces, offset), offset, bytes))
}

export function isFragmentOf (id, version, offset, bytes) {
  return version !== undefined && bytesOf(id, version, offset, offset + bytes.length).equals(bytes)
}
