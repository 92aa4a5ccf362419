// SPDX-License-Identifier: Apache-2.0
// Requests and responses of a model. Pure: no page is needed.

export const EVENTS = "text/event-stream";
export const LINES = ["application/x-ndjson", "application/jsonl"];
export const MOST_IN_LINK = 6000; // characters

export class Unreachable extends Error {}

// Throw an error of fetch as what it means: a connection that fails is a TypeError.
export function unreachable(error) {
  throw error instanceof TypeError ? new Unreachable(error.message) : error;
}

// A file among the values of a form.
export class Media {
  constructor(blob, name) {
    this.blob = blob;
    this.name = name;
  }
}

// Reads server-sent events that arrive in pieces.
export class EventReader {
  #rest = "";

  // Return the events that *text* completes: {type, data}.
  push(text) {
    const blocks = (this.#rest + text).replaceAll("\r\n", "\n").split("\n\n");
    this.#rest = blocks.pop();
    return blocks.map(toEvent).filter((each) => each.data !== null);
  }
}

function toEvent(block) {
  const fields = block.split("\n").map((line) => /^(\w+): ?(.*)$/s.exec(line)).filter(Boolean);
  const data = fields.filter(([, name]) => name === "data").map(([, , value]) => value);
  const type = fields.find(([, name]) => name === "event")?.[2] ?? "message";
  return { type, data: data.length ? data.join("\n") : null };
}

// Reads lines that arrive in pieces.
export class LineReader {
  #rest = "";

  push(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    return lines.filter((line) => line.trim());
  }
}

// Return a function that turns pieces of a stream into [{output} or {error} or {end}].
export function streamReader(contentType, path) {
  const style = path.stream;
  if (contentType.startsWith(EVENTS)) {
    const reader = new EventReader();
    return (text) => reader.push(text).map(({ type, data }) => {
      if (type === "error") return { error: parseOr(data) };
      if (type === "end" || (style.end && data === style.end)) return { end: true };
      return { output: style.raw && !/^[[{]/.test(data) ? data : parseOr(data) };
    });
  }
  const reader = new LineReader();
  return (text) => reader.push(text).map((line) => {
    const value = parseOr(line);
    if (value?.error && Object.keys(value).length === 1) return value;
    return { output: path.envelope ? value.output : value };
  });
}

function parseOr(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

// Return the text that an output of a stream adds, or null: a string, or a chunk of OpenAI.
export function textOf(output) {
  if (typeof output === "string") return output;
  if (output === null || typeof output !== "object") return null;
  const choice = output.choices?.[0];
  if (choice) return choice.delta?.content ?? choice.message?.content ?? choice.text ?? "";
  return "finish_reason" in output && !output.content ? "" : output.content ?? null;
}

// Return the parts of Server-Timing: [{name, ms, about}].
export function parseTiming(header) {
  return (header ?? "").split(",").map((part) => {
    const [name, ...rest] = part.trim().split(";");
    const found = Object.fromEntries(rest.map((each) => each.trim().split("=")));
    return { name, ms: Number(found.dur), about: (found.desc ?? "").replaceAll('"', "") };
  }).filter((each) => each.name && Number.isFinite(each.ms));
}

// Return the parts, and what of *total* ms they leave: the network and the browser.
export function shares(parts, total) {
  const left = total - parts.reduce((sum, each) => sum + each.ms, 0);
  return left > 0 ? [...parts, { name: "network", ms: left, about: "" }] : parts;
}

const SECRETS = /auth(?!ors?([-_]|$))|token(?!s)|secret|passw|pwd|credential|cookie|session|jwt|bearer|key$/i;

// Whether a header or parameter called *name* is likely to hold a secret.
export function isSecret(name) {
  return SECRETS.test(name.trim());
}

// Return *values* with null in place of secrets, which code reads from the environment.
export function withoutSecrets(values) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, isSecret(name) ? null : value]));
}

// Return where *version* of *model* does what the default version does at *path*.
export function pathOf(model, version, path) {
  if (!version) return path;
  const rest = path.startsWith(`/${model}/`) ? path.slice(model.length + 1) : path;
  return `/${model}/versions/${encodeURIComponent(version)}${rest}`;
}

// Return {headers, body, json} of a request with *value*, which may hold files.
// json is the value without files, or undefined if the body is a file.
export async function makeRequest(path, value, { accept, streams, token }) {
  const headers = { Accept: acceptOf(path, accept, streams) };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (value instanceof Media) {
    const type = typeOf(value);
    if (canBe(path.consumes, type)) {
      headers["Content-Type"] = type;
      return { headers, body: value.blob, file: value };
    }
    if (path.consumes.includes("multipart/form-data")) value = { file: value };
  }
  const files = isTable(value) ? Object.entries(value).filter(([, each]) => isFiles(each)) : [];
  if (files.length && path.consumes.includes("multipart/form-data")) {
    return { headers, body: toForm(value), form: value };
  }
  let json = await withoutFiles(value);
  if (isTable(json) && path.stream.field) json = { ...json, [path.stream.field]: streams };
  headers["Content-Type"] = "application/json";
  return { headers, body: JSON.stringify(json), json };
}

