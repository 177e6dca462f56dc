import { isAbsolute } from 'node:path'
import { parse } from '@lukeed/ms'
import { INVALID_ARGUMENT, INVALID_OPTION, INVALID_OPTION_VALUE } from './errors'
import type { LinkPolicy, LookupPolicy, LookupPolicyOptions, OpenFileCacheOptions } from '../types/open-file-cache'

/** What belongs to the cache itself, whoever looks something up. Milliseconds and bytes. */
export interface Capacity {
  readonly max: number
  readonly inactive: number
  readonly maxNegative: number
  readonly memoryMax: number
  /** -1: no bytes are read whole, not even those of an empty file. */
  readonly memoryMaxFileSize: number
  /** 0: no names are kept. */
  readonly maxDirectories: number
  readonly maxNames: number
}

export type DirectoryCapacity = Pick<Capacity, 'inactive' | 'maxDirectories' | 'maxNames'>

const CAPACITY: Capacity = Object.freeze({
  max: 10_000,
  inactive: 30_000,
  maxNegative: 10_000,
  memoryMax: 64 * 1024 * 1024,
  memoryMaxFileSize: 128 * 1024,
  maxDirectories: 1000,
  maxNames: 100_000
})

const POLICY: LookupPolicy = Object.freeze({
  valid: 20_000,
  minUses: 2,
  errors: 1_000,
  links: undefined,
  spelledBelow: undefined
})

/** What a registration may say of its cache; the rest of a policy it sets itself, for each of its roots. */
const REGISTRATION_OPTIONS = ['max', 'inactive', 'valid', 'minUses', 'errors', 'memory', 'maxNegative', 'directories']
const CACHE_OPTIONS = [...REGISTRATION_OPTIONS, 'links', 'spelledBelow']
const MEMORY_OPTIONS = ['max', 'maxFileSize']
const DIRECTORY_OPTIONS = ['max', 'maxNames']

/** Capacity of the cache that keeps nothing, as `openFileCache: false` asks for. */
export const NO_CAPACITY: Capacity = Object.freeze({
  ...CAPACITY, max: 0, maxNegative: 0, memoryMax: 0, maxDirectories: 0
})

/** How an error message shows what came. */
export function shown (value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value)
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'number' || typeof value === 'boolean' || value === undefined || value === null) return String(value)
  return Array.isArray(value) ? 'an array' : typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

export function refuse (name: string, expected: string, value: unknown): never {
  throw new INVALID_OPTION_VALUE(name, `must be ${expected}, but is ${shown(value)}`)
}

export function refuseArgument (name: string, expected: string, value: unknown): never {
  throw new INVALID_ARGUMENT(`"${name}" must be ${expected}, but is ${shown(value)}`)
}

/** Milliseconds from a number or a text such as `'20s'`. */
export function duration (name: string, value: unknown, orElse = ''): number {
  const ms = typeof value === 'string' ? value === 'Infinity' ? Infinity : parse(value) : value
  if (typeof ms !== 'number' || !(ms >= 0)) {
    refuse(name, `${orElse}a duration (milliseconds >= 0, or a text such as '20s', '500ms', '1m')`, value)
  }
  return ms
}

function count (name: string, value: unknown, least: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < least) refuse(name, `a whole number >= ${least}`, value)
  return value as number
}

export function optionsObject (
  name: string, value: unknown, known: readonly string[], expected = 'an object'
): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) refuse(name, expected, value)
  for (const key of Object.keys(value)) {
    if (!known.includes(key)) {
      throw new INVALID_OPTION_VALUE(`${name}.${key}`, `is unknown; "${name}" may have: ${known.join(', ')}`)
    }
  }
  return value as Record<string, unknown>
}

/** What the engine would take, and the plugin would then not heed. */
export function checkRegistrationOptions (options: OpenFileCacheOptions): void {
  if (options.links !== undefined) {
    throw new INVALID_OPTION('openFileCache.links', 'is for look-ups of your own; for a registration use "symlinks"')
  }
  if (options.spelledBelow !== undefined) {
    throw new INVALID_OPTION(
      'openFileCache.spelledBelow', 'is for look-ups of your own; a registration sets it to each "root" (for links use "symlinks")'
    )
  }
  optionsObject('openFileCache', options, REGISTRATION_OPTIONS)
}

