const show = () => { document.querySelector('h1').textContent = window.location.pathname }

window.addEventListener('popstate', show)
window.addEventListener('click', (event) => {
  if (!event.target.matches('a')) return
  event.preventDefault()
  window.history.pushState(null, '', event.target.href)
  show()
})
show()
