# SPDX-License-Identifier: Apache-2.0
"""Kinds of values, by which media types and types are held together: what a codec reads or writes.

``object``, ``text``, ``bytes``, ``numbers`` (as Python has them, lists of them too), ``array``
(NumPy's), or an array of a dtype and a shape, ``uint8[any, any, 3]``.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

__all__ = ["EVERY", "NONE", "array_kind", "may_meet"]

EVERY: Final = frozenset({"object", "text", "bytes", "numbers", "array"})
NONE: Final[frozenset[str]] = frozenset()
ARRAY: Final = re.compile(r"(\w+)\[(.*)\]")
ANY: Final = "any"


def array_kind(declared: Mapping[str, Any]) -> str:
    """Return ``float32[any, 3]`` of an entry of a signature."""
    axes = [ANY if int(size) < 0 else str(int(size)) for size in declared["shape"]]
    return f"{declared['dtype']}[{', '.join(axes)}]"


def may_meet(given: Collection[str], wanted: Collection[str], *, casts: bool = False) -> bool:
    """Whether a value of a kind of *given* may be of one of *wanted*.

    :param casts: numbers of arrays are cast where they stay what they are.
    """
    return any(_meets(one, other, casts) for one in given for other in wanted)


def _meets(one: str, other: str, casts: bool) -> bool:
    first, second = ARRAY.fullmatch(one), ARRAY.fullmatch(other)
    if first and second:
        is_dtype = first[1] == second[1] or (casts and _is_cast(first[1], second[1]))
        return is_dtype and _same_shape(_axes(first), _axes(second))
    if first or second:
        return "array" in (one, other)
    return one == other


def _is_cast(dtype: str, wanted: str) -> bool:
    are_numbers = not {dtype, wanted} & {"bool", "str"}
    return are_numbers and (wanted.startswith("float") or not dtype.startswith("float"))


def _axes(match: re.Match[str]) -> Sequence[str]:
    return [axis.strip() for axis in match[2].split(",") if axis.strip()]


def _same_shape(one: Sequence[str], other: Sequence[str]) -> bool:
    return len(one) == len(other) and all(
        ANY in (size, wanted) or size == wanted for size, wanted in zip(one, other, strict=True)
    )
