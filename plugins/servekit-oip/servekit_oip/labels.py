# SPDX-License-Identifier: Apache-2.0
"""The classification extension: the largest elements of a row as ``value:index:label``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["top"]

FILE: Final = "labels.txt"


def top(
    array: np.ndarray[Any, Any], count: int, directory: Path | None
) -> np.ndarray[Any, np.dtype[np.object_]]:
    """Return the *count* largest elements of each row of *array*, the largest first.

    :param directory: of the model. Its ``labels.txt``, if it has one, has a line for each index.
    """
    labels = _labels(directory) if directory is not None else ()
    rows = array.reshape(len(array), -1)
    count = min(count, rows.shape[1])
    found = np.empty((len(rows), count), object)
    for place, row in enumerate(rows):
        for rank, index in enumerate(_descending(row)[:count]):
            found[place, rank] = _told(row[index].item(), int(index), labels)
    return found


def _descending(row: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Return the indices of the elements of *row*, largest first; equal ones keep their order.

    Integers of 64 bits are compared unchanged: as floats, large ones would be equal.
    """
    if row.dtype.kind in "iu":
        return len(row) - 1 - np.argsort(row[::-1], kind="stable")[::-1]
    return np.argsort(-row.astype(float), kind="stable")  # bfloat16, too


def _told(value: float, index: int, labels: tuple[str, ...]) -> str:
    number = f"{value:f}" if isinstance(value, float) else str(value)
    label = f":{labels[index]}" if index < len(labels) else ""
    return f"{number}:{index}{label}"


@cache
def _labels(directory: Path) -> tuple[str, ...]:
    try:
        text = (directory / FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    return tuple(text.splitlines())
