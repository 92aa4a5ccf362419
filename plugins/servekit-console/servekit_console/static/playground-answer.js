// SPDX-License-Identifier: Apache-2.0
// The answer of a model: its status, the time of each part, and its output in several views.

import * as wire from "./playground-wire.js";
import { format, h, latency, NAMES, show, showMedia, sizeOf, viewsOf } from "./playground-views.js";

export class Answer {
  constructor(model) {
    this.hint = model.playground.output?.view;
    this.view = ""; // that people chose
    this.outputs = []; // of a stream, so far
    this.status = h("p", { className: "pg-status", role: "status" }, "Nothing has been sent yet.");
    this.timing = h("div", {});
    this.views = h("div", { className: "pg-tabs", role: "group", "aria-label": "How to show it" });
    this.body = h("div", { className: "pg-answer", id: "pg-answer" });
    this.element = h("section", { className: "panel", "aria-label": "Answer" }, h("h2", {}, "Answer"), this.status, this.timing, this.views, this.body);
  }

  say(text, isBad = false) {
    this.status.textContent = text;
    this.status.classList.toggle("pg-bad", isBad);
  }

  begin() {
    this.outputs = [];
    this.say("Sending …");
    for (const each of [this.timing, this.views, this.body]) each.replaceChildren();
    this.body.setAttribute("aria-busy", "true");
  }

  end() {
    this.body.removeAttribute("aria-busy");
  }

  stopped() {
    const { length } = this.outputs;
    this.say(length ? `Stopped after ${length} ${length === 1 ? "output" : "outputs"}.` : "Stopped.");
  }

  // Show the response to a request to *path* that began at *start*, and tell form: {field, fields}.
  // Return the output; undefined if there is none, or if it is a file.
  async show(response, path, start, form) {
    const type = response.headers.get("Content-Type") ?? "";
    if (!response.ok && response.status !== 207) return this.refuse(response, await response.json().catch(() => ({})), form);
    if (type.startsWith(wire.EVENTS) || wire.LINES.some((each) => type.startsWith(each))) return this.follow(response, type, path, start, form);
    const blob = await response.blob().catch(wire.unreachable);
    const total = performance.now() - start;
    const [output, whole] = await this.read(blob, type, path);
    this.say(`${response.status} · ${format(total)} · ${type.split(";")[0]} · ${sizeOf(blob.size)}${version(response)}`);
    this.timing.replaceChildren(latency(wire.shares(wire.parseTiming(response.headers.get("Server-Timing")), total), total));
    form.field.answered?.(output);
    this.present(output, output, blob);
    if (output instanceof Blob) return undefined;
    return path.instances ? whole : output;
  }

  // Return the output, and the whole body it was in.
  async read(blob, type, path) {
    if (/json/.test(type)) {
      const body = JSON.parse(await blob.text());
      if (path.instances) return [body.predictions?.map((each) => each.prediction ?? each) ?? body, body];
      return [path.envelope && body !== null && "prediction" in Object(body) ? body.prediction : body, body];
    }
    if (type.startsWith("text/")) {
      const text = await blob.text();
      return [text, text];
    }
    return [blob, blob];
  }

  async follow(response, type, path, start, form) {
    const read = wire.streamReader(type, path);
    const text = h("pre", { className: "pg-text", tabIndex: 0 });
    const list = h("div", { className: "pg-media" });
    this.body.replaceChildren(text, list);
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
          form.field.heard?.(words);
        } else list.append(output?.b64 ? showMedia(output) : h("pre", {}, JSON.stringify(output)));
      }
      if (performance.now() - told < 1000) continue; // those who have it read aloud can follow
      told = performance.now();
      this.say(`${this.outputs.length} outputs · the first after ${format(first)}`);
    }
    if (failed) return this.refuse(response, failed, form);
    const total = performance.now() - start;
    const { outputs } = this;
    const words = outputs.map(wire.textOf);
    const isText = outputs.length > 0 && words.every((each) => typeof each === "string");
    this.say(`${response.status} · ${outputs.length} outputs in ${format(total)}, the first after ${format(first)}${version(response)}`);
    const parts = [{ name: "first", ms: first, about: "" }, { name: "rest", ms: total - first, about: "" }];
    this.timing.replaceChildren(latency(parts, total));
    form.field.answered?.(words.join(""));
    this.present(isText ? words.join("") : outputs, outputs);
    return outputs;
  }

  // Say why there is no answer, and at each field that is wrong what is wrong with it.
  refuse(response, problem, { field: sent, fields }) {
    const status = problem.status ?? response.status;
    this.say(`${status} · refused`, true);
    const named = /^([\w.[\]]+): (.*)/s.exec(problem.detail ?? "");
    const told = named && fields.has(named[1]) ? [{ field: named[1], message: named[2] }] : [];
    const errors = (problem.errors ?? told).map(({ field, message }) => {
      const found = fields.get(field);
      found?.fail(message);
      const name = found ? h("button", { type: "button", className: "pg-jump", onclick: () => found.focus() }, field) : h("code", {}, field);
      return h("li", {}, name, `: ${message}`);
    });
    const help = wire.advice(status, problem, response.headers);
    this.body.replaceChildren(h("div", { className: "pg-refusal", role: "alert" },
      h("h3", {}, problem.title ?? `Status ${status}`),
      problem.detail && !errors.length ? h("p", {}, problem.detail) : null,
      errors.length ? h("ul", {}, errors) : null,
      help && h("p", {}, help),
      problem.traceback && h("pre", {}, [problem.traceback].flat().join("\n")),
      problem.request_id && h("p", { className: "hint" }, "Request ", h("code", {}, problem.request_id))));
    sent.answered?.(null);
  }

  // Show *output*; the tree shows *whole*, and the download is *blob* or the whole as JSON.
  present(output, whole, blob) {
    const names = viewsOf(output, this.hint);
    const turn = (name) => {
      this.body.replaceChildren(show(name === "json" ? whole : output, name));
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
}

function version(response) {
  const name = response.headers.get("X-Model-Version");
  const isKept = response.headers.get("X-Cache") === "hit";
  return (name ? ` · version ${name}` : "") + (isKept ? " · from the cache" : "");
}

async function* pieces(stream) {
  const reader = stream.getReader();
  const next = () => reader.read().catch(wire.unreachable);
  for (let piece = await next(); !piece.done; piece = await next()) yield piece.value;
}
