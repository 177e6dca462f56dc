// A few seconds of `npm run soak`, from dist: that it runs, checks and finds nothing.
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'

const root = join(__dirname, '..')

interface Report {
  passed: boolean
  checked: number
  failures: Record<string, unknown>
  requests: { sent: number, byStatus: Record<string, number> }
  leaks: Record<string, number | undefined>
}

const skip = process.platform === 'win32'
  ? 'replaces files that are open'
  : existsSync(join(root, 'dist', 'index.js')) ? false : 'needs dist: npm run build'

t.test('answers are true while the disk changes under them', { skip }, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'fastify-cached-static-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const out = join(directory, 'soak.json')
  const child = spawn(process.execPath, ['--expose-gc', 'soak/run.mjs', '0.08', '--out', out], {
    cwd: root,
    // Not tap's loaders.
    env: { ...process.env, NODE_OPTIONS: '', TMPDIR: directory },
    timeout: 50_000
  })
  t.teardown(() => child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (chunk) => { output += chunk })
  const code = await new Promise((resolve) => child.once('close', resolve))
  t.equal(code, 0, 'ends with code 0', { output })
  const { passed, checked, failures, requests, leaks } = JSON.parse(readFileSync(out, 'utf8')) as Report
  t.strictSame({ passed, failures }, { passed: true, failures: {} })
  t.equal(checked, requests.sent, 'each answer was judged')
  t.hasStrict(leaks, { leases: 0, idleOpenFiles: 0 })
  t.equal(leaks.opens, leaks.closes)
  for (const status of [200, 206, 304, 404]) t.ok(Number(requests.byStatus[status]) > 0, `some ${status}`)
})
