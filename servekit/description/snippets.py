# SPDX-License-Identifier: Apache-2.0
"""Calls of a model to copy: curl, Python with the client, JavaScript with fetch."""

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final

from servekit.description.interface import JSON
from servekit.description.samples import File, Filled, Value

__all__ = ["FORMATS"]

MOST_ELEMENTS: Final = 500  #: of an array that is written out for curl


def curl(model: str, url: str, sample: File | Value) -> str:
    """Return a command for a shell."""
    start, content_type = "curl", JSON
    if isinstance(sample, File):
        content_type = sample.content_type
        body = f"--data-binary {shlex.quote(f'@{sample.path}')}"
    elif any(array.size > MOST_ELEMENTS for array in sample.arrays):
        code = f"import json; print(json.dumps({_written(sample.value, _product, repr)}))"
        start, body = f"python3 -c {shlex.quote(code)} | curl", "--data-binary @-"
    else:
        text = json.dumps(sample.value, default=Filled.as_lists, separators=(",", ":"))
        body = f"-d {shlex.quote(text)}"
    header = shlex.quote(f"Content-Type: {content_type}")
    target = shlex.quote(f"{url}/{model}/predict")
    return f"{start} {target} \\\n  -H {header} \\\n  {body}\n"


def python(model: str, url: str, sample: File | Value) -> str:
    """Return a program that uses ``servekit-client``."""
    package, imports = "servekit-client", ""
    if isinstance(sample, File):
        imports = "from pathlib import Path\n\n"
        item = f"Path({sample.path!r}).read_bytes()"
        call = f"client.raw({model!r}, item, {sample.content_type!r}).output"
    else:
        if sample.arrays:
            package, imports = "'servekit-client[numpy]'", "import numpy as np\n"
        item = _written(sample.value, _full, repr)
        call = f"client.predict({model!r}, item)"
    return (
        f"# pip install {package}\n{imports}from servekit_client import Client\n\n"
        f"item = {item}\nwith Client({url!r}) as client:\n    print({call})\n"
    )


def javascript(model: str, url: str, sample: File | Value) -> str:
    """Return a module for Node 18 or later."""
    imports, content_type = "", JSON
    if isinstance(sample, File):
        imports, content_type = (
            'import { readFile } from "node:fs/promises";\n',
            sample.content_type,
        )
        body = f"await readFile({json.dumps(sample.path)})"
    else:
        body = f"JSON.stringify({_written(sample.value, _fill, json.dumps)})"
    headers = json.dumps({"Content-Type": content_type, "Accept": JSON})
    return (
        f"// node snippet.mjs\n{imports}"
        f"const response = await fetch({json.dumps(f'{url}/{model}/predict')}, {{\n"
        f'  method: "POST",\n  headers: {headers},\n  body: {body},\n}});\n'
        "if (!response.ok) throw new Error(await response.text());\n"
        "console.log(JSON.stringify((await response.json()).prediction));\n"
    )


#: format to what writes it, from the model's name, the server's URL without a slash, an input
FORMATS: Final[Mapping[str, Callable[[str, str, File | Value], str]]] = {
    "curl": curl,
    "python": python,
    "javascript": javascript,
}


def _written(value: Any, array: Callable[[Filled], str], leaf: Callable[[Any], str]) -> str:
    """Return *value* as an expression: *array* writes what is filled, *leaf* what is simple."""
    if isinstance(value, Filled):
        return array(value)
    if isinstance(value, Mapping):
        members = (f"{leaf(key)}: {_written(each, array, leaf)}" for key, each in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_written(each, array, leaf) for each in value)}]"
    return leaf(value)


def _full(array: Filled) -> str:
    return f"np.full({array.shape}, {array.element!r}, {array.dtype!r})"


def _product(array: Filled) -> str:
    text = repr(array.element)
    for size in reversed(array.shape):
        text = f"[{text}] * {size}"
    return text


def _fill(array: Filled) -> str:
    text = json.dumps(array.element)
    for size in reversed(array.shape):
        text = f"Array({size}).fill({text})"
    return text
