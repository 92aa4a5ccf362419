// SPDX-License-Identifier: Apache-2.0
// The page where people try a model.

import { choose, isChat, mediaOf, schemaOf, widgetOf } from "./playground-schema.js";
import { makeChat } from "./playground-chat.js";
import { FieldError, makeField, makeFile, makeJson } from "./playground-fields.js";
import * as wire from "./playground-wire.js";
import { format, h, latency, NAMES, show, showMedia, sizeOf, viewsOf } from "./playground-views.js";

const MOST_WRITTEN = 100_000; // characters of an input that is written as code
const TOKEN = "servekit-token";
const FORMATS = { curl: "curl", python: "Python", requests: "Python, requests", javascript: "JavaScript", pytest: "pytest" };
const MODES = { form: "Form", chat: "Chat", json: "JSON", file: "File" };

class Playground {
  constructor(root, model) {
    this.root = root;
    this.model = model;
    this.path = model.paths[0];
    this.abort = null; // of the request that is on its way
    this.last = null; // {text, output} of the last request with JSON
    this.view = ""; // that people chose
    this.build();
    this.restore(wire.fromFragment(location.hash));
    addEventListener("hashchange", () => {
      if (location.hash.slice(1) !== this.fragment) this.restore(wire.fromFragment(location.hash));
    });
  }

  // ------------------------------------------------------------ the page

  build() {
    const { model } = this;
    this.paths = h("select", { id: "pg-path", onchange: () => this.turnTo(model.paths[this.paths.value]) }, model.paths.map((each, i) => h("option", { value: i }, each.path)));
    this.about = h("p", { className: "soft" });
    this.modes = h("div", { className: "pg-tabs", role: "group", "aria-label": "How to fill it in" });
    this.examples = h("div", { className: "pg-examples", role: "group", "aria-label": "Examples" });
    this.slot = h("div", { id: "pg-input" });
    this.send = h("button", { type: "submit" }, "Send");
    this.stop = h("button", { type: "button", className: "secondary", hidden: true, onclick: () => this.abort?.abort() }, "Stop");
    this.note = h("small", { className: "hint", role: "status" });
    this.link = h("button", { type: "button", className: "quiet", onclick: () => this.copy(location.href, this.link) }, "Copy link");
    this.options = h("details", { className: "pg-options" });
    this.code = h("details", { className: "pg-code panel", ontoggle: () => this.write() }, h("summary", {}, "Copy as code"));
    this.status = h("p", { className: "pg-status", role: "status" }, "Nothing has been sent yet.");
    this.timing = h("div", {});
    this.views = h("div", { className: "pg-tabs", role: "group", "aria-label": "How to show it" });
    this.answer = h("div", { className: "pg-answer", id: "pg-answer" });
    const choice = model.paths.length > 1 && h("label", { htmlFor: "pg-path" }, "Path", this.paths);
    const form = h("form", {
      className: "panel", noValidate: true, oninput: () => this.changed(),
      onsubmit: (event) => {
        event.preventDefault();
        this.submit();
      },
      onkeydown: (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.submit();
      },
    }, h("h2", {}, "Input"), choice, this.about, this.examples, this.modes, this.slot, this.options, h("div", { className: "pg-actions" }, this.send, this.stop, this.link, this.note));
    const right = h("section", { className: "panel", "aria-label": "Answer" }, h("h2", {}, "Answer"), this.status, this.timing, this.views, this.answer);
    this.root.replaceChildren(h("div", { className: "pg-sides" }, form, h("div", {}, right, this.code)));
  }

  turnTo(path, state = {}) {
    this.path = path;
    this.sent = null;
    this.paths.value = this.model.paths.indexOf(path);
    this.about.textContent = path.description === this.model.description ? "" : path.description;
    const examples = path.examples.map((each, i) => h("button", { type: "button", className: "secondary outline", title: `Example ${i + 1}`, onclick: () => this.take(each) }, exampleName(each)));
    this.examples.replaceChildren(...(examples.length ? [h("span", { className: "hint" }, "Examples"), ...examples] : []));
    this.makeOptions(state);
    const modes = modesOf(path);
    const given = state.value === undefined ? this.suggestion() : state.value;
    const isFile = path.examples[0]?.input_file && modes.includes("file");
    this.turnMode(modes.includes(state.mode) ? state.mode : state.value === undefined && isFile ? "file" : modes[0], given);
  }

