// Random numbers that come again with the same seed (mulberry32).

export function randomFrom (seed) {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let x = Math.imul(state ^ (state >>> 15), state | 1)
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61)
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296
  }
  const integer = (from, to) => from + Math.floor(next() * (to - from + 1))
  return {
    next,
    integer,
    chance: (probability) => next() < probability,
    of: (list) => list[integer(0, list.length - 1)],
    /** One of the keys of `{ key: weight }`. */
    weighted (weights) {
      let rest = next() * Object.values(weights).reduce((sum, weight) => sum + weight, 0)
      for (const [key, weight] of Object.entries(weights)) {
        rest -= weight
        if (rest < 0) return key
      }
      return Object.keys(weights).at(-1)
    }
  }
}
