import t from 'tap'
import { cacheCapacity, capacityConflicts, lookupPolicy, NO_CAPACITY, shown } from '../lib/cache-options'
import { OpenFileCache } from '../lib/open-file-cache'
import { fakeWorld } from './fixtures/fake-world'
import type { LookupPolicyOptions, OpenFileCacheOptions } from '../types/open-file-cache'

const DURATION = "a duration (milliseconds >= 0, or a text such as '20s', '500ms', '1m')"

/** What is wrong with options, as the constructor says it. */
function complaint (options: unknown): string | undefined {
  const { fileSystem, clock } = fakeWorld()
  try {
    // eslint-disable-next-line no-new
    new OpenFileCache(options as OpenFileCacheOptions, { clock, fileSystem })
  } catch (error) {
    const { code, message, name } = error as NodeJS.ErrnoException
    t.match({ code, name }, { code: 'FST_STATIC_INVALID_OPTION_VALUE', name: 'FastifyError' })
    t.type(error, TypeError)
    return message
  }
}

t.test('every bad value: the message names the option, what it may be, and what came', async (t) => {
  const bad: Array<[options: unknown, name: string, expected: string, came: string]> = []

  for (const [value, came] of [
    [null, 'null'], [true, 'true'], [false, 'false'], [5, '5'], ['20s', '"20s"'], [[], 'an array'], [() => {}, 'a function']
  ]) bad.push([value, 'openFileCache', 'an object', came as string])

  for (const name of ['max', 'maxNegative', 'minUses']) {
    for (const [value, came] of [
      [0, '0'], [-1, '-1'], [1.5, '1.5'], [NaN, 'NaN'], [Infinity, 'Infinity'], [2 ** 53, '9007199254740992'],
      ['10', '"10"'], [10n, '10n'], [null, 'null'], [true, 'true'], [{}, 'an object'], [[], 'an array'], [Symbol('x'), 'a symbol']
    ]) bad.push([{ [name as string]: value }, `openFileCache.${name}`, 'a whole number >= 1', came as string])
  }

  for (const name of ['inactive', 'valid', 'errors']) {
    for (const [value, came] of [
      [-1, '-1'], [NaN, 'NaN'], [-Infinity, '-Infinity'], ['', '""'], ['soon', '"soon"'], ['-1s', '"-1s"'], ['20 parsecs', '"20 parsecs"'],
      ['-Infinity', '"-Infinity"'], ['infinity', '"infinity"'], [20n, '20n'], [null, 'null'], [{}, 'an object'], [[20], 'an array']
    ]) bad.push([{ [name]: value }, `openFileCache.${name}`, name === 'errors' ? `true, false or ${DURATION}` : DURATION, came as string])
  }
  for (const name of ['inactive', 'valid']) bad.push([{ [name]: true }, `openFileCache.${name}`, DURATION, 'true'])

  for (const [value, came] of [[true, 'true'], [null, 'null'], [1024, '1024'], ['64mb', '"64mb"'], [[], 'an array']]) {
    bad.push([{ memory: value }, 'openFileCache.memory', 'an object or false', came as string])
  }
  for (const [value, came] of [[0, '0'], [-1, '-1'], [0.5, '0.5'], ['1', '"1"'], [Infinity, 'Infinity'], [null, 'null']]) {
    bad.push([{ memory: { max: value } }, 'openFileCache.memory.max', 'a whole number >= 1', came as string])
  }
  for (const [value, came] of [[-1, '-1'], [0.5, '0.5'], ['1', '"1"'], [Infinity, 'Infinity'], [null, 'null']]) {
    bad.push([{ memory: { maxFileSize: value } }, 'openFileCache.memory.maxFileSize', 'a whole number >= 0', came as string])
  }
  bad.push([{ memory: { max: 10, maxFileSize: 11 } },
    'openFileCache.memory.maxFileSize', 'at most "openFileCache.memory.max" (10)', '11'])
  bad.push([{ memory: { maxFileSize: 64 * 1024 * 1024 + 1 } },
    'openFileCache.memory.maxFileSize', 'at most "openFileCache.memory.max" (67108864)', '67108865'])

  for (const [value, came] of [[true, 'true'], [null, 'null'], [1000, '1000'], ['1000', '"1000"'], [[], 'an array']]) {
    bad.push([{ directories: value }, 'openFileCache.directories', 'an object or false', came as string])
  }
  for (const name of ['max', 'maxNames']) {
    for (const [value, came] of [[0, '0'], [-1, '-1'], [0.5, '0.5'], ['1', '"1"'], [Infinity, 'Infinity'], [null, 'null'], [false, 'false']]) {
      bad.push([{ directories: { [name]: value } }, `openFileCache.directories.${name}`, 'a whole number >= 1', came as string])
    }
  }

  for (const [value, came] of [[null, 'null'], ['deny', '"deny"'], [true, 'true'], [['deny'], 'an array']]) {
    bad.push([{ links: value }, 'openFileCache.links', 'an object', came as string])
  }
  for (const [value, came] of [['follow', '"follow"'], [undefined, 'undefined'], [true, 'true'], ['DENY', '"DENY"']]) {
    bad.push([{ links: { symlinks: value, root: '/srv' } }, 'openFileCache.links.symlinks', "'within-root' or 'deny'", came as string])
  }
  for (const [value, came] of [[undefined, 'undefined'], [5, '5'], ['', '""'], ['public', '"public"'], ['./srv', '"./srv"']]) {
    bad.push([{ links: { symlinks: 'deny', root: value } }, 'openFileCache.links.root', 'an absolute path', came as string])
  }

  for (const [value, came] of [[null, 'null'], [5, '5'], ['', '""'], ['public', '"public"'], ['./srv', '"./srv"'], [['/srv'], 'an array']]) {
    bad.push([{ spelledBelow: value }, 'openFileCache.spelledBelow', 'an absolute path', came as string])
  }

  for (const [options, name, expected, came] of bad) {
    t.equal(complaint(options), `"${name}" option must be ${expected}, but is ${came}`)
  }
})