  // Return what a new form holds: an example, or a sample.
  suggestion() {
    const { examples, sample, instances } = this.path;
    const example = examples.find((each) => each.input !== null);
    const found = example ? example.input : plainSample(sample, this.model.playground.inputs ?? {});
    return instances && found !== undefined ? { instances: [found] } : found;
  }

  turnMode(mode, value) {
    const { path } = this;
    this.mode = mode;
    const modes = modesOf(path);
    this.modes.replaceChildren(...(modes.length > 1 ? modes.map((each) => h("button", { type: "button", "aria-pressed": String(each === mode), onclick: () => this.change(each) }, MODES[each])) : []));
    const form = { definitions: path.definitions, hints: this.model.playground.inputs ?? {}, fields: new Map() };
    this.fields = form.fields;
    this.send.hidden = mode === "chat";
    if (mode === "form") this.field = rootField(form, path, value);
    else if (mode === "json") this.field = makeJson("Input, as JSON", value);
    else if (mode === "file") this.field = makeFile("file");
    else this.field = makeChat(value, this.model.name, () => this.submit());
    this.slot.replaceChildren(this.field.element);
    this.changed();
  }

  async change(mode) {
    let value;
    try {
      value = await wire.withoutFiles(this.field.get());
    } catch {
      value = undefined;
    }
    if (this.mode === "file") value = this.suggestion();
    this.turnMode(mode, value);
    this.modes.querySelector("[aria-pressed=true]")?.focus();
  }

  makeOptions(state) {
    const { path, model } = this;
    this.accept = h("select", { id: "pg-accept" }, h("option", { value: "" }, "chosen by the page"), path.produces.map((each) => h("option", {}, each)));
    this.accept.value = path.produces.includes(state.accept) ? state.accept : "";
    this.streams = h("input", { type: "checkbox", role: "switch", checked: path.streams && state.stream !== "0" });
    this.token = h("input", { type: "password", id: "pg-token", autocomplete: "off", value: sessionStorage.getItem(TOKEN) ?? "", onchange: () => sessionStorage.setItem(TOKEN, this.token.value) });
    this.extra = [...path.request_headers.map((name) => ["header", name]), ...path.request_query.map((name) => ["query", name])].map(([kind, name]) => [kind, name, h("input", { type: "text", "aria-label": `${kind} ${name}` })]);
    const extra = this.extra.map(([kind, name, input]) => h("label", {}, `${name} (${kind})`, input));
    const isLater = model.versions.length > 1;
    this.version = h("select", { id: "pg-version" }, h("option", { value: "" }, "chosen by the server"), model.versions.map((each) => h("option", {}, each)));
    this.version.value = model.versions.includes(state.version) ? state.version : "";
    this.options.replaceChildren(...[
      h("summary", {}, "Options"),
      path.streams && h("label", {}, this.streams, " Show outputs as they come"),
      isLater && h("label", { htmlFor: "pg-version" }, "Version", this.version),
      h("label", { htmlFor: "pg-accept" }, "Answer as", this.accept),
      h("label", { htmlFor: "pg-token" }, "Token for predictions", this.token),
      h("small", { className: "hint" }, "It stays in this tab of the browser, and is sent to this server alone."),
      ...extra,
    ].filter(Boolean));
    this.options.open = model.needs_token && !this.token.value;
  }

  // ------------------------------------------------------------ the link

  restore(state) {
    const path = this.model.paths.find((each) => each.path === state.path) ?? this.model.paths[0];
    this.turnTo(path, state);
  }

