// In its production mode: files are looked up once, at the start.
require('node:http').createServer(require('sirv')(process.env.ROOT, { etag: true, brotli: true, gzip: true })).listen(Number(process.env.PORT), '127.0.0.1')
