// Stacked bars, one a second, drawn as SVG in CSS pixels so that text and
// lines keep their size at any width.

const SVG = 'http://www.w3.org/2000/svg'
const SECONDS = 60
const TOP = 8
const FOOT = 20
const LEFT = 34

export class Chart {
  #box
  #names
  #words
  #columns = Array(SECONDS).fill(null) // null: nothing is known of that second

  constructor (box, names, words) {
    this.#box = box
    this.#names = names
    this.#words = words
    new ResizeObserver(() => this.#draw()).observe(box)
  }

  push (column) {
    this.#columns.push(column)
    this.#columns.shift()
    this.#draw()
  }

  #draw () {
    const width = this.#box.clientWidth
    const height = this.#box.clientHeight
    if (width === 0) return

    const floor = height - FOOT
    const top = scaleTop(Math.max(...this.#columns.map(total)))
    const tall = (value) => value / top * (floor - TOP)
    const step = (width - LEFT) / SECONDS
    const parts = []

    for (const value of [0, top / 2, top]) {
      const y = Math.round(floor - tall(value))
      parts.push(
        node('line', { class: value === 0 ? 'line base' : 'line', x1: LEFT, x2: width, y1: y, y2: y }),
        node('text', { x: LEFT - 8, y: y + 4, 'text-anchor': 'end' }, String(value))
      )
    }

    this.#columns.forEach((column, index) => {
      const x = LEFT + index * step
      if (column === null) {
        parts.push(node('rect', { class: 'gap', x: x + step / 2 - 1, y: floor - 3, width: 2, height: 2 }))
        return
      }
      let y = floor
      for (const name of this.#names) {
        if (!(column[name] > 0)) continue
        const size = Math.max(2, tall(column[name])) // one among hundreds is still to be seen
        y -= size
        parts.push(node('rect', { class: `bar-${name}`, x: x + step * 0.12, y, width: step * 0.76, height: size }))
      }
    })

    parts.push(
      node('text', { x: LEFT, y: height - 4 }, '60 s ago'),
      node('text', { x: width, y: height - 4, 'text-anchor': 'end' }, 'now')
    )

    const svg = node('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': this.#summary() })
    svg.append(...parts)
    this.#box.replaceChildren(svg)
  }

  #summary () {
    const sums = this.#names.map((name) => {
      const sum = this.#columns.reduce((all, column) => all + (column?.[name] ?? 0), 0)
      return `${sum} ${this.#words[name][sum === 1 ? 0 : 1]}`
    })
    return `In the last minute: ${sums.join(', ')}.`
  }
}

function total (column) {
  return column === null ? 0 : Object.values(column).reduce((sum, value) => sum + value, 0)
}

// 10, 20, 40, 60, 80, 100, 200, 400, … : half of each is whole
function scaleTop (value) {
  for (let unit = 10; ; unit *= 10) {
    for (const factor of [1, 2, 4, 6, 8]) {
      if (value <= unit * factor) return unit * factor
    }
  }
}

function node (name, attributes, text) {
  const element = document.createElementNS(SVG, name)
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
  if (text !== undefined) element.textContent = text
  return element
}
