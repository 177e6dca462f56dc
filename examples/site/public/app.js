// The live panel: reads the figures once a second, draws them, and sends
// requests when asked to.

import { Chart } from './chart.js'

const COUNTED = ['hits', 'misses', 'negativeHits', 'revalidations']
const NAMES = {
  hits: ['hit', 'hits'],
  misses: ['miss', 'misses'],
  negativeHits: ['negative hit', 'negative hits'],
  revalidations: ['revalidation', 'revalidations'],
  opens: ['open', 'opens']
}
const TIMES = 50
const AT_ONCE = 6

const panel = document.querySelector('.panel')
const status = document.getElementById('status')
const file = document.getElementById('file')
const steady = document.getElementById('steady')
const buttons = [...document.querySelectorAll('[data-run]')]
const chart = new Chart(document.getElementById('chart'), COUNTED, NAMES)
const integer = new Intl.NumberFormat('en')

let last // the figures of the second before
let lastAt = 0
let reachable
let running = false

for (const control of [file, steady, ...buttons]) control.disabled = false
for (const button of buttons) button.addEventListener('click', () => run(button))
tick()

// ---- once a second ------------------------------------------------------

async function tick () {
  if (!document.hidden) {
    if (steady.checked) await ask(file.value)
    await record()
  }
  setTimeout(tick, 1000)
}

async function record () {
  const now = performance.now()
  let figures
  try {
    figures = await readFigures()
  } catch {
    last = undefined
    chart.push(null)
    return
  }
  // The first look, a page that was hidden or another process: no difference to show.
  const comparable = last?.pid === figures.pid && now - lastAt < 5000
  chart.push(comparable ? difference(last, figures, COUNTED) : null)
  last = figures
  lastAt = now
}

async function readFigures () {
  try {
    const response = await fetch('/-/cache', { cache: 'no-store', signal: AbortSignal.timeout(5000) })
    if (!response.ok) throw new Error(`status ${response.status}`)
    const figures = await response.json()
    show(figures)
    reached(true)
    return figures
  } catch (error) {
    reached(false)
    throw error
  }
}

function reached (now) {
  if (now === reachable) return
  const before = reachable
  reachable = now
  panel.classList.toggle('away', !now)
  if (!now) say('Server not reachable. The figures are the last ones seen; trying again each second.', true)
  else if (!running) say(before === false ? 'The server answers again.' : 'Press a button and watch the counters.')
}

function show (figures) {
  for (const cell of document.querySelectorAll('[data-stat]')) {
    const text = format(figures[cell.dataset.stat], cell.dataset.unit)
    if (cell.textContent === text) continue
    const first = cell.textContent === '–'
    cell.textContent = text
    if (first || cell.dataset.unit) continue
    const box = cell.parentElement
    box.classList.remove('moved')
    requestAnimationFrame(() => box.classList.add('moved'))
  }
}

function format (value, unit) {
  if (typeof value !== 'number') return '–'
  if (unit === 'name') return String(value)
  if (unit === 'bytes') return formatBytes(value)
  if (unit === 'seconds') return formatSeconds(Math.floor(value))
  return integer.format(value)
}

function formatBytes (value) {
  if (value < 1024) return `${value} B`
  if (value < 1024 * 1024) return `${(value / 1024).toFixed(1)} KiB`
  return `${(value / 1024 / 1024).toFixed(1)} MiB`
}

function formatSeconds (value) {
  const two = (number) => String(number).padStart(2, '0')
  return `${Math.floor(value / 3600)}:${two(Math.floor(value / 60) % 60)}:${two(value % 60)}`
}

function difference (before, after, names) {
  return Object.fromEntries(names.map((name) => [name, Math.max(0, after[name] - before[name])]))
}

// ---- the buttons --------------------------------------------------------

const RUNS = {
  file: () => Array(TIMES).fill(file.value),
  probes: () => Array.from({ length: TIMES }, (_, i) => `probe/${unique()}-${i + 1}.php`),
  missing: () => Array(TIMES).fill(`probe/${unique()}.php`)
}

async function run (button) {
  if (running) return
  running = true
  for (const each of buttons) each.setAttribute('aria-disabled', 'true')
  try {
    const before = await readFigures()
    const paths = RUNS[button.dataset.run]()
    say(`Asking ${TIMES} times …`)
    const answers = await askAll(paths)
    const after = await readFigures()
    say(`${describe(answers)}. The cache counted ${count(before, after)}.`, answers.has('none'))
  } catch {
    say('Server not reachable.', true)
  } finally {
    running = false
    for (const each of buttons) each.removeAttribute('aria-disabled')
  }
}

async function askAll (paths) {
  const answers = new Map()
  const waiting = paths.values()
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (const path of waiting) {
      const answer = await ask(path)
      answers.set(answer, (answers.get(answer) ?? 0) + 1)
    }
  }))
  return answers
}

async function ask (path) {
  try {
    const response = await fetch(path, { cache: 'no-store' })
    await response.arrayBuffer()
    return response.status
  } catch {
    return 'none'
  }
}

function describe (answers) {
  return [...answers]
    .map(([answer, times]) => answer === 'none' ? `${times} without an answer` : `${times} × ${answer}`)
    .join(', ')
}

function count (before, after) {
  const counted = Object.entries(difference(before, after, Object.keys(NAMES)))
    .filter(([, value]) => value > 0)
    .map(([name, value]) => `${integer.format(value)} ${NAMES[name][value === 1 ? 0 : 1]}`)
  return counted.length === 0 ? 'nothing' : counted.join(', ')
}

function unique () {
  return Date.now().toString(36) + Math.floor(Math.random() * 1296).toString(36).padStart(2, '0')
}

function say (text, failed = false) {
  status.textContent = text
  status.classList.toggle('failed', failed)
}
