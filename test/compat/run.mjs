// The suite that @fastify/static publishes in its package, against our plugin: `npm run test:compat`.
//
// A check is a test of theirs, known by file, line and name. It passes, or it is in expected-failures.json and fails.
// `node test/compat/run.mjs --theirs` runs the suite against their own plugin, to see what the suite itself does.
import { spawn } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const CHECKS = 390
const LIMITS = { 'white-box': Infinity, 'dotfiles default': 12, 'documented differences': 15 }
// Of the tests that hold a white-box check: what they replace or read.
const WHITE_BOX = /\bproxyquire\b|\bdirList\.|require\('\.\.\/lib|\bmock\b/
const FILES = ['static.test.js', 'content-type.test.js', 'dir-list.test.js']
const HUNG = 120_000

const theirs = process.argv.includes('--theirs')
const here = fileURLToPath(new URL('.', import.meta.url))
const source = dirname(createRequire(import.meta.url).resolve('@fastify/static/package.json'))
// No dot in front: the suite passes absolute paths to sendFile(), and a dotfile is not served.
const suite = join(here, '../../compat')

const listed = JSON.parse(readFileSync(join(here, 'expected-failures.json'), 'utf8'))
const groupOf = new Map(theirs ? [] : Object.entries(listed).flatMap(([group, checks]) => Object.keys(checks).map((key) => [key, group])))

function copySuite () {
  rmSync(suite, { recursive: true, force: true })
  cpSync(source, suite, { recursive: true })
  // npm packs no symbolic links.
  mkdirSync(join(suite, 'test/static-symbolic-link/dir'))
  symlinkSync('../origin', join(suite, 'test/static-symbolic-link/dir/symlink'))
}

// What is wrong with the list, whatever the runs say.
function wrongInList () {
  const wrong = []
  for (const [group, checks] of Object.entries(listed)) {
    const count = Object.keys(checks).length
    if (!(group in LIMITS)) wrong.push(`${group}: no such group`)
    if (count > LIMITS[group]) wrong.push(`${group}: ${count} checks, at most ${LIMITS[group]} may be`)
    for (const [key, reason] of Object.entries(checks)) {
      if (typeof reason !== 'string' || reason.trim() === '') wrong.push(`${key}: has no reason`)
      if (groupOf.get(key) !== group) wrong.push(`${key}: is in more than one group`)
      if (group === 'white-box' && !isWhiteBox(key)) wrong.push(`${key}: is not a white-box check`)
    }
  }
  return wrong
}

function isWhiteBox (key) {
  const [file, number] = key.split(':')
  if (!FILES.includes(file)) return false
  const lines = readFileSync(join(source, 'test', file), 'utf8').split('\n')
  const starts = (text) => text.startsWith('test(')
  const first = lines.findLastIndex((text, index) => index < Number(number) && starts(text))
  const next = lines.findIndex((text, index) => index > first && starts(text))
  return WHITE_BOX.test(lines.slice(Math.max(first, 0), next === -1 ? undefined : next).join('\n'))
}

// One process per file, and no --test: its timeout would be one for the whole file.
function runFile (file, env) {
  const report = join(suite, `${file}.jsonl`)
  writeFileSync(report, '')
  const child = spawn(process.execPath, [
    ...(theirs ? [] : ['--require', join(here, 'preload.cjs')]),
    `--test-reporter=${new URL('reporter.mjs', import.meta.url)}`,
    '--test-reporter-destination=stdout',
    '--test-timeout=5000',
    '--test-force-exit',
    join(suite, 'test', file)
  ], { cwd: suite, env: { ...process.env, ...env, COMPAT_REPORT: report }, stdio: ['ignore', 'ignore', 'pipe'], timeout: HUNG, killSignal: 'SIGKILL' })

  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (chunk) => { errors += chunk })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => {
      const checks = readFileSync(report, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line))
      const broken = []
      if (signal !== null) broken.push(`${file}: ended by ${signal}, after ${HUNG / 1000} s if it hung`)
      // 1 is a failed test.
      else if (code > 1 || checks.length === 0) broken.push(`${file}: exit status ${code}, ${checks.length} checks\n${errors}`)
      resolve({ checks, broken })
    })
  })
}

async function run (name, env) {
  const started = Date.now()
  process.stdout.write(`${name} ...`)
  copySuite()
  const checks = new Map()
  const unexpected = []
  for (const file of FILES) {
    const result = await runFile(file, env)
    unexpected.push(...result.broken)
    for (const check of result.checks) {
      const key = `${basename(check.file)}:${check.line}:${check.name}`
      if (checks.has(key)) unexpected.push(`${key}: is reported twice`)
      checks.set(key, check)
    }
  }

  const expected = Object.fromEntries(Object.keys(LIMITS).map((group) => [group, 0]))
  for (const [key, { status, error }] of checks) {
    if (status !== 'failed') continue
    if (groupOf.has(key)) expected[groupOf.get(key)]++
    else unexpected.push(`${key}\n    ${error}`)
  }
  for (const key of groupOf.keys()) {
    if (!checks.has(key)) unexpected.push(`${key}: is listed, and not reported`)
    else if (checks.get(key).status !== 'failed') unexpected.push(`${key}: is listed, and ${checks.get(key).status}`)
  }
  if (checks.size !== CHECKS) unexpected.push(`${checks.size} checks reported instead of ${CHECKS}`)

  const count = (status) => [...checks].filter(([key, check]) => check.status === status && !groupOf.has(key)).length
  console.log(` ${((Date.now() - started) / 1000).toFixed(1)} s`)
  return { run: name, checks: checks.size, passed: count('passed'), skipped: count('skipped'), ...expected, unexpected }
}

function print (rows) {
  const columns = Object.keys(rows[0])
  const cells = [columns, ...rows.map((row) => columns.map((column) => String(row[column])))]
  const widths = columns.map((_, index) => Math.max(...cells.map((row) => row[index].length)))
  for (const row of cells) console.log(row.map((cell, index) => index === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[index])).join('  '))
}

const wrong = wrongInList()
const results = theirs
  ? [await run('theirs')]
  : [await run('defaults'), await run('openFileCache: false', { COMPAT_OPEN_FILE_CACHE: 'false' })]

console.log()
print(results.map((result) => ({ ...result, unexpected: result.unexpected.length })))
for (const [title, lines] of [['expected-failures.json', wrong], ...results.map((result) => [result.run, result.unexpected])]) {
  if (lines.length > 0) console.log(`\n${title}:\n${lines.map((line) => `  ${line}\n`).join('')}`)
}

const passed = results.reduce((sum, result) => sum + result.passed, 0)
const failed = results.reduce((sum, result) => sum + result.unexpected.length, wrong.length)
console.log(`\n${passed} passed, ${failed} failed`)
process.exitCode = failed === 0 ? 0 : 1