t.test('an option that does not exist is refused with those that do', async (t) => {
  const known = 'max, inactive, valid, minUses, errors, memory, maxNegative, directories, links, spelledBelow'
  t.equal(complaint({ maxx: 5 }), `"openFileCache.maxx" option is unknown; "openFileCache" may have: ${known}`)
  t.equal(complaint({ min_uses: 2 }), `"openFileCache.min_uses" option is unknown; "openFileCache" may have: ${known}`)
  t.equal(complaint({ memory: { maxFilesize: 1 } }),
    '"openFileCache.memory.maxFilesize" option is unknown; "openFileCache.memory" may have: max, maxFileSize')
  t.equal(complaint({ directories: { maxnames: 1 } }),
    '"openFileCache.directories.maxnames" option is unknown; "openFileCache.directories" may have: max, maxNames')
  t.equal(complaint({ links: { symlinks: 'deny', root: '/', from: '/' } }),
    '"openFileCache.links.from" option is unknown; "openFileCache.links" may have: symlinks, root')
})

t.test('a message shows any value in one line', async (t) => {
  t.equal(shown('a\n"b"'), '"a\\n\\"b\\""')
  t.equal(shown(Object.create(null)), 'an object')
  t.equal(shown(class {}), 'a function')
})

t.test('capacity', async (t) => {
  const defaults = { max: 10_000, inactive: 30_000, maxNegative: 10_000, memoryMax: 67_108_864, memoryMaxFileSize: 131_072, maxDirectories: 1000, maxNames: 100_000 }
  const rows: Array<[options: OpenFileCacheOptions | undefined, expected: object]> = [
    [undefined, {}],
    [{}, {}],
    [{ max: 1 }, { max: 1 }],
    [{ maxNegative: 1 }, { maxNegative: 1 }],
    [{ inactive: 0 }, { inactive: 0 }],
    [{ inactive: '1m' }, { inactive: 60_000 }],
    [{ inactive: Infinity }, { inactive: Infinity }],
    [{ inactive: 'Infinity' }, { inactive: Infinity }],
    [{ memory: {} }, {}],
    [{ memory: false }, { memoryMax: 0, memoryMaxFileSize: -1 }],
    [{ memory: { max: 1 } }, { memoryMax: 1, memoryMaxFileSize: 1 }],
    [{ memory: { max: 1_000_000 } }, { memoryMax: 1_000_000 }],
    [{ memory: { maxFileSize: 0 } }, { memoryMaxFileSize: 0 }],
    [{ memory: { max: 10, maxFileSize: 10 } }, { memoryMax: 10, memoryMaxFileSize: 10 }],
    [{ directories: {} }, {}],
    [{ directories: false }, { maxDirectories: 0 }],
    [{ directories: { max: 1 } }, { maxDirectories: 1 }],
    [{ directories: { maxNames: 1 } }, { maxNames: 1 }],
    [{ directories: { max: 2, maxNames: 3 } }, { maxDirectories: 2, maxNames: 3 }]
  ]
  for (const [options, expected] of rows) {
    const capacity = cacheCapacity(options)
    t.strictSame({ ...capacity }, { ...defaults, ...expected })
    t.ok(Object.isFrozen(capacity))
  }
  t.match(NO_CAPACITY, { max: 0, maxNegative: 0, memoryMax: 0, maxDirectories: 0 })
})

