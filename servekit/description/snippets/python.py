# SPDX-License-Identifier: Apache-2.0
"""A call for Python, with ``servekit-client``."""

from servekit.description.samples import FilledArray, SampleFile, SampleForm, SampleValue
from servekit.description.snippets.request import SnippetRequest, expression

__all__ = ["python"]


def python(call: SnippetRequest) -> str:
    """Return a program."""
    sample = call.sample
    has_arrays = isinstance(sample, SampleValue) and bool(sample.arrays)
    package = "'servekit-client[numpy]'" if has_arrays else "servekit-client"
    imports = "import numpy as np\n" if has_arrays else ""
    if not isinstance(sample, SampleValue):
        imports = "from pathlib import Path\n\n"
    return (
        f"# pip install {package}\n{imports}from servekit_client import Client\n\n"
        f"item = {_item(sample)}\nwith Client({call.server!r}) as client:\n    {_asked(call)}\n"
    )


def _item(sample: SampleFile | SampleForm | SampleValue) -> str:
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


def _asked(call: SnippetRequest) -> str:
    target = repr(call.target)
    is_bare, stream = call.style.is_bare, call.style.stream
    if call.streams:
        how = ", raw=True" if stream.raw else ""
        how += f", end={stream.end!r}" if stream.end is not None else ""
        return f"for output in client.stream({target}, item{how}):\n        print(output)"
    if isinstance(call.sample, SampleFile) and not call.instances:
        part = "value" if is_bare else "output"
        return f"print(client.raw({target}, item, {call.sample.content_type!r}).{part})"
    method, given = ("instances", "[item]") if call.instances else ("predict", "item")
    how = ", envelope=False" if is_bare else ""
    return f"print(client.{method}({target}, {given}{how}))"


def _full(array: FilledArray) -> str:
    return f"np.full({array.shape}, {array.element!r}, {array.dtype!r})"
