import { readFileSync } from 'node:fs'
import neostandard, { plugins } from 'neostandard'

const table = JSON.parse(readFileSync(new URL('test/fixtures/import-table.json', import.meta.url), 'utf8'))

const escape = (text) => text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')

// A trailing * in the table is a wildcard.
const anyOf = (allowed) =>
  `(?:${allowed.map((pattern) => pattern.endsWith('*') ? escape(pattern.slice(0, -1)) + '.+' : escape(pattern)).join('|')})$`

// The two patterns must not overlap: a type import that one allows is let through whatever the other says.
const boundary = (file, runtime, types) => ({
  files: [file],
  plugins: { '@typescript-eslint': plugins['typescript-eslint'].plugin },
  rules: {
    '@typescript-eslint/no-restricted-imports': ['error', {
      patterns: [
        {
          regex: `^(?!${anyOf(runtime)})${anyOf(types)}`,
          allowTypeImports: true,
          message: `${file} may import at run time: ${runtime.join(', ') || 'nothing'} (test/fixtures/import-table.json).`
        },
        {
          regex: `^(?!${anyOf([...runtime, ...types])})`,
          message: `${file} may import: ${[...runtime, ...types.map((pattern) => `type ${pattern}`)].join(', ') || 'nothing'} (test/fixtures/import-table.json).`
        }
      ]
    }]
  }
})

const browser = neostandard({ env: ['browser'] }).find((config) => config.name === 'neostandard/globals')

export default [
  ...neostandard({
    ts: true,
    filesTs: ['**/*.mts', '**/*.cts'],
    ignores: ['dist/**', '.tap/**', 'compat/**', 'coverage/**', 'examples/site/public/media/**']
  }),
  { ...browser, files: ['examples/site/public/**'] },
  // Without a row nothing may be imported; a module's own row, later in the list, replaces this.
  boundary('lib/**/*.ts', [], []),
  ...Object.entries(table.lib).map(([name, runtime]) => boundary(`lib/${name}.ts`, runtime, table.libTypes)),
  boundary('types/**/*.d.ts', [], table.types)
]
