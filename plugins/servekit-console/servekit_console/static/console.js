// SPDX-License-Identifier: Apache-2.0
// What all pages of the console share: numbers that follow the server, and a filter for long tables.

const show = (row, texts) => row.querySelectorAll("[data-live]").forEach((cell, place) => {
  const text = texts[place]
  if (cell.textContent !== text) cell.textContent = text
  if ("alarm" in cell.dataset) cell.classList.toggle("bad", text !== "0")
})

const rows = (name) => document.querySelectorAll(`[data-model="${CSS.escape(name)}"]`)

function follow(url) {
  const source = new EventSource(url)
  const on = (name, act) => source.addEventListener(name, (event) => act(JSON.parse(event.data)))
  on("rates", ({models, total}) => {
    for (const [name, texts] of Object.entries(models)) rows(name).forEach((row) => show(row, texts))
    rows("").forEach((row) => show(row, total))
  })
  on("sparks", (models) => {
    for (const [name, paths] of Object.entries(models)) {
      for (const row of rows(name)) {
        row.querySelectorAll(".spark path").forEach((path, place) => path.setAttribute("d", paths[place]))
      }
    }
    document.body.dispatchEvent(new Event("point"))
  })
  on("changed", () => document.body.dispatchEvent(new Event("changed")))
  const dot = document.querySelector("#pulse")
  source.onopen = () => dot?.classList.add("live")
  source.onerror = () => dot?.classList.remove("live")
  addEventListener("pagehide", () => source.close())
}

function filter() {
  const words = document.querySelector("#filter")?.value.toLowerCase() ?? ""
  document.querySelectorAll("tbody [data-model], tbody[data-model]").forEach((row) => {
    row.hidden = !row.dataset.model.toLowerCase().includes(words)
  })
}

document.addEventListener("input", (event) => { if (event.target.id === "filter") filter() })
async function copy(button) {
  const code = button.parentElement.querySelector("pre")
  getSelection().selectAllChildren(code)
  await navigator.clipboard?.writeText(code.textContent) ?? document.execCommand("copy")
  button.textContent = "Copied"
}

document.addEventListener("click", (event) => { if ("copy" in event.target.dataset) copy(event.target) })
document.addEventListener("change", (event) => { if ("submit" in event.target.dataset) event.target.form.submit() })
document.addEventListener("htmx:afterSettle", filter)
const stream = document.querySelector("[data-stream]")
if (stream) follow(stream.dataset.stream)
