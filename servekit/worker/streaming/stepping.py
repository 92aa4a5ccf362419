# SPDX-License-Identifier: Apache-2.0
"""Services whose outputs come one by one: a generator for each input, or slots and steps.

Both are driven in the same way. An input is admitted as a member; each turn takes one step with
every member; and a member is evicted once, whatever ended it.
"""

from __future__ import annotations

from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from servekit.errors import RequestError, WrongBatchLength
from servekit.service.base import Done, Service
from servekit.service.spans import UNTRACED, recording
from servekit.worker.inputs.annotations import streaming_method
from servekit.worker.inputs.input_kind import singles
from servekit.worker.prediction.current_batch import CurrentBatch, traces_of
from servekit.worker.process.log import report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from servekit.service.request import Request
    from servekit.service.spans import SpanRecorder

__all__ = ["Advance", "CurrentMembers", "Member", "Stepping", "advance_of", "checked_entries"]


class Member(Protocol):
    """An input that has been admitted, and the request it came with."""

    slot: Any
    request: Request
    recorder: SpanRecorder | None  #: if the request is traced


class Advance(NamedTuple):
    """The outcome of one step for one member."""

    outputs: Sequence[Any] = ()
    is_over: bool = False
    error: BaseException | None = None  #: why it is over


def advance_of(entry: Any) -> Advance:
    """Return what a service means by *entry*, which stands for the outcome of one step."""
    if isinstance(entry, BaseException):
        return Advance(is_over=True, error=entry)
    is_over = isinstance(entry, Done)
    found = entry.output if is_over else entry
    outputs = [*found] if isinstance(found, list) else [] if found is None else [found]
    refusal = next((each for each in outputs if isinstance(each, BaseException)), None)
    if refusal is not None:  # as it may stand for an output of ``predict``
        return Advance(is_over=True, error=refusal)
    return Advance(outputs, is_over)


