// SPDX-License-Identifier: Apache-2.0
// The parts of the playground that need no page; test_playground_modules.py runs them with node.

import assert from "node:assert/strict";
import test from "node:test";

const at = (name) => new URL(`../servekit_console/static/${name}`, import.meta.url);
const schema = await import(at("playground-schema.js"));
const wire = await import(at("playground-wire.js"));
const views = await import(at("playground-views.js"));

const NUMBERS = { type: "array", items: { type: "number" } };
const square = (size) => ({ type: "array", minItems: size, maxItems: size, items: { type: "array", minItems: size, maxItems: size, items: { type: "number" } } });
const IMAGE = { type: "object", properties: { b64: { type: "string", contentEncoding: "base64", contentMediaType: "image/*" } } };

for (const [name, given, widget, hint] of [
  ["a number", { type: "number" }, "number"],
  ["a bounded number with a hint", { type: "number", minimum: 0, maximum: 1 }, "slider", "slider"],
  ["an unbounded number with the same hint", { type: "number" }, "number", "slider"],
  ["a long text", { type: "string" }, "textarea"],
  ["a short text", { type: "string", maxLength: 20 }, "text"],
  ["a choice", { enum: ["a", "b"] }, "choice"],
  ["a boolean", { type: "boolean" }, "switch"],
  ["numbers", NUMBERS, "array"],
  ["a small square", square(8), "grid"],
  ["a large square", square(224), "array"],
  ["an image", IMAGE, "image"],
  ["base64 of a sound", { type: "string", contentEncoding: "base64", contentMediaType: "audio/wav" }, "audio"],
  ["several images", { type: "array", items: IMAGE }, "list"],
  ["an object", { type: "object", properties: { a: {} } }, "object"],
  ["any object", { type: "object" }, "json"],
  ["anything", {}, "json"],
  ["a tuple", { type: "array", prefixItems: [{}, {}] }, "json"],
]) {
  test(`${name} is filled in as ${widget}`, () => assert.equal(schema.widgetOf(given, {}, hint), widget));
}

test("an optional value is its type, and may be null", () => {
  const [found, isNullable] = schema.choose({ anyOf: [{ type: "integer", minimum: 1 }, { type: "null" }], default: null }, {});
  assert.deepEqual([found.type, found.minimum, isNullable], ["integer", 1, true]);
});

test("of several types, the one of the value is chosen", () => {
  const given = { anyOf: [{ type: "string" }, { type: "array", items: { type: "integer" } }] };
  assert.equal(schema.choose(given, {}, [1])[0].type, "array");
  assert.equal(schema.choose(given, {}, "a")[0].type, "string");
});

test("a lone array of a signature is filled in by its name", () => {
  const given = { anyOf: [NUMBERS, { type: "object", properties: { x: NUMBERS } }] };
  assert.equal(schema.choose(given, {})[0].type, "object");
});

test("references are followed, and do not run in a circle", () => {
  assert.equal(schema.follow({ $ref: "#/$defs/A" }, { A: { $ref: "#/$defs/B" }, B: { type: "string" } }).type, "string");
  schema.follow({ $ref: "#/$defs/A" }, { A: { $ref: "#/$defs/A" } });
});

for (const [text, depth, numbers] of [
  ["1, 2 3", 1, [1, 2, 3]],
  ["[1, 2]", 1, [1, 2]],
  ["1\t2\n3\t4", 2, [[1, 2], [3, 4]]],
  ["1,2;3,4", 2, [[1, 2], [3, 4]]],
  ["1\n2\n3", 1, [1, 2, 3]],
]) {
  test(`${JSON.stringify(text)} is pasted as numbers`, () => assert.deepEqual(schema.parseNumbers(text, depth), numbers));
}

test("what is not a number is named", () => assert.throws(() => schema.parseNumbers("1, x", 1), /x is not a number/));

test("bounds are told before they are broken", () => {
  assert.equal(schema.boundsOf({ exclusiveMinimum: 0, maximum: 30 }), "more than 0, at most 30");
  assert.equal(schema.numberProblem({ exclusiveMinimum: 0 }, 0), "more than 0");
  assert.equal(schema.numberProblem({ type: "integer" }, 1.5), "not a whole number");
  assert.equal(schema.numberProblem({ minimum: 0, maximum: 1 }, 1), "");
});

const PATH = { stream: { end: null, raw: false, field: "" }, envelope: true, consumes: ["application/json"], produces: ["application/json"] };
const OPENAI = { ...PATH, envelope: false, stream: { end: "[DONE]", raw: true, field: "stream" } };

function readAll(type, path, text) {
  const read = wire.streamReader(type, path);
  return [...text].flatMap((letter) => read(letter)); // a letter at a time
}