t.test('policy', async (t) => {
  const defaults = { valid: 20_000, minUses: 2, errors: 1000, links: undefined, spelledBelow: undefined }
  const rows: Array<[options: LookupPolicyOptions | undefined, expected: object]> = [
    [undefined, {}],
    [{}, {}],
    [{ valid: '5s' }, { valid: 5000 }],
    [{ valid: 2500 }, { valid: 2500 }],
    [{ valid: '500ms' }, { valid: 500, errors: 500 }],
    [{ valid: 0 }, { valid: 0, errors: 0 }],
    [{ valid: 'Infinity' }, { valid: Infinity }],
    [{ minUses: 1 }, { minUses: 1 }],
    [{ errors: true }, { errors: 20_000 }],
    [{ errors: false }, { errors: 0 }],
    [{ errors: 0 }, { errors: 0 }],
    [{ errors: '1m' }, { errors: 60_000 }],
    [{ errors: Infinity }, { errors: Infinity }],
    [{ errors: true, valid: '5s' }, { valid: 5000, errors: 5000 }],
    [{ errors: '1m', valid: '5s' }, { valid: 5000, errors: 60_000 }],
    [{ links: { symlinks: 'deny', root: '/srv' } }, { links: { symlinks: 'deny', root: '/srv' } }],
    [{ links: { symlinks: 'within-root', root: '/' } }, { links: { symlinks: 'within-root', root: '/' } }],
    [{ spelledBelow: '/srv' }, { spelledBelow: '/srv' }]
  ]
  for (const [options, expected] of rows) {
    const policy = lookupPolicy(options)
    t.strictSame({ ...policy }, { ...defaults, ...expected }, JSON.stringify(options))
    t.ok(Object.isFrozen(policy))
  }
  t.ok(Object.isFrozen(lookupPolicy({ links: { symlinks: 'deny', root: '/srv' } }).links))
})

t.test('what a policy leaves out is that of its base', async (t) => {
  const links = { symlinks: 'deny', root: '/srv' } as const
  const base = lookupPolicy({ valid: '10s', minUses: 5, errors: '1m', links, spelledBelow: '/srv' })
  t.strictSame({ ...lookupPolicy({}, base) }, { ...base })
  t.strictSame({ ...lookupPolicy({ minUses: 1 }, base) }, { ...base, minUses: 1 })
  t.strictSame({ ...lookupPolicy({ spelledBelow: '/' }, base) }, { ...base, spelledBelow: '/' })
  t.strictSame({ ...lookupPolicy({ errors: true }, base) }, { ...base, errors: 10_000 })
  t.strictSame({ ...lookupPolicy({ valid: '2s' }, base) }, { ...base, valid: 2000, errors: 2000 }, 'a shorter valid holds for errors, too')
  t.strictSame({ ...lookupPolicy({ valid: '1h' }, base) }, { ...base, valid: 3_600_000 })
  t.strictSame({ ...lookupPolicy({ valid: '2s', errors: '3s' }, base) }, { ...base, valid: 2000, errors: 3000 })
})

t.test('options are read, never written, and not kept', async (t) => {
  const links = { symlinks: 'deny' as const, root: '/srv' }
  const policy = lookupPolicy(Object.freeze({ links: Object.freeze(links) }))
  t.not(policy.links, links)
})

t.test('capacityConflicts() names what is asked for and is not so', async (t) => {
  const capacity = cacheCapacity({ max: 5, memory: { max: 10, maxFileSize: 5 }, directories: { max: 7, maxNames: 70 } })
  const rows: Array<[options: OpenFileCacheOptions, expected: string[]]> = [
    [{}, []],
    [{ max: 5 }, []],
    [{ max: 6 }, ['max']],
    [{ inactive: '30s' }, []],
    [{ inactive: '31s' }, ['inactive']],
    [{ maxNegative: 1 }, ['maxNegative']],
    [{ memory: { max: 10, maxFileSize: 5 } }, []],
    [{ memory: { max: 10 } }, ['memory']],
    [{ memory: { max: 11, maxFileSize: 5 } }, ['memory']],
    [{ memory: false }, ['memory']],
    [{ directories: { max: 7, maxNames: 70 } }, []],
    [{ directories: { max: 7 } }, ['directories']],
    [{ directories: { max: 8, maxNames: 70 } }, ['directories']],
    [{ directories: false }, ['directories']],
    [{ max: 1, inactive: 1, maxNegative: 1, memory: false, directories: false }, ['max', 'inactive', 'maxNegative', 'memory', 'directories']],
    [{ valid: 0, minUses: 9, errors: false }, []]
  ]
  for (const [options, expected] of rows) t.strictSame(capacityConflicts(options, capacity), expected)
})
