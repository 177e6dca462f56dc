import t from 'tap'
import { Pair, VALID, withoutAccessTimes } from './fixtures/differential'
import { OPTION_NAMES, randomQuestion, randomSite, rareSites } from './fixtures/differential-questions'
import { RULES, expectation, filledIn } from './fixtures/differential-rules'
import { Random } from './fixtures/random'
import type { Outcome, Question, Site } from './fixtures/differential'

const environment = (name: string, otherwise: number): number => Number(process.env[name] ?? otherwise)

const SEED = environment('DIFF_SEED', 1)
const FULL = 2000
const RUNS = environment('DIFF_RUNS', FULL)
const PER_SITE = 20
/** Failures that are shown before the run ends. */
const SHOWN = 10

/** Far more than is needed on an idle machine. */
t.setTimeout(600_000)

t.test('cold, from the cache and after changes on the disk: each answer is that of @fastify/static, or differs from it by a named rule', async (t) => {
  t.comment(`DIFF_SEED=${SEED} DIFF_RUNS=${RUNS}`)
  const used: Record<string, number> = Object.fromEntries(RULES.map(({ name }) => [name, 0]))
  const statuses: Record<number, number> = {}
  const options = new Set<string>()
  let fromCache = 0
  let compared = 0
  let wrong = 0

  function * sites (): Generator<{ site: Site, questions: Question[] }> {
    yield * rareSites(new Random(SEED))
    for (let first = 0; first < RUNS; first += PER_SITE) {
      const random = new Random(SEED * 1_000_003 + first)
      const site = randomSite(random)
      yield { site, questions: Array.from({ length: PER_SITE }, () => randomQuestion(random, site)) }
    }
  }

  for (const { site, questions } of sites()) {
    for (const name of Object.keys(site.options)) options.add(name)
    const pair = await Pair.open(site)

    const compare = async (pass: string): Promise<void> => {
      for (const question of questions) {
        const ours = withoutAccessTimes(await pair.ours(question), question)
        const { foretold, applied } = await expectation(pair, question)
        const expected = filledIn(foretold, ours)
        for (const name of applied) used[name] = (used[name] as number) + 1
        statuses[ours.status] = (statuses[ours.status] ?? 0) + 1
        compared++
        if (ordered(ours) === ordered(expected)) continue
        if (++wrong <= SHOWN) t.strictSame(ours, expected, `${pass}: ${described(site, question)}`)
      }
    }

    try {
      await compare('cold')
      const cold = pair.cache.stats()
      await compare('warm')
      const warm = pair.cache.stats()
      fromCache += warm.hits + warm.negativeHits - cold.hits - cold.negativeHits
      site.tree.change()
      await pair.refresh()
      await compare(`after a change, ${site.refresh === 'time' || site.refresh === 'timer' ? `${VALID} ms later` : site.refresh}`)
    } finally {
      await pair.close()
      site.tree.remove()
    }
    if (wrong >= SHOWN) break
  }

  t.equal(wrong, 0, `${compared} answers`)
  t.comment(JSON.stringify(used))
  t.comment(JSON.stringify(statuses))
  if (RUNS < FULL || wrong > 0) return
  for (const [name, times] of Object.entries(used)) t.ok(times > 0, `a rule made ${times} answers: ${name}`)
  for (const name of OPTION_NAMES) t.ok(options.has(name), `some site has ${name}`)
  for (const status of [200, 206, 301, 304, 400, 403, 404, 412, 416, 500]) t.ok((statuses[status] ?? 0) > 0, `${statuses[status]} answers of status ${status}`)
  t.ok(fromCache > RUNS / 2, `the cache answered ${fromCache} look-ups of ${RUNS} requests that were asked again`)
})

function ordered ({ fields, ...rest }: Outcome): string {
  return JSON.stringify({ ...rest, fields: Object.entries(fields).sort(([a], [b]) => a < b ? -1 : 1) })
}

function described ({ options, outer, cache }: Site, question: Question): string {
  return JSON.stringify({ options, outer, cache, question })
}
