# SPDX-License-Identifier: Apache-2.0
"""A call for Python, with ``requests``."""

from collections.abc import Iterator
from typing import Final

from servekit.description.samples import FilledArray, SampleFile, SampleForm
from servekit.description.snippets.python import values_expression
from servekit.description.snippets.request import TOKEN, SnippetRequest, expression
from servekit.ipc.stream_formats import EVENT_STREAM

__all__ = ["requests"]

EVENTS: Final = """for line in response.iter_lines(decode_unicode=True):
    if line.startswith("data: "):
        print(line.removeprefix("data: "))
"""
LINES: Final = """for line in response.iter_lines(decode_unicode=True):
    print(line)
"""


def requests(call: SnippetRequest) -> str:
    """Return a program."""
    sample = call.sample
    standard = "import os\n" if call.reads_environment else ""
    if call.file or isinstance(sample, SampleFile | SampleForm):
        standard += "from pathlib import Path\n"
    listed = "".join(f"    {each},\n" for each in _arguments(call))
    return (
        f"# pip install requests\n{call.comments('#')}"
        f"{standard}{bool(standard) * chr(10)}import requests\n\n"
        f"response = requests.post(\n{listed})\nresponse.raise_for_status()\n"
        f"{_lines(call) if call.streams else _print(call)}"
    )


def _arguments(call: SnippetRequest) -> Iterator[str]:
    sample = call.sample
    yield repr(call.url)
    headers = [f'"Accept": {call.accepted!r}'] if call.accepted else []
    if isinstance(sample, SampleFile):
        headers.append(f'"Content-Type": {sample.content_type!r}')
        yield f"data={_read(sample.path)}"
    elif isinstance(sample, SampleForm):
        yield f"files={_form(sample)}"
    else:
        yield f"json={expression(call.body, FilledArray.as_expression, repr)}"
    if call.needs_token:
        headers.append(f'"Authorization": f"Bearer {{os.environ[\'{TOKEN}\']}}"')
    headers += [values_expression(call.headers)] if call.headers else []
    if headers:
        yield f"headers={{{', '.join(headers)}}}"
    if call.secret_query:
        yield f"params={{{values_expression(dict.fromkeys(call.secret_query))}}}"
    if call.streams:
        yield "stream=True"


def _form(sample: SampleForm) -> str:
    parts = {name: f"({path!r}, {_read(path)})" for name, path in sample.files.items()}
    parts |= {name: f"(None, {text!r})" for name, text in sample.texts.items()}
    return "{" + ", ".join(f"{name!r}: {text}" for name, text in parts.items()) + "}"


def _read(path: str) -> str:
    return f"Path({path!r}).read_bytes()"


def _lines(call: SnippetRequest) -> str:
    return EVENTS if call.accept in ("", EVENT_STREAM) else LINES


def _print(call: SnippetRequest) -> str:
    if call.file:
        return f"Path({call.file!r}).write_bytes(response.content)\n"
    if call.answers_text:
        return "print(response.text)\n"
    if call.style.is_bare:
        return "print(response.json())\n"
    member = "predictions" if call.instances else "prediction"
    return f'print(response.json()["{member}"])\n'
