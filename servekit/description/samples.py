# SPDX-License-Identifier: Apache-2.0
"""An input to try a model with: its first example, else one made from what it declares."""

import json
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from servekit.description.forms import parts
from servekit.description.interface import Described, Tensor
from servekit.description.sample_values import made

__all__ = ["File", "Filled", "Form", "Value", "sample", "sample_form"]

ANY_SIZE: Final = 2  #: what an axis of any size gets
#: of files that stand in a form for those of the reader
SUFFIXES: Final = {"image/*": ".png", "audio/*": ".wav"}
ELEMENTS: Final = {"bool": True, "str": "text"}


@dataclass(frozen=True, slots=True)
class File:
    """A file that is sent as it is."""

    path: str  #: relative to the model directory
    content_type: str


@dataclass(frozen=True, slots=True)
class Filled:
    """An array of numbers, all the same; at least one axis."""

    dtype: str
    shape: tuple[int, ...]
    element: Any

    @property
    def size(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    def as_lists(self) -> Any:
        """Return it as JSON holds it."""
        value = self.element
        for size in reversed(self.shape):
            value = [value] * size
        return value


@dataclass(frozen=True, slots=True)
class Value:
    """Plain JSON, or a mapping some of whose members are ``Filled``."""

    value: Any

    @property
    def arrays(self) -> list[Filled]:
        """The members that are filled."""
        members = self.value.values() if isinstance(self.value, dict) else ()
        return [each for each in members if isinstance(each, Filled)]


@dataclass(frozen=True, slots=True)
class Form:
    """A form: what is no file of it is plain text, or JSON."""

    files: dict[str, str]  #: paths of files that the reader has to put there
    values: dict[str, Any]  #: all else, as ``Value`` has it
    texts: dict[str, str]  #: the same, as parts
    lists: frozenset[str] = frozenset()  #: names of files of which there may be several


def sample(model: Described) -> File | Value | None:
    """Return what to try *model* with; ``None`` if nothing tells what it takes."""
    if model.examples:
        first = model.examples[0]
        return File(first.input_file, first.media_type) if first.input_file else Value(first.input)
    if model.signature.inputs:
        return Value({tensor.name: _array(tensor) for tensor in model.signature.inputs})
    if model.input_schema:
        return Value(made(model.input_schema, model.definitions))
    return None


def sample_form(model: Described) -> Form | None:
    """Return the form to try *model* with; ``None`` if nothing tells its fields."""
    known, found = {part.name: part for part in parts(model)}, sample(model)
    if not isinstance(found, Value) or not isinstance(found.value, dict) or not known:
        return None
    files = {
        name: name + SUFFIXES.get(known[name].media, ".bin")
        for name in found.value
        if name in known and known[name].is_file
    }
    values = {name: each for name, each in found.value.items() if name not in files}
    texts = {
        name: each
        if isinstance(each, str) and not known[name].is_json
        else json.dumps(each, default=Filled.as_lists)
        for name, each in values.items()
    }
    return Form(files, values, texts, frozenset(name for name in files if known[name].is_list))


def _array(tensor: Tensor) -> Any:
    shape = tuple(ANY_SIZE if size < 0 else size for size in tensor.shape)
    element = ELEMENTS.get(tensor.dtype, 0.5 if tensor.dtype.startswith("float") else 1)
    filled = Filled(tensor.dtype, shape, element)
    return filled if shape and tensor.dtype != "str" else filled.as_lists()
