// SPDX-License-Identifier: Apache-2.0
// What a JSON Schema asks people to fill in. Pure: no page is needed.

const PREFIX = "#/$defs/";
const MEDIA = ["image", "audio"];
export const MOST_CELLS = 1024; // of an array that is shown as a grid

// Return the schema that a reference leads to, with what stands beside the reference.
export function follow(schema, definitions) {
  for (let turns = 0; schema?.$ref && turns < 32; turns++) {
    const { $ref, ...beside } = schema;
    schema = { ...definitions[$ref.slice(PREFIX.length)], ...beside };
  }
  return schema ?? {};
}

// Return [schema, whether null is allowed]: of several forms, the one that fits *value* best.
export function choose(schema, definitions, value) {
  const found = follow(schema, definitions);
  const forms = found.anyOf ?? found.oneOf ?? (found.allOf?.length === 1 ? found.allOf : null);
  if (!forms) {
    if (!Array.isArray(found.type)) return [found, false];
    const types = found.type.filter((each) => each !== "null");
    return [{ ...found, type: types.length === 1 ? types[0] : undefined }, types.length < found.type.length];
  }
  const { anyOf, oneOf, allOf, ...beside } = found;
  const followed = forms.map((each) => follow(each, definitions));
  const some = followed.filter((each) => each.type !== "null");
  const isNullable = some.length < forms.length;
  if (some.length && some.every((each) => "const" in each || each.enum)) {
    return [{ ...beside, enum: some.flatMap((each) => each.enum ?? [each.const]) }, isNullable];
  }
  const fits = some.find((each) => value !== undefined && value !== null && typeFits(each, value));
  // a lone array of a signature may come without its name
  const named = some.find((each) => each.type === "object" && some.length === 2 && isTensor(some[0]));
  const best = named ?? fits ?? some[0] ?? {};
  const [inner, more] = choose(best, definitions, value);
  return [{ ...inner, ...beside, description: beside.description ?? inner.description }, isNullable || more];
}

function typeFits(schema, value) {
  const kind = Array.isArray(value) ? "array" : typeof value;
  const type = schema.type === "integer" ? "number" : schema.type;
  return kind === type;
}

function isTensor(schema) {
  return schema.type === "array" || ["number", "integer", "boolean", "string"].includes(schema.type);
}

// Return the media range of a file of servekit.types, or "".
export function mediaOf(schema) {
  const content = schema.properties?.b64;
  if (content?.contentEncoding === "base64") return content.contentMediaType || "*/*";
  return schema.contentEncoding === "base64" ? schema.contentMediaType || "*/*" : "";
}

// Return the schema of the input of *path*. One that says nothing is what the author says: *hints*.
export function schemaOf(path, hints) {
  const { description, ...rest } = path.input_schema;
  const names = Object.keys(hints).filter((name) => hints[name].widget);
  if (Object.keys(rest).length || !names.length) return path.input_schema;
  const tensors = Object.fromEntries((path.signature?.inputs ?? []).map((each) => [each.name, each]));
  const made = (name) => (tensors[name] ? tensorSchema(tensors[name]) : MADE[hints[name].widget] ?? {});
  if (names.length === 1 && names[0] === "input" && !tensors.input) return made("input");
  return { type: "object", properties: Object.fromEntries(names.map((name) => [name, made(name)])), required: names };
}

function tensorSchema({ dtype, shape }) {
  const inner = { type: { bool: "boolean", str: "string" }[dtype] ?? "number" };
  const outer = (items, size) => (size < 0 ? { type: "array", items } : { type: "array", items, minItems: size, maxItems: size });
  return shape.toReversed().reduce(outer, inner);
}

const file = (contentMediaType) => ({ type: "object", properties: { b64: { contentEncoding: "base64", contentMediaType } } });
const MADE = {
  text: { type: "string", maxLength: 100 },
  textarea: { type: "string" },
  number: { type: "number" },
  switch: { type: "boolean" },
  array: { type: "array", items: { type: "number" } },
  image: file("image/*"),
  audio: file("audio/*"),
  file: file("*/*"),
};

