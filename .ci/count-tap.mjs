// node .ci/count-tap.mjs <file>: prints "<passed> <failed>" of a TAP stream, and on stderr what failed or was skipped.
//
// Counted are the leaves: assertions, and subtests without any. tap's own total leaves out a test file that was killed
// after its last assertion; here every subtest that failed without a failed leaf is one failure.
import { readFileSync } from 'node:fs'
import { Parser } from 'tap-parser'

const leaf = (result) => result.todo ? 'todo' : result.skip ? 'skipped' : result.ok ? 'passed' : 'failed'

const diagnosis = ({ at, ...rest }) => Object.entries({ at: at && `${at.fileName}:${at.lineNumber}`, ...rest })
  .filter(([, value]) => typeof value === 'string' || typeof value === 'number')
  .map(([key, value]) => `  ${key}: ${String(value).trim().replaceAll('\n', '\n    ')}\n`)
  .join('')

function watch (parser) {
  const counts = { passed: 0, failed: 0, skipped: 0, todo: 0 }
  let open

  const record = (kind, result) => {
    counts[kind]++
    if (kind === 'passed') return
    console.error(`${kind}: ${[parser.fullname, result.name].filter(Boolean).join(' > ')}`)
    if (kind === 'failed') console.error(diagnosis(result.diag ?? {}))
  }
  const merge = (inner) => {
    for (const kind of Object.keys(counts)) counts[kind] += inner[kind]
  }

  parser.on('child', (child) => { open = watch(child) })
  parser.on('assert', (result) => {
    const inner = open
    open = undefined
    if (inner === undefined || Object.values(inner).every((count) => count === 0)) {
      record(leaf(result), result)
    } else {
      merge(inner)
      if (leaf(result) === 'failed' && inner.failed === 0) record('failed', result)
    }
  })
  // The stream may end inside a subtest.
  parser.on('complete', () => { if (open !== undefined) merge(open) })
  return counts
}

const parser = new Parser()
const counts = watch(parser)
parser.end(readFileSync(process.argv[2], 'utf8'))

if (!parser.results.ok && counts.failed === 0) {
  console.error('failed: the stream is incomplete, or bailed out')
  counts.failed++
}
console.error(`${counts.skipped} skipped, ${counts.todo} todo`)
console.log(`${counts.passed} ${counts.failed}`)