  changed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.keep(), 300);
  }

  async keep() {
    let value;
    let hasFiles = this.mode === "file";
    try {
      value = hasFiles ? undefined : this.field.get();
      hasFiles ||= holdsFile(value);
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      error.field.fail(""); // it is judged when it is sent
    }
    const isFirst = this.path === this.model.paths[0];
    const state = { path: isFirst ? "" : this.path.path, mode: this.mode === modesOf(this.path)[0] ? "" : this.mode, accept: this.accept.value, version: this.version.value, stream: this.path.streams && !this.streams.checked ? "0" : "", value: hasFiles ? undefined : value };
    const [fragment, isLarge] = wire.toFragment(state);
    this.fragment = fragment;
    history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname);
    this.note.textContent = isLarge ? "The link leaves out this input: it is too long." : hasFiles ? "The link leaves out files." : "";
    if (this.code.open) this.write();
  }

  async copy(text, button) {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "The browser does not allow it";
    }
    setTimeout(() => (button.textContent = label), 1500);
  }

  // ------------------------------------------------------------ the request

  async take(example) {
    if (example.input_file) {
      const response = await fetch(`${this.root.dataset.base}/files/${example.input_file.split("/").map(encodeURIComponent).join("/")}`);
      if (!response.ok) return this.say("The file of this example cannot be read.", true);
      const type = example.content_type ?? response.headers.get("Content-Type");
      const file = new wire.Media(new Blob([await response.blob()], { type }), example.input_file.split("/").at(-1));
      const isForm = this.mode === "form" && mediaOf(choose(this.path.input_schema, this.path.definitions)[0]);
      if (!isForm && this.mode !== "file") this.turnMode("file");
      this.field.set(file);
    } else {
      const modes = modesOf(this.path);
      const mode = this.mode === "file" ? modes[0] : this.mode;
      this.turnMode(mode, this.path.instances ? { instances: [example.input] } : example.input);
    }
    this.changed();
    await this.submit();
  }

  say(text, isBad = false) {
    this.status.textContent = text;
    this.status.classList.toggle("pg-bad", isBad);
  }

  request() {
    const how = { accept: this.accept.value, streams: this.path.streams && this.streams.checked, token: this.token.value };
    return wire.makeRequest(this.path, this.field.get(), how);
  }

  async submit() {
    if (this.abort) return;
    let request;
    try {
      request = await this.request();
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      error.field.fail(error.message);
      error.field.focus();
      return this.say(`${error.field.label}: ${error.message}`, true);
    }
    this.sent = request;
    this.abort = new AbortController();
    this.begin();
    try {
      await this.fetch(request);
    } catch (error) {
      if (error.name === "AbortError") this.say(this.outputs.length ? `Stopped after ${this.outputs.length} outputs.` : "Stopped.");
      else if (error instanceof TypeError) this.say(`The server cannot be reached, or it closed the connection: ${error.message}`, true);
      else throw error;
    } finally {
      this.abort = null;
      this.send.disabled = false;
      this.stop.hidden = true;
      this.answer.removeAttribute("aria-busy");
      if (this.code.open) this.write();
    }
  }

  begin() {
    this.outputs = [];
    this.last = null;
    this.send.disabled = true;
    this.stop.hidden = false;
    this.say("Sending …");
    this.timing.replaceChildren();
    this.views.replaceChildren();
    this.answer.replaceChildren();
    this.answer.setAttribute("aria-busy", "true");
  }

  async fetch(request) {
    const url = new URL(wire.pathOf(this.model.name, this.version.value, this.path.path), location.origin);
    for (const [kind, name, input] of this.extra) {
      if (input.value && kind === "query") url.searchParams.set(name, input.value);
      else if (input.value) request.headers[name] = input.value;
    }
    const start = performance.now();
    const response = await fetch(url, { method: "POST", headers: request.headers, body: request.body, signal: this.abort.signal });
    const type = response.headers.get("Content-Type") ?? "";
    if (!response.ok && response.status !== 207) return this.refused(response, await response.json().catch(() => ({})));
    if (type.startsWith(wire.EVENTS) || wire.LINES.some((each) => type.startsWith(each))) return this.follow(response, type, start, request);
    const blob = await response.blob();
    const total = performance.now() - start;
    const [output, whole] = await this.read(blob, type);
    this.say(`${response.status} · ${format(total)} · ${type.split(";")[0]} · ${sizeOf(blob.size)}${version(response)}`);
    this.timing.replaceChildren(latency(wire.shares(wire.parseTiming(response.headers.get("Server-Timing")), total), total));
    if (!(output instanceof Blob)) this.last = { text: JSON.stringify(described(request)), output: this.path.instances ? whole : output };
    this.field.answered?.(output);
    this.present(output, output, blob);
  }

  // Return the output, and the whole body it was in.
  async read(blob, type) {
    if (/json/.test(type)) {
      const body = JSON.parse(await blob.text());
      if (this.path.instances) return [body.predictions?.map((each) => each.prediction ?? each) ?? body, body];
      return [this.path.envelope && body !== null && "prediction" in Object(body) ? body.prediction : body, body];
    }
    if (type.startsWith("text/")) {
      const text = await blob.text();
      return [text, text];
    }
    return [blob, blob];
  }

  async follow(response, type, start, request) {
    const read = wire.streamReader(type, this.path);
    const text = h("pre", { className: "pg-text", tabIndex: 0 });
    const list = h("div", { className: "pg-media" });
    this.answer.replaceChildren(text, list);
    let first = 0;
    let told = 0;
    let failed = null;
    for await (const piece of pieces(response.body.pipeThrough(new TextDecoderStream()))) {
      for (const { output, error } of read(piece)) {
        if (error) failed = error;
        if (output === undefined) continue;
        first ||= performance.now() - start;
        this.outputs.push(output);
        const words = wire.textOf(output);
        if (typeof words === "string") {
          text.append(words);
          text.scrollTop = text.scrollHeight;
          this.field.heard?.(words);
        } else list.append(output?.b64 ? showMedia(output) : h("pre", {}, JSON.stringify(output)));
      }
      if (performance.now() - told < 1000) continue; // those who have it read aloud can follow
      told = performance.now();
      this.say(`${this.outputs.length} outputs · the first after ${format(first)}`);
    }
    if (failed) return this.refused(response, failed);
    const total = performance.now() - start;
    const { outputs } = this;
    const words = outputs.map(wire.textOf);
    const isText = outputs.length > 0 && words.every((each) => typeof each === "string");
    this.say(`${response.status} · ${outputs.length} outputs in ${format(total)}, the first after ${format(first)}${version(response)}`);
    const parts = [{ name: "first", ms: first, about: "" }, { name: "rest", ms: total - first, about: "" }];
    this.timing.replaceChildren(latency(parts, total));
    this.last = { text: JSON.stringify(described(request)), output: outputs };
    this.field.answered?.(words.join(""));
    this.present(isText ? words.join("") : outputs, outputs);
  }

  refused(response, problem) {
    const status = problem.status ?? response.status;
    this.say(`${status} · refused`, true);
    const named = /^([\w.[\]]+): (.*)/s.exec(problem.detail ?? "");
    const told = named && this.fields.has(named[1]) ? [{ field: named[1], message: named[2] }] : [];
    const errors = (problem.errors ?? told).map(({ field, message }) => {
      const found = this.fields.get(field);
      found?.fail(message);
      const name = found ? h("button", { type: "button", className: "pg-jump", onclick: () => found.focus() }, field) : h("code", {}, field);
      return h("li", {}, name, `: ${message}`);
    });
    const help = wire.advice(status, problem, response.headers);
    this.answer.replaceChildren(h("div", { className: "pg-refusal", role: "alert" },
      h("h3", {}, problem.title ?? `Status ${status}`),
      problem.detail && !errors.length ? h("p", {}, problem.detail) : null,
      errors.length ? h("ul", {}, errors) : null,
      help && h("p", {}, help),
      problem.traceback && h("pre", {}, [problem.traceback].flat().join("\n")),
      problem.request_id && h("p", { className: "hint" }, "Request ", h("code", {}, problem.request_id))));
    if (status === 401 || status === 403) this.options.open = true;
    this.field.answered?.(null);
  }

  // Show *output*; the tree shows *whole*, and the download is *blob* or the whole as JSON.
  present(output, whole, blob) {
    const names = viewsOf(output, this.model.playground.output?.view);
    const turn = (name) => {
      this.answer.replaceChildren(show(name === "json" ? whole : output, name));
      for (const each of this.views.querySelectorAll("[data-view]")) each.ariaPressed = String(each.dataset.view === name);
    };
    const content = blob ?? new Blob([JSON.stringify(whole)], { type: "application/json" });
    const end = (content.type.split("/")[1] ?? "bin").split(/[;+]/)[0];
    const all = output instanceof Blob ? [] : [h("a", { href: URL.createObjectURL(content), download: `prediction.${end}`, className: "pg-download" }, "Download")];
    this.views.replaceChildren(...names.map((name) => h("button", { type: "button", "data-view": name, onclick: () => {
      this.view = name;
      turn(name);
    } }, NAMES[name])), ...all);
    turn(names.includes(this.view) ? this.view : names[0]);
  }

  // ------------------------------------------------------------ code

  async write() {
    if (!this.code.open) return;
    const say = (text) => this.code.replaceChildren(this.code.firstElementChild, h("p", { className: "hint" }, text));
    let request;
    try {
      request = await this.request();
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      if (this.mode === "chat") request = this.sent; // what is said next is still empty
      error.field.fail("");
      if (!request) return say(`${error.field.label}: ${error.message}`);
    }
    const told = { server: location.origin, path: this.path.path, version: this.version.value, instances: this.path.instances, streams: this.path.streams && this.streams.checked, needs_token: Boolean(this.token.value) };
    const input = described(request);
    const isAnswered = this.last?.text === JSON.stringify(input) && JSON.stringify(this.last.output).length < MOST_WRITTEN;
    const body = JSON.stringify({ ...told, ...input, ...(isAnswered ? { output: this.last.output } : {}) });
    if (body.length > MOST_WRITTEN) return say("This input is too long to be written as code.");
    const response = await fetch(`${this.root.dataset.base}/snippets`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    if (!response.ok) return say((await response.json()).detail ?? "The server did not write it.");
    this.showCode(await response.json());
  }

  showCode(texts) {
    const names = Object.keys(FORMATS).filter((name) => texts[name]);
    const chosen = names.includes(this.format) ? this.format : names[0];
    const tabs = names.map((name) => h("button", { type: "button", "aria-pressed": String(name === chosen), onclick: () => {
      this.format = name;
      this.showCode(texts);
    } }, FORMATS[name]));
    const copy = h("button", { type: "button", className: "secondary outline", onclick: () => this.copy(texts[chosen], copy) }, "Copy");
    this.code.replaceChildren(this.code.firstElementChild, h("div", { className: "pg-tabs", role: "group", "aria-label": "Language" }, tabs), h("pre", { tabIndex: 0, className: "pg-text" }, texts[chosen]), copy);
  }
}

