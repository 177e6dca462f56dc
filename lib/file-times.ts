const NS_PER_S = 1_000_000_000n

/**
 * As `fs.Stats` has it: seconds (before 1970, too, the greatest number that is not above) and nanoseconds go through
 * separate doubles, so that no rounding differs.
 */
export function toMilliseconds (ns: bigint): number {
  const rest = (ns % NS_PER_S + NS_PER_S) % NS_PER_S
  return Number((ns - rest) / NS_PER_S) * 1000 + Number(rest) / 1e6
}
