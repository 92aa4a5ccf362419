// SPDX-License-Identifier: Apache-2.0
// Fields that people fill in. Each has: element, get(), set(value), fail(message), focus().
// get() returns undefined for what is left out, and throws a FieldError for what is not valid.

import { boundsOf, choose, formatNumbers, labelOf, mediaOf, numberProblem, parseNumbers, shapeOf, widgetOf } from "./playground-schema.js";
import { fromBase64, Media, toWav } from "./playground-wire.js";
import { h, sizeOf } from "./playground-views.js";

const MOST_SHOWN = 5; // optional fields before the rest is folded away
let count = 0;

export class FieldError extends Error {
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

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

// Return a field around one *input*: label, help, and a place for what is wrong.
function wrap(spec, input, { get, set, extra = [] }) {
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

function textField(form, spec, isLong) {
  const { schema } = spec;
  const types = { date: "date", time: "time", email: "email", uri: "url" };
  const input = isLong
    ? h("textarea", { rows: 3, maxLength: schema.maxLength ?? 1e7 })
    : h("input", { type: types[schema.format] ?? "text", maxLength: schema.maxLength ?? 1e7 });
  const isIntended = () => input.value !== "" || (spec.required && !(schema.minLength > 0));
  return wrap(spec, input, {
    get: (refuse) => {
      if (!isIntended()) return spec.required ? refuse("fill this in") : undefined;
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
      if (input.value === "") return input.validity.badInput ? refuse("not a number") : spec.required ? refuse("fill this in") : undefined;
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
      if (!input.value.trim()) return spec.required ? refuse("fill this in, as JSON") : undefined;
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

// A file by choosing, dropping or pasting it; sound also by the microphone.
function fileField(form, spec, kind) {
  const media = mediaOf(spec.schema) || "*/*";
  const input = h("input", { type: "file", accept: kind === "file" ? media : `${kind}/*`, className: "pg-file" });
  const preview = h("div", { className: "pg-preview" });
  const zone = h("div", {
    className: "pg-drop",
    ondragover: (event) => event.preventDefault(),
    ondrop: (event) => {
      event.preventDefault();
      take(event.dataTransfer.files[0]);
    },
    onpaste: (event) => take(event.clipboardData.files[0]),
  }, preview, input, h("span", { className: "hint" }, "or drop or paste it here"), kind === "audio" && recorder((blob) => take(new File([blob], "recording.wav", { type: blob.type }))));
  let current;
  const nameOf = (blob) => `${kind}.${blob.type.split(/[/;+]/)[1] ?? "bin"}`;
  const take = (blob) => {
    if (!blob) return;
    put(new Media(blob, blob.name ?? nameOf(blob)));
    zone.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const put = (file) => {
    current = file;
    const url = URL.createObjectURL(file.blob);
    const type = file.blob.type;
    const shown = type.startsWith("image/") ? h("img", { src: url, alt: "" }) : type.startsWith("audio/") ? h("audio", { src: url, controls: true }) : null;
    preview.replaceChildren(...[shown, h("span", {}, `${file.name}, ${sizeOf(file.blob.size)} `), remove].filter(Boolean));
  };
  const remove = h("button", { type: "button", className: "quiet", onclick: () => {
    current = undefined;
    input.value = "";
    preview.replaceChildren();
    zone.dispatchEvent(new Event("input", { bubbles: true }));
  } }, "Remove");
  input.addEventListener("change", () => take(input.files[0]));
  const field = wrap(spec, input, {
    get: (refuse) => current ?? (spec.required ? refuse("choose a file") : undefined),
    set: (value) => {
      if (value instanceof Media) return put(value);
      const text = value?.b64 ?? String(value);
      if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return field.fail("not base64");
      const blob = fromBase64(text, value?.content_type);
      put(new Media(blob, value?.name ?? nameOf(blob)));
    },
  });
  input.replaceWith(zone);
  zone.insertBefore(input, zone.children[1]);
  return field;
}

function recorder(done) {
  let stop = null;
  const button = h("button", { type: "button", className: "secondary outline", onclick: async () => {
    if (stop) return stop();
    try {
      stop = await record((blob) => {
        stop = null;
        button.textContent = "Record";
        done(blob);
      });
      button.textContent = "Stop recording";
    } catch (error) {
      button.textContent = `No microphone: ${error.message}`;
    }
  } }, "Record");
  return button;
}

// Record the microphone until the returned function is called; done gets WAV.
async function record(done) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const chunks = [];
  const recording = new MediaRecorder(stream);
  recording.ondataavailable = (event) => chunks.push(event.data);
  recording.onstop = async () => {
    stream.getTracks().forEach((track) => track.stop());
    const context = new AudioContext({ sampleRate: 16000 });
    const sound = await context.decodeAudioData(await new Blob(chunks).arrayBuffer());
    done(toWav(sound.getChannelData(0), sound.sampleRate));
    context.close();
  };
  recording.start();
  return () => recording.stop();
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

// Return a field for one file, which is the whole body.
export function makeFile(kind) {
  return fileField(null, { path: "", required: true, schema: {}, label: "File", help: "It is the body of the request." }, kind);
}
