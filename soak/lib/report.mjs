// What came out, for people and as JSON.

const MIB = 1024 * 1024

/** Slope of the straight line through `[minute, bytes]`, in MiB a minute, and what that makes over the whole time. */
export function slope (points) {
  if (points.length < 3) return { perMinute: 0, growth: 0 }
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length
  const x = mean(points.map(([minute]) => minute))
  const y = mean(points.map(([, bytes]) => bytes))
  const perMinute = points.reduce((sum, [minute, bytes]) => sum + (minute - x) * (bytes - y), 0) /
    points.reduce((sum, [minute]) => sum + (minute - x) ** 2, 0) / MIB
  return { perMinute, growth: perMinute * (points.at(-1)[0] - points[0][0]) }
}

const listed = (counts) => Object.entries(counts).map(([name, count]) => `${name} ${count}`).join(', ')
const ms = (value) => `${value.toFixed(0)} ms`
const ages = ({ max, p99, old, total }) => `at most ${ms(max)}, p99 ${ms(p99)}; ${old} of ${total} were not true any more when they were asked for`
const memory = ({ perMinute, growth, from, to }) => `${perMinute >= 0 ? '+' : ''}${perMinute.toFixed(2)} MiB a minute in the second half (${growth.toFixed(1)} MiB in all), ${from.toFixed(0)} to ${to.toFixed(0)} MiB`

export function table (report) {
  const { failures, leaks, stats } = report
  const count = (...kinds) => kinds.reduce((sum, kind) => sum + (failures[kind]?.count ?? 0), 0)
  const rows = [
    ['seed', report.seed],
    ['time', `${report.seconds.toFixed(0)} s, ${report.node}`],
    ['requests', `${report.requests.sent}, ${(report.requests.sent / report.seconds).toFixed(0)} a second, ${(report.requests.bytes / MIB).toFixed(0)} MiB`],
    ['  by kind', listed(report.requests.byKind)],
    ['  by status', listed(report.requests.byStatus)],
    ['  broken off by the client', report.requests.aborted],
    ['  slow readers', report.requests.slow],
    ['changes on the disk', `${report.changes}, with ${report.versions} new versions`],
    ['age of files', ages(report.ages)],
    ['age of absences', ages(report.absences)],
    ['answers older than they may be', count('stale')],
    ['wrong held bodies', count('wrong held body')],
    ['wrong bodies from descriptors', count('wrong body')],
    ['torn bodies that look complete', count('torn body')],
    ['wrong lengths', count('wrong length')],
    ['validators of another version', count('wrong validators')],
    ['states while they were written', `${report.midWrite} seen`],
    ['resets', `${report.explainedResets} by changes in place, ${count('reset without a change in place')} without`],
    ['errors', `${report.explainedErrors} × 500 by changes in place, ${count('5xx')} without`],
    ['leases after all', leaks.leases],
    ['descriptors after all', `${leaks.descriptors ?? 'unknown'}, the cache says ${leaks.openFiles}`],
    ['  after `inactive`', `${leaks.idleDescriptors ?? 'unknown'}, the cache says ${leaks.idleOpenFiles}`],
    ['  after close', `${leaks.closedDescriptors ?? 'unknown'}; ${leaks.opens} opens, ${leaks.closes} closes`],
    ['heap', memory(report.memory.heap)],
    ['external memory', memory(report.memory.external)],
    ['RSS', memory(report.memory.rss)],
    ['server stalled for at most', ms(report.stalled)],
    ['cache', listed(stats)]
  ]
  const width = Math.max(...rows.map(([title]) => title.length))
  const lines = rows.map(([title, value]) => `${title.padEnd(width)}  ${value}`)
  lines.push('', report.passed ? 'All checks passed.' : 'FAILED:')
  for (const [kind, { count, examples }] of Object.entries(failures)) {
    lines.push(`  ${count} × ${kind}`)
    for (const example of examples.slice(0, 1)) lines.push(JSON.stringify(example, undefined, 1).replace(/^/gm, '    '))
  }
  return lines.join('\n')
}
