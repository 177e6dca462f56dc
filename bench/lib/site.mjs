// The files that are served: made anew in a temporary directory, the same bytes each time.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'

const KIB = 1024
const MIB = 1024 * KIB

// Bytes that look like text to a compressor, from a generator with a fixed seed.
function text (length, seed) {
  const words = []
  let state = seed
  for (let size = 0; size < length;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    const word = (state >>> 8).toString(36).slice(0, 1 + state % 7)
    words.push(word)
    size += word.length + 1
  }
  return Buffer.from(words.join(' ').slice(0, length))
}

// A page and what it loads: sizes as of a small site.
const MIX = {
  'index.html': 6,
  'about.html': 4,
  'app.js': 90,
  'router.js': 14,
  'helpers.js': 8,
  'analytics.js': 22,
  'layout.css': 18,
  'components.css': 30,
  'reset.css': 3,
  'theme.css': 7,
  'manifest.json': 1,
  'logo.svg': 4,
  'sprite.svg': 25,
  'data.json': 40,
  'hero.webp': 80,
  'thumb.webp': 12,
  'regular.woff2': 24,
  'bold.woff2': 24,
  'favicon.ico': 2,
  'robots.txt': 1
}
const COMPRESSIBLE = /\.(?:html|js|css|json|svg|txt)$/

export function makeSite () {
  const root = mkdtempSync(join(tmpdir(), 'fastify-cached-static-bench-'))
  const put = (name, bytes) => writeFileSync(join(root, name), bytes)
  put('1k.txt', text(KIB, 1))
  put('200k.bin', text(200 * KIB, 2))
  put('2m.bin', text(2 * MIB, 3))
  put('100m.bin', Buffer.alloc(100 * MIB, text(MIB, 4)))
  mkdirSync(join(root, 'mix'))
  Object.entries(MIX).forEach(([name, kib], i) => {
    const bytes = text(kib * KIB, 10 + i)
    put(`mix/${name}`, bytes)
    if (!COMPRESSIBLE.test(name)) return
    put(`mix/${name}.br`, brotliCompressSync(bytes))
    put(`mix/${name}.gz`, gzipSync(bytes))
  })
  return { root, mix: Object.keys(MIX).map((name) => `/mix/${name}`), remove: () => rmSync(root, { recursive: true, force: true }) }
}
