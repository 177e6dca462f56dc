// All files in memory, never looked at again. It is not for a file of 100 MB.
const Koa = require('koa')
const app = new Koa()
app.use(require('koa-static-cache')(process.env.ROOT, { buffer: true, filter: (name) => !name.startsWith('100m') }))
app.listen(Number(process.env.PORT), '127.0.0.1')
