// SPDX-License-Identifier: Apache-2.0
// Fields that people fill in. Each has: element, get(), set(value), fail(message), focus().
// get() returns undefined for what is left out, and throws a FieldError for what is not valid.

import { EMPTY, wrap } from "./playground-field.js";
import { fileField } from "./playground-media.js";
import { choose, formatNumbers, labelOf, numberProblem, parseNumbers, shapeOf, widgetOf } from "./playground-schema.js";
import { h } from "./playground-views.js";

const MOST_SHOWN = 5; // optional fields before the rest is folded away
// Return the field for *schema*. form: {definitions, hints, fields: Map}.
export function makeField(form, path, schema, { required = true, value, label } = {}) {
  const hint = form.hints[path || "input"] ?? {};
  const initial = value ?? hint.example;
  const [chosen] = choose(schema, form.definitions, initial);
  const spec = {
    path, required, hint, schema: chosen,
    label: hint.label || label || labelOf(path.split(".").at(-1) || "input"),
    help: hint.help || "",
  };
  const widget = widgetOf(chosen, form.definitions, hint.widget);
  const field = WIDGETS[widget](form, spec);
  form.fields.set(path || "input", field);
  const start = initial ?? chosen.default;
  if (start !== undefined && start !== null) field.set(start);
  return field;
}

function textField(form, spec, isLong) {
  const { schema } = spec;
  const types = { date: "date", time: "time", email: "email", uri: "url" };
  const input = isLong
    ? h("textarea", { rows: 3, maxLength: schema.maxLength ?? 1e7 })
    : h("input", { type: types[schema.format] ?? "text", maxLength: schema.maxLength ?? 1e7 });
  const isIntended = () => input.value !== "" || (spec.required && !(schema.minLength > 0));
  return wrap(spec, input, {
    get: (refuse) => {
      if (!isIntended()) return spec.required ? refuse(EMPTY) : undefined;
      if (input.value.length < schema.minLength) refuse(`at least ${schema.minLength} characters`);
      return input.value;
    },
    set: (value) => (input.value = typeof value === "string" ? value : JSON.stringify(value)),
  });
}

function numberField(form, spec, isSlider) {
  const { schema } = spec;
  const step = schema.multipleOf ?? (schema.type === "integer" ? 1 : isSlider ? (schema.maximum - schema.minimum) / 100 : "any");
  const input = h("input", { type: isSlider ? "range" : "number", min: schema.minimum ?? "", max: schema.maximum ?? "", step });
  const output = isSlider ? h("output", {}) : null;
  if (isSlider) input.addEventListener("input", () => (output.textContent = input.value));
  return wrap(spec, input, {
    extra: output,
    get: (refuse) => {
      if (input.value === "") return input.validity.badInput ? refuse("not a number") : spec.required ? refuse(EMPTY) : undefined;
      const problem = numberProblem(schema, input.valueAsNumber);
      return problem ? refuse(problem) : input.valueAsNumber;
    },
    set: (value) => {
      input.value = value;
      if (output) output.textContent = input.value;
    },
  });
}

function switchField(form, spec) {
  const input = h("input", { type: "checkbox", role: "switch" });
  const isThreefold = !spec.required && typeof spec.schema.default !== "boolean";
  if (isThreefold) return choiceField(form, { ...spec, schema: { ...spec.schema, enum: [true, false] } });
  return wrap(spec, input, { get: () => input.checked, set: (value) => (input.checked = Boolean(value)) });
}

function choiceField(form, spec) {
  const values = spec.schema.enum;
  const named = (value) => (value === true ? "yes" : value === false ? "no" : String(value));
  const options = values.map((value, i) => h("option", { value: i }, named(value)));
  const input = h("select", {}, spec.required ? null : h("option", { value: "" }, "–"), options);
  return wrap(spec, input, {
    get: () => (input.value === "" ? undefined : values[input.value]),
    set: (value) => (input.value = values.findIndex((each) => each === value)),
  });
}

function jsonField(form, spec) {
  const input = h("textarea", { rows: 6, className: "mono", spellcheck: false });
  return wrap(spec, input, {
    get: (refuse) => {
      if (!input.value.trim()) return spec.required ? refuse(`${EMPTY}, as JSON`) : undefined;
      try {
        return JSON.parse(input.value);
      } catch (error) {
        return refuse(`not JSON: ${error.message}`);
      }
    },
    set: (value) => (input.value = JSON.stringify(value, null, 1)),
  });
}

function arrayField(form, spec) {
  const shape = shapeOf(spec.schema, form.definitions);
  const input = h("textarea", { rows: shape.length > 1 ? 6 : 2, className: "mono", spellcheck: false, placeholder: "1, 2, 3" });
  const sizes = shape.length === 1 && shape[0] < 0 ? "" : shape.map((size) => (size < 0 ? "any" : size)).join(" × ");
  return wrap({ ...spec, help: spec.help || `${sizes} numbers, typed or pasted from a spreadsheet`.trim() }, input, {
    get: (refuse) => {
      if (!input.value.trim() && !spec.required) return undefined;
      try {
        return parseNumbers(input.value, shape.length);
      } catch (error) {
        return refuse(error.message);
      }
    },
    set: (value) => (input.value = formatNumbers(value)),
  });
}

