import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { dirname } from 'node:path'

const CHARTED_CASES = ['hot', 'mix', 'missing-many', '200k']
const CHARTED_SERVERS = ['ours', 'fastify-static', 'sirv', 'koa-static-cache', 'prebuilt', 'nginx-tuned']

export function median (values) {
  const sorted = values.filter((value) => value !== undefined).sort((a, b) => a - b)
  return sorted[sorted.length >> 1]
}

export function environment () {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return {
    date: new Date().toISOString().slice(0, 10),
    node: process.version,
    machine: `${cpus().length} cores, ${cpus()[0]?.model.trim() ?? 'unknown'}`,
    version
  }
}

export function writeResults (file, results, settings) {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, JSON.stringify({ ...environment(), ...settings, results }, undefined, 1) + '\n')
}

function figure ({ rate, gbps }, unit) {
  return unit === 'GB/s' ? gbps : rate
}

function shown (value, unit) {
  if (unit === 'GB/s') return value.toFixed(2)
  return value >= 10_000 ? `${Math.round(value / 1000)} k` : `${(value / 1000).toFixed(1)} k`
}

/** Markdown, as the README has it. A row is a server, with what it is times @fastify/static. */
export function table (results, { cases, servers }, { date, node, machine }) {
  const names = [...new Set(results.map((result) => result.case))]
  const of = (server, name) => results.find((result) => result.server === server && result.case === name)
  const cell = (server, name) => {
    const { unit } = cases[name]
    const own = of(server, name)
    if (own === undefined) return '–'
    const base = of('fastify-static', name)
    const times = base === undefined ? '' : ` (${(figure(own, unit) / figure(base, unit)).toFixed(1)} ×)`
    return shown(figure(own, unit), unit) + times
  }
  const rows = [...new Set(results.map((result) => result.server))].map((server) => [servers[server].title, ...names.map((name) => cell(server, name))])
  const head = ['', ...names.map((name) => `${cases[name].title}, ${cases[name].unit}`)]
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [
    `${machine}, Node ${node}, ${date}; in brackets: times @fastify/static`, '',
    line(head), line(head.map(() => '---')), ...rows.map(line), '',
    latencies(results, servers)
  ].join('\n')
}

function latencies (results, servers) {
  const busy = results.filter((result) => result.case === 'busy')
  if (busy.length === 0) return ''
  const cpu = (value) => value === undefined ? '–' : value.toFixed(0)
  return [
    '| 1 KiB, 200 connections | p50, ms | p99, ms | CPU, µs a request | of it in the kernel |', '|---|---|---|---|---|',
    ...busy.map(({ server, p50, p99, user, kernel }) =>
      `| ${servers[server].title} | ${p50.toFixed(1)} | ${p99.toFixed(1)} | ${cpu(user === undefined ? undefined : user + kernel)} | ${cpu(kernel)} |`)
  ].join('\n')
}

const escape = (text) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)

/** Bars for a few of the cases, readable on light and dark pages alike. */
export function chart (file, results, { cases, servers }) {
  const bar = 18
  const gap = 6
  const label = 230
  const width = 760
  const room = width - label - 130
  const lines = []
  let y = 14
  for (const name of CHARTED_CASES.filter((name) => results.some((result) => result.case === name))) {
    const { title, unit } = cases[name]
    const rows = CHARTED_SERVERS.map((server) => results.find((result) => result.server === server && result.case === name)).filter(Boolean)
    const most = Math.max(...rows.map((row) => figure(row, unit)))
    y += 16
    lines.push(`<text x="16" y="${y}" class="case">${escape(title)}, ${unit}</text>`)
    y += 12
    for (const row of rows) {
      const value = figure(row, unit)
      const { title: server, isLimit } = servers[row.server]
      const kind = row.server === 'ours' ? 'ours' : isLimit || row.server.startsWith('nginx') ? 'limit' : 'other'
      lines.push(
        `<text x="${label}" y="${y + 13}" text-anchor="end"${kind === 'ours' ? ' class="own"' : ''}>${escape(server)}</text>`,
        `<rect x="${label + 10}" y="${y}" width="${Math.max(1, room * value / most).toFixed(1)}" height="${bar}" rx="3" class="${kind}"/>`,
        `<text x="${(label + 18 + room * value / most).toFixed(1)}" y="${y + 13}">${shown(value, unit)}</text>`
      )
      y += bar + gap
    }
    y += 10
  }
  const summary = CHARTED_CASES.map((name) => {
    const of = (server) => results.find((result) => result.server === server && result.case === name)
    const own = of('ours')
    const base = of('fastify-static')
    return own && base && `${cases[name].title}: ${(figure(own, cases[name].unit) / figure(base, cases[name].unit)).toFixed(1)} times @fastify/static`
  }).filter(Boolean).join('; ')
  y += 14
  lines.push(`<text x="16" y="${y}" class="note">Longer is faster. Light bars are limits: files in memory that nobody ever checks, and a server in C.</text>`)
  writeFileSync(file, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${y + 12}" role="img" aria-label="${escape(summary)}">
<style>
text { font: 13px system-ui, sans-serif; fill: #24292f }
.case { font-weight: 600; font-size: 14px }
.own { font-weight: 600 }
.note { font-size: 12px; fill: #57606a }
.ours { fill: #0a7d5a }
.other { fill: #8a94a0 }
.limit { fill: #c9ced6 }
</style>
<rect width="100%" height="100%" rx="8" fill="#fff"/>
${lines.join('\n')}
</svg>
`)
}
