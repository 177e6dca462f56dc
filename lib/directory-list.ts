import { toStats } from './file-system'
import { toMilliseconds } from './file-times'
import { LISTING_CSP, listingPage } from './listing-page'
import { withSlash } from './resolve-path'
import type { Stats } from 'node:fs'
import type { ListSettings } from './option-values'
import type { DotfilesPolicy } from './resolve-path'
import type { ExtendedInformation, ListDir, ListFile } from '../types/index'
import type { FileSnapshot, ListedEntry, LookupPolicy, Negative, OpenFileCache } from '../types/open-file-cache'

export interface Listing {
  readonly kind: 'listing'
  readonly dirs: readonly ListedDirectory[]
  readonly files: readonly ListedEntry[]
}

interface ListedDirectory extends ListedEntry {
  readonly extendedInfo: ExtendedInformation | undefined
}

/** Where the visitor is. */
export interface Place {
  /** Percent-encoded path of the directory, with its slash. */
  readonly base: string
  readonly isRoot: boolean
}

export interface ListContent {
  readonly fields: Readonly<Record<string, string>>
  readonly content: unknown
}

/** Names below a directory that are counted for its `extendedInfo`; of a larger one, the first so many. */
const MAX_COUNTED = 100_000

/** @throws the error of a call that failed, when that may pass */
export async function readDirectory (
  cache: OpenFileCache, path: string, policy: LookupPolicy, { extendedFolderInfo }: ListSettings, dotfiles: DotfilesPolicy
): Promise<Listing | Negative> {
  const entries = await cache.list(path, policy)
  if ('kind' in entries) return entries
  const isShown = ({ name }: ListedEntry): boolean => dotfiles === 'allow' || !name.startsWith('.')
  const shown = entries.filter(isShown)
  const dirs: ListedDirectory[] = []
  for (const entry of shown.filter(isDirectory)) {
    const extendedInfo = extendedFolderInfo ? await countBelow(cache, withSlash(path) + entry.name, entry, policy, isShown) : undefined
    dirs.push({ ...entry, extendedInfo })
  }
  return { kind: 'listing', dirs, files: shown.filter((entry) => !isDirectory(entry)) }
}

/** `format`: what the query asks for. */
export function listContent ({ dirs, files }: Listing, list: ListSettings, format: unknown, place: Place): ListContent {
  if ((format || list.format) !== 'html') {
    const content = list.jsonFormat === 'names'
      ? { dirs: dirs.map(({ name }) => name), files: files.map(({ name }) => name) }
      : { dirs: dirs.map(extended), files: files.map(extended) }
    return { fields: {}, content }
  }
  const hrefOf = (name: string): string => place.base + encodePath(name)
  const listedDirs: ListDir[] = dirs.map((dir) => ({ href: hrefOf(dir.name), ...extended(dir) }))
  const listedFiles: ListFile[] = files.map((file) => ({ href: hrefOf(file.name), ...extended(file) }))
  const type = { 'content-type': 'text/html; charset=utf-8' }
  if (list.render !== undefined) return { fields: type, content: list.render(listedDirs, listedFiles) }
  const parent = place.isRoot ? undefined : place.base.slice(0, place.base.lastIndexOf('/', place.base.length - 2) + 1)
  return {
    fields: { ...type, 'content-security-policy': LISTING_CSP },
    content: listingPage(decodeURIComponent(place.base), listedDirs.map(slashed), listedFiles, parent)
  }
}

async function countBelow (
  cache: OpenFileCache, directory: string, { snapshot }: ListedEntry, policy: LookupPolicy, isCounted: (entry: ListedEntry) => boolean
): Promise<ExtendedInformation> {
  const info = { totalSize: 0, fileCount: 0, totalFileCount: 0, folderCount: 0, totalFolderCount: 0, lastModified: 0 }
  // Links may lead in circles.
  const seen = new Set([identityOf(snapshot)])
  const pending = [directory]
  for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
    const entries = await cache.list(path, policy)
    if ('kind' in entries) continue
    for (const { name, snapshot } of entries.filter(isCounted)) {
      const isOwn = path === directory
      if (snapshot.kind === 'directory') {
        info.totalFolderCount++
        if (isOwn) info.folderCount++
        const identity = identityOf(snapshot)
        if (!seen.has(identity)) pending.push(withSlash(path) + name)
        seen.add(identity)
      } else {
        info.totalSize += snapshot.size
        info.totalFileCount++
        if (isOwn) info.fileCount++
        info.lastModified = Math.max(info.lastModified, toMilliseconds(snapshot.mtimeNs))
      }
      if (info.totalFileCount + info.totalFolderCount === MAX_COUNTED) return info
    }
  }
  return info
}

interface Extended {
  readonly name: string
  readonly stats: Stats
  readonly extendedInfo?: ExtendedInformation
}

function extended ({ name, snapshot, extendedInfo }: ListedEntry & Partial<ListedDirectory>): Extended {
  return { name, stats: toStats(snapshot), ...extendedInfo !== undefined && { extendedInfo } }
}

/** Saves the visitor a redirect. */
function slashed (dir: ListDir): ListDir {
  return { ...dir, href: `${dir.href}/` }
}

function identityOf ({ dev, ino }: FileSnapshot): string {
  return `${dev}:${ino}`
}

function isDirectory ({ snapshot }: ListedEntry): boolean {
  return snapshot.kind === 'directory'
}

/** Lone surrogates, which Windows allows, have no UTF-8 form. */
export function encodePath (name: string): string {
  return encodeURI(Buffer.from(name).toString()).replace(/[#?]/g, encodeURIComponent)
}
