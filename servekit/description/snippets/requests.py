# SPDX-License-Identifier: Apache-2.0
"""A call for Python, with ``requests``."""

from typing import Final

from servekit.description.samples import FilledArray, SampleFile, SampleForm
from servekit.description.snippets.request import TOKEN, SnippetRequest, expression
from servekit.ipc.stream_formats import EVENT_STREAM

__all__ = ["requests"]

LINES: Final = """for line in response.iter_lines(decode_unicode=True):
    if line.startswith("data: "):
        print(line.removeprefix("data: "))
"""


def requests(call: SnippetRequest) -> str:
    """Return a program."""
    sample, arguments = call.sample, [repr(call.url)]
    headers = {"Accept": repr(EVENT_STREAM)} if call.streams and not call.asks_by_body else {}
    if isinstance(sample, SampleFile):
        headers["Content-Type"] = repr(sample.content_type)
        arguments.append(f"data={_read(sample.path)}")
    elif isinstance(sample, SampleForm):
        arguments.append(f"files={_form(sample)}")
    else:
        arguments.append(f"json={expression(call.body, _lists, repr)}")
    if call.needs_token:
        headers["Authorization"] = f"f\"Bearer {{os.environ['{TOKEN}']}}\""
    if headers:
        named = ", ".join(f'"{name}": {text}' for name, text in headers.items())
        arguments.append(f"headers={{{named}}}")
    arguments += ["stream=True"] if call.streams else []
    standard = "import os\n" if call.needs_token else ""
    if call.file or isinstance(sample, SampleFile | SampleForm):
        standard += "from pathlib import Path\n"
    listed = "".join(f"    {each},\n" for each in arguments)
    return (
        f"# pip install requests\n{standard}{bool(standard) * chr(10)}import requests\n\n"
        f"response = requests.post(\n{listed})\nresponse.raise_for_status()\n"
        f"{LINES if call.streams else _print(call)}"
    )


def _form(sample: SampleForm) -> str:
    parts = {name: f"({path!r}, {_read(path)})" for name, path in sample.files.items()}
    parts |= {name: f"(None, {text!r})" for name, text in sample.texts.items()}
    return "{" + ", ".join(f"{name!r}: {text}" for name, text in parts.items()) + "}"


def _read(path: str) -> str:
    return f"Path({path!r}).read_bytes()"


def _lists(array: FilledArray) -> str:
    text = repr(array.element)
    for size in reversed(array.shape):
        text = f"[{text}] * {size}"
    return text


def _print(call: SnippetRequest) -> str:
    if call.file:
        return f"Path({call.file!r}).write_bytes(response.content)\n"
    if call.style.is_bare:
        return "print(response.json())\n"
    member = "predictions" if call.instances else "prediction"
    return f'print(response.json()["{member}"])\n'
