# SPDX-License-Identifier: Apache-2.0
"""A call for Python, with ``servekit-client``."""

from servekit.description.samples import File, Filled, Form, Value
from servekit.description.snippets.call import Call, written

__all__ = ["python"]


def python(call: Call) -> str:
    """Return a program."""
    sample = call.sample
    has_arrays = isinstance(sample, Value) and bool(sample.arrays)
    package = "'servekit-client[numpy]'" if has_arrays else "servekit-client"
    imports = "import numpy as np\n" if has_arrays else ""
    if not isinstance(sample, Value):
        imports = "from pathlib import Path\n\n"
    return (
        f"# pip install {package}\n{imports}from servekit_client import Client\n\n"
        f"item = {_item(sample)}\nwith Client({call.server!r}) as client:\n    {_asked(call)}\n"
    )


def _item(sample: File | Form | Value) -> str:
    if isinstance(sample, File):
        return _read(sample.path)
    if isinstance(sample, Value):
        return written(sample.value, _full, repr)
    files = {name: _read(path) for name, path in sample.files.items()}
    files |= {name: f"[{files[name]}]" for name in sample.lists}
    rest = {name: written(each, _full, repr) for name, each in sample.values.items()}
    return "{" + ", ".join(f"{name!r}: {text}" for name, text in {**files, **rest}.items()) + "}"


def _read(path: str) -> str:
    return f"Path({path!r}).read_bytes()"


def _asked(call: Call) -> str:
    target = repr(call.target)
    if call.streams:
        return f"for output in client.stream({target}, item):\n        print(output)"
    if call.instances:
        return f"print(client.instances({target}, [item]))"
    if isinstance(call.sample, File):
        return f"print(client.raw({target}, item, {call.sample.content_type!r}).output)"
    return f"print(client.predict({target}, item))"


def _full(array: Filled) -> str:
    return f"np.full({array.shape}, {array.element!r}, {array.dtype!r})"
