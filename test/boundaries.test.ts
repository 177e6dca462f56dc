import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { ESLint } from 'eslint'
import t from 'tap'
import { computed, edgesOf, sharedImports, unreached, violations } from './fixtures/boundaries'
import type { ImportTable } from './fixtures/boundaries'

const root = join(__dirname, '..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const filesIn = (folder: string, suffix: string) => readdirSync(join(root, folder))
  .filter((name) => name.endsWith(suffix))
  .map((name) => `${folder}/${name}`)

const table: ImportTable = JSON.parse(read('test/fixtures/import-table.json'))
const sources = Object.fromEntries([...filesIn('lib', '.ts'), ...filesIn('types', '.d.ts')].map((file) => [file, read(file)]))

t.test('the project', async (t) => {
  t.strictSame(violations(sources, table), [], 'keeps to the import table, without a cycle')
  t.strictSame(sharedImports(table), [], 'has one importer per package and for node:fs')

  const imported = new Set(Object.entries(sources).flatMap(([file, source]) => edgesOf(file, source))
    .filter(({ specifier, typeOnly }) => !typeOnly && !/^(\.|node:)/.test(specifier))
    .map(({ specifier }) => specifier))
  t.strictSame([...imported].sort(), Object.keys(JSON.parse(read('package.json')).dependencies).sort(),
    'declares as dependencies the packages that it imports')

  t.strictSame(unreached(sources, ['index', 'open-file-cache']), [], 'has no module that no entry loads')
  t.strictSame(readdirSync(join(root, 'lib')).filter((name) => !/^[a-z-]+\.ts$/.test(name)), [], 'has a flat lib')
})

const made: ImportTable = {
  lib: { a: ['./b', 'left'], b: [], c: ['./*'] },
  libTypes: ['./*', '../types/*', 'fastify', 'node:*'],
  types: ['./*', 'fastify', 'node:*']
}
const wrong = (file: string, source: string) => violations({ [file]: source }, made)

t.test('a made-up violation is named by its edge', async (t) => {
  t.strictSame(wrong('lib/b.ts', "import { open } from 'node:fs'"), ['lib/b.ts -> node:fs'])
  t.strictSame(wrong('lib/b.ts', "import 'node:fs'"), ['lib/b.ts -> node:fs'])
  t.strictSame(wrong('lib/b.ts', "import left, { type Left } from 'left'"), ['lib/b.ts -> left'])
  t.strictSame(wrong('lib/b.ts', "import * as left from 'left'"), ['lib/b.ts -> left'])
  t.strictSame(wrong('lib/b.ts', "import left = require('left')"), ['lib/b.ts -> left'])
  t.strictSame(wrong('lib/b.ts', "export * from './a'"), ['lib/b.ts -> ./a'])
  t.strictSame(wrong('lib/b.ts', "export { a } from './a'"), ['lib/b.ts -> ./a'])
  t.strictSame(wrong('lib/b.ts', "const fs = require('fs')"), ['lib/b.ts -> fs'])
  t.strictSame(wrong('lib/b.ts', "module.require('fs')"), ['lib/b.ts -> fs'])
  t.strictSame(wrong('lib/b.ts', "process.getBuiltinModule('fs')"), ['lib/b.ts -> fs'])
  t.strictSame(wrong('lib/b.ts', 'const load = () => import(`left`)'), ['lib/b.ts -> left'])
  t.strictSame(wrong('lib/b.ts', "const load = (name: string) => import('./' + name)"), [`lib/b.ts -> ${computed}`])
  t.strictSame(wrong('lib/a.ts', "import './b.js'"), ['lib/a.ts -> ./b.js'], 'relative imports have no extension')
  t.strictSame(wrong('lib/a.ts', "import 'lefty'"), ['lib/a.ts -> lefty'])
  t.strictSame(wrong('lib/c.ts', "import './'"), ['lib/c.ts -> ./'])
})

t.test('types are free between modules, but not those of a package', async (t) => {
  t.strictSame(wrong('lib/b.ts', "import type { A } from './a'"), [])
  t.strictSame(wrong('lib/b.ts', "import { type A, type B } from './a'"), [])
  t.strictSame(wrong('lib/b.ts', "export type { A } from './a'"), [])
  t.strictSame(wrong('lib/b.ts', "let stats: import('node:fs').Stats"), [])
  t.strictSame(wrong('lib/b.ts', "import type { FastifyInstance } from 'fastify'"), [])
  t.strictSame(wrong('lib/b.ts', "import type { Left } from 'left'"), ['lib/b.ts -> left (type)'])
  t.strictSame(wrong('lib/b.ts', "let left: import('left').Left"), ['lib/b.ts -> left (type)'])
  t.strictSame(wrong('lib/b.ts', "import { type A, a } from './a'"), ['lib/b.ts -> ./a'])
  t.strictSame(wrong('lib/b.ts', "import {} from './a'"), ['lib/b.ts -> ./a'])
  t.strictSame(edgesOf('lib/b.ts', '/// <reference types="left" />'), [{ specifier: 'left', typeOnly: true }])
})

t.test('a declaration file names fastify, node and its neighbours', async (t) => {
  t.strictSame(wrong('types/index.d.ts', "import type { Left } from 'left'"), ['types/index.d.ts -> left'])
  t.strictSame(wrong('types/index.d.ts', "declare module 'left' {}"), ['types/index.d.ts -> left'])
  t.strictSame(wrong('types/index.d.ts', "import type { A } from '../lib/a'"), ['types/index.d.ts -> ../lib/a'])
  t.strictSame(wrong('types/index.d.ts', "import './open'\nimport 'node:http'\ndeclare module 'fastify' {}"), [])
})

t.test('a module without a row is named', async (t) => {
  t.strictSame(wrong('lib/d.ts', ''), ['lib/d.ts has no row in the import table'])
  t.strictSame(wrong('lib/constructor.ts', ''), ['lib/constructor.ts has no row in the import table'])
})

t.test('a cycle at run time is named, one of types is not', async (t) => {
  const twoWay: ImportTable = { ...made, lib: { a: ['./b'], b: ['./c'], c: ['./b'] } }
  t.strictSame(violations({
    'lib/a.ts': "import './b'",
    'lib/b.ts': "import './c'",
    'lib/c.ts': "import { b } from './b'"
  }, twoWay), ['cycle: lib/b.ts -> lib/c.ts -> lib/b.ts'])
  t.strictSame(violations({
    'lib/a.ts': "import './b'",
    'lib/b.ts': "import './c'",
    'lib/c.ts': "import type { B } from './b'"
  }, twoWay), [])
})

t.test('a second importer and an unloaded module are named', async (t) => {
  t.strictSame(sharedImports({ ...made, lib: { a: ['left', 'node:fs', 'node:path'], b: ['node:fs', 'node:path'] } }),
    ['node:fs <- a, b'])
  t.strictSame(unreached({ 'lib/a.ts': "import './b'", 'lib/b.ts': '', 'lib/c.ts': '', 'types/a.d.ts': '' }, ['a']),
    ['lib/c.ts'])
})

t.test('the lint rules made from the same table fire too', async (t) => {
  const eslint = new ESLint({ cwd: root })
  const lint = async (filePath: string, text: string) => {
    const [result] = await eslint.lintText(text, { filePath: join(root, filePath) })
    return result?.messages
      .filter((message) => message.ruleId === '@typescript-eslint/no-restricted-imports')
      .map((message) => message.message.split("'")[1])
  }
  t.strictSame(await lint('lib/range.ts', "import { open } from 'node:fs'\nexport { open }\n"), ['node:fs'])
  t.strictSame(await lint('lib/range.ts', "import type { Stats } from 'node:fs'\nexport type { Stats }\n"), [])
  t.strictSame(await lint('lib/range.ts', "import type { LRUCache } from 'lru-cache'\nexport type { LRUCache }\n"), ['lru-cache'])
  t.strictSame(await lint('lib/range.ts', "import { parse } from './http-date'\nexport { parse }\n"), [])
  t.strictSame(await lint('lib/plugin.ts', "import { parse } from './http-date'\nexport { parse }\n"), [])
  t.strictSame(await lint('lib/not-in-the-table.ts', "export * from './errors'\n"), ['./errors'])
  t.strictSame(await lint('types/index.d.ts', "import type { LRUCache } from 'lru-cache'\nexport type { LRUCache }\n"), ['lru-cache'])
  t.strictSame(await lint('types/index.d.ts', "import type { FastifyReply } from 'fastify'\nexport type { FastifyReply }\n"), [])
})
