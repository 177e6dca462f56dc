import type { Clock } from '../types/open-file-cache'

export const systemClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after (delay, callback) {
    const timer = setTimeout(callback, delay).unref()
    return () => clearTimeout(timer)
  }
}
