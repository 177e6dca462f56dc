// A reporter for node:test: one line of JSON per test, in the order of their ends, in the file that COMPAT_REPORT names.
//
// A test that failed only because a subtest did has not failed itself: the subtest has its own line. The lines are
// written at once, since a forced exit does not wait for what a reporter yields.
import { appendFileSync } from 'node:fs'

const oneLine = (text) => String(text).replaceAll(/\s+/g, ' ').slice(0, 160)

export default async function * (events) {
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue
    const { error } = data.details
    const failed = type === 'test:fail' && error.failureType !== 'subtestsFailed'
    appendFileSync(process.env.COMPAT_REPORT, JSON.stringify({
      file: data.file,
      line: data.line,
      name: data.name,
      status: failed ? 'failed' : data.skip !== undefined ? 'skipped' : 'passed',
      error: failed ? oneLine(error.cause?.message ?? error.cause ?? error.message) : undefined
    }) + '\n')
  }
}
