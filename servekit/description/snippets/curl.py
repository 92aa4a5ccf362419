# SPDX-License-Identifier: Apache-2.0
"""A call for a shell."""

import json
import shlex
from collections.abc import Iterator
from typing import Final

from servekit.description.interface import JSON
from servekit.description.samples import FilledArray, SampleFile, SampleForm
from servekit.description.snippets.request import TOKEN, SnippetRequest, expression
from servekit.ipc.stream_formats import EVENT_STREAM

__all__ = ["curl"]

MAX_ELEMENTS: Final = 500  #: longest array that is written in full


def curl(call: SnippetRequest) -> str:
    """Return a command for a shell."""
    start = "curl -N" if call.streams else "curl"
    if is_large := not isinstance(call.sample, SampleFile | SampleForm) and any(
        array.size > MAX_ELEMENTS for array in call.sample.arrays
    ):
        code = f"import json; print(json.dumps({expression(call.body, _product, repr)}))"
        start = f"python3 -c {shlex.quote(code)} | {start}"
    options = [f"{name} {shlex.quote(text)}" for name, text in _options(call, is_large=is_large)]
    if call.needs_token:
        options.insert(0, f'-H "Authorization: Bearer ${TOKEN}"')
    return " \\\n  ".join([f"{start} {shlex.quote(call.url)}", *options]) + "\n"


def _options(call: SnippetRequest, *, is_large: bool) -> Iterator[tuple[str, str]]:
    sample = call.sample
    if call.file:
        yield "-o", call.file
    if call.streams and not call.asks_by_body:
        yield "-H", f"Accept: {EVENT_STREAM}"
    if isinstance(sample, SampleForm):
        yield from (("-F", f"{name}=@{path}") for name, path in sample.files.items())
        yield from (("--form-string", f"{name}={text}") for name, text in sample.texts.items())
        return
    yield "-H", f"Content-Type: {sample.content_type if isinstance(sample, SampleFile) else JSON}"
    if isinstance(sample, SampleFile):
        yield "--data-binary", f"@{sample.path}"
    elif is_large:
        yield "--data-binary", "@-"
    else:
        yield "-d", json.dumps(call.body, default=FilledArray.as_lists, separators=(",", ":"))


def _product(array: FilledArray) -> str:
    text = repr(array.element)
    for size in reversed(array.shape):
        text = f"[{text}] * {size}"
    return text
