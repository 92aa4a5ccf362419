// SPDX-License-Identifier: Apache-2.0
// Shows answers: text, tree, table, image, bars, sound.

import { fromBase64 } from "./playground-wire.js";

const LABELS = ["label", "class", "name", "token", "category", "word"];
const SCORES = ["score", "probability", "confidence", "prob", "similarity", "weight"];
const LISTS = ["probabilities", "scores", "confidences", "probs"];
const MOST_BARS = 20;
const MOST_ITEMS = 100;
const MOST_ROWS = 200;
const MOST_TEXT = 200_000;

// Make an element: h("a", {href}, "text", element ...).
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list" && name !== "form") element[name] = value;
    else if (value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

// Return [[label, score]] of an output that has probabilities, best first; null if it has none.
export function toBars(output) {
  const pairs = pairsOf(output) ?? nested(output);
  return pairs && pairs.length > 1 ? pairs.toSorted((a, b) => b[1] - a[1]).slice(0, MOST_BARS) : null;
}

function nested(output) {
  if (!isTable(output)) return null;
  const labels = output.labels ?? output.classes;
  const key = LISTS.find((name) => isNumbers(output[name]));
  if (key) return output[key].map((score, i) => [String(labels?.[i] ?? i), score]);
  return Object.values(output).filter((each) => typeof each === "object").map(pairsOf).find(Boolean) ?? null;
}

function pairsOf(output) {
  if (Array.isArray(output) && output.length && output.every(isTable)) {
    const label = LABELS.find((name) => typeof output[0][name] === "string");
    const score = SCORES.find((name) => typeof output[0][name] === "number");
    return label && score ? output.map((each) => [String(each[label]), each[score]]) : null;
  }
  if (isNumbers(output) && areShares(output)) return output.map((score, i) => [String(i), score]);
  const values = isTable(output) ? Object.values(output) : [];
  const isShared = values.length > 1 && isNumbers(values) && areShares(values);
  return isShared ? Object.entries(output) : null;
}

function areShares(values) {
  const sum = values.reduce((total, each) => total + each, 0);
  return values.length > 1 && values.every((each) => each >= 0 && each <= 1) && Math.abs(sum - 1) < 0.02;
}

function isNumbers(value) {
  return Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === "number");
}

