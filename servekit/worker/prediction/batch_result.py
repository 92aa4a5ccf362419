# SPDX-License-Identifier: Apache-2.0
"""The result of a batch: outputs, one for each input, and the answers made of them."""

import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct

from servekit.counting import counted
from servekit.errors import ClientGone, RequestError, WrongBatchLength
from servekit.ipc.arena import Pieces
from servekit.ipc.spans import BatchTrace
from servekit.service.response import Response
from servekit.worker.prediction.error_answers import error_answer
from servekit.worker.prediction.negotiation import Plan

__all__ = [
    "EXPIRED",
    "GONE",
    "Answered",
    "BatchResult",
    "Failed",
    "PendingTask",
    "Responses",
    "are_plain",
    "checked_result",
    "outputs_of",
]

#: an ``Answer`` whose body is still bytes: error, media type, body
Answered = tuple[str, str, bytes]

EXPIRED: Answered = ("DeadlineExceeded", "", b"")
GONE: Answered = error_answer(ClientGone())

#: place in the batch to status and headers
Responses = dict[int, tuple[int, list[tuple[str, str]]]]


class BatchResult(NamedTuple):
    """The answers of one batch, in its order."""

    answers: list[Answered]
    decode_s: float
    predict_s: float
    encode_s: float
    responses: Responses
    steps: dict[str, float] = {}  # noqa: RUF012 - never changed
    #: by place: large bodies in place of those of the answers
    pieces: dict[int, Pieces] = {}  # noqa: RUF012 - never changed
    #: inputs or rows in each call of ``predict``; empty: one call, with an input for each answer
    sizes: list[int] = []  # noqa: RUF012 - never changed
    cost: float = 0.0  #: as in ``Reply``
    trace: BatchTrace | None = None  #: if a member is traced

    @property
    def times(self) -> tuple[float, float, float]:
        """Seconds to decode, predict and encode."""
        return self.decode_s, self.predict_s, self.encode_s


class PendingTask(Struct, gc=False):
    """An item of a batch whose input is decoded, and whose output is still to come."""

    place: int  #: in the batch as it came
    plan: Plan
    request_id: str
    deadline: float  #: ``monotonic``


class Failed(NamedTuple):
    """Stands for the output of a task if ``predict`` failed."""

    answer: Answered


OTHERS: Final = (Failed, memoryview)  #: other objects in the place of an output


def are_plain(outputs: list[Any]) -> bool:
    """Whether *outputs* holds no error, no response and no view of a body."""
    kinds = set(map(type, outputs))
    is_refusal = (RequestError, Response)
    return kinds.isdisjoint(OTHERS) and not any(issubclass(kind, is_refusal) for kind in kinds)


def outputs_of(result: Any, count: int, *, may_be_mapping: bool) -> list[Any]:
    """Return one output for each input; see ``checked_result``."""
    checked = checked_result(result, count, may_be_mapping=may_be_mapping)
    if type(checked) is list:
        return checked
    if isinstance(checked, Mapping):
        rows = zip(*checked.values(), strict=True)
        return [dict(zip(checked, row, strict=True)) for row in rows]
    return list(checked)


def checked_result(result: Any, count: int, *, may_be_mapping: bool) -> Any:
    """Return *result* if it has an output for each input; a list as a copy.

    :param result: what ``predict`` returned for *count* inputs.
    :param may_be_mapping: the service has a signature, so outputs may have names.
    :return: arrays of other libraries as arrays of NumPy.
    :raises WrongBatchLength: *result* is not a list of *count*, an array of *count* rows, or a
        mapping of such.
    :raises ResultNotEncodable: NumPy cannot hold an array of another library.
    """
    if isinstance(result, list):
        result = list(result)  # a subclass may report another length
    elif may_be_mapping and isinstance(result, Mapping) and result:
        return _checked_by_name(result, count)
    elif (array := _array(result)) is not None:
        result = array
    else:
        shown = f"a {type(result).__name__}" if result is not None else "None"
        raise WrongBatchLength(f"returned {shown}, expected a list of {count}")
    if len(result) != count:
        raise WrongBatchLength(
            f"returned {counted(len(result), 'output')} for {counted(count, 'input')}"
        )
    return result


def _array(value: Any) -> Any:
    """Return *value* as an array of NumPy; ``None`` if it is not an array with rows."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return value if value.ndim else None
    from servekit.worker.codecs.foreign_arrays import as_array  # imports numpy

    array = as_array(value)
    return array if array is not None and array.ndim else None


def _checked_by_name(result: Mapping[Any, Any], count: int) -> Mapping[Any, Any]:
    changed = {}
    for name, value in result.items():
        rows = value if type(value) is list else _array(value)
        if rows is None or len(rows) != count:
            raise WrongBatchLength(f"returned {name!r} that is not an array or a list of {count}")
        if rows is not value:
            changed[name] = rows
    return {**result, **changed} if changed else result
