// SPDX-License-Identifier: Apache-2.0
// What all fields have: a label, help, bounds, and a place for what is wrong.

import { boundsOf } from "./playground-schema.js";
import { h } from "./playground-views.js";

export const EMPTY = "fill this in"; // begins what is said of a required field that is empty
let count = 0; // of fields, for their ids

export class FieldError extends Error {
  constructor(field, message) {
    super(message);
    this.field = field;
    this.isEmpty = message.startsWith(EMPTY);
  }
}

// Return a field around one *input*: label, help, and a place for what is wrong.
export function wrap(spec, input, { get, set, extra = [] }) {
  const id = `pg-${++count}`;
  const words = [spec.help, boundsOf(spec.schema)].filter(Boolean).join(" · ");
  const help = h("small", { id: `${id}-help`, className: "hint" }, words);
  const problem = h("small", { id: `${id}-problem`, className: "pg-problem" });
  input.id = id;
  input.setAttribute("aria-describedby", `${id}-help ${id}-problem`);
  const label = h("label", { htmlFor: id }, spec.label, spec.required ? null : h("span", { className: "hint" }, " (optional)"));
  const field = {
    element: h("div", { className: "pg-field" }, label, input, extra, words && help, problem),
    get: () => {
      field.fail("");
      return get((message) => {
        throw new FieldError(field, message);
      });
    },
    set,
    fail: (message) => {
      problem.textContent = message;
      if (message) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    },
    focus: () => input.focus(),
    label: spec.label,
  };
  return field;
}
