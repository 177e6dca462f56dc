import { isAbsolute, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { duration, optionsObject, refuse, shown } from './cache-options'
import { CODING_SUFFIX } from './content-coding'
import { INVALID_OPTION, INVALID_OPTION_VALUE, MULTIROOT_LIST_CONFLICT } from './errors'
import { childPath } from './resolve-path'
import type { CachedStaticOptions, EtagFunction, ListRender } from '../types/index'
import type { Coding } from './content-coding'
import type { DotfilesPolicy, TargetPath } from './resolve-path'

/** How directories are listed. */
export interface ListSettings {
  /** Names that stand for the listing of their directory; `/` for that of a directory without index. */
  readonly names: readonly string[]
  readonly format: 'json' | 'html'
  readonly jsonFormat: 'names' | 'extended'
  readonly extendedFolderInfo: boolean
  /** `undefined`: our page. */
  readonly render: ListRender | undefined
}

const LIST_OPTIONS = ['names', 'format', 'jsonFormat', 'extendedFolderInfo', 'render']

const YEAR = 365 * 24 * 60 * 60 * 1000

export function readBoolean (name: string, value: unknown): boolean {
  if (typeof value !== 'boolean') refuse(name, 'true or false', value)
  return value
}

export function readFunction<T extends (...args: never[]) => unknown> (name: string, value: T | undefined): T | undefined {
  if (value !== undefined && typeof value !== 'function') refuse(name, 'a function', value)
  return value
}

/** `shownLeast`: what the error says of the least, when that is no constant. */
export function readBytes (name: string, value: unknown, least: number, shownLeast = `${least}`): number | undefined {
  if (value === undefined) return undefined
  if (!Number.isSafeInteger(value) || (value as number) < least) refuse(name, `a whole number of bytes >= ${shownLeast}`, value)
  return value as number
}

export function readRoots (root: unknown): readonly string[] {
  if (root === undefined) return []
  if (!Array.isArray(root)) return Object.freeze([readRoot(root)])
  if (root.length === 0) throw new INVALID_OPTION('root', 'array requires one or more paths')
  const paths = root.map(readRoot)
  const repeated = paths.find((path, i) => paths.indexOf(path) !== i)
  if (repeated !== undefined) throw new INVALID_OPTION('root', `array contains duplicate paths: ${shown(repeated)}`)
  return Object.freeze(paths)
}

function readRoot (root: unknown): string {
  if (root instanceof URL) return readRoot(pathOf(root))
  if (typeof root !== 'string') refuse('root', 'an absolute path, a file URL, or a list of them', root)
  if (!isAbsolute(root) || root.includes('\0')) {
    const hint = /^file:/i.test(root) ? `; for a URL pass new URL(${shown(root)})` : ''
    throw new INVALID_OPTION('root', `must be an absolute path, but is ${shown(root)}${hint}`)
  }
  // Not realpath: releases are swapped by link.
  return resolve(root)
}

function pathOf (url: URL): string {
  try {
    return fileURLToPath(url)
  } catch {
    // Not of a file, or with a host, or with an encoded slash.
    refuse('root', 'an absolute path or a file URL', url.href)
  }
}

export function readPrefix (prefix: unknown): string {
  // @fastify/autoload makes '' of '/'.
  if (typeof prefix !== 'string' || !/^(?:\/|$)/.test(prefix)) refuse('prefix', "a text that begins with '/'", prefix)
  // The router has it at the end only, where ours is. In brackets it is of a pattern: `/:version(\d*)`.
  if (/^[^(]*\*|\*[^)]*$/.test(prefix)) throw new INVALID_OPTION_VALUE('prefix', `must not contain '*', but is ${shown(prefix)}`)
  return prefix
}

export function readEtag (value: unknown): boolean | EtagFunction {
  if (typeof value !== 'boolean' && typeof value !== 'function') refuse('etag', 'true, false or a function', value)
  return value as boolean | EtagFunction
}

export function readDotfiles (value: unknown): DotfilesPolicy {
  if (value === 'allow' || value === 'deny' || value === 'ignore') return value
  refuse('dotfiles', "'allow', 'deny' or 'ignore'", value)
}

export function readIndex (value: unknown): readonly string[] {
  if (value === false) return []
  const names = Array.isArray(value) ? value : [value]
  return Object.freeze(names.map((name) => {
    if (typeof name !== 'string' || childPath('/' as TargetPath, name) === undefined) {
      refuse('index', 'a file name, a list of them, or false', name)
    }
    return name
  }))
}

export function readExtensions (value: unknown): readonly string[] {
  if (value === false) return []
  const extensions = Array.isArray(value) ? value : [value]
  return Object.freeze(extensions.map((extension) => {
    if (typeof extension !== 'string' || /^\.|[/\\\0]|^$/.test(extension)) {
      refuse('extensions', "a list of extensions without dot, such as ['html']", extension)
    }
    return extension
  }))
}

export function readSymlinks (value: unknown): 'follow' | 'within-root' | 'deny' {
  if (value === 'follow' || value === 'within-root' || value === 'deny') return value
  refuse('symlinks', "'follow', 'within-root' or 'deny'", value)
}

/** Value of the Cache-Control field. */
export function readCacheControl (isSent: unknown, maxAge: unknown, isImmutable: unknown): string | undefined {
  const immutable = readBoolean('immutable', isImmutable)
  const seconds = Math.floor(Math.min(duration('maxAge', maxAge), YEAR) / 1000)
  return readBoolean('cacheControl', isSent) ? `public, max-age=${seconds}${immutable ? ', immutable' : ''}` : undefined
}

export function readPreCompressed (value: unknown): readonly Coding[] {
  if (value === false) return []
  const expected = "true, false or a list of 'br', 'zstd', 'gzip', 'deflate'"
  const codings = value === true ? Object.keys(CODING_SUFFIX) : value
  if (!Array.isArray(codings)) refuse('preCompressed', expected, value)
  return Object.freeze(codings.map((coding) => {
    if (typeof coding !== 'string' || !Object.hasOwn(CODING_SUFFIX, coding)) {
      throw new INVALID_OPTION_VALUE('preCompressed', `must be ${expected}, but has ${shown(coding)}`)
    }
    return coding as Coding
  }))
}

export function readTypes (value: unknown): ReadonlyMap<string, string> {
  const types = new Map<string, string>()
  if (value === undefined) return types
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    refuse('types', "an object such as { '.ts': 'text/plain' }", value)
  }
  for (const [extension, type] of Object.entries(value)) {
    if (!/^\.[^./\\]+$/.test(extension)) {
      throw new INVALID_OPTION_VALUE('types', `must have names such as '.ts' (one dot, in front), but has ${shown(extension)}`)
    }
    if (typeof type !== 'string' || !/^[\w.+-]+\/[\w.+-]+(?:[\t ]*;[\t\x20-\x7e]*)?$/.test(type)) {
      refuse(`types['${extension}']`, "a media type such as 'text/plain'", type)
    }
    types.set(extension.slice(1).toLowerCase(), type)
  }
  return types
}

