// SPDX-License-Identifier: Apache-2.0
// The request as code to copy. The server writes it.

import { h } from "./playground-views.js";

const MOST_WRITTEN = 100_000; // characters of a request
const FORMATS = { curl: "curl", python: "Python", requests: "Python, requests", javascript: "JavaScript", pytest: "pytest" };

export class CodePanel {
  // *describe* returns the request as the server takes it, or why there is none, as a text.
  constructor(base, describe, copy) {
    this.base = base;
    this.describe = describe;
    this.copy = copy;
    this.turn = 0; // of what was asked for last
    this.written = ""; // what is shown
    this.summary = h("summary", {}, "Copy as code");
    this.shown = h("div");
    this.element = h("details", { className: "pg-code panel", ontoggle: () => this.write() }, this.summary, this.shown);
  }

  async write() {
    if (!this.element.open) return;
    const turn = ++this.turn;
    const texts = await this.ask();
    const written = JSON.stringify(texts);
    if (turn !== this.turn || written === this.written) return; // a button that is being pressed stays
    this.written = written;
    if (typeof texts === "string") this.replace(h("p", { className: "hint" }, texts));
    else this.show(texts);
  }

  async ask() {
    const described = await this.describe();
    if (typeof described === "string") return described;
    const body = JSON.stringify(described);
    if (body.length > MOST_WRITTEN) return "This input is too long to be written as code.";
    const response = await fetch(`${this.base}/snippets`, { method: "POST", headers: { "Content-Type": "application/json" }, body }).catch(() => null);
    if (!response) return "The server cannot be reached.";
    return response.ok ? response.json() : (await response.json()).detail ?? "The server did not write it.";
  }

  show(texts) {
    const names = Object.keys(FORMATS).filter((name) => texts[name]);
    const chosen = names.includes(this.format) ? this.format : names[0];
    const tabs = names.map((name) => h("button", { type: "button", "aria-pressed": String(name === chosen), "data-part": name, onclick: () => {
      this.format = name;
      this.show(texts);
    } }, FORMATS[name]));
    const copy = h("button", { type: "button", className: "secondary outline", "data-part": "copy", onclick: () => this.copy(texts[chosen], copy) }, "Copy");
    const text = h("pre", { tabIndex: 0, className: "pg-text", "data-part": "text" }, texts[chosen]);
    this.replace(h("div", { className: "pg-tabs", role: "group", "aria-label": "Language" }, tabs), text, copy);
  }

  // Show *elements*. What has the focus keeps it; if that is gone, the summary gets it.
  replace(...elements) {
    const focused = this.shown.contains(document.activeElement) && document.activeElement.dataset.part;
    this.shown.replaceChildren(...elements);
    if (focused) (this.shown.querySelector(`[data-part="${focused}"]`) ?? this.summary).focus();
  }
}
