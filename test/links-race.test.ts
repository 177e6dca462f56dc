// Links that change while they are looked at, and policies that share one cache.
import { renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import cachedStatic from '../lib/index'
import { openSite } from './fixtures/live-site'
import { IS_OVER, plantRace, SWAPS } from './fixtures/links-race'
import { Thread } from './fixtures/thread'
import type { LiveSite } from './fixtures/live-site'
import type { Race } from './fixtures/links-race'
import type { CachedStaticOptions } from '../types/index'

/** Far more than is needed on an idle machine. */
t.setTimeout(300_000)

const skip = process.platform === 'win32'
const FIXTURE = join(__dirname, 'fixtures', 'links-race')
const WANTED = 1000

t.test('a link that is swapped between check and open opens nothing', { skip }, async (t) => {
  const [server, swapper] = [new Thread(), new Thread()]
  t.teardown(() => Promise.all([server.end(), swapper.end()]))

  const race = async (t: Test, plugin: Omit<CachedStaticOptions, 'root'>): Promise<Race> => {
    const folder = t.testdir({})
    plantRace(folder)
    const shared = new Int32Array(new SharedArrayBuffer(8))
    const swapping = swapper.call(FIXTURE, 'swap', folder, shared)
    const answers = await server.call<Race>(FIXTURE, 'ask', folder, plugin, WANTED)
    Atomics.store(shared, IS_OVER, 1)
    await swapping
    t.ok((shared[SWAPS] as number) > 20, `${shared[SWAPS]} swaps`)
    t.strictSame(answers.faults, [])
    return answers
  }

  for (const [kept, openFileCache] of [
    ['nothing kept', false], ['checked each time', { valid: 0, errors: false, minUses: 1 }], ['bytes kept for a moment', { valid: '1ms', errors: '1ms', minUses: 1 }],
    ['descriptors kept for a moment', { valid: '1ms', errors: '1ms', minUses: 1, memory: false }]
  ] as Array<[string, Exclude<CachedStaticOptions['openFileCache'], undefined>]>) {
    for (const symlinks of ['within-root', 'deny'] as const) {
      await t.test(`${symlinks}, ${kept}`, async (t) => {
        const { statuses, leaks } = await race(t, { symlinks, openFileCache, preCompressed: ['br'] })
        t.strictSame(leaks, [])
        const { 200: files = 0, 403: refused = 0, 500: failed = 0 } = statuses
        t.ok(files >= WANTED / 10 && refused >= WANTED / 10, `both answers: ${JSON.stringify(statuses)}`)
        // A way that changed at each of three looks has no answer. That is the exception.
        t.ok(failed < WANTED / 20, `${failed} unproven`)
      })
    }
    await t.test(`listed, ${kept}`, async (t) => {
      const { statuses, leaks } = await race(t, { symlinks: 'within-root', openFileCache, list: true, index: false })
      t.strictSame(leaks, [])
      t.ok((statuses[200] ?? 0) >= WANTED / 10, JSON.stringify(statuses))
    })
    await t.test(`who follows links gets there, ${kept}`, async (t) => {
      const { statuses, leaks } = await race(t, { openFileCache })
      t.ok(leaks.length >= WANTED / 10, JSON.stringify(statuses))
    })
  }
})

t.test('a directory that is swapped before its names are read shows none of the others', { skip }, async (t) => {
  for (const symlinks of ['within-root', 'deny'] as const) {
    const dir = t.testdir({ root: { dir: { both: 'in', sub: {} } }, outside: { both: 'out, and longer', secret: '', sub: {}, 'secret-dir': {} } })
    const root = join(dir, 'root')
    const away = (): void => {
      renameSync(join(root, 'dir'), join(dir, 'away'))
      symlinkSync('../outside', join(root, 'dir'))
    }
    const back = (): void => {
      rmSync(join(root, 'dir'))
      renameSync(join(dir, 'away'), join(root, 'dir'))
    }
    let isBack = true
    const site = await openSite(t, root, {
      plugin: { symlinks, list: { format: 'json', jsonFormat: 'extended' }, index: false },
      cache: { valid: 0, errors: false },
      fileSystem: (real) => ({
        async readdir (path) {
          away()
          try {
            return await real.readdir(path)
          } finally {
            if (isBack) back()
          }
        }
      })
    })
    const seen = async (): Promise<string[]> => {
      const { dirs, files } = JSON.parse((await site.request('/dir/')).body.toString())
      return [...dirs, ...files].map(({ name, stats }) => `${name} ${stats.size}`)
    }
    t.match(await seen(), [/^sub /, 'both 2'], `${symlinks}: there and back`)
    isBack = false
    t.strictSame(await seen(), [], `${symlinks}: there`)
    back()
    await site.end(t)
  }
})

t.test('policies over one cache', { skip }, async (t) => {
  const ways = (['follow', 'within-root', 'deny'] as const).flatMap((symlinks) =>
    (['allow', 'ignore', 'deny'] as const).map((dotfiles) => ({ symlinks, dotfiles, prefix: `/${symlinks}-${dotfiles}/` })))
  type Way = (typeof ways)[number]

  /** What is there, whether a link leads to it and where that is, and whether it is hidden. */
  const names: Array<[name: string, link: 'none' | 'inside' | 'outside', isHidden: boolean]> = [
    ['a', 'none', false], ['.a', 'none', true], ['dir/b', 'none', false], ['to-a', 'inside', false], ['to-dir/b', 'inside', false], ['to-out', 'outside', false], ['to-outside/c', 'outside', false],
    ['.to-out', 'outside', true], ['.to-a', 'inside', true], ['to-.a', 'inside', false]
  ]
  const expected = ({ symlinks, dotfiles }: Way, link: string, isHidden: boolean): number => {
    if (isHidden && dotfiles !== 'allow') return dotfiles === 'deny' ? 403 : 404
    return link === 'none' || symlinks === 'follow' || (symlinks === 'within-root' && link === 'inside') ? 200 : 403
  }
  const judge = async (site: LiveSite, way: Way, state: string, wrong: string[]): Promise<void> => {
    for (const [name, link, isHidden] of names) {
      const { status, body } = await site.request(way.prefix + name)
      const wanted = expected(way, link, isHidden)
      const isRight = status === wanted && (wanted !== 200 || body.toString() === (link === 'outside' ? 'out' : 'in'))
      if (!isRight) wrong.push(`${state} ${way.prefix}${name}: ${status} ${body.toString()}, not ${wanted}`)
    }
  }

  for (const kept of ['bytes', 'descriptors']) {
    await t.test(`each is asked after each other: cold, hot, and after nothing was there: ${kept}`, async (t) => {
      const dir = t.testdir({
        root: {
          a: 'in',
          '.a': 'in',
          dir: { b: 'in' },
          'to-a': t.fixture('symlink', 'a'),
          'to-dir': t.fixture('symlink', 'dir'),
          'to-out': t.fixture('symlink', '../out/c'),
          'to-outside': t.fixture('symlink', '../out'),
          '.to-out': t.fixture('symlink', '../out/c'),
          '.to-a': t.fixture('symlink', 'a'),
          'to-.a': t.fixture('symlink', '.a')
        },
        out: { c: 'out' }
      })
      const root = join(dir, 'root')
      const site = await openSite(t, root, {
        cache: { minUses: 1, errors: '1s', ...kept === 'descriptors' && { memory: false } },
        plugin: { serve: false },
        async after (app) {
          for (const way of ways) await app.register(cachedStatic, { root, decorateReply: false, openFileCache: app.openFileCache, ...way })
        }
      })
      const wrong: string[] = []
      for (const one of ways) {
        for (const other of ways) {
          site.cache?.clear()
          await judge(site, one, 'cold', wrong)
          await judge(site, other, `after ${one.prefix}`, wrong)
          await judge(site, one, `after ${other.prefix}`, wrong)
        }
        renameSync(root, `${root}-away`)
        site.clock.jump(20_000)
        for (const way of [one, ...ways]) {
          const { status } = await site.request(`${way.prefix}a`)
          if (status !== 404) wrong.push(`${way.prefix}a: ${status} of nothing`)
        }
        renameSync(`${root}-away`, root)
        site.clock.jump(1000)
        for (const way of [one, ...ways]) await judge(site, way, 'again', wrong)
      }
      t.strictSame(wrong.slice(0, 20), [])
      t.ok(site.stats().hits > 500 && site.stats().negativeHits > 300, JSON.stringify(site.stats()))
      await site.end(t)
    })
  }

  for (const order of [['long', 'never', 'short'], ['never', 'long', 'short'], ['short', 'never', 'long']] as const) {
    await t.test(`how long one believes what is known is nothing to the others: ${order}`, async (t) => {
      const root = t.testdir({ kept: 'old', gone: 'old' })
      const freshness = { long: { valid: '1h', errors: true }, never: { valid: 0, errors: false }, short: { valid: '1ms', errors: '1ms' } }
      const site = await openSite(t, root, {
        plugin: { serve: false, openFileCache: { minUses: 1 } },
        async after (app) {
          for (const name of order) {
            await app.register(cachedStatic, { root, decorateReply: false, prefix: `/${name}/`, openFileCache: { ...freshness[name], minUses: 1 } })
          }
        }
      })
      const get = async (path: string): Promise<string> => {
        const { status, body } = await site.request(path)
        return status === 200 ? body.toString() : String(status)
      }
      for (let round = 0; round < 3; round++) {
        for (const name of order) t.strictSame([await get(`/${name}/kept`), await get(`/${name}/gone`), await get(`/${name}/new`)], ['old', 'old', '404'])
      }
      writeFileSync(join(root, 'next'), 'new one')
      renameSync(join(root, 'next'), join(root, 'kept'))
      rmSync(join(root, 'gone'))
      writeFileSync(join(root, 'new'), 'new')
      const known = [await get('/long/kept'), await get('/long/gone'), await get('/long/new')]
      t.strictSame(known, ['old', 'old', '404'], 'an hour has not passed')
      for (let round = 0; round < 2; round++) {
        t.strictSame([await get('/never/kept'), await get('/never/gone'), await get('/never/new')], ['new one', '404', 'new'], 'it looks each time')
      }
      t.strictSame([await get('/long/kept'), await get('/long/gone'), await get('/long/new')], ['new one', '404', 'new'], 'what another has seen is known')
      await site.end(t)
    })
  }
})
