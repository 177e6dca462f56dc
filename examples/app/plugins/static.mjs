import { readFileSync } from 'node:fs'
import cachedStatic from 'fastify-cached-static'

const options = new URL('../static.json', import.meta.url)
const { root, ...others } = JSON.parse(readFileSync(options))

export default cachedStatic

// JSON has no file that it is relative to: `root` becomes absolute here.
export const autoConfig = { ...others, root: new URL(root, options) }

export const autoPrefix = '/static'