function gridField(form, spec) {
  const shape = shapeOf(spec.schema, form.definitions);
  const [rows, columns] = shape.length === 2 ? shape : [1, shape[0]];
  const cells = Array.from({ length: rows * columns }, (_, i) =>
    h("input", { type: "text", inputMode: "decimal", value: "0", "aria-label": `row ${Math.floor(i / columns) + 1}, column ${(i % columns) + 1}` }));
  const shade = () => {
    const numbers = cells.map((cell) => Number(cell.value) || 0);
    const most = Math.max(...numbers.map(Math.abs), 1e-9);
    cells.forEach((cell, i) => cell.style.setProperty("--share", Math.abs(numbers[i]) / most));
  };
  const put = (value) => {
    value.flat().slice(0, cells.length).forEach((each, i) => (cells[i].value = each));
    shade();
  };
  const grid = h("div", {
    className: "pg-grid", role: "group", tabIndex: -1, oninput: shade,
    onpaste: (event) => {
      const text = event.clipboardData.getData("text");
      if (!/[\s,;[]/.test(text.trim())) return;
      event.preventDefault();
      try {
        put(parseNumbers(text, 1));
        grid.dispatchEvent(new Event("input", { bubbles: true }));
      } catch (error) {
        field.fail(error.message);
      }
    },
  }, cells);
  grid.style.setProperty("--columns", columns);
  const field = wrap({ ...spec, help: spec.help || `${rows} × ${columns} numbers; a whole array may be pasted` }, grid, {
    get: (refuse) => {
      const numbers = cells.map((cell) => Number(cell.value));
      if (numbers.some(Number.isNaN)) refuse("not a number");
      return shape.length === 1 ? numbers : Array.from({ length: rows }, (_, i) => numbers.slice(i * columns, (i + 1) * columns));
    },
    set: (value) => Array.isArray(value) && put(value),
  });
  grid.setAttribute("aria-label", spec.label);
  return field;
}

function objectField(form, spec) {
  const { schema, path } = spec;
  const names = Object.keys(schema.properties);
  const required = new Set(schema.required ?? []);
  const fields = {};
  for (const name of names) {
    fields[name] = makeField(form, path ? `${path}.${name}` : name, schema.properties[name], { required: required.has(name), label: labelOf(name) });
  }
  const optional = names.filter((name) => !required.has(name) && !form.hints[path ? `${path}.${name}` : name]);
  const folded = optional.length > MOST_SHOWN ? new Set(optional) : new Set();
  const shown = names.filter((name) => !folded.has(name)).map((name) => fields[name].element);
  const rest = folded.size && h("details", {}, h("summary", {}, `${folded.size} optional fields`), [...folded].map((name) => fields[name].element));
  const use = !spec.required && path ? h("input", { type: "checkbox" }) : null;
  const legend = path && h("legend", {}, use ? h("label", {}, use, ` ${spec.label}`) : spec.label);
  const element = h(path ? "fieldset" : "div", { className: "pg-object" }, legend, spec.help && h("small", { className: "hint" }, spec.help), shown, rest || null);
  if (use) use.addEventListener("change", () => element.classList.toggle("pg-unused", !use.checked));
  if (use) element.classList.add("pg-unused");
  return {
    element,
    label: spec.label,
    get: () => {
      if (use && !use.checked) return undefined;
      const pairs = names.map((name) => [name, fields[name].get()]);
      return Object.fromEntries(pairs.filter(([, value]) => value !== undefined));
    },
    set: (value) => {
      if (use) use.checked = true;
      element.classList.remove("pg-unused");
      for (const [name, each] of Object.entries(value)) if (each !== null) fields[name]?.set(each);
    },
    fail: (message) => fields[names[0]]?.fail(message),
    focus: () => fields[names[0]]?.focus(),
  };
}

function listField(form, spec) {
  let items = [];
  const box = h("div", { className: "pg-items" });
  const add = (value) => {
    const field = makeField(form, `${spec.path}[${items.length}]`, spec.schema.items, { value, label: `${spec.label} ${items.length + 1}` });
    const row = h("div", { className: "pg-item" }, field.element, h("button", { type: "button", className: "quiet", "aria-label": `Remove ${field.label}`, onclick: () => {
      items = items.filter((each) => each !== field);
      row.remove();
      more.focus();
      box.dispatchEvent(new Event("input", { bubbles: true }));
    } }, "✕"));
    items.push(field);
    box.append(row);
    return field;
  };
  const more = h("button", { type: "button", className: "secondary outline", onclick: () => {
    add().focus();
    box.dispatchEvent(new Event("input", { bubbles: true }));
  } }, "Add");
  if (spec.required) for (let i = 0; i < (spec.schema.minItems ?? 1); i++) add();
  return {
    element: h("fieldset", { className: "pg-list" }, h("legend", {}, spec.label), spec.help && h("small", { className: "hint" }, spec.help), box, more),
    label: spec.label,
    get: () => (items.length || spec.required ? items.map((each) => each.get()) : undefined),
    set: (value) => {
      items = [];
      box.replaceChildren();
      [value].flat().forEach(add);
    },
    fail: (message) => items[0]?.fail(message),
    focus: () => more.focus(),
  };
}

function hiddenField(form, spec) {
  let current = "const" in spec.schema ? spec.schema.const : undefined;
  return { element: "", label: spec.label, get: () => current, set: (value) => (current = value), fail: () => {}, focus: () => {} };
}

const WIDGETS = {
  text: (form, spec) => textField(form, spec, false),
  textarea: (form, spec) => textField(form, spec, true),
  number: (form, spec) => numberField(form, spec, false),
  slider: (form, spec) => numberField(form, spec, true),
  switch: switchField,
  choice: choiceField,
  json: jsonField,
  array: arrayField,
  grid: gridField,
  image: (form, spec) => fileField(form, spec, "image"),
  audio: (form, spec) => fileField(form, spec, "audio"),
  file: (form, spec) => fileField(form, spec, "file"),
  object: objectField,
  list: listField,
  hidden: hiddenField,
};

// Return a field for JSON, whatever the schema says.
export function makeJson(label, value) {
  const field = jsonField(null, { path: "", required: true, schema: {}, label, help: "" });
  if (value !== undefined) field.set(value);
  return field;
}
