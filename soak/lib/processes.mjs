// The server and the writer, each a process of its own.
import { fork } from 'node:child_process'
import { readdirSync, readlinkSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export class Child {
  /** When it ends before it is told to. */
  onEnd = () => {}
  onMessage = () => {}
  #child
  #calls = new Map()
  #id = 0
  #isStopping = false

  constructor (script, args, execArgv = []) {
    this.#child = fork(fileURLToPath(new URL(`../${script}`, import.meta.url)), args, { execArgv })
    this.#child.on('message', (message) => {
      const call = this.#calls.get(message.id)
      if (call === undefined) return this.onMessage(message)
      this.#calls.delete(message.id)
      call.resolve(message.answer)
    })
    this.#child.on('exit', (code, signal) => {
      const error = new Error(`${script} ended by ${signal ?? code}`)
      for (const { reject } of this.#calls.values()) reject(error)
      if (!this.#isStopping) this.onEnd(error)
    })
    // Whatever ends this process ends its children: they lose the channel.
  }

  get pid () {
    return this.#child.pid
  }

  send (message) {
    this.#child.send(message)
  }

  call (name) {
    const id = ++this.#id
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject })
      this.#child.send({ call: name, id })
    })
  }

  stop () {
    this.#isStopping = true
    if (this.#child.connected) this.#child.disconnect()
  }
}

/** How many descriptors below `root` a process has open; `undefined` without /proc. */
export function openBelow (root, pid) {
  let names
  try {
    names = readdirSync(`/proc/${pid}/fd`)
  } catch {
    return undefined
  }
  return names.filter((name) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${name}`).startsWith(`${root}/`)
    } catch {
      return false
    }
  }).length
}