export function cacheCapacity (options: OpenFileCacheOptions = {}): Capacity {
  const given = optionsObject('openFileCache', options, CACHE_OPTIONS)
  const capacity = {
    max: given.max === undefined ? CAPACITY.max : count('openFileCache.max', given.max, 1),
    inactive: given.inactive === undefined ? CAPACITY.inactive : duration('openFileCache.inactive', given.inactive),
    maxNegative: given.maxNegative === undefined
      ? CAPACITY.maxNegative
      : count('openFileCache.maxNegative', given.maxNegative, 1)
  }
  return Object.freeze({ ...capacity, ...memoryCapacity(given.memory), ...directoryCapacity(given.directories) })
}

function memoryCapacity (memory: unknown): Pick<Capacity, 'memoryMax' | 'memoryMaxFileSize'> {
  if (memory === false) return { memoryMax: 0, memoryMaxFileSize: -1 }
  const given = memory === undefined ? {} : optionsObject('openFileCache.memory', memory, MEMORY_OPTIONS, 'an object or false')
  const memoryMax = given.max === undefined ? CAPACITY.memoryMax : count('openFileCache.memory.max', given.max, 1)
  if (given.maxFileSize === undefined) {
    return { memoryMax, memoryMaxFileSize: Math.min(CAPACITY.memoryMaxFileSize, memoryMax) }
  }
  const memoryMaxFileSize = count('openFileCache.memory.maxFileSize', given.maxFileSize, 0)
  if (memoryMaxFileSize > memoryMax) {
    refuse('openFileCache.memory.maxFileSize', `at most "openFileCache.memory.max" (${memoryMax})`, memoryMaxFileSize)
  }
  return { memoryMax, memoryMaxFileSize }
}

function directoryCapacity (directories: unknown): Pick<Capacity, 'maxDirectories' | 'maxNames'> {
  const { maxDirectories, maxNames } = CAPACITY
  if (directories === false) return { maxDirectories: 0, maxNames }
  const given = directories === undefined
    ? {}
    : optionsObject('openFileCache.directories', directories, DIRECTORY_OPTIONS, 'an object or false')
  return {
    maxDirectories: given.max === undefined ? maxDirectories : count('openFileCache.directories.max', given.max, 1),
    maxNames: given.maxNames === undefined ? maxNames : count('openFileCache.directories.maxNames', given.maxNames, 1)
  }
}

export function lookupPolicy (options: LookupPolicyOptions = {}, base = POLICY): LookupPolicy {
  const given = optionsObject('openFileCache', options, CACHE_OPTIONS)
  const valid = given.valid === undefined ? base.valid : duration('openFileCache.valid', given.valid)
  return Object.freeze({
    valid,
    minUses: given.minUses === undefined ? base.minUses : count('openFileCache.minUses', given.minUses, 1),
    // Whoever shortens `valid` and says nothing of errors wants no older "not there" either.
    errors: errorsDuration(given.errors, valid, given.valid === undefined ? base.errors : Math.min(base.errors, valid)),
    links: given.links === undefined ? base.links : linkPolicy(given.links),
    spelledBelow: given.spelledBelow === undefined
      ? base.spelledBelow
      : absolutePath('openFileCache.spelledBelow', given.spelledBelow)
  })
}

function errorsDuration (errors: unknown, valid: number, base: number): number {
  if (errors === undefined) return base
  if (typeof errors === 'boolean') return errors ? valid : 0
  return duration('openFileCache.errors', errors, 'true, false or ')
}

function linkPolicy (links: unknown): LinkPolicy {
  const { symlinks, root } = optionsObject('openFileCache.links', links, ['symlinks', 'root'])
  if (symlinks !== 'within-root' && symlinks !== 'deny') {
    refuse('openFileCache.links.symlinks', "'within-root' or 'deny'", symlinks)
  }
  return Object.freeze({ symlinks, root: absolutePath('openFileCache.links.root', root) })
}

function absolutePath (name: string, value: unknown): string {
  if (typeof value !== 'string' || !isAbsolute(value)) refuse(name, 'an absolute path', value)
  return value
}

/** The names of the capacity options in which `options` asks for something else than `capacity` has. */
export function capacityConflicts (options: OpenFileCacheOptions, capacity: Capacity): string[] {
  const asked = cacheCapacity(options)
  const conflicts: string[] = []
  for (const name of ['max', 'inactive', 'maxNegative'] as const) {
    if (options[name] !== undefined && asked[name] !== capacity[name]) conflicts.push(name)
  }
  if (options.memory !== undefined &&
    (asked.memoryMax !== capacity.memoryMax || asked.memoryMaxFileSize !== capacity.memoryMaxFileSize)) {
    conflicts.push('memory')
  }
  if (options.directories !== undefined &&
    (asked.maxDirectories !== capacity.maxDirectories || asked.maxNames !== capacity.maxNames)) {
    conflicts.push('directories')
  }
  return conflicts
}
