# SPDX-License-Identifier: Apache-2.0
"""A call for a shell."""

import json
import shlex
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from servekit.description.interface import JSON
from servekit.description.samples import FilledArray, SampleFile, SampleForm
from servekit.description.snippets.request import TOKEN, SnippetRequest, expression, variable_of

__all__ = ["curl"]

MAX_ELEMENTS: Final = 500  #: longest array that is written in full


def curl(call: SnippetRequest) -> str:
    """Return a command for a shell."""
    start = "curl -N" if call.streams else "curl"
    if is_large := not isinstance(call.sample, SampleFile | SampleForm) and any(
        array.size > MAX_ELEMENTS for array in call.sample.arrays
    ):
        body = expression(call.body, FilledArray.as_expression, repr)
        code = f"import json; print(json.dumps({body}))"
        start = f"python3 -c {shlex.quote(code)} | {start}"
    options = [f"{name} {shlex.quote(text)}" for name, text in _options(call, is_large=is_large)]
    lines = [f"{start} {shlex.quote(call.url)}", *_secrets(call), *options]
    return call.comments("#") + " \\\n  ".join(lines) + "\n"


def _secrets(call: SnippetRequest) -> Iterator[str]:
    """Yield the options that the shell fills in; it names a variable that is not set."""
    if call.needs_token:
        yield f'-H "Authorization: Bearer ${{{TOKEN}:?}}"'
    for name in (name for name, value in call.headers.items() if value is None):
        yield f'-H "{name}: ${{{variable_of(name)}:?}}"'
    for name in call.secret_query:
        yield f'--url-query "{quote(name, safe="")}=${{{variable_of(name)}:?}}"'


def _options(call: SnippetRequest, *, is_large: bool) -> Iterator[tuple[str, str]]:
    sample = call.sample
    if call.file:
        yield "-o", call.file
    if call.accepted:
        yield "-H", f"Accept: {call.accepted}"
    yield from (
        ("-H", f"{name}: {text}") for name, text in call.headers.items() if text is not None
    )
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
