// Every file but the largest, as a client that takes br, then gzip would get it.
const fs = require('node:fs')
const path = require('node:path')
const mime = require('@fastify/send').mime

const answers = new Map()
const root = process.env.ROOT

for (const name of fs.readdirSync(root, { recursive: true })) {
  const file = path.join(root, name)
  const stat = fs.statSync(file)
  if (!stat.isFile() || stat.size > 4 * 1024 * 1024) continue
  const coded = process.env.MIX === '1' && fs.existsSync(`${file}.br`)
  const body = fs.readFileSync(coded ? `${file}.br` : file)
  const type = mime.getType(name) ?? 'application/octet-stream'
  answers.set(name, {
    body,
    headers: {
      'accept-ranges': 'bytes',
      'cache-control': 'public, max-age=0',
      'last-modified': stat.mtime.toUTCString(),
      etag: `W/"${stat.size.toString(16)}-${stat.mtime.getTime().toString(16)}"`,
      'content-type': type.startsWith('text/') ? `${type}; charset=utf-8` : type,
      ...coded && { 'content-encoding': 'br' },
      'content-length': String(body.length),
      ...process.env.MIX === '1' && { vary: 'accept-encoding' }
    }
  })
}

module.exports = { answers }