class CurrentMembers(CurrentBatch):
    """The requests of the members that take a step now, in the order of the slots."""

    __slots__ = ("members",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.members: Sequence[Member] = ()

    def ids(self) -> list[str]:
        """Return the ids of these requests."""
        return [member.request.request_id for member in self.members] or super().ids()

    def trace_ids(self) -> list[str]:
        """Return the traces that these requests belong to, each once."""
        headers = [member.request.headers for member in self.members]
        return traces_of(headers) if headers else super().trace_ids()

    def requests(self) -> list[Request]:
        """Return the requests that the service may look at now."""
        return [member.request for member in self.members] or super().requests()


class GeneratorDriver:
    """Calls ``stream``, and takes one output from each of its generators in a turn."""

    def __init__(self, start: Callable[[Any], Iterable[Any]], current: CurrentMembers) -> None:
        self._start, self._current = start, current

    def admit(self, value: Any) -> Any:
        """Return the generator of one input."""
        return iter(self._start(value))

    def step(self, members: Sequence[Member]) -> list[Any]:
        """Return what each generator yields."""
        return [self._next(member) for member in members]

    def _next(self, member: Member) -> Any:
        self._current.members = (member,)
        try:
            with UNTRACED if member.recorder is None else member.recorder.active():
                return [next(member.slot)]
        except StopIteration:
            return Done()
        except BaseException as error:  # noqa: BLE001 - an author's generator may raise anything
            return error

    def evict(self, slot: Any) -> None:
        """Close the generator; other iterators cannot be closed."""
        if hasattr(slot, "close"):
            slot.close()


class SlotDriver:
    """Calls ``admit``, ``step`` and ``evict``."""

    def __init__(self, service: Any) -> None:
        self._service, self.admit = service, service.admit
        self.evict = getattr(service, "evict", lambda _slot: None)

    def step(self, members: Sequence[Member]) -> list[Any]:
        """Return one entry for each slot.

        :raises WrongBatchLength: the service returned something else.
        """
        slots = [member.slot for member in members]
        with recording([member.recorder for member in members if member.recorder]):
            return checked_entries(self._service.step(slots), len(members))


def checked_entries(entries: Any, count: int) -> list[Any]:
    """Return *entries*, what ``step`` has returned for *count* slots.

    :raises WrongBatchLength: they are not a list of *count*.
    """
    if not isinstance(entries, list) or len(entries) != count:
        shown = len(entries) if isinstance(entries, list) else f"a {type(entries).__name__}"
        raise WrongBatchLength(f"returned {shown}, expected a list of {count}")
    return entries


class Stepping:
    """Drives a service of either kind. An error in its code ends as few members as possible."""

    most_steps: float = inf  #: limit for ``predict``; ``servekit check`` sets it for endpoints

    def __init__(self, service: Service, current: CurrentMembers) -> None:
        """Step with *service*, which sees the requests of its members in *current*."""
        first = streaming_method(service)
        self.current = current
        self._driver: GeneratorDriver | SlotDriver = (
            SlotDriver(service)
            if first == "admit"
            else GeneratorDriver(getattr(service, str(first)), current)
        )
        has_postprocess = type(service).postprocess is not Service.postprocess
        self._postprocess = service.postprocess if has_postprocess else None

    def admit(self, value: Any, request: Request) -> Any:
        """Return the slot of one input. Raises what the service raises."""
        self.current.members = (CollectingMember(None, request),)
        try:
            return self._driver.admit(value)
        finally:
            self.current.members = ()

    def step(self, members: Sequence[Member]) -> list[Advance]:
        """Return what one step brings for each of *members*."""
        self.current.members = members
        try:
            advances = [self._advance(entry) for entry in self._driver.step(members)]
        except BaseException as error:  # noqa: BLE001 - an author's step may raise anything
            advances = [Advance(is_over=True, error=error)] * len(members)
        self.current.members = ()
        return advances

    def _advance(self, entry: Any) -> Advance:
        advance = advance_of(entry)
        if self._postprocess is None:
            return advance
        try:
            outputs = [self._postprocess(output) for output in advance.outputs]
            return advance._replace(outputs=outputs)
        except BaseException as error:  # noqa: BLE001 - an author's postprocess may raise anything
            return Advance(is_over=True, error=error)

    def evict(self, slot: Any) -> None:
        """Let the service release the slot of a member that has ended or lost its client."""
        try:
            self._driver.evict(slot)
        except BaseException as error:  # noqa: BLE001 - an author's clean-up may raise anything
            report("evict failed", error)

    def predict(self, batch: Any) -> list[Any]:
        """Run each input of *batch* to its end, and return a list of outputs for each.

        Examples, warm-up and tests call this, as they do not stream.
        """
        requests = self.current.requests()
        values = zip(singles(batch), requests, strict=True)
        members = [self._admitted(value, request) for value, request in values]
        for step in count(1):
            going = [member for member in members if not member.is_over]
            if not going:
                break
            for member, advance in zip(going, self.step(going), strict=True):
                member.take(advance)
                if member.is_over or step >= self.most_steps:
                    member.is_over = True
                    self.evict(member.slot)
        return [member.result() for member in members]

    def _admitted(self, value: Any, request: Request) -> CollectingMember:
        member = CollectingMember(None, request)
        try:
            member.slot = self.admit(value, request)
        except BaseException as error:  # noqa: BLE001 - an author's admit may raise anything
            member.take(Advance(is_over=True, error=error))
        return member


class CollectingMember:
    """A member whose outputs are kept until its end."""

    def __init__(self, slot: Any, request: Request) -> None:
        self.slot, self.request = slot, request
        self.recorder: SpanRecorder | None = None  # its batch has one
        self.is_over = False
        self._outputs: list[Any] = []
        self._error: BaseException | None = None

    def take(self, advance: Advance) -> None:
        """Keep what one step brought."""
        self._outputs += advance.outputs
        self.is_over, self._error = advance.is_over, advance.error

    def result(self) -> Any:
        """Return the outputs, or the refusal; raise any other error."""
        if self._error is not None and not isinstance(self._error, RequestError):
            raise self._error
        return self._error or self._outputs
