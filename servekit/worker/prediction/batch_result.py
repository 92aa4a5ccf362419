# SPDX-License-Identifier: Apache-2.0
"""What a batch is on its way through a service, and what stands where an output is missing."""

from typing import Any, Final, NamedTuple

from servekit.errors import ClientGone, RequestError
from servekit.service.response import Response
from servekit.worker.prediction.error_answers import error_answer
from servekit.worker.prediction.response_writer import Plan

__all__ = [
    "EXPIRED",
    "GONE",
    "Answered",
    "BatchResult",
    "Failed",
    "PendingTask",
    "Responses",
    "are_plain",
]

#: an ``Answer`` before it is laid out for its way
Answered = tuple[str, str, bytes]

EXPIRED: Answered = ("DeadlineExceeded", "", b"")
GONE: Answered = error_answer(ClientGone())


#: place to status and headers
Responses = dict[int, tuple[int, list[tuple[str, str]]]]


class BatchResult(NamedTuple):
    """One batch, answered."""

    answers: list[Answered]
    decode_s: float
    predict_s: float
    encode_s: float
    responses: Responses
    steps: dict[str, float] = {}  # noqa: RUF012 - nobody changes it

    @property
    def times(self) -> tuple[float, float, float]:
        """Seconds to decode, predict and encode."""
        return self.decode_s, self.predict_s, self.encode_s


class PendingTask(NamedTuple):
    """An item whose input is ready for ``predict``."""

    place: int  #: in the batch as it came
    plan: Plan
    request_id: str
    deadline: float  #: ``monotonic``


class Failed(NamedTuple):
    """Stands for the output of a task that ``predict`` failed."""

    answer: Answered


OTHERS: Final = (Failed, memoryview)  #: what may stand in the place of an output


def are_plain(outputs: list[Any]) -> bool:
    """Whether all of *outputs* are just that: no error, no response, no view of a body."""
    kinds = set(map(type, outputs))
    is_refusal = (RequestError, Response)
    return kinds.isdisjoint(OTHERS) and not any(issubclass(kind, is_refusal) for kind in kinds)
