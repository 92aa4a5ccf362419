# SPDX-License-Identifier: Apache-2.0
"""The outputs of requests with rows: divided among requests, joined, named, and written.

A result is what ``predict`` returned: a list, an array, or a mapping of names to such.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from servekit.errors import RequestError, ResultNotEncodable, WrongBatchLength
from servekit.extension.envelope import Rows
from servekit.service.response import Response
from servekit.worker.codecs.foreign_arrays import known_arrays
from servekit.worker.inputs.array_checks import element_dtype
from servekit.worker.inputs.input_kind import refusal
from servekit.worker.inputs.row_input import UNNAMED, columns_of

__all__ = [
    "Declared",
    "first_row",
    "joined_rows",
    "named",
    "no_rows",
    "range_of",
    "unnamed",
    "whole",
]

#: an entry of a signature
Declared = Mapping[str, Any]


# ------------------------------------------------------------ dividing and joining


def range_of(result: Any, start: int, stop: int) -> Any:
    """Return some rows of *result*; views of arrays."""
    if isinstance(result, Mapping):
        return {name: each[start:stop] for name, each in result.items()}
    return result[start:stop]


def first_row(result: Any) -> Any:
    """Return the output that is the first row of *result*."""
    if isinstance(result, Mapping):
        return {name: each[0] for name, each in result.items()}
    return result[0]


def whole(results: Sequence[Any], count: int) -> Rows | RequestError:
    """Return the output of a request of *count* rows, which *results* are one after another.

    :return: the error, if one is in the place of a row.
    :raises ServiceError: they do not fit together, or a row is a ``Response``.
    """
    joined = _joined(results)
    if type(joined) is list and (refused := _refusal(joined)):
        return refused
    return Rows(joined if isinstance(joined, Mapping) else {UNNAMED: joined}, count)


def _joined(results: Sequence[Any]) -> Any:
    """Return *results* as one; a single one unchanged.

    :raises WrongBatchLength: their names differ.
    """
    if len(results) == 1:
        return results[0]
    if any(isinstance(each, Mapping) for each in results):
        names = {frozenset(each) if isinstance(each, Mapping) else None for each in results}
        if len(names) > 1:
            raise WrongBatchLength("returned other names for the next rows of the same request")
        return {name: _joined([each[name] for each in results]) for name in results[0]}
    are_arrays = all(isinstance(each, np.ndarray) for each in results)
    if are_arrays and len({each.shape[1:] for each in results}) == 1:
        return np.concatenate(results)
    return [row for each in results for row in each]


def _refusal(rows: Sequence[Any]) -> RequestError | None:
    """Return the first error in the place of one of *rows*.

    :raises ResultNotEncodable: one is a ``Response``, which is that of a whole request.
    """
    found = next((row for row in rows if isinstance(row, RequestError | Response)), None)
    if isinstance(found, Response):
        raise ResultNotEncodable("output: a Response cannot be one of several rows")
    return found


def no_rows(outputs: Sequence[Declared]) -> Rows | RequestError:
    """Return the output of a request without rows, for which ``predict`` is not called.

    :param outputs: those that the signature declares.
    """
    if not outputs:
        return refusal([("", "0 rows, expected at least 1: the model declares no outputs")])
    shapes = {each["name"]: [max(size, 0) for size in each["shape"]] for each in outputs}
    dtypes = _dtypes(outputs)
    return Rows({name: np.empty((0, *shape), dtypes[name]) for name, shape in shapes.items()}, 0)


def joined_rows(outputs: Sequence[Any], declared: Sequence[Declared]) -> Rows:
    """Return the *outputs* of single inputs as envelopes get them.

    :param declared: the outputs that the signature declares.
    :raises InputError: there are none, and none are declared.
    :raises ServiceError: one is a ``Response``.
    """
    found = whole([[*outputs]], len(outputs)) if outputs else no_rows(declared)
    if isinstance(found, RequestError):
        raise found
    return named(found, declared)


# ------------------------------------------------------------ as they are written


def unnamed(rows: Rows) -> Any:
    """Return the output that *rows* are for a native route: what ``predict`` returned for them."""
    return rows.values.get(UNNAMED, rows.values)


def named(rows: Rows, outputs: Sequence[Declared]) -> Rows:
    """Return *rows* as envelopes get them: an array for each name.

    :param outputs: those that the signature declares.
    """
    dtypes = _dtypes(outputs)
    lone = outputs[0]["name"] if len(outputs) == 1 else "output"
    columns = columns_of(rows, lone).items()
    return Rows({name: _array(each, dtypes.get(name)) for name, each in columns}, rows.count)


def _dtypes(outputs: Sequence[Declared]) -> Mapping[str, Any]:
    return {each["name"]: element_dtype(each["dtype"]) for each in outputs}


def _array(values: Any, dtype: Any) -> Any:
    """Return *values* as an array: of *dtype* if they fit it, of objects if they are ragged."""
    if isinstance(values, np.ndarray):
        return values
    values = known_arrays(values)
    try:
        is_text = dtype is not None and dtype.hasobject
        array = np.array(values, object if is_text else None)  # dtype U drops NULs at the end
    except ValueError:  # the shapes differ
        array = np.empty(len(values), object)
        array[:] = values
        return array
    if dtype is not None and np.can_cast(array.dtype, dtype, "same_kind"):
        return array.astype(dtype, copy=False)
    return array.astype(object) if array.dtype.kind == "U" else array
