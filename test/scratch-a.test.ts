import t from 'tap'
import { siteTest, makeHot } from './fixtures/fake-site'
import { Transform } from 'node:stream'
import { settled } from './fixtures/fake-world'
siteTest(t, 'onSend throws', { files: { 'a.txt': 'aaaa', 'big.bin': Buffer.alloc(200_000) }, options: { maxAge: '1y', immutable: true }, before: (app) => {
  let n = 0
  app.addHook('onSend', async (r) => { if (n++ % 2 === 0) throw new Error('mine') }) } }, async (t, site) => {
  for (const url of ['/a.txt', '/a.txt', '/a.txt', '/big.bin']) {
  const r = await site.get(url)
  console.log(r.statusCode, r.headers, r.body.slice(0, 100), await site.held()) }
})
siteTest(t, 'transform', { files: { 'a.txt': 'aaaa', 'big.bin': Buffer.alloc(200_000) }, options: { maxAge: '1y', immutable: true }, before: (app, { fs }) => {
  app.addHook('onSend', async (r, reply, payload: any) => { 
    if (!payload.pipe) return payload
    fs.fail('read', 'EIO')
    const chunks: any[] = []
    const tr = new Transform({ transform (c, e, cb) { chunks.push(c); cb() }, flush (cb) { cb(null, Buffer.concat(chunks)) } })
    payload.on('error', (e: any) => tr.destroy(e))
    return payload.pipe(tr)
  }) } }, async (t, site) => {
  const r = await site.get('/big.bin')
  console.log(r.statusCode, r.headers, r.body.slice(0, 100), await site.held())
})
