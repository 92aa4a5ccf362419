// SPDX-License-Identifier: Apache-2.0
// The charts of a model: the last half hour, with a new point every ten seconds.

const section = document.querySelector("[data-series]")
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name)
const LINES = ["--info", "--warn", "--ok"]
const TONES = {refused_per_s: "--warn", errors_per_s: "--bad"} // of those that mean trouble
const seconds = (value) => value === 0 ? "0" : value < 0.001 ? `${+(value * 1e6).toPrecision(3)} µs`
  : value < 1 ? `${+(value * 1e3).toPrecision(3)} ms` : `${+value.toPrecision(3)} s`
const units = {"s": seconds, "/s": (value) => `${+value.toPrecision(3)}/s`, "": (value) => `${+value.toPrecision(3)}`}

const clock = (time) => new Date(time * 1000).toISOString().slice(11, 19)

function draw(figure, series) {
  const fields = figure.dataset.chart.split(" ")
  const text = units[figure.dataset.unit]
  const axis = {stroke: colour("--soft"), grid: {stroke: colour("--line"), width: 1}, ticks: {show: false}, font: "11px system-ui"}
  const value = (_, raw) => raw == null ? "–" : text(raw)
  return new uPlot({
    width: figure.clientWidth - 28,
    height: 160,
    legend: {live: true},
    tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "UTC"),
    cursor: {sync: {key: "model"}, points: {size: 5}},
    scales: {y: {range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1]}},
    axes: [
      {...axis, size: 26, space: 70, values: (_, times) => times.map((time) => clock(time).slice(0, times.at(-1) - times[0] < 300 ? 8 : 5))},
      {...axis, size: 58, values: (_, ticks) => ticks.map(text)},
    ],
    series: [{label: "UTC", value: (_, time) => time == null ? "" : clock(time)},
      ...fields.map((field, place) => ({
        label: field.replace("_per_s", "/s").replace(/_s$/, "").replace("_", " "), value,
        stroke: colour(TONES[field] ?? LINES[place]), width: 1.5, points: {show: false},
      }))],
  }, [series.times, ...fields.map((field) => series[field])], figure)
}

// null if the server does not answer: the page says so, and charts go on with the next point
const read = () => fetch(section.dataset.series).then((answer) => answer.ok ? answer.json() : null, () => null)
let plots = []

async function begin() {
  const series = await read()
  if (!series) return
  plots.forEach((plot) => plot.destroy())
  plots = [...section.querySelectorAll("figure")].map((figure) => draw(figure, series))
}

async function follow() {
  if (!plots.length) return begin()
  const series = await read()
  if (!series) return
  section.querySelectorAll("figure").forEach((figure, place) =>
    plots[place]?.setData([series.times, ...figure.dataset.chart.split(" ").map((field) => series[field])]))
}

begin()
document.body.addEventListener("point", follow)
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", begin)
addEventListener("resize", () => plots.forEach((plot) =>
  plot.setSize({width: plot.root.parentElement.clientWidth - 28, height: 160})))
