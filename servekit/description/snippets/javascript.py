# SPDX-License-Identifier: Apache-2.0
"""A call for JavaScript, with ``fetch``."""

import json
from typing import Final

from servekit.description.interface import JSON
from servekit.description.samples import FilledArray, SampleFile, SampleForm
from servekit.description.snippets.request import TOKEN, SnippetRequest, expression, variable_of
from servekit.ipc.response_style import StreamStyle
from servekit.ipc.stream_formats import EVENT_STREAM

__all__ = ["javascript"]

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
LINES: Final = """for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
  process.stdout.write(piece);
}
"""


def javascript(call: SnippetRequest) -> str:
    """Return a module for Node 18 or later."""
    sample = call.sample
    headers = {"Accept": call.accepted or JSON}
    reads, form = isinstance(sample, SampleFile), ""
    if isinstance(sample, SampleForm):
        reads, form, body = bool(sample.files), _form(sample), "form"
    elif isinstance(sample, SampleFile):
        headers = {"Content-Type": sample.content_type, **headers}
        body = f"await readFile({json.dumps(sample.path)})"
    else:
        headers = {"Content-Type": JSON, **headers}
        body = f"JSON.stringify({expression(call.body, _fill, json.dumps)})"
    writes = bool(call.accept and call.file)
    return (
        f"// node snippet.mjs\n{call.comments('//')}{_imports(reads=reads, writes=writes)}{form}"
        f"{_url(call)}const response = await fetch("
        f"{'url' if call.secret_query else json.dumps(call.url)}, {{\n"
        f'  method: "POST",\n  headers: {_object(headers, call)},\n  body: {body},\n}});\n'
        f"{REFUSED}{_stream(call) if call.streams else _print(call)}"
    )


def _imports(*, reads: bool, writes: bool) -> str:
    used = [name for name, is_used in (("readFile", reads), ("writeFile", writes)) if is_used]
    return f'import {{ {", ".join(used)} }} from "node:fs/promises";\n' if used else ""


def _url(call: SnippetRequest) -> str:
    """Return what makes ``url``, where parts of it are secrets."""
    lines = [
        f"url.searchParams.set({json.dumps(name)}, process.env.{variable_of(name)});\n"
        for name in call.secret_query
    ]
    return f"const url = new URL({json.dumps(call.url)});\n{''.join(lines)}" if lines else ""


def _object(headers: dict[str, str], call: SnippetRequest) -> str:
    members = [f"{json.dumps(name)}: {json.dumps(text)}" for name, text in headers.items()]
    if call.needs_token:
        members.append(f"Authorization: `Bearer ${{process.env.{TOKEN}}}`")
    for name, text in call.headers.items():
        value = f"process.env.{variable_of(name)}" if text is None else json.dumps(text)
        members.append(f"{json.dumps(name)}: {value}")
    return f"{{{', '.join(members)}}}"


def _form(sample: SampleForm) -> str:
    lines = ["const form = new FormData();"]
    for name, path in sample.files.items():
        shown = json.dumps(path)
        content = f"new Blob([await readFile({shown})])"
        lines.append(f"form.append({json.dumps(name)}, {content}, {shown});")
    for name, text in sample.texts.items():
        lines.append(f"form.append({json.dumps(name)}, {json.dumps(text)});")
    return "\n".join(lines) + "\n"


def _stream(call: SnippetRequest) -> str:
    return _events(call.style.stream) if call.accept in ("", EVENT_STREAM) else LINES


def _events(stream: StreamStyle) -> str:
    """Return what shows each output of a stream, and not its end."""
    check = f" && data !== {json.dumps(stream.end)}" if stream.end else ""
    if stream.end is None:
        check = ' && kind !== "end"'
    shown = r'data.replaceAll("\ndata: ", "\n")' if stream.raw else "data"
    return EVENTS % (check, shown)


def _print(call: SnippetRequest) -> str:
    if call.accept and call.file:
        content = "Buffer.from(await response.arrayBuffer())"
        return f"await writeFile({json.dumps(call.file)}, {content});\n"
    if call.answers_text:
        return "console.log(await response.text());\n"
    if call.style.is_bare:
        return "console.log(JSON.stringify(await response.json()));\n"
    member = "predictions" if call.instances else "prediction"
    return f"console.log(JSON.stringify((await response.json()).{member}));\n"


def _fill(array: FilledArray) -> str:
    text = json.dumps(array.element)
    for size in reversed(array.shape):
        text = f"Array({size}).fill({text})"
    return text
