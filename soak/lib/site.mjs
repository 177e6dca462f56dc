// The tree that is served, and how: known to the server, the writer, the clients and the checker.

export const VALID = 1000
export const ERRORS = 300
export const INACTIVE = 3000
export const HELD = 128 * 1024

const DEFAULT_POLICY = { valid: VALID, errors: ERRORS }

/** Every mount is over the same cache. `policy`: what the checker may expect. Roots are directories of the tree. */
export const MOUNTS = [
  {
    name: 'site',
    roots: ['a', 'b'],
    options: { preCompressed: true, redirect: true, extensions: ['html'], dotfiles: 'ignore' }
  },
  { name: 'now', roots: ['a'], options: { preCompressed: ['gzip', 'br'], extensions: ['html'] }, policy: { valid: 0, errors: 0 } },
  { name: 'list', roots: ['list'], options: { index: false, list: { format: 'json', names: ['listing.json'] } } },
  { name: 'spa', roots: ['spa'], options: { fallback: 'index.html' } },
  { name: 'follow', roots: ['links'], options: { symlinks: 'follow' } },
  { name: 'within', roots: ['links'], options: { symlinks: 'within-root' } },
  { name: 'deny', roots: ['links'], options: { symlinks: 'deny' } },
  { name: 'release', roots: ['current'], options: { symlinks: 'within-root' } },
  { name: 'large', roots: ['large'], options: { etag: 'strong', maxContentRangeChunkSize: 1024 * 1024 } },
  { name: 'calm', roots: ['calm'], options: {} },
  { name: 'dots', roots: ['dots'], options: { dotfiles: 'allow', preCompressed: true } },
  { name: 'nodots', roots: ['dots'], options: { dotfiles: 'deny', highWaterMark: 16 * 1024 } }
].map((mount) => ({ policy: DEFAULT_POLICY, ...mount, prefix: `/${mount.name}/` }))

/** Routes that call `reply.sendFile` and `reply.download` of the first mount. */
export const ROUTES = [
  { name: 'send', call: 'sendFile', send: {} },
  { name: 'download', call: 'download', send: {} },
  { name: 'slice', call: 'sendFile', send: { start: 128, end: 4095 } }
].map((route) => ({ ...MOUNTS[0], ...route, prefix: `/${route.name}/` }))

export const ALL = [...MOUNTS, ...ROUTES]

/** Milliseconds between two changes of one file. */
const HOT = 350
const WARM = 1500
const CALM = 6000

/**
 * `kind`: small files are held, large ones are sent from their descriptors. `ops`: `any`, or `rename` only, or `link`, or
 * `vanishing` for those that come and go, `stamped` for those whose modification time is always the same, or `release` and
 * `moving` for those that change together.
 */
function files () {
  const list = []
  const add = (path, options = {}) => list.push({ kind: 'small', ops: 'any', period: HOT, ...options, path, id: list.length + 1 })
  const paces = [HOT, HOT, WARM, CALM]
  for (let i = 0; i < 24; i++) {
    const period = paces[i % 4]
    if (i < 18) add(`a/s${i}.css`, { period })
    if (i >= 12) add(`b/s${i}.css`, { period })
    if (i % 2 === 0 && i < 18) add(`a/s${i}.css.br`, { period })
    if (i % 3 === 0 && i < 18) add(`a/s${i}.css.gz`, { period })
  }
  for (let i = 0; i < 4; i++) {
    add(`a/page${i}.html`, { period: paces[i] })
    add(`a/page${i}.html.br`, { period: WARM })
    add(`a/d${i}/index.html`, { period: WARM, ...i >= 2 && { ops: 'moving' } })
    add(`a/d${i}/part.js`, { period: WARM, ...i >= 2 && { ops: 'moving' } })
  }
  // Nothing else changes the names there, so that they are kept.
  for (let i = 0; i < 3; i++) add(`calm/c${i}.txt`, { period: 2 * CALM, ops: 'vanishing' })
  for (let i = 0; i < 16; i++) add(`list/l${i}.txt`, { period: i < 8 ? WARM : CALM, vanishes: true })
  add('spa/index.html', { period: WARM, ops: 'rename' })
  add('spa/app.js', { period: HOT })
  // Still for long enough between two changes that the cache trusts their times.
  for (let i = 0; i < 6; i++) add(`spa/stamped${i}.txt`, { period: 4500, ops: 'stamped' })
  for (let i = 0; i < 10; i++) add(`links/k${i}.txt`, { period: i < 6 ? HOT : WARM, ops: 'link' })
  for (const name of ['index.html', 'app.js', 'app.css']) add(`current/${name}`, { ops: 'release' })
  add('current/big.bin', { ops: 'release', kind: 'large' })
  for (let i = 0; i < 10; i++) add(`large/f${i}.bin`, { kind: 'large', period: [HOT, WARM, WARM, CALM][i % 4] })
  for (let i = 0; i < 4; i++) add(`a/large${i}.bin`, { kind: 'large', period: [HOT, WARM, WARM, CALM][i] })
  add('a/large1.bin.br', { kind: 'large', period: WARM })
  add('dots/.secret.txt')
  add('dots/.well-known/known.txt', { period: WARM })
  add('dots/plain.txt')
  add('dots/plain.txt.gz')
  return list
}

export const FILES = files()
export const DIRECTORIES = ['a/d0', 'a/d1', 'a/d2', 'a/d3', 'dots/.well-known', 'links/.store']
export const MOVING = ['a/d2', 'a/d3']
export const RELEASE = 700

/** What the values of Accept-Encoding that are sent mean, the favourite of a server with the order br, gzip first. */
export const ENCODINGS = [
  [undefined, []],
  ['br', ['br']],
  ['gzip', ['gzip']],
  ['gzip, br', ['br', 'gzip']],
  ['gzip, br;q=0.5', ['gzip', 'br']],
  ['identity, gzip;q=0', []],
  ['*', ['br', 'gzip']]
]

const SUFFIX = { br: '.br', gzip: '.gz' }

function codingsOf ({ options: { preCompressed } }, accepted) {
  if (preCompressed === undefined) return []
  if (!Array.isArray(preCompressed)) return accepted
  // An order of its own, where the client likes them equally.
  return accepted.length > 1 && accepted[0] === 'br' ? preCompressed.filter((coding) => accepted.includes(coding)) : accepted
}

const hasExtension = (pathname) => pathname.slice(pathname.lastIndexOf('/') + 1).includes('.')

/** The files of the tree that may answer, the first that is there. `{ path, coding }` */
export function candidatesOf (mount, pathname, accepted, wantsPage) {
  const { roots, options: { index = 'index.html', extensions = [], fallback, redirect, list } } = mount
  const codings = codingsOf(mount, accepted)
  const candidates = []
  const add = (path) => {
    for (const coding of codings) candidates.push({ path: path + SUFFIX[coding], coding })
    candidates.push({ path, coding: undefined })
  }
  for (const root of roots) {
    const path = `${root}/${pathname}`
    if (pathname === '' || pathname.endsWith('/')) {
      if (index !== false) add(path + index)
      continue
    }
    add(path)
    if (!hasExtension(pathname)) for (const extension of extensions) add(`${path}.${extension}`)
    if (index !== false && !redirect && list === undefined) add(`${path}/${index}`)
  }
  if (fallback !== undefined && wantsPage && !hasExtension(pathname)) add(`${roots[0]}/${fallback}`)
  return candidates
}
