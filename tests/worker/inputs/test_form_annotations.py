# SPDX-License-Identifier: Apache-2.0
"""Parts of forms for mappings, tagged Structs and generic classes."""

import dataclasses
from collections.abc import Mapping
from typing import Generic, NewType, NotRequired, TypedDict, TypeVar

import msgspec
import pytest
from msgspec import Struct, UnsetType

from tests.worker.batches import prediction, service_of

T = TypeVar("T")


class Page(Struct, Generic[T]):
    items: list[T]


@dataclasses.dataclass
class Box(Generic[T]):
    item: T


class Entry(TypedDict, Generic[T]):
    item: NotRequired[T]


def typed(given):
    """Return a service that answers what it got."""

    def predict(self, batch):
        return [msgspec.to_builtins(value) for value in batch]

    predict.__annotations__ = {"batch": list[given]}
    return service_of(predict)


FORM = "multipart/form-data; boundary=B"


def form(**parts):
    lines = [
        f'--B\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'
        for name, text in parts.items()
    ]
    return "".join([*lines, "--B--\r\n"]).encode()


class Seven(Struct, tag="007"):
    a: int


class Eight(Struct, tag="8"):
    a: int


class Ninth(Struct, tag=9, tag_field="kind"):
    a: int


Told = NewType("Told", str)


@pytest.mark.parametrize(
    ("given", "parts", "expected"),
    [
        (Mapping[str, str], {"a": "5"}, {"a": "5"}),
        (Mapping[str, list[Told]], {"a": "5"}, {"a": ["5"]}),
        (Seven | Eight, {"type": "8", "a": "1"}, {"type": "8", "a": 1}),
        (Seven | Eight, {"type": "007", "a": "1"}, {"type": "007", "a": 1}),
        (Ninth, {"kind": "9", "a": "1"}, {"kind": 9, "a": 1}),
        (Box[str], {"item": "5"}, {"item": "5"}),
        (Page[str], {"items": "5"}, {"items": ["5"]}),
        (Entry[str], {"item": "5"}, {"item": "5"}),
        (Box[str | UnsetType], {"item": '"5"'}, {"item": '"5"'}),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_part_of_a_form_is_read_as_the_annotation_says(given, parts, expected):
    assert prediction(typed(given), form(**parts), FORM) == expected
