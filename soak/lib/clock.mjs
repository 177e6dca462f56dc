/** Milliseconds of the one monotonic clock that all processes of a machine read. */
export const now = () => Number(process.hrtime.bigint()) / 1e6

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
