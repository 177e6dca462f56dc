import { createServer } from 'node:http'
import st from 'st'

const mount = st({ path: process.env.ROOT, index: false, gzip: false })
createServer((request, response) => mount(request, response)).listen(Number(process.env.PORT), '127.0.0.1')
