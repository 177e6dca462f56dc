import { capacityConflicts, lookupPolicy } from './cache-options'
import { CACHE_CONFLICT } from './errors'
import { isOpenFileCache } from './options'
import { OpenFileCache } from './open-file-cache'
import type { FastifyInstance } from 'fastify'
import type { Settings } from './options'
import type { OpenFileCache as Cache, LookupPolicy } from '../types/open-file-cache'

/** A registration's cache, and what to do with it when the registration ends. */
export interface CacheUse {
  readonly cache: Cache
  readonly policy: LookupPolicy
  /** Whether the application may see it as `fastify.openFileCache`. */
  readonly isPublic: boolean
  readonly leave: () => Promise<void>
}

interface Shared {
  readonly cache: OpenFileCache
  users: number
}

// On the server: contexts that are siblings do not see each other's decorators.
const kShared = Symbol('fastify-cached-static.shared')

export function joinCache (fastify: FastifyInstance, option: Settings['openFileCache']): CacheUse {
  if (option === false) {
    const cache = OpenFileCache.off()
    return { cache, policy: cache.policy(), isPublic: false, leave: () => cache.close() }
  }
  if (isOpenFileCache(option)) {
    return { cache: option, policy: option.policy(), isPublic: true, leave: async () => {} }
  }
  const server = fastify.server as typeof fastify.server & { [kShared]?: Shared }
  const conflicts = server[kShared] === undefined ? [] : capacityConflicts(option, server[kShared].cache.capacity)
  if (conflicts.length > 0) throw new CACHE_CONFLICT(conflicts.map((name) => `"openFileCache.${name}"`).join(', '))
  const shared = server[kShared] ??= { cache: new OpenFileCache(option), users: 0 }
  // Not `cache.policy()`: what the first registration chose is not the default of the others.
  const policy = lookupPolicy(option)
  shared.users++
  return {
    cache: shared.cache,
    policy,
    isPublic: true,
    leave: async () => {
      shared.users--
      if (shared.users === 0) await shared.cache.close()
    }
  }
}