function isTable(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// Return [columns, rows] of an output that is a table; null if it is not one.
export function toTable(output) {
  const found = rowsOf(output) ?? (isTable(output) ? Object.values(output).map(rowsOf).find(Boolean) : null);
  return found ?? null;
}

function rowsOf(output) {
  if (!Array.isArray(output) || !output.length) return null;
  if (output.every((each) => isTable(each) && !isMedia(each))) {
    const columns = [...new Set(output.flatMap(Object.keys))];
    return columns.length <= 40 ? [columns, output.map((row) => columns.map((name) => row[name]))] : null;
  }
  const isGrid = output.every((each) => isNumbers(each) && each.length === output[0].length);
  return isGrid && output[0].length <= 40 ? [output[0].map((_, i) => String(i)), output] : null;
}

export function isMedia(value) {
  return isTable(value) && typeof value.b64 === "string" && /^[A-Za-z0-9+/]*={0,2}$/.test(value.b64);
}

// Return the name of a view that fits *output*: its media, text, bars, a table, or the tree.
export function viewsOf(output, hint) {
  const found = [];
  const media = output instanceof Blob ? output : firstMedia(output);
  if (media) found.push(kindOf(media instanceof Blob ? media.type : media.content_type));
  if (typeof output === "string") found.push("text");
  if (toBars(output)) found.push("bars");
  if (toTable(output)) found.push("table");
  if (!(output instanceof Blob)) found.push("json");
  if (typeof output !== "string" && !(output instanceof Blob)) found.push("text");
  return found.includes(hint) ? [hint, ...found.filter((each) => each !== hint)] : found;
}

function firstMedia(output) {
  if (isMedia(output)) return output;
  if (typeof output !== "object" || output === null) return null;
  return Object.values(output).slice(0, 50).find(isMedia) ?? null;
}

function kindOf(type = "") {
  return ["image", "audio"].find((each) => type.startsWith(each)) ?? "file";
}

export const NAMES = {
  text: "Text", json: "JSON", table: "Table", image: "Image", bars: "Bars", audio: "Sound", file: "File",
};

// Return an element that shows *output* by the view *name*.
export function show(output, name) {
  const media = () => [output].flat().flatMap((each) => (isMedia(each) || each instanceof Blob ? each : Object.values(each))).filter((each) => isMedia(each) || each instanceof Blob);
  const views = {
    text: () => h("pre", { className: "pg-text", tabIndex: 0 }, cut(typeof output === "string" ? output : JSON.stringify(output))),
    json: () => h("div", { className: "pg-tree" }, tree(output)),
    table: () => table(output),
    bars: () => bars(output),
    image: () => h("div", { className: "pg-media" }, media().map(showMedia)),
    audio: () => h("div", { className: "pg-media" }, media().map(showMedia)),
    file: () => h("div", { className: "pg-media" }, media().map(showMedia)),
  };
  return views[name]();
}

function cut(text) {
  return text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)} … the download has all` : text;
}

// Return an element for a blob, or for {b64, content_type}.
export function showMedia(value) {
  const blob = value instanceof Blob ? value : fromBase64(value.b64, value.content_type);
  const url = URL.createObjectURL(blob);
  const kind = kindOf(blob.type);
  const name = `prediction.${(blob.type.split("/")[1] ?? "bin").split(/[;+]/)[0]}`;
  const link = h("a", { href: url, download: name }, `${name}, ${sizeOf(blob.size)}`);
  if (kind === "image") return h("figure", {}, h("img", { src: url, alt: "Image of the answer" }), h("figcaption", {}, link));
  if (kind === "audio") return h("figure", {}, h("audio", { src: url, controls: true }), h("figcaption", {}, link));
  return h("p", {}, link);
}

export function sizeOf(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1 << 20 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}

function tree(value, name) {
  const label = name === undefined ? null : h("span", { className: "pg-key" }, `${name}: `);
  if (isMedia(value) && kindOf(value.content_type) === "image") return h("div", {}, label, showMedia(value));
  if (typeof value !== "object" || value === null) {
    return h("div", {}, label, h("span", { className: `pg-${value === null ? "null" : typeof value}` }, JSON.stringify(value)));
  }
  const entries = Object.entries(value);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (!entries.length) return h("div", {}, label, open + close);
  if (isNumbers(value) && value.length <= 16) return h("div", {}, label, JSON.stringify(value).replaceAll(",", ", "));
  const rest = entries.length - MOST_ITEMS;
  const summary = h("summary", {}, label, `${open}${entries.length}${close}`);
  const inner = entries.slice(0, MOST_ITEMS).map(([key, each]) => tree(each, key));
  const more = rest > 0 && h("div", { className: "hint" }, `${rest} more; the download has all`);
  return h("details", { open: entries.length <= 30 }, summary, h("div", { className: "pg-inner" }, inner, more));
}

function table(output) {
  const [columns, rows] = toTable(output);
  const cell = (value) => h("td", { className: typeof value === "number" ? "pg-number" : "" }, isMedia(value) ? showMedia(value) : typeof value === "string" ? value : JSON.stringify(value) ?? "");
  const head = h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name))));
  const body = h("tbody", {}, rows.slice(0, MOST_ROWS).map((row) => h("tr", {}, row.map(cell))));
  return h("div", { className: "pg-scroll", tabIndex: 0, role: "region", "aria-label": "Table" }, h("table", {}, head, body));
}

function bars(output) {
  const pairs = toBars(output);
  const most = Math.max(1e-9, ...pairs.map(([, score]) => Math.abs(score)));
  const scale = most <= 1 && pairs.every(([, score]) => score >= 0) ? 1 : most;
  const rows = pairs.map(([label, score], i) => {
    const bar = h("span", { className: i ? "pg-bar" : "pg-bar pg-best" });
    bar.style.width = `${Math.max(0, (100 * score) / scale)}%`;
    return h("li", {}, h("span", { className: "pg-label" }, label), h("span", { className: "pg-track" }, bar), h("span", { className: "pg-number" }, scale === 1 ? `${(100 * score).toFixed(1)} %` : score.toPrecision(4)));
  });
  const plain = isTable(output) ? Object.entries(output).filter(([, each]) => typeof each !== "object") : [];
  const isOwn = pairsOf(output) !== null;
  const facts = isOwn || !plain.length ? null : h("p", {}, plain.map(([name, each]) => [h("span", { className: "pg-key" }, `${name}: `), h("strong", {}, String(each)), " "]).flat());
  return h("div", {}, facts, h("ol", { className: "pg-bars" }, rows));
}

// Return a bar of the parts of a latency: [{name, ms}].
export function latency(parts, total) {
  const tone = (name, i) => (TONES.includes(name) ? name : TONES[i % 5]); // stages have names of their models
  const shown = parts.filter((each) => each.ms > 0.005).map((each, i) => ({ ...each, tone: tone(each.name, i) }));
  const bar = h("div", { className: "pg-latency", "aria-hidden": "true" }, shown.map(({ ms, tone: kind }) => {
    const part = h("span", { className: `pg-part pg-${kind}` });
    part.style.flexGrow = ms;
    return part;
  }));
  const legend = shown.map(({ name, ms, about, tone: kind }) => h("li", {}, h("span", { className: `pg-dot pg-${kind}` }), `${WORDS[name] ?? name} ${format(ms)}${name === "batch" && about > 1 ? `, ${about} together` : ""}`));
  return h("div", {}, bar, h("ul", { className: "pg-legend" }, h("li", {}, h("strong", {}, `${format(total)}`)), legend));
}

const TONES = ["queue", "batch", "predict", "encode", "ipc", "network", "first", "rest"];
const WORDS = { total: "in the server", batch: "decode", ipc: "between processes", network: "network and browser", first: "first output", rest: "the others" };

export function format(ms) {
  return ms < 10 ? `${ms.toFixed(2)} ms` : ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(2)} s`;
}