function rootField(form, path, value) {
  if (!path.instances) return makeField(form, "", path.input_schema, { value: value ?? undefined, label: "Input" });
  const list = { type: "array", items: path.input_schema, minItems: 1 };
  const field = makeField(form, "instances", list, { value: value?.instances, label: "Inputs" });
  return { ...field, get: () => ({ instances: field.get() }) };
}

function modesOf(path) {
  const [schema] = choose(path.input_schema, path.definitions);
  const isForm = path.instances || (Object.keys(schema).length > 0 && widgetOf(schema, path.definitions) !== "json");
  const takesFiles = path.examples.some((each) => each.input_file) || path.consumes.some((each) => /^(image|audio|video|\*)\/|octet-stream|x-npy/.test(each));
  const isMedia = isForm && mediaOf(schema);
  return [isForm && isChat(schema, path.definitions) && "chat", isForm && "form", "json", takesFiles && !isMedia && !path.instances && "file"].filter(Boolean);
}

function exampleName({ input, input_file: file }) {
  if (file) return file.split("/").at(-1);
  const text = typeof input === "string" ? input : JSON.stringify(input, (name, each) => (name === "b64" ? "…" : each));
  return text.length > 44 ? `${text.slice(0, 43)}…` : text;
}

// Return a sample without the files that were made up for it, and without what the author gives.
function plainSample(value, hints, at = "") {
  if (hints[at || "input"]?.example !== undefined) return undefined;
  if (typeof value !== "object" || value === null) return value ?? undefined;
  if (Array.isArray(value)) return value.map((each) => plainSample(each, {}));
  if (typeof value.b64 === "string") return undefined;
  const pairs = Object.entries(value).map(([name, each]) => [name, plainSample(each, hints, at ? `${at}.${name}` : name)]);
  return Object.fromEntries(pairs.filter(([, each]) => each !== undefined));
}

