// What the documents say of this repository is so.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'

const root = join(__dirname, '..')
const read = (file: string): string => readFileSync(join(root, file), 'utf8')

t.test('each promise names a test that there is', async (t) => {
  const promises = read('docs/promises.md')
  let titles = 0
  for (const [, file, list] of promises.matchAll(/^- `([\w-]+)`: (".*)$/gm)) {
    const source = read(`test/${file}.test.ts`).replaceAll("\\'", "'")
    for (const [, title] of (list as string).matchAll(/"((?:[^"\\]|\\.)+)"/g)) {
      const text = (title as string).replaceAll('\\"', '"')
      titles++
      t.ok([`'${text}'`, `\`${text}\``].some((quoted) => source.includes(quoted)), `${file}: ${text}`)
    }
  }
  t.ok(titles > 30)
  const sections = promises.split(/^## /m).slice(1).filter((section) => !section.startsWith('Not promised'))
  for (const section of sections) t.match(section, /^- `[\w-]+`: "/m, section.slice(0, section.indexOf('\n')))
})

t.test('each relative link leads to something', async (t) => {
  for (const file of ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'docs/promises.md', 'bench/README.md', 'soak/README.md']) {
    for (const [, target] of read(file).matchAll(/\]\((?!https?:|#)([^)#]+)/g)) {
      t.ok(existsSync(join(root, dirname(file), target as string)), `${file}: ${target}`)
    }
  }
})
