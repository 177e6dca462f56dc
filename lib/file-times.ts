const NS_PER_S = 1_000_000_000n

/** As `fs.Stats` has it: seconds and nanoseconds go through separate doubles, so that no rounding differs. */
export function toMilliseconds (ns: bigint): number {
  return Number(ns / NS_PER_S) * 1000 + Number(ns % NS_PER_S) / 1e6
}