// Return the sizes of an array of numbers, with -1 for any size; null if it is something else.
export function shapeOf(schema, definitions) {
  const sizes = [];
  let [inner] = choose(schema, definitions);
  while (inner.type === "array") {
    if (inner.prefixItems || !inner.items) return null;
    const { minItems = 0, maxItems = Infinity } = inner;
    sizes.push(minItems === maxItems ? minItems : -1);
    [inner] = choose(inner.items, definitions);
  }
  const isNumber = ["number", "integer"].includes(inner.type) && !inner.enum;
  return sizes.length && isNumber ? sizes : null;
}

// Return what people fill in: the name of a widget.
export function widgetOf(schema, definitions, hint) {
  const media = mediaOf(schema);
  const shape = shapeOf(schema, definitions);
  const isNumber = schema.type === "number" || schema.type === "integer";
  if (hint === "hidden" || hint === "json") return hint;
  if (hint === "grid" && shape?.length <= 2 && !shape.includes(-1)) return hint;
  if (hint === "array" && shape) return hint;
  if (hint === "slider" && isNumber && schema.minimum < schema.maximum) return hint;
  if ((hint === "text" || hint === "textarea") && schema.type === "string") return hint;
  if (media) return MEDIA.includes(hint) ? hint : MEDIA.find((each) => media.startsWith(each)) ?? "file";
  if (schema.enum) return "choice";
  if ("const" in schema) return "hidden";
  if (schema.type === "boolean") return "switch";
  if (isNumber) return "number";
  if (schema.type === "string") return isShort(schema) ? "text" : "textarea";
  if (shape?.length === 2 && !shape.includes(-1) && shape[0] * shape[1] <= MOST_CELLS) return "grid";
  if (shape) return shape.length <= 2 ? "array" : "json";
  if (schema.type === "object" && Object.keys(schema.properties ?? {}).length) return "object";
  if (schema.type === "array" && schema.items && !schema.prefixItems) {
    const [items] = choose(schema.items, definitions);
    return Object.keys(items).length ? "list" : "json";
  }
  return "json";
}

function isShort(schema) {
  return Boolean(schema.format || schema.pattern) || schema.maxLength <= 100;
}

// Return numbers of a text that was typed or pasted: JSON, CSV, or columns of a spreadsheet.
export function parseNumbers(text, depth) {
  const trimmed = text.trim();
  if (trimmed.startsWith("[")) return JSON.parse(trimmed);
  const rows = trimmed.split(/[\r\n]+|;/).filter((row) => row.trim());
  const numbers = rows.map((row) => row.trim().split(/[\s,]+/).filter(Boolean).map(toNumber));
  return depth === 1 ? numbers.flat() : numbers;
}

function toNumber(text) {
  const value = Number(text);
  if (Number.isNaN(value)) throw new SyntaxError(`${text} is not a number`);
  return value;
}

// Return an array as text: a row in each line.
export function formatNumbers(value) {
  if (!Array.isArray(value)) return "";
  return Array.isArray(value[0]) ? value.map((row) => row.join(", ")).join("\n") : value.join(", ");
}

// Return what is wrong with a number, or "".
export function numberProblem(schema, value) {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema;
  if (Number.isNaN(value)) return "not a number";
  if (schema.type === "integer" && !Number.isInteger(value)) return "not a whole number";
  if (value < minimum) return `at least ${minimum}`;
  if (value > maximum) return `at most ${maximum}`;
  if (value <= exclusiveMinimum) return `more than ${exclusiveMinimum}`;
  return value >= exclusiveMaximum ? `less than ${exclusiveMaximum}` : "";
}

// Return the bounds of a schema in words.
export function boundsOf(schema) {
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum ?? schema.exclusiveMaximum;
  const lowWord = schema.minimum === undefined ? "more than" : "at least";
  const highWord = schema.maximum === undefined ? "less than" : "at most";
  if (schema.minimum !== undefined && schema.maximum !== undefined) return `${low} to ${high}`;
  const words = [low !== undefined && `${lowWord} ${low}`, high !== undefined && `${highWord} ${high}`];
  return words.filter(Boolean).join(", ");
}

// Return a name of a field for people.
export function labelOf(name) {
  const words = name.replaceAll("_", " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

// Whether the input is a conversation: a list of messages, each with a role and a content.
export function isChat(schema, definitions) {
  const [found] = choose(schema, definitions);
  const [messages] = choose(found.properties?.messages ?? {}, definitions);
  const [message] = choose(messages.items ?? {}, definitions);
  return Boolean(message.properties?.role && message.properties?.content);
}
