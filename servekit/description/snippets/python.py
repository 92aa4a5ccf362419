# SPDX-License-Identifier: Apache-2.0
"""A call for Python, with ``servekit-client``."""

from servekit.description.samples import FilledArray, SampleFile, SampleForm, SampleValue
from servekit.description.snippets.request import TOKEN, SnippetRequest, expression

__all__ = ["call_expression", "client_expression", "head", "item_expression", "python"]


def python(call: SnippetRequest) -> str:
    """Return a program."""
    asked = call_expression(call)
    shown = f"print({asked})"
    if call.streams:
        shown = f"for output in {asked}:\n        print(output)"
    return (
        f"{head(call, '')}\nitem = {item_expression(call.sample)}\n"
        f"with {client_expression(call)} as client:\n    {shown}\n"
    )


def head(call: SnippetRequest, more: str) -> str:
    """Return what to install, *more* beside the client, and the imports."""
    sample = call.sample
    has_arrays = isinstance(sample, SampleValue) and bool(sample.arrays)
    package = "'servekit-client[numpy]'" if has_arrays else "servekit-client"
    standard = "import os\n" if call.needs_token else ""
    standard += "" if isinstance(sample, SampleValue) else "from pathlib import Path\n"
    imports = "import numpy as np\n" if has_arrays else ""
    gap = "\n" if standard else ""
    return (
        f"# pip install {package}{more}\n{standard}{gap}{imports}"
        "from servekit_client import Client\n"
    )


def client_expression(call: SnippetRequest) -> str:
    """Return what makes the client."""
    token = f', token=os.environ["{TOKEN}"]' if call.needs_token else ""
    return f"Client({call.server!r}{token})"


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
    if isinstance(call.sample, SampleFile) and not call.instances:
        part = "value" if is_bare else "output"
        return f"client.raw({target}, item, {call.sample.content_type!r}).{part}"
    method, given = ("instances", "[item]") if call.instances else ("predict", "item")
    how = ", envelope=False" if is_bare else ""
    return f"client.{method}({target}, {given}{how})"


def _full(array: FilledArray) -> str:
    return f"np.full({array.shape}, {array.element!r}, {array.dtype!r})"
