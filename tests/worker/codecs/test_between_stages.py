# SPDX-License-Identifier: Apache-2.0
"""Values at the next stage are as the table of docs/pipelines.md says."""

import collections
import dataclasses
import enum
import re
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import msgspec
import numpy as np
import pytest

from servekit.errors import ResultNotEncodable
from servekit.worker.codecs.value import value

PAGE = (Path(__file__).parents[3] / "docs/pipelines.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## Between processes")[2].partition("\n## ")[0]


@dataclasses.dataclass
class Point:
    x: int
    at: tuple


class Struct(msgspec.Struct):
    a: int


class Colour(enum.Enum):
    RED = "red"


Named = collections.namedtuple("Named", "x y")
NAIVE = datetime(2026, 1, 1, 3)
SUMMER = NAIVE.replace(tzinfo=timezone(timedelta(hours=2)))
ID = uuid.UUID(int=7)


def arrives(given):
    return value.decode(value.encode(given), {})


@pytest.mark.parametrize(
    "given",
    [None, True, 1 << 70, -1.5, "é", b"\0", [1, [2]], {"a": {1: 2}}, {(1, 2): 3}, float("inf")],
)
def test_the_same(given):
    assert arrives(given) == given
    assert type(arrives(given)) is type(given)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float64"])
def test_arrays_are_arrays(dtype):
    found = arrives(np.ones((2, 0, 3), dtype))

    assert (found.dtype, found.shape, found.flags.writeable) == (dtype, (2, 0, 3), False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.float32(1.5), 1.5),
        (np.int64(3), 3),
        (np.array(["a"]), ["a"]),
        (np.array([None]), [None]),
        ((1, (2,)), [1, [2]]),
        (Named(1, 2), [1, 2]),
        ({7}, [7]),
        (frozenset({7}), [7]),
        (bytearray(b"a"), b"a"),
        (memoryview(b"a"), b"a"),
        (Struct(1), {"a": 1}),
        (Point(1, (2,)), {"x": 1, "at": [2]}),
        (collections.OrderedDict(a=1), {"a": 1}),
        (SUMMER, datetime(2026, 1, 1, 1, tzinfo=UTC)),
        (NAIVE, "2026-01-01T03:00:00"),
        (date(2026, 1, 1), "2026-01-01"),
        (time(3), "03:00:00"),
        (timedelta(1), "P1D"),
        (Decimal("1.50"), "1.50"),
        (ID, str(ID)),
        (Colour.RED, "red"),
    ],
)
def test_something_else(given, expected):
    found = arrives(given)

    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("given", [Path("a"), 1j, collections.deque(), iter(()), object()])
def test_nothing(given):
    with pytest.raises(ResultNotEncodable):
        value.encode([given])


def test_the_table_names_every_kind():
    named = set(re.findall(r"`(\w+)`", TABLE))
    kinds = {"tuple", "set", "frozenset", "bytearray", "memoryview", "Struct", "OrderedDict"}
    kinds |= {"datetime", "date", "time", "timedelta", "Decimal", "UUID", "Enum", "Path", "complex"}

    assert kinds <= named