test("events are read however they are cut", () => {
  const text = 'data: "a"\n\n: still here\n\ndata: {"b": 1}\n\nevent: end\ndata: {}\n\n';
  assert.deepEqual(readAll(wire.EVENTS, PATH, text), [{ output: "a" }, { output: { b: 1 } }, { end: true }]);
});

test("raw events are text, line by line, up to their own end", () => {
  const text = "data: a\ndata: b\n\ndata: 12\n\ndata: [DONE]\n\n";
  assert.deepEqual(readAll(wire.EVENTS, OPENAI, text), [{ output: "a\nb" }, { output: "12" }, { end: true }]);
});

test("an error ends a stream of events", () => {
  assert.deepEqual(readAll(wire.EVENTS, PATH, 'event: error\ndata: {"status": 503}\n\n'), [{ error: { status: 503 } }]);
});

test("lines of JSON are read with and without an envelope", () => {
  assert.deepEqual(readAll(wire.LINES[0], PATH, '{"output":1}\n{"error":{"status":422}}\n'), [{ output: 1 }, { error: { status: 422 } }]);
  assert.deepEqual(readAll(wire.LINES[0], OPENAI, '{"a":1}\n'), [{ output: { a: 1 } }]);
});

test("chunks of OpenAI are text", () => {
  assert.equal(wire.textOf({ choices: [{ delta: { content: "Hi" } }] }), "Hi");
  assert.equal(wire.textOf({ choices: [{ delta: {}, finish_reason: "stop" }] }), "");
  assert.equal(wire.textOf({ label: "cat" }), null);
  for (const output of [3, 0.5, true, null, [1, 2]]) assert.equal(wire.textOf(output), null);
});

test("the parts of a latency leave the rest to the network", () => {
  const parts = wire.parseTiming('queue;dur=1.5, batch;dur=2;desc="4", predict;dur=3');
  assert.deepEqual(parts.map((each) => each.ms), [1.5, 2, 3]);
  assert.equal(parts[1].about, "4");
  assert.equal(wire.shares(parts, 10).at(-1).ms, 3.5);
  assert.equal(wire.shares(parts, 1).length, 3);
  assert.deepEqual(wire.parseTiming(null), []);
});

const photo = new wire.Media(new Blob(["png"], { type: "image/png" }), "a.png");

for (const [name, value, given, isSame] of [
  ["the same", { a: [1, { b: null }] }, { a: [1, { b: null }] }, true],
  ["a default that was not given", { a: 1, sure: false }, { a: 1 }, true],
  ["null that is left out", { a: 1 }, { a: 1, limit: null }, false],
  ["an unknown member", { a: 1 }, { a: 1, other: 2 }, false],
  ["an empty text that is left out", {}, { nick: "" }, false],
  ["lines that became one", "a b", "a\nb", false],
  ["a number that was rounded", 0.25, 0.257, false],
  ["a list that is shorter", [1], [1, 2], false],
  ["a file", { image: photo }, { image: "QUJD" }, true],
]) {
  test(`a form holds what it was given, or not: ${name}`, () => assert.equal(wire.isSame(value, given), isSame));
}

test("null may be left out where it is the default", () => {
  const schema = { properties: { nick: { default: null }, limit: { default: 10 } } };
  assert.equal(wire.isSame({}, { nick: null }, schema), true);
  assert.equal(wire.isSame({}, { limit: null }, schema), false);
});

test("a file is the body where the model takes it as it is", async () => {
  const request = await wire.makeRequest({ ...PATH, consumes: ["image/*"] }, photo, {});
  assert.equal(request.headers["Content-Type"], "image/png");
  assert.equal(request.body, photo.blob);
});

test("a file whose type the browser does not know has that of its name", async () => {
  const array = new wire.Media(new Blob(["x"]), "a.npy");
  const request = await wire.makeRequest({ ...PATH, consumes: ["application/x-npy"] }, array, {});
  assert.equal(request.headers["Content-Type"], "application/x-npy");
});

test("a file among fields is a part of a form, or base64", async () => {
  const form = await wire.makeRequest({ ...PATH, consumes: ["multipart/form-data"] }, { image: photo, size: 3, text: "a" }, {});
  assert.deepEqual([form.body.get("size"), form.body.get("text"), form.body.get("image").name], ["3", "a", "a.png"]);
  const json = await wire.makeRequest(PATH, { image: photo }, {});
  assert.deepEqual(JSON.parse(json.body), { image: { b64: "cG5n", content_type: "image/png" } });
});

test("a stream is asked for by the body or by Accept", async () => {
  const asked = await wire.makeRequest({ ...OPENAI, produces: [wire.EVENTS] }, { a: 1 }, { streams: true, token: "t" });
  assert.deepEqual(JSON.parse(asked.body), { a: 1, stream: true });
  assert.deepEqual([asked.headers.Accept, asked.headers.Authorization], [wire.EVENTS, "Bearer t"]);
});

