// SPDX-License-Identifier: Apache-2.0
// What all pages of the console share: numbers that follow the server, a filter for long tables, questions before changes, and copying.

import { copyText } from "./copy.js"

const tell = (event, detail) => document.body.dispatchEvent(new CustomEvent(event, {detail}))
const put = (element, text) => { if (element.textContent !== text) element.textContent = text }

const show = (row, texts) => row.querySelectorAll("[data-live]").forEach((cell, place) => {
  put(cell, texts[place])
  if ("alarm" in cell.dataset) cell.classList.toggle("bad", texts[place] !== "0")
})

const rows = (name) => document.querySelectorAll(`[data-model="${CSS.escape(name)}"]`)
const each = (models, act) => Object.entries(models).forEach(([name, value]) => rows(name).forEach((row) => act(row, value)))

function follow(url) {
  const source = new EventSource(url)
  const on = (name, act) => source.addEventListener(name, (event) => act(JSON.parse(event.data)))
  on("rates", ({models, total}) => {
    each(models, show)
    each({"": total}, show)
  })
  on("sparks", (models) => {
    each(models, (row, paths) => row.querySelectorAll(".spark path").forEach((path, place) => path.setAttribute("d", paths[place])))
    tell("point")
  })
  on("memory", (models) => each(models, (row, text) => row.querySelectorAll("[data-memory]").forEach((cell) => put(cell, text))))
  on("changed", () => tell("changed"))
  on("news", () => tell("news"))
  const lost = document.querySelector("#lost")
  source.onopen = () => put(lost, "")
  source.onerror = () => put(lost, "Not connected: the numbers are old")
  return source
}

// A browser opens six connections to a server at most, so a page that nobody sees has none.
function followWhileSeen(url) {
  let source = null
  const look = () => {
    source?.close()
    source = document.hidden ? null : follow(url)
  }
  document.addEventListener("visibilitychange", () => {
    look()
    if (!source) return
    tell("changed")
    tell("point")
  })
  addEventListener("pagehide", () => source?.close())
  addEventListener("pageshow", (event) => { if (event.persisted) look() })
  look()
}

function filter() {
  const words = document.querySelector("#filter")?.value.toLowerCase() ?? ""
  document.querySelectorAll("tbody [data-model], tbody[data-model]").forEach((row) => {
    row.hidden = !row.dataset.model.toLowerCase().includes(words)
  })
}

async function copy(button) {
  button.textContent = await copyText(button.parentElement.querySelector("pre").textContent) ? "Copied" : "The browser does not allow it"
}

document.addEventListener("input", (event) => { if (event.target.id === "filter") filter() })
document.addEventListener("click", (event) => { if ("copy" in event.target.dataset) copy(event.target) })
document.addEventListener("change", (event) => { if ("submit" in event.target.dataset) event.target.form.submit() })
document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm
  if (question && !confirm(question)) event.preventDefault()
})
document.addEventListener("htmx:afterSettle", filter)

// What a page says about a model is that of its default version.
const named = () => document.querySelector("h1 .version.default")?.firstChild.textContent.trim()
let version = named()
document.addEventListener("htmx:afterSettle", () => {
  if (named() === version) return
  version = named()
  tell("version")
})

document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.xhr.status === 401) location.reload() // the session has ended: the page leads to the login
})
const stream = document.querySelector("[data-stream]")
if (stream) followWhileSeen(stream.dataset.stream)
