// SPDX-License-Identifier: Apache-2.0
// The page where people try a model.

import { copyText } from "./copy.js";
import { Answer } from "./playground-answer.js";
import { choose, isChat, mediaOf, schemaOf, widgetOf } from "./playground-schema.js";
import { makeChat } from "./playground-chat.js";
import { CodePanel } from "./playground-code.js";
import { FieldError } from "./playground-field.js";
import { makeField, makeJson } from "./playground-fields.js";
import { makeFile } from "./playground-media.js";
import { Options } from "./playground-options.js";
import * as wire from "./playground-wire.js";
import { h } from "./playground-views.js";

const MOST_EXPECTED = 50_000; // characters of an output that a test expects
const MODES = { form: "Form", chat: "Chat", json: "JSON", file: "File" };

class Playground {
  constructor(root, model) {
    this.root = root;
    this.model = model;
    this.path = model.paths[0];
    this.abort = null; // of the request that is on its way
    this.last = null; // {text, output} of the last request with JSON or text
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
    this.options = new Options(model);
    this.code = new CodePanel(this.root.dataset.base, () => this.describe(), (text, button) => this.copy(text, button));
    this.answer = new Answer(model);
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
    }, h("h2", {}, "Input"), choice, this.about, this.examples, this.modes, this.slot, this.options.element, h("div", { className: "pg-actions" }, this.send, this.stop, this.link, this.note));
    this.root.replaceChildren(h("div", { className: "pg-sides" }, form, h("div", {}, this.answer.element, this.code.element)));
  }

  turnTo(path, state = {}) {
    this.path = path;
    this.sent = null;
    this.paths.value = this.model.paths.indexOf(path);
    this.about.textContent = path.description === this.model.description ? "" : path.description;
    const examples = path.examples.map((each, i) => h("button", { type: "button", className: "secondary outline", title: `Example ${i + 1}`, onclick: () => this.take(each) }, exampleName(each)));
    this.examples.replaceChildren(...(examples.length ? [h("span", { className: "hint" }, "Examples"), ...examples] : []));
    this.options.turnTo(path, state);
    const modes = modesOf(path);
    const isFile = path.examples[0]?.input_file && modes.includes("file");
    if (state.value !== undefined) this.fill(modes.includes(state.mode) ? state.mode : modes[0], state.value);
    else if (isFile && !modes.includes(state.mode)) this.turnMode("file", this.suggestion());
    else if (path.examples.some((each) => each.input !== null)) this.fill(modes.includes(state.mode) ? state.mode : modes[0], this.suggestion());
    else this.turnMode(modes.includes(state.mode) ? state.mode : modes[0], this.suggestion());
  }

  // Show *value* as it is: as JSON if a form or a conversation would change it.
  fill(mode, value) {
    this.turnMode(mode, value);
    if (mode === "json" || mode === "file") return;
    try {
      if (wire.isSame(this.field.get(), value, choose(this.path.input_schema, this.path.definitions, value)[0])) return;
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      error.field.fail(""); // it is judged when it is sent
      if (!error.isEmpty) return; // it is there, and not valid
    }
    this.turnMode("json", value);
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
    const mode = this.mode === modesOf(this.path)[0] ? "" : this.mode;
    const state = { path: isFirst ? "" : this.path.path, mode, ...this.options.state(), value: hasFiles ? undefined : value };
    const [fragment, isLarge] = wire.toFragment(state);
    this.fragment = fragment;
    history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname);
    this.note.textContent = isLarge ? "The link leaves out this input: it is too long." : hasFiles ? "The link leaves out files." : "";
    this.code.write();
  }

  async copy(text, button) {
    const label = button.textContent;
    button.textContent = (await copyText(text)) ? "Copied" : "The browser does not allow it";
    setTimeout(() => (button.textContent = label), 1500);
  }

  // ------------------------------------------------------------ the request

  async take(example) {
    if (example.input_file) {
      const response = await fetch(`${this.root.dataset.base}/files/${example.input_file.split("/").map(encodeURIComponent).join("/")}`);
      if (!response.ok) return this.answer.say("The file of this example cannot be read.", true);
      const type = example.content_type ?? response.headers.get("Content-Type");
      const file = new wire.Media(new Blob([await response.blob()], { type }), example.input_file.split("/").at(-1));
      const isForm = this.mode === "form" && mediaOf(choose(this.path.input_schema, this.path.definitions)[0]);
      if (!isForm && this.mode !== "file") this.turnMode("file");
      this.field.set(file);
    } else {
      const modes = modesOf(this.path);
      const mode = this.mode === "file" ? modes[0] : this.mode;
      this.fill(mode, this.path.instances ? { instances: [example.input] } : example.input);
    }
    this.changed();
    await this.submit();
  }

  async request() {
    const { accept, token, wantsStream } = this.options;
    const values = this.options.read();
    const made = await wire.makeRequest(this.path, this.field.get(), { accept: accept.value, streams: wantsStream, token: token.value });
    const { path, instances } = this.path;
    const shown = { headers: wire.withoutSecrets(values.headers), query: wire.withoutSecrets(values.query) };
    const told = { path, version: this.options.version.value, instances, streams: wantsStream, accept: accept.value, ...shown, ...described(made) };
    return { ...made, headers: { ...made.headers, ...values.headers }, query: values.query, told };
  }

  async submit() {
    if (this.abort) return;
    this.abort = new AbortController();
    let request;
    try {
      request = await this.request();
    } catch (error) {
      this.abort = null;
      if (!(error instanceof FieldError)) throw error;
      error.field.fail(error.message);
      error.field.focus();
      return this.answer.say(`${error.field.label}: ${error.message}`, true);
    }
    this.sent = request;
    const form = { field: this.field, fields: this.fields };
    this.begin();
    try {
      await this.fetch(request, form);
    } catch (error) {
      if (error.name === "AbortError") {
        this.answer.stopped();
        form.field.stopped?.();
      } else if (error instanceof wire.Unreachable) this.answer.say(`The server cannot be reached, or it closed the connection: ${error.message}`, true);
      else throw error;
    } finally {
      this.abort = null;
      form.field.answered?.(null); // of one that was stopped or broken off, what there is stays
      if (document.activeElement === this.stop) this.send.focus();
      this.send.ariaDisabled = null;
      this.stop.hidden = true;
      this.answer.end();
      this.code.write();
    }
  }

  begin() {
    this.last = null;
    this.send.ariaDisabled = "true"; // a button that is disabled loses the focus
    this.stop.hidden = false;
    this.answer.begin();
  }

  async fetch(request, form) {
    const { path } = this;
    const url = new URL(wire.pathOf(this.model.name, this.options.version.value, path.path), location.origin);
    for (const [name, value] of Object.entries(request.query)) url.searchParams.set(name, value);
    const start = performance.now();
    const response = await fetch(url, { method: "POST", headers: request.headers, body: request.body, signal: this.abort.signal }).catch(wire.unreachable);
    const output = await this.answer.show(response, path, start, form);
    if (output !== undefined) this.last = { text: JSON.stringify(request.told), output };
    if (response.status === 401 || response.status === 403) this.options.element.open = true;
  }

  // ------------------------------------------------------------ code

  // Return the request as the server takes it to write code, or why there is none.
  async describe() {
    let request;
    try {
      request = await this.request();
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      if (this.mode === "chat") request = this.sent; // what is said next is still empty
      error.field.fail("");
      if (!request) return `${error.field.label}: ${error.message}`;
    }
    const { last } = this;
    const isAnswered = last?.text === JSON.stringify(request.told) && JSON.stringify(last.output).length < MOST_EXPECTED;
    return { server: location.origin, needs_token: Boolean(this.options.token.value), ...request.told, ...(isAnswered ? { output: last.output } : {}) };
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