test("a recording is a WAV of 16 bits", async () => {
  const bytes = new DataView(await wire.toWav([0, 1, -2], 16000).arrayBuffer());
  assert.equal(bytes.byteLength, 50);
  assert.deepEqual([bytes.getUint32(24, true), bytes.getInt16(46, true), bytes.getInt16(48, true)], [16000, 32767, -32767]);
});

test("a link keeps the state, but for an input that is too long", () => {
  const state = { path: "/a", mode: "", stream: "0", value: { text: "é&#" } };
  const [fragment, isLarge] = wire.toFragment(state);
  assert.deepEqual([wire.fromFragment(`#${fragment}`), isLarge], [{ path: "/a", stream: "0", value: { text: "é&#" } }, false]);
  const [short, isTooLong] = wire.toFragment({ path: "/a", value: "x".repeat(7000) });
  assert.deepEqual([short, isTooLong], ["path=%2Fa", true]);
});

test("a refusal says what to do", () => {
  const headers = new Headers({ "Retry-After": "3" });
  assert.equal(wire.advice(429, {}, headers), "Try again in 3 s.");
  assert.match(wire.advice(500, { request_id: "r-1" }, headers), /look for r-1/);
});

for (const [name, output, bars] of [
  ["labels and scores", [{ label: "a", score: 0.1 }, { label: "b", score: 0.9 }], [["b", 0.9], ["a", 0.1]]],
  ["a table of shares", { cat: 0.25, dog: 0.75 }, [["dog", 0.75], ["cat", 0.25]]],
  ["probabilities beside a label", { digit: 1, probabilities: [0.25, 0.75] }, [["1", 0.75], ["0", 0.25]]],
  ["probabilities with their labels", { scores: [3, 1], labels: ["x", "y"] }, [["x", 3], ["y", 1]]],
  ["an embedding", [0.1, -0.4, 0.2], null],
  ["numbers that are no shares", { price_eur: 12.5, days: 4 }, null],
  ["a text", "a", null],
]) {
  test(`${name}: ${bars ? "bars" : "no bars"}`, () => assert.deepEqual(views.toBars(output), bars));
}

test("base64 that is none is not an image", () => {
  assert.equal(views.isMedia({ b64: "%%%", content_type: "image/png" }), false);
  assert.equal(views.isMedia({ b64: "iVBORw0=", content_type: "image/png" }), true);
});

for (const [name, output, first, hint] of [
  ["a text", "a", "text"],
  ["rows", [{ a: 1 }, { a: 2 }], "table"],
  ["rows, shown as the author says", [{ a: 1 }, { a: 2 }], "json", "json"],
  ["a view that does not fit", { a: 1 }, "json", "bars"],
  ["an image in JSON", { b64: "", content_type: "image/png" }, "image"],
  ["a sound", new Blob([], { type: "audio/wav" }), "audio"],
  ["a file", new Blob([], { type: "application/pdf" }), "file"],
  ["nothing", null, "json"],
]) {
  test(`${name} is shown as ${first}`, () => assert.equal(views.viewsOf(output, hint)[0], first));
}

test("what the author says stands in for a schema that says nothing", () => {
  const inputs = [{ name: "image", dtype: "float32", shape: [8, 8] }];
  const path = { input_schema: { description: "Converted by the service" }, signature: { inputs } };
  const found = schema.schemaOf(path, { image: { widget: "grid" }, note: { widget: "text" }, other: {} });
  assert.deepEqual(Object.keys(found.properties), ["image", "note"]);
  assert.equal(schema.widgetOf(found.properties.image, {}, "grid"), "grid");
  assert.equal(schema.schemaOf({ input_schema: {} }, { input: { widget: "image" } }).properties.b64.contentMediaType, "image/*");
  assert.equal(schema.schemaOf({ input_schema: { type: "string" } }, { input: { widget: "json" } }).type, "string");
});

test("a version answers at a path of its own", () => {
  assert.equal(wire.pathOf("m", "2", "/m/predict"), "/m/versions/2/predict");
  assert.equal(wire.pathOf("m", "2", "/v1/x"), "/m/versions/2/v1/x");
  assert.equal(wire.pathOf("m", "", "/v1/x"), "/v1/x");
});

for (const [name, isSecret] of [
  ["x-api-key", true], ["Authorization", true], ["access_token", true], ["x-auth", true], ["cookie", true], ["password", true], ["apikey", true], ["x-session-id", true],
  ["x-user", false], ["author", false], ["max_tokens", false], ["lang", false], ["x-request-id", false], ["keyword", false],
]) {
  test(`${name} is ${isSecret ? "a" : "no"} secret`, () => assert.equal(wire.isSecret(name), isSecret));
}

test("code gets no secrets", () => assert.deepEqual(wire.withoutSecrets({ "x-user": "ada", "x-api-key": "k" }), { "x-user": "ada", "x-api-key": null }));
