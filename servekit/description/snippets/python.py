# SPDX-License-Identifier: Apache-2.0
"""A call for Python, with ``servekit-client``."""

from collections.abc import Mapping
from typing import Final

from servekit.description.samples import FilledArray, SampleFile, SampleForm, SampleValue
from servekit.description.snippets.request import TOKEN, SnippetRequest, expression, variable_of

__all__ = [
    "call_expression",
    "client_lines",
    "head",
    "item_expression",
    "python",
    "values_expression",
]

JSON_BODY: Final = "json.dumps(item).encode(), 'application/json'"


def python(call: SnippetRequest) -> str:
    """Return a program."""
    asked = call_expression(call)
    writes = call.answers_bytes and not call.answers_text
    shown = f"Path({call.file!r}).write_bytes({asked})" if writes else f"print({asked})"
    if call.streams:
        shown = f"for output in {asked}:\n        print(output)"
    return (
        f"{head(call, has_path=writes)}\nitem = {item_expression(call.sample)}\n"
        f"{client_lines(call)}    {shown}\n"
    )


def head(
    call: SnippetRequest, *, packages: str = "", imports: str = "", has_path: bool = False
) -> str:
    """Return what to install, which variables to set, and the imports.

    :param packages: to install beside the client, and *imports* what to import beside it.
    :param has_path: whether the code has a ``Path`` besides those of its input.
    """
    sample = call.sample
    has_arrays = isinstance(sample, SampleValue) and bool(sample.arrays)
    standard = {
        "import json": call.answers_bytes and isinstance(sample, SampleValue),
        "import os": call.reads_environment,
        "from pathlib import Path": has_path or not isinstance(sample, SampleValue),
    }
    others = {
        "import httpx": bool(call.headers or call.query),
        "import numpy as np": has_arrays,
        f"import {imports}": bool(imports),
        "from servekit_client import Client": True,
    }
    groups = [[line for line, is_used in each.items() if is_used] for each in (standard, others)]
    lines = "\n\n".join("\n".join(group) for group in groups if group)
    client = "'servekit-client[numpy]'" if has_arrays else "servekit-client"
    installed = f"{client} {packages}".rstrip()
    return f"# pip install {installed}\n{call.comments('#')}{lines}\n"


def client_lines(call: SnippetRequest, indent: str = "") -> str:
    """Return the lines that open the client, up to the colon of ``with``."""
    token = f', token=os.environ["{TOKEN}"]' if call.needs_token else ""
    given = {"headers": call.headers, "params": call.query}
    extras = [f"{key}={{{values_expression(each)}}}" for key, each in given.items() if each]
    if not extras:
        return f"{indent}with Client({call.server!r}{token}) as client:\n"
    return (
        f"{indent}http = httpx.Client({', '.join(extras)})\n"
        f"{indent}with http, Client({call.server!r}{token}, http=http) as client:\n"
    )


def values_expression(values: Mapping[str, str | None]) -> str:
    """Return *values* as the members of a dict; secrets come from the environment."""
    members = (f"{name!r}: {_value(name, value)}" for name, value in values.items())
    return ", ".join(members)


def _value(name: str, value: str | None) -> str:
    return f'os.environ["{variable_of(name)}"]' if value is None else repr(value)


def item_expression(sample: SampleFile | SampleForm | SampleValue) -> str:
    """Return the input as an expression."""
    if isinstance(sample, SampleFile):
        return _read(sample.path)
    if isinstance(sample, SampleValue):
        return expression(sample.value, _full, repr)
    files = {name: _read(path) for name, path in sample.files.items()}
    files |= {name: f"[{files[name]}]" for name in sample.lists}
    rest = {name: expression(each, _full, repr) for name, each in sample.values.items()}
    return "{" + ", ".join(f"{name!r}: {text}" for name, text in {**files, **rest}.items()) + "}"


def _read(path: str) -> str:
    return f"Path({path!r}).read_bytes()"


def call_expression(call: SnippetRequest) -> str:
    """Return what asks the client for the output of ``item``, or for an iterator of its outputs."""
    target = repr(call.target)
    is_bare, stream = call.style.is_bare, call.style.stream
    if call.streams:
        how = ", raw=True" if stream.raw else ""
        how += f", end={stream.end!r}" if stream.end is not None else ""
        return f"client.stream({target}, item{how})"
    if call.answers_bytes:
        sample = call.sample
        body = f"item, {sample.content_type!r}" if isinstance(sample, SampleFile) else JSON_BODY
        text = ".decode()" if call.answers_text else ""
        return f"client.raw({target}, {body}, {call.accept!r}).body{text}"
    if isinstance(call.sample, SampleFile) and not call.instances:
        part = "value" if is_bare else "output"
        return f"client.raw({target}, item, {call.sample.content_type!r}).{part}"
    method, given = ("instances", "[item]") if call.instances else ("predict", "item")
    how = ", envelope=False" if is_bare else ""
    return f"client.{method}({target}, {given}{how})"


def _full(array: FilledArray) -> str:
    return f"np.full({array.shape}, {array.element!r}, {array.dtype!r})"
