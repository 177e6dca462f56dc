'use strict'

// A test file loads its internals for all of its tests: only those that use them may fail.
const refuse = (_target, name) => { throw new Error(`white-box: ${String(name)} of lib`) }

module.exports = new Proxy({}, { get: refuse, set: refuse })
