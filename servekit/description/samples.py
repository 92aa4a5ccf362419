# SPDX-License-Identifier: Apache-2.0
"""An input to try a model with: its first example, else one made from what it declares."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from servekit.description.forms import FormPart, parts
from servekit.description.interface import PathDescription, TensorType
from servekit.description.sample_values import sample_value

__all__ = ["FilledArray", "SampleFile", "SampleForm", "SampleValue", "sample", "sample_form"]

ANY_SIZE: Final = 2  #: the size of an axis that may have any
#: by media range: the suffix of a file that the reader puts into a form
SUFFIXES: Final = {"image/*": ".png", "audio/*": ".wav"}
ELEMENTS: Final = {"bool": True, "str": "text"}


@dataclass(frozen=True, slots=True)
class SampleFile:
    """A file that is sent unchanged."""

    path: str  #: relative to the model directory
    content_type: str


@dataclass(frozen=True, slots=True)
class FilledArray:
    """An array of equal numbers; at least one axis."""

    dtype: str
    shape: tuple[int, ...]
    element: Any

    @property
    def size(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    def as_lists(self) -> Any:
        """Return it as lists in lists, for JSON."""
        value = self.element
        for size in reversed(self.shape):
            value = [value] * size
        return value

    def as_expression(self) -> str:
        """Return such lists as a short expression of Python."""
        text = repr(self.element)
        for size in reversed(self.shape):
            text = f"[{text}] * {size}"
        return text


@dataclass(frozen=True, slots=True)
class SampleValue:
    """Plain JSON, or a mapping with some ``FilledArray`` members."""

    value: Any

    @property
    def arrays(self) -> list[FilledArray]:
        """The members that are filled arrays."""
        members = self.value.values() if isinstance(self.value, dict) else ()
        return [each for each in members if isinstance(each, FilledArray)]


@dataclass(frozen=True, slots=True)
class SampleForm:
    """A form: its parts are files, plain text and JSON."""

    files: dict[str, str]  #: field to the path of a file that the reader has to provide
    values: dict[str, Any]  #: the other fields, as in ``SampleValue``
    texts: dict[str, str]  #: the same fields, as the text of their parts
    lists: frozenset[str] = frozenset()  #: fields that may have several files


def sample(model: PathDescription) -> SampleFile | SampleValue | None:
    """Return an input to try *model* with; ``None`` if its inputs are not known."""
    if model.examples:
        first = model.examples[0]
        return (
            SampleFile(first.input_file, first.media_type)
            if first.input_file
            else SampleValue(first.input)
        )
    if model.signature.inputs:
        return SampleValue({tensor.name: _array(tensor) for tensor in model.signature.inputs})
    if model.input_schema:
        return SampleValue(sample_value(model.input_schema, model.definitions))
    return None


def sample_form(model: PathDescription) -> SampleForm | None:
    """Return a form to try *model* with; ``None`` if its fields are not known."""
    known, found = {part.name: part for part in parts(model)}, sample(model)
    if not isinstance(found, SampleValue) or not known:
        return None
    fields = _fields(found.value, known)
    if fields is None:
        return None
    files = {
        name: name + SUFFIXES.get(known[name].media, ".bin")
        for name in fields
        if name in known and known[name].is_file
    }
    values = {name: each for name, each in fields.items() if name not in files}
    texts = {
        name: each
        if isinstance(each, str) and not known[name].is_json
        else json.dumps(each, default=FilledArray.as_lists)
        for name, each in values.items()
    }
    return SampleForm(
        files, values, texts, frozenset(name for name in files if known[name].is_list)
    )


def _fields(value: Any, known: Mapping[str, FormPart]) -> Mapping[str, Any] | None:
    """Return *value* by the names of the parts; ``None`` if it is not a form."""
    only = next(iter(known.values()))
    if len(known) == 1 and only.is_file and (not isinstance(value, dict) or only.name not in value):
        return {only.name: value}  # the file is the whole input
    return value if isinstance(value, dict) else None


def _array(tensor: TensorType) -> Any:
    shape = tuple(ANY_SIZE if size < 0 else size for size in tensor.shape)
    element = ELEMENTS.get(tensor.dtype, 0.5 if tensor.dtype.startswith("float") else 1)
    filled = FilledArray(tensor.dtype, shape, element)
    return filled if shape and tensor.dtype != "str" else filled.as_lists()
