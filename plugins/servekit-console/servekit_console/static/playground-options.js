// SPDX-License-Identifier: Apache-2.0
// What a request says besides its input: how the answer comes, a version, a token, headers and parameters.

import { FieldError } from "./playground-field.js";
import { isSecret } from "./playground-wire.js";
import { h } from "./playground-views.js";

const TOKEN = "servekit-token";
const ANY = "*"; // among the headers stands for all headers and parameters
const OWN = ["accept", "content-type", "authorization"]; // headers that the page itself sends

export class Options {
  constructor(model) {
    this.model = model;
    this.element = h("details", { className: "pg-options" });
  }

  // Ask for what *path* reads; *state* is that of a link.
  turnTo(path, state = {}) {
    const { versions, needs_token: needsToken } = this.model;
    this.path = path;
    this.accept = choice("pg-accept", "chosen by the page", path.produces, state.accept);
    this.version = choice("pg-version", "chosen by the server", versions, state.version);
    this.streams = h("input", { type: "checkbox", role: "switch", checked: path.streams && state.stream !== "0" });
    this.token = h("input", { type: "password", id: "pg-token", autocomplete: "off", value: sessionStorage.getItem(TOKEN) ?? "", onchange: () => sessionStorage.setItem(TOKEN, this.token.value) });
    const headers = path.request_headers.filter((name) => !OWN.includes(name)).map((name) => makeValue("header", name, state));
    const parameters = [...path.request_query, ...(path.request_headers.includes(ANY) ? [ANY] : [])];
    const query = parameters.map((name) => makeValue("query", name, state));
    this.values = { header: headers, query };
    this.element.replaceChildren(...[
      h("summary", {}, "Options"),
      path.streams && h("label", {}, this.streams, " Show outputs as they come"),
      versions.length > 1 && h("label", { htmlFor: "pg-version" }, "Version", this.version),
      h("label", { htmlFor: "pg-accept" }, "Answer as", this.accept),
      h("label", { htmlFor: "pg-token" }, "Token for predictions", this.token),
      h("small", { className: "hint" }, "The token stays in this tab of the browser, and only this server gets it."),
      ...[...headers, ...query].map((each) => each.element),
    ].filter(Boolean));
    this.element.open = needsToken && !this.token.value;
  }

  get wantsStream() {
    return this.path.streams && this.streams.checked;
  }

  // Return {headers, query} as they are sent; throws a FieldError.
  read() {
    const pairs = (kind) => Object.fromEntries(this.values[kind].flatMap((each) => each.pairs()));
    return { headers: pairs("header"), query: pairs("query") };
  }

  // Return what a link keeps. A header may be a key, so links have none.
  state() {
    const query = this.values.query.filter(({ name }) => !isSecret(name)).map((each) => [`query.${each.name}`, each.kept()]);
    return { accept: this.accept.value, version: this.version.value, stream: this.path.streams && !this.streams.checked ? "0" : "", ...Object.fromEntries(query) };
  }
}

function choice(id, unset, names, chosen) {
  const select = h("select", { id }, h("option", { value: "" }, unset), names.map((each) => h("option", {}, each)));
  select.value = names.includes(chosen) ? chosen : "";
  return select;
}

// Return a field for the header or parameter *name*, or a list of those that people name themselves.
function makeValue(kind, name, state) {
  const isList = name === ANY;
  const given = { value: state[`${kind}.${name}`] ?? "", autocomplete: "off", spellcheck: false };
  const input = isList ? h("textarea", { rows: 2, className: "mono", ...given }) : h("input", { type: isSecret(name) ? "password" : "text", ...given });
  const [title, sign] = { header: ["Headers", ": "], query: ["Query parameters", "="] }[kind];
  const help = isList ? `name${sign}value, one on each line` : isSecret(name) ? "Links and code leave it out." : "";
  const label = isList ? title : `${name} (${kind})`;
  const problem = h("small", { className: "pg-problem" });
  const field = {
    name, label, element: h("div", { className: "pg-field" }, h("label", {}, label, input), help && h("small", { className: "hint" }, help), problem),
    fail: (message) => {
      problem.textContent = message;
      input.ariaInvalid = message ? "true" : null;
    },
    focus: () => {
      input.closest("details").open = true;
      input.focus();
    },
    kept: () => (isList ? input.value.split("\n").filter((line) => !isSecret(line.split(sign.trim())[0])).join("\n") : input.value),
    pairs: () => {
      field.fail("");
      if (!input.value.trim()) return [];
      const pairs = isList ? toPairs(field, input.value, sign.trim()) : [[name, input.value.trim()]];
      if (kind === "header" && pairs.some(([, value]) => !/^[ -~]*$/.test(value))) throw new FieldError(field, "a header can hold only ASCII characters");
      return pairs;
    },
  };
  return field;
}

function toPairs(field, text, sign) {
  return text.split("\n").filter((line) => line.trim()).map((line) => {
    const [name, ...rest] = line.split(sign);
    const key = name.trim();
    if (!rest.length || !/^[\w.-]+$/.test(key)) throw new FieldError(field, `${line.trim()} is not name${sign}value`);
    if (sign === ":" && OWN.includes(key.toLowerCase())) throw new FieldError(field, `the page sets ${key} itself`);
    return [key, rest.join(sign).trim()];
  });
}