export function readFallback (value: unknown): string | undefined {
  if (value === undefined) return undefined
  if (typeof value !== 'string' || value === '' || value.endsWith('/')) refuse('fallback', 'a file name', value)
  return value
}

export function readGlobIgnore (value: unknown): readonly string[] {
  const patterns = value === undefined ? [] : Array.isArray(value) ? value : [value]
  return Object.freeze(patterns.map((pattern) => {
    if (typeof pattern !== 'string' || pattern === '') refuse('globIgnore', 'a list of glob patterns', pattern)
    return pattern
  }))
}

export function readList (value: unknown, roots: readonly string[]): ListSettings | undefined {
  if (value === false || value === undefined) return undefined
  const options = value === true ? {} : optionsObject('list', value, LIST_OPTIONS, 'true, false or an object')
  if (roots.length > 1) throw new MULTIROOT_LIST_CONFLICT()
  const given = options as Exclude<CachedStaticOptions['list'], boolean | undefined>
  const { names = [], format = 'json', jsonFormat = 'names', extendedFolderInfo = false, render } = given
  if (format !== 'json' && format !== 'html') refuse('list.format', "'json' or 'html'", format)
  if (jsonFormat !== 'names' && jsonFormat !== 'extended') refuse('list.jsonFormat', "'names' or 'extended'", jsonFormat)
  return Object.freeze({
    names: readListNames(names),
    format,
    jsonFormat,
    extendedFolderInfo: readBoolean('list.extendedFolderInfo', extendedFolderInfo),
    render: readFunction('list.render', render)
  })
}

function readListNames (value: unknown): readonly string[] {
  const expected = "a list of file names and '/'"
  if (!Array.isArray(value)) refuse('list.names', expected, value)
  return Object.freeze(value.map((name) => {
    if (typeof name !== 'string' || !/^(?:\/|[^/\\\0]+)$/.test(name)) refuse('list.names', expected, name)
    return name
  }))
}
