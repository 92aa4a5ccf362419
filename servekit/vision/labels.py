# SPDX-License-Identifier: Apache-2.0
"""Files of labels: one in each line, or a JSON object by class number."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from servekit_archiver.names import name_problem

from servekit.errors import BootError

__all__ = ["LABEL_FILES", "find_labels", "read_labels"]

#: the names that servekit, MXNet Model Server and TorchServe use
LABEL_FILES: Final = ("labels.txt", "synset.txt", "index_to_name.json")
#: keys under which Transformers and TorchServe have the labels
INNER: Final = ("id2label", "object_type_names")


def find_labels(directory: Path, file: str = "") -> list[str] | None:
    """Return the labels in *directory* by class number; ``None`` if there is no such file.

    :param file: relative to *directory*; "" takes the first of ``LABEL_FILES`` that is there.
    :raises BootError: *file* is not there, or the content is not a list of labels.
    """
    if file:
        path = directory / file
        if name_problem(file) or not path.is_file():
            raise BootError(f"[options.output] labels: {file!r} is not in the archive")
        return read_labels(path)
    found = next((name for name in LABEL_FILES if (directory / name).is_file()), None)
    return read_labels(directory / found) if found else None


def read_labels(path: Path) -> list[str]:
    """Return the labels in a file by class number.

    In text, each line is a label, and empty lines at the end are ignored. In JSON, an object has
    the numbers of the classes as keys (``index_to_name.json``), or its ``id2label`` has.

    :raises BootError: it holds something else.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".json":
            return _in_json(json.loads(text))
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise BootError(f"{path.name}: not a file of labels ({error})") from None
    labels = [line.strip() for line in text.rstrip().splitlines()]
    if not labels:
        raise BootError(f"{path.name}: contains no label")
    return labels


def _in_json(found: Any) -> list[str]:
    for key in INNER:
        if isinstance(found, Mapping) and key in found:
            found = found[key]
    if not isinstance(found, Mapping):
        return [_name(each) for each in found]
    names = {int(number): _name(name) for number, name in found.items()}
    if sorted(names) != list(range(len(names))) or not names:
        raise ValueError(f"expected the classes 0 to {max(len(names) - 1, 0)}")
    return [names[number] for number in range(len(names))]


def _name(value: Any) -> str:
    """Return the label: the last of several names, as TorchServe takes it."""
    name = value[-1] if isinstance(value, list) else value
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is not a label")
    return name
