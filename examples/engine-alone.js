'use strict'

// The open-file cache without HTTP.
//
// node examples/engine-alone.js

const path = require('node:path')
const { OpenFileCache } = require('fastify-cached-static/open-file-cache')

// minUses 1 keeps a file from its first use on; the default of 2 wants to see it twice.
const cache = new OpenFileCache({ valid: '5s', minUses: 1, memory: { maxFileSize: 64 } })

async function read (file) {
  // At once when the file is at hand. Known by its metadata only, it must be opened for its bytes.
  const known = cache.lease(file)
  const lease = known === undefined || known.state === 'metadata-only' ? await cache.open(file) : known
  if (lease.kind === 'negative') return lease.errno
  try {
    await lease.fill()
    if (lease.bytes !== undefined) return lease.bytes.toString()
    // Larger than maxFileSize, so read in place. Other borrowers share the descriptor: hence the position.
    const buffer = Buffer.alloc(lease.snapshot.size)
    const length = await new Promise((resolve, reject) => {
      lease.read(buffer, 0, buffer.length, 0, (error, bytesRead) => error ? reject(error) : resolve(bytesRead))
    })
    return buffer.toString('utf8', 0, length)
  } finally {
    lease.release()
  }
}

async function main () {
  const small = path.join(__dirname, 'public', 'hello.txt')
  const large = path.join(__dirname, 'public', 'index.html')
  const missing = path.join(__dirname, 'public', 'missing.txt')

  for (const file of [small, small, large, large, missing, missing]) {
    console.log(`${path.basename(file)}: ${JSON.stringify(await read(file))}`)
  }
  report()

  cache.invalidate(missing) // or everything below a folder: { under: folder }
  cache.invalidate(large)
  report()

  await cache.close()
  console.log(`open: ${cache.stats().openFiles}`)
}

function report () {
  const { entries, negativeEntries, bodyBytes } = cache.stats()
  console.log(`known: ${entries}, known to be missing: ${negativeEntries}, bytes in memory: ${bodyBytes}`)
}

main()
