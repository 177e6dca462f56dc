'use strict'

// Makes the two larger files of the demo, so that none has to be kept in the
// repository: a dithered landscape (PNG) and an arpeggio (WAV). Both come out
// the same on each run.

const fs = require('node:fs')
const path = require('node:path')
const zlib = require('node:zlib')

const media = [
  ['ridges.png', drawRidges],
  ['chord.wav', playChord]
]

// Writes what is missing below `directory`. Each file appears complete or not
// at all: it is written under another name and renamed.
function generateMedia (directory) {
  fs.mkdirSync(directory, { recursive: true })
  for (const [name, make] of media) {
    const target = path.join(directory, name)
    if (fs.existsSync(target)) continue
    const draft = path.join(directory, `.${name}.${process.pid}.tmp`)
    try {
      fs.writeFileSync(draft, make())
      fs.renameSync(draft, target)
    } finally {
      fs.rmSync(draft, { force: true })
    }
  }
}

// ---- the picture --------------------------------------------------------

const WIDTH = 2000
const HEIGHT = 1200
const UNIT = HEIGHT / 720

// Light to dark; a pixel lies between two neighbours and noise decides which.
const SKY = ['f6f1e3', 'f4dfbd', 'efc48f', 'e3a06c']
const LAND = ['d6d9bd', 'a9bda2', '7da189', '527f6c', '2f5d4f', '1c4137', '122b25']
const PALETTE = [...SKY, ...LAND, 'fffaf0']
const SUN = PALETTE.length - 1

function drawRidges () {
  const rows = Buffer.alloc((WIDTH + 1) * HEIGHT) // one filter byte, 0, before each row
  const ridges = Array.from({ length: 7 }, (_, depth) => ridge(depth))

  for (let y = 0; y < HEIGHT; y++) {
    for (let x = 0; x < WIDTH; x++) {
      rows[y * (WIDTH + 1) + 1 + x] = pixel(x, y, ridges)
    }
  }

  const header = Buffer.alloc(13)
  header.writeUInt32BE(WIDTH, 0)
  header.writeUInt32BE(HEIGHT, 4)
  header.set([8, 3, 0, 0, 0], 8) // 8 bits a pixel, by palette
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
    chunk('PLTE', Buffer.from(PALETTE.join(''), 'hex')),
    chunk('IDAT', zlib.deflateSync(rows, { level: 9 })),
    chunk('IEND', Buffer.alloc(0))
  ])
}

function ridge (depth) {
  const base = HEIGHT * (0.36 + depth * 0.095)
  const height = (26 + depth * 9) * UNIT
  return (x) => {
    const t = x / WIDTH * Math.PI * 2
    return base -
      height * Math.sin(t * (0.7 + depth * 0.13) + depth * 2.1) -
      height * 0.5 * Math.sin(t * (1.9 + depth * 0.31) + depth * 4.3) -
      height * 0.16 * Math.sin(t * (6.1 + depth * 1.7) + depth)
  }
}

function pixel (x, y, ridges) {
  const noise = (hash(x, y) + hash(x + 7919, y) - 1) * 0.8 + 0.5 // a triangle: softer grain

  for (let depth = ridges.length - 1; depth >= 0; depth--) {
    const below = y - ridges[depth](x)
    if (below < 0) continue
    const mist = Math.min(1, below / (150 * UNIT)) * 1.15 // paler towards the foot
    return SKY.length + between(depth + 0.7 - mist, noise, LAND.length)
  }

  const sun = Math.hypot(x - WIDTH * 0.71, y - HEIGHT * 0.235)
  const radius = 62 * UNIT
  if (sun < radius) return SUN
  const glow = Math.max(0, 1 - (sun - radius) / (260 * UNIT))
  return between(y / HEIGHT * 6.2 - glow * 0.9, noise, SKY.length)
}

function between (tone, noise, count) {
  return Math.max(0, Math.min(count - 1, Math.floor(tone + noise)))
}

function hash (x, y) {
  let h = Math.imul(x, 374761393) + Math.imul(y, 668265263)
  h = Math.imul(h ^ (h >>> 13), 1274126177)
  return ((h ^ (h >>> 16)) >>> 0) / 4294967296
}

function chunk (type, data) {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const framed = Buffer.alloc(body.length + 8)
  framed.writeUInt32BE(data.length, 0)
  body.copy(framed, 4)
  framed.writeUInt32BE(crc32(body), body.length + 4)
  return framed
}

// zlib.crc32 is younger than the oldest Node that this package runs on.
function crc32 (bytes) {
  let crc = 0xffffffff
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0)
  }
  return (crc ^ 0xffffffff) >>> 0
}

// ---- the sound ----------------------------------------------------------

const RATE = 22050
const SECONDS = 14

// Bars of seven notes over Fmaj9, Am7, Dm9, C: semitones from A4.
const BARS = [
  [-28, -16, -12, -9, -5, 3, -5],
  [-24, -12, -9, -5, -2, 3, -2],
  [-31, -19, -12, -7, -4, 0, -4],
  [-33, -21, -14, -9, -5, 3, 7]
]

function playChord () {
  const samples = new Float64Array(RATE * SECONDS)
  const step = 0.36
  BARS.forEach((bar, index) => {
    bar.forEach((semitone, position) => {
      const start = (index * 8 + position) * step
      pluck(samples, start, 440 * 2 ** (semitone / 12), position === 0 ? 0.9 : 0.6)
    })
  })

  const peak = samples.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
  const pcm = Buffer.alloc(samples.length * 2)
  for (let i = 0; i < samples.length; i++) {
    const fade = Math.min(1, (samples.length - i) / (RATE * 1.5))
    pcm.writeInt16LE(Math.round(samples[i] / peak * 0.7 * fade * 32767), i * 2)
  }
  return Buffer.concat([wavHeader(pcm.length), pcm])
}

function pluck (samples, start, frequency, loudness) {
  const first = Math.floor(start * RATE)
  const last = Math.min(samples.length, first + RATE * 5) // then it is not heard any more
  for (let i = first; i < last; i++) {
    const t = (i - first) / RATE
    const attack = Math.min(1, t / 0.012)
    let value = 0
    for (let partial = 1; partial <= 5; partial++) {
      value += Math.sin(2 * Math.PI * frequency * partial * t) *
        Math.exp(-t * (0.9 + partial * 0.7)) / partial ** 1.7
    }
    samples[i] += value * attack * loudness
  }
}

function wavHeader (length) {
  const header = Buffer.alloc(44)
  header.write('RIFF', 0, 'latin1')
  header.writeUInt32LE(36 + length, 4)
  header.write('WAVEfmt ', 8, 'latin1')
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20) // PCM
  header.writeUInt16LE(1, 22) // mono
  header.writeUInt32LE(RATE, 24)
  header.writeUInt32LE(RATE * 2, 28)
  header.writeUInt16LE(2, 32)
  header.writeUInt16LE(16, 34)
  header.write('data', 36, 'latin1')
  header.writeUInt32LE(length, 40)
  return header
}

module.exports = generateMedia
