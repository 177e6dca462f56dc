// Run by `npm run test:package`: what a consumer of the tarball gets, without a network.
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'

const root = join(__dirname, '..')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

interface Outcome {
  code: number | string | null
  output: string
  errors: string
}

function run (command: string, args: string[], cwd = root): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile(command, args, { cwd, maxBuffer: 1 << 26, env: { ...process.env, NODE_OPTIONS: '' } }, (error, output, errors) => {
      resolve({ code: error === null ? 0 : error.code ?? null, output, errors })
    })
  })
}

t.test('the package', async (t) => {
  const folder = t.testdir({ consumer: { node_modules: {} } })
  const packed = await run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder])
  t.equal(packed.code, 0, 'npm pack succeeds', { errors: packed.errors })
  const [{ filename, files }] = JSON.parse(packed.output)
  const tarball = join(folder, filename)
  const paths: string[] = files.map((file: { path: string }) => file.path)

  t.test('holds the build, the types and the documents, nothing else', async (t) => {
    const built = readdirSync(join(root, 'lib')).map((name) => `dist/${name.replace(/\.ts$/, '.js')}`)
    const types = readdirSync(join(root, 'types')).filter((name) => name.endsWith('.d.ts')).map((name) => `types/${name}`)
    const documents = ['CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md', 'docs/promises.md', 'package.json']
    t.strictSame(paths.sort(), [...built, ...types, ...documents].sort(), 'a file of an old build? remove dist')
  })

  t.test('is clean for publint', async (t) => {
    const { publint } = await import('publint')
    const { formatMessage } = await import('publint/utils')
    const { messages, pkg } = await publint({ pack: { tarball: new Uint8Array(readFileSync(tarball)).buffer } })
    t.equal(pkg.name, manifest.name)
    t.strictSame(messages.map((message) => formatMessage(message, pkg)), [])
  })

  t.test('is clean for are-the-types-wrong', async (t) => {
    const attw = join(root, 'node_modules', '.bin', 'attw')
    const { code, output } = await run(process.execPath, [attw, tarball, '--profile', 'node16', '--no-definitely-typed', '--format', 'json'])
    t.equal(code, 0, 'attw succeeds')
    const { analysis } = JSON.parse(output)
    // node10 knows no subpath exports; Fastify 5 needs Node 20.
    const problems = analysis.problems.filter((problem: { resolutionKind?: string }) => problem.resolutionKind !== 'node10')
    t.strictSame(problems, [])
    t.strictSame(Object.keys(analysis.entrypoints).sort(), Object.keys(manifest.exports).sort())
    t.equal(analysis.types.kind, 'included')
  })

  t.test('is one package, whether required or imported', async (t) => {
    const consumer = join(folder, 'consumer')
    const installed = join(consumer, 'node_modules', manifest.name)
    mkdirSync(installed)
    const unpacked = await run('tar', ['-xzf', tarball, '--strip-components=1', '-C', installed])
    t.equal(unpacked.code, 0, 'tar succeeds', { errors: unpacked.errors })
    // Only what is declared, so that a dependency which is not cannot be found.
    for (const name of Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies })) {
      const link = join(consumer, 'node_modules', name)
      mkdirSync(dirname(link), { recursive: true })
      symlinkSync(join(root, 'node_modules', name), link, 'junction')
    }

    writeFileSync(join(consumer, 'consumer.mjs'), `
      import { createRequire } from 'node:module'
      import plugin, { cachedStatic, errors } from '${manifest.name}'
      import * as names from '${manifest.name}'
      import { OpenFileCache } from '${manifest.name}/open-file-cache'

      const require = createRequire(import.meta.url)
      const required = require('${manifest.name}')
      console.log(JSON.stringify({
        isFunction: typeof required === 'function',
        sameFunction: [plugin, cachedStatic, names.default, required.default, required.cachedStatic]
          .every((value) => value === required),
        sameErrors: errors === required.errors && typeof errors === 'object',
        sameClass: OpenFileCache === require('${manifest.name}/open-file-cache').OpenFileCache,
        isClass: typeof OpenFileCache === 'function',
        names: Object.keys(names).filter((name) => name !== 'module.exports').sort()
      }))
    `)
    const { code, output, errors } = await run(process.execPath, ['consumer.mjs'], consumer)
    t.equal(code, 0, 'a consumer loads it', { errors })
    t.strictSame(JSON.parse(output || '{}'), {
      isFunction: true,
      sameFunction: true,
      sameErrors: true,
      sameClass: true,
      isClass: true,
      names: ['cachedStatic', 'default', 'errors', 'fastifyStatic']
    })

    const internal = await run(process.execPath, ['-e', `require('${manifest.name}/dist/plugin.js')`], consumer)
    t.match(internal.errors, /ERR_PACKAGE_PATH_NOT_EXPORTED/, 'internals are not reachable')
  })
})
