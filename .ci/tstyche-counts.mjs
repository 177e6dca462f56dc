// A reporter for tstyche: writes "<passed> <failed>" into the file that CI_COUNTS names.
//
// Counted are the assertions; an error outside of them (a test file that does not compile, say) is one failure each.
import { writeFileSync } from 'node:fs'

export default class CountsReporter {
  #errors = 0

  on ([event, payload]) {
    if (event.endsWith(':error') && event !== 'expect:error') this.#errors++
    if (event === 'run:end') {
      const { passed, failed } = payload.result.assertionCounts
      writeFileSync(process.env.CI_COUNTS, `${passed} ${failed + this.#errors}\n`)
    }
  }
}
