# SPDX-License-Identifier: Apache-2.0
"""A call for JavaScript, with ``fetch``."""

import json
from typing import Final

from servekit.description.interface import JSON
from servekit.description.samples import FilledArray, SampleFile, SampleForm
from servekit.description.snippets.request import TOKEN, SnippetRequest, expression
from servekit.ipc.response_style import StreamStyle
from servekit.ipc.stream_formats import EVENT_STREAM

__all__ = ["javascript"]

READ: Final = 'import { readFile } from "node:fs/promises";\n'
REFUSED: Final = "if (!response.ok) throw new Error(await response.text());\n"
EVENTS: Final = r"""let text = "";
for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
  const events = (text + piece).split("\n\n");
  text = events.pop();
  for (const event of events) {
    const [, kind, data] = /^(?:event: (\w+)\n)?data: ([^]*)$/.exec(event) ?? [];
    if (kind === "error") throw new Error(data);
    if (data !== undefined%s) console.log(%s);
  }
}
"""


def javascript(call: SnippetRequest) -> str:
    """Return a module for Node 18 or later."""
    by_accept = call.streams and not call.asks_by_body
    sample, headers = call.sample, {"Accept": EVENT_STREAM if by_accept else JSON}
    imports, form = "", ""
    if isinstance(sample, SampleForm):
        imports, form, body = READ if sample.files else "", _form(sample), "form"
    elif isinstance(sample, SampleFile):
        headers = {"Content-Type": sample.content_type, **headers}
        imports, body = READ, f"await readFile({json.dumps(sample.path)})"
    else:
        headers = {"Content-Type": JSON, **headers}
        body = f"JSON.stringify({expression(call.body, _fill, json.dumps)})"
    return (
        f"// node snippet.mjs\n{imports}{form}"
        f"const response = await fetch({json.dumps(call.url)}, {{\n"
        f'  method: "POST",\n  headers: {_object(headers, call)},\n  body: {body},\n}});\n'
        f"{REFUSED}{_events(call.style.stream) if call.streams else _print(call)}"
    )


def _object(headers: dict[str, str], call: SnippetRequest) -> str:
    text = json.dumps(headers)
    token = f", Authorization: `Bearer ${{process.env.{TOKEN}}}`}}"
    return text.removesuffix("}") + token if call.needs_token else text


def _form(sample: SampleForm) -> str:
    lines = ["const form = new FormData();"]
    for name, path in sample.files.items():
        shown = json.dumps(path)
        content = f"new Blob([await readFile({shown})])"
        lines.append(f"form.append({json.dumps(name)}, {content}, {shown});")
    for name, text in sample.texts.items():
        lines.append(f"form.append({json.dumps(name)}, {json.dumps(text)});")
    return "\n".join(lines) + "\n"


def _events(stream: StreamStyle) -> str:
    """Return what shows each output of a stream, and not its end."""
    check = f" && data !== {json.dumps(stream.end)}" if stream.end else ""
    if stream.end is None:
        check = ' && kind !== "end"'
    shown = r'data.replaceAll("\ndata: ", "\n")' if stream.raw else "data"
    return EVENTS % (check, shown)


def _print(call: SnippetRequest) -> str:
    if call.style.is_bare:
        return "console.log(JSON.stringify(await response.json()));\n"
    member = "predictions" if call.instances else "prediction"
    return f"console.log(JSON.stringify((await response.json()).{member}));\n"


def _fill(array: FilledArray) -> str:
    text = json.dumps(array.element)
    for size in reversed(array.shape):
        text = f"Array({size}).fill({text})"
    return text
