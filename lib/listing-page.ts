import { createHash } from 'node:crypto'
import type { Stats } from 'node:fs'

export interface ListedFile {
  /** Percent-encoded. */
  readonly href: string
  readonly name: string
  readonly stats: Pick<Stats, 'size' | 'mtimeMs'>
}

export type ListedDir = ListedFile

// Every text has at least 4.5:1 on its background. `anywhere`, unlike `break-word`, lets the column of names be narrow;
// 10ch are for a date, which a browser may break at its hyphens.
const STYLE = `
:root{color-scheme:light dark;--bg:#fff;--fg:#1f2328;--dim:#59636e;--line:#d8dee4;--link:#0550ae;--seen:#6639ba}
@media(prefers-color-scheme:dark){
:root{--bg:#0f1318;--fg:#e6edf3;--dim:#9da7b1;--line:#2f363e;--link:#79b8ff;--seen:#c8a6ff}}
body{margin:0 auto;max-width:60rem;padding:1rem;font:1rem/1.5 system-ui,sans-serif;background:var(--bg);color:var(--fg)}
h1{font-size:1.25rem}
bdi{white-space:pre-wrap;overflow-wrap:anywhere}
table{width:100%;border-collapse:collapse}
th,td{padding:.375rem 0 .375rem 1rem;border-bottom:1px solid var(--line);font-size:.875rem;font-weight:400;color:var(--dim);
vertical-align:baseline;text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
th:first-child{width:100%;padding-left:0;text-align:left}
a{color:var(--link);font-size:1rem}
a:visited{color:var(--seen)}
a:focus-visible{outline:2px solid;outline-offset:2px}
th a{display:block;text-decoration:none}
th a:hover{text-decoration:underline}
.dirs a{font-weight:600}
@media(max-width:30rem){th,td{white-space:normal}td:last-child{min-width:10ch}}
`

/** The strictest Content-Security-Policy under which the page looks as it should. */
export const LISTING_CSP =
  // CSP3 6.3.1, 6.4.1: these two do not fall back to default-src.
  "default-src 'none'; base-uri 'none'; form-action 'none'; " +
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`

/** A plain page for a directory: names, sizes, dates; no script, nothing from elsewhere. */
export function listingPage (
  pathname: string, dirs: readonly ListedDir[], files: readonly ListedFile[], parentHref: string | undefined
): string {
  const path = visible(pathname)
  const html = [
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
    `<title>Index of ${path}</title>\n<style>${STYLE}</style>\n</head>\n<body>\n<main>\n`,
    `<h1 id="index">Index of <bdi>${path}</bdi></h1>\n`
  ]
  if (parentHref !== undefined) html.push(`<p><a href="${escapeHtml(parentHref)}">Parent directory</a></p>\n`)

  if (dirs.length === 0 && files.length === 0) {
    html.push('<p>This directory is empty.</p>\n')
  } else {
    html.push('<table aria-labelledby="index">\n<thead>\n<tr><th scope="col">Name</th>',
      '<th scope="col">Size</th><th scope="col">Modified (UTC)</th></tr>\n</thead>\n')
    if (dirs.length > 0) {
      html.push('<tbody class="dirs">\n', dirs.map((dir) => row(dir, '/', NOTHING)).join(''), '</tbody>\n')
    }
    if (files.length > 0) {
      html.push('<tbody>\n', files.map((file) => row(file, '', sizeOf(file.stats.size))).join(''), '</tbody>\n')
    }
    html.push('</table>\n')
  }
  html.push('</main>\n</body>\n</html>\n')
  return html.join('')
}

const NOTHING = '\u2013'

function row ({ href, name, stats }: ListedFile, suffix: string, size: string): string {
  return `<tr><th scope="row"><a href="${escapeHtml(href)}"><bdi>${visible(name)}${suffix}</bdi></a></th>` +
    `<td>${size}</td><td>${timeOf(stats.mtimeMs)}</td></tr>\n`
}

const UNITS = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'] as const

// The space is U+00A0: a number stays with its unit.
function sizeOf (bytes: number): string {
  if (bytes < 1024) return `<data value="${bytes}">${bytes}\u00a0B</data>`
  let unit = 0
  let size = bytes / 1024
  // What toFixed would round up to 1024.0 is 1.0 of the next unit.
  while (size >= 1023.95 && unit < UNITS.length - 1) {
    size /= 1024
    unit++
  }
  return `<data value="${bytes}" title="${bytes} bytes">${size.toFixed(1)}\u00a0${UNITS[unit]}</data>`
}

/** The minute in which it was changed. A file system has times for which four digits of a year, or a Date, are too small. */
function timeOf (ms: number): string {
  // Not Date's own rounding of a fraction, which is towards zero.
  const date = new Date(Math.floor(ms))
  const year = date.getUTCFullYear()
  if (!(year >= 1 && year <= 9999)) return NOTHING
  const minute = date.toISOString().slice(0, 'YYYY-MM-DDTHH:MM'.length)
  return `<time datetime="${minute}Z">${minute.replace('T', ' ')}</time>`
}

// What has no glyph, is a parse error in HTML, or (U+2028 to U+202E, U+2066 to U+2069, some of Cc) can end the isolation
// of <bdi> or show `gpj.exe` as `exe.jpg`. The marks of one direction (U+200E, U+200F, U+061C) can do neither.
const UNPRINTABLE = /[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}\u2028-\u202e\u2066-\u2069]/gu

/** HTML that shows any text, and U+FFFD for what cannot be shown: fonts have it, and few have the control pictures. */
function visible (text: string): string {
  return escapeHtml(text.replace(UNPRINTABLE, '\ufffd'))
}

const REFERENCES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

function escapeHtml (text: string): string {
  return text.replace(/[&<>"']/g, (character) => REFERENCES[character] as string)
}