function acceptOf(path, accept, streams) {
  if (streams) return accept || (path.produces.includes(EVENTS) ? EVENTS : LINES[0]);
  return accept || "*/*";
}

function canBe(consumes, type) {
  const range = `${type.split("/")[0]}/*`;
  return consumes.some((each) => [type, range, "*/*"].includes(each));
}

// Whether *value*, which a form has, means what it was *given*: members that were left out may have their default, and null
// may be left out where it is the default in *schema*.
export function isSame(value, given, schema = {}) {
  const isMember = (name, each) => name in value ? isSame(value[name], each) : each === null && schema.properties?.[name]?.default === null;
  if (value instanceof Media) return true; // it was given as text
  if (Array.isArray(given)) return Array.isArray(value) && value.length === given.length && given.every((each, i) => isSame(value[i], each));
  if (typeof given === "object" && given !== null) return isTable(value) && Object.entries(given).every(([name, each]) => isMember(name, each));
  return value === given;
}

// Return the media type of a file; browsers do not know all that models take.
function typeOf({ blob, name }) {
  const own = { npy: "application/x-npy", msgpack: "application/msgpack", json: "application/json" };
  return own[name.split(".").at(-1)] ?? (blob.type || "application/octet-stream");
}

function isTable(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Media);
}

function isFiles(value) {
  return value instanceof Media || (Array.isArray(value) && value[0] instanceof Media);
}

function toForm(value) {
  const form = new FormData();
  for (const [name, each] of Object.entries(value)) {
    if (isFiles(each)) for (const { blob, name: file } of [each].flat()) form.append(name, blob, file);
    else form.append(name, typeof each === "string" ? each : JSON.stringify(each));
  }
  return form;
}

// Return *value* with files as {b64, content_type}.
export async function withoutFiles(value) {
  if (value instanceof Media) {
    const b64 = toBase64(new Uint8Array(await value.blob.arrayBuffer()));
    return value.blob.type ? { b64, content_type: value.blob.type } : { b64 };
  }
  if (Array.isArray(value)) return Promise.all(value.map(withoutFiles));
  if (!isTable(value)) return value;
  const pairs = Object.entries(value).map(async ([name, each]) => [name, await withoutFiles(each)]);
  return Object.fromEntries(await Promise.all(pairs));
}

export function toBase64(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  }
  return btoa(text);
}

export function fromBase64(text, type) {
  const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  return new Blob([bytes], { type: type || sniff(bytes) });
}

function sniff(bytes) {
  const start = String.fromCharCode(...bytes.subarray(0, 4));
  const types = { "\x89PNG": "image/png", "\xff\xd8\xff": "image/jpeg", GIF8: "image/gif", RIFF: "audio/wav" };
  const found = Object.keys(types).find((each) => start.startsWith(each));
  return found ? types[found] : "application/octet-stream";
}

// Return 16-bit WAV of samples between -1 and 1.
export function toWav(samples, rate) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const put = (at, text) => [...text].forEach((each, i) => view.setUint8(at + i, each.charCodeAt(0)));
  put(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples.length, true);
  put(8, "WAVEfmt ");
  [[16, 4], [1, 2], [1, 2], [rate, 4], [2 * rate, 4], [2, 2], [16, 2]].reduce((at, [value, size]) => {
    if (size === 4) view.setUint32(at, value, true);
    else view.setUint16(at, value, true);
    return at + size;
  }, 16);
  put(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((each, i) => view.setInt16(44 + 2 * i, Math.max(-1, Math.min(1, each)) * 0x7fff, true));
  return new Blob([view], { type: "audio/wav" });
}

// Return what a status means for the person who sent the request, or "".
export function advice(status, problem, headers) {
  const wait = headers.get("Retry-After");
  const id = problem.request_id ?? headers.get("X-Request-Id") ?? "";
  if (status === 401 || status === 403) return "Give a token for predictions below “Options”.";
  if (status === 413) return "Send a smaller input, or have the server started with a larger max_body.";
  if (status === 422 || status === 400) return "Correct the input and send it again.";
  if (status === 406) return "Choose another answer below “Options”.";
  if (status === 429 || status === 503) return `Try again${wait ? ` in ${wait} s` : " later"}.`;
  if (status === 504) return "The model took too long; a smaller input may be answered in time.";
  return status >= 500 ? `The log of the server says why${id ? `: look for ${id}` : ""}.` : "";
}

// Return the state of a page as the fragment of a link; "" in place of an input that is too large.
export function toFragment(state) {
  const text = JSON.stringify(state.value);
  const isLarge = text !== undefined && text.length > MOST_IN_LINK;
  const pairs = Object.entries({ ...state, value: isLarge ? undefined : text });
  const kept = pairs.filter(([, value]) => value !== undefined && value !== "" && value !== false);
  return [new URLSearchParams(kept).toString(), isLarge];
}

export function fromFragment(fragment) {
  const state = Object.fromEntries(new URLSearchParams(fragment.replace(/^#/, "")));
  if (state.value !== undefined) state.value = parseOr(state.value);
  return state;
}