// Return the input of a request, with the names of files in place of the files.
function described(request) {
  if (request.file) return { file: request.file.name, content_type: request.file.blob.type };
  if (!request.form) return { value: request.json };
  const entries = Object.entries(request.form);
  const names = entries.filter(([, each]) => holdsFile(each)).map(([name, each]) => [name, [each].flat()[0].name]);
  return { value: Object.fromEntries(entries.filter(([, each]) => !holdsFile(each))), files: Object.fromEntries(names) };
}

function holdsFile(value) {
  if (value instanceof wire.Media) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(holdsFile);
}

function version(response) {
  const name = response.headers.get("X-Model-Version");
  const isKept = response.headers.get("X-Cache") === "hit";
  return (name ? ` · version ${name}` : "") + (isKept ? " · from the cache" : "");
}

async function* pieces(stream) {
  const reader = stream.getReader();
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) yield piece.value;
}

async function start() {
  const root = document.getElementById("playground");
  const response = await fetch(root.dataset.source);
  if (!response.ok) return root.replaceChildren(h("p", { role: "alert" }, (await response.json()).detail ?? "The model is not known."));
  const model = await response.json();
  for (const path of model.paths) path.input_schema = schemaOf(path, model.playground.inputs ?? {});
  if (!model.paths.length) return root.replaceChildren(h("p", {}, "This model answers at no path."));
  new Playground(root, model);
}

start();
