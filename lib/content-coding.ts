// Not @fastify/accept-negotiator: it names one coding where we need them all in order, picks `br`
// for `br;q=0, *`, compares case-sensitively, and knows neither `x-gzip` nor a preferred identity.

export type Coding = 'br' | 'zstd' | 'gzip' | 'deflate'

export const CODING_SUFFIX: Readonly<Record<Coding, string>> = {
  br: '.br',
  zstd: '.zst',
  gzip: '.gz',
  deflate: '.deflate'
}

// RFC 9110 12.5.3 and 12.4.2; `q=` is case-insensitive, as all ABNF text is. The name need not be checked
// for being a token: what is none is no coding that we offer.
const MEMBER = /^[\t ]*([^\t ;]+)(?:[\t ]*;[\t ]*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?[\t ]*$/i

/** Those of `offered` that Accept-Encoding lets us prefer to identity, best first; identity remains when none has a file. */
export function acceptableCodings (field: string | undefined, offered: readonly Coding[]): readonly Coding[] {
  // 12.5.3: without the field any coding is acceptable; identity, which every client can read, is one.
  if (field === undefined) return []

  const qualities = new Map<string, number>()
  for (const member of field.split(',')) {
    const match = MEMBER.exec(member)
    if (match === null) continue
    const name = (match[1] as string).toLowerCase()
    // 8.4.1.3: x-gzip is gzip.
    const coding = name === 'x-gzip' ? 'gzip' : name
    const quality = match[2] === undefined ? 1 : Number(match[2])
    // The RFC is silent on a coding named twice. The lower value counts: what was refused once is never sent.
    qualities.set(coding, Math.min(quality, qualities.get(coding) ?? 1))
  }

  // 12.5.3: "*" stands for every coding that is not named.
  const fallback = qualities.get('*') ?? 0
  const qualityOf = (coding: Coding) => qualities.get(coding) ?? fallback
  // 12.5.3 prefers the acceptable coding of highest quality, and identity is one: who writes `identity, gzip;q=0.5`
  // gets the plain file. Only when named: `gzip;q=0.5, *` must not lift identity above gzip.
  const identity = qualities.get('identity') ?? 0
  return offered
    .filter((coding) => qualityOf(coding) > 0 && qualityOf(coding) >= identity)
    .sort((a, b) => qualityOf(b) - qualityOf(a))
}

/** Texts of Accept-Encoding whose meaning is remembered, and their length: browsers send a handful, others what they like. */
const MAX_REMEMBERED = 100
const MAX_LENGTH = 256

/** `acceptableCodings`, for one server. */
export class CodingNegotiator {
  readonly #offered: readonly Coding[]
  readonly #known = new Map<string, readonly Coding[]>()

  constructor (offered: readonly Coding[]) {
    this.#offered = offered
  }

  acceptable (field: string | undefined): readonly Coding[] {
    if (field === undefined || this.#offered.length === 0) return []
    const known = this.#known.get(field)
    if (known !== undefined) return known
    const codings = Object.freeze(acceptableCodings(field, this.#offered))
    if (field.length > MAX_LENGTH) return codings
    if (this.#known.size === MAX_REMEMBERED) this.#known.delete(this.#known.keys().next().value as string)
    this.#known.set(field, codings)
    return codings
  }
}
