# SPDX-License-Identifier: Apache-2.0
"""Finds the predictor that answers the calls of a batch: a method of a service, or a reader."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from servekit.errors import BootError, InputError, RouteNotFound
from servekit.ipc.batches import Calls, Item, MethodCall, Reading
from servekit.ipc.cancellation import CancelledReader
from servekit.ipc.table import EndpointRow, Interface
from servekit.service.base import Service
from servekit.service.endpoints import endpoints_of
from servekit.worker.inputs.input_kind import refusal
from servekit.worker.prediction.batch_result import BatchResult, Responses
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.error_answers import error_answer
from servekit.worker.prediction.predictor import Predictor
from servekit.worker.prediction.runs import Run

__all__ = ["Methods", "Mixed"]

#: a service to its predictor and its interface
Wrap = Callable[[Service], tuple[Predictor, Interface]]

CALLS_OF = attrgetter("calls")
NOWHERE: Final = error_answer(RouteNotFound())


class ReadWhole(Service):
    """Reads what one step wrote, so that it can be written for another."""

    def predict(self, batch: Any) -> Any:
        """Return *batch*."""
        return batch


class ReadElements(Service):
    """Reads a list that a client sent, so that each element can be a separate task."""

    def predict(self, batch: Any) -> Any:
        """Return *batch*; values that are not lists are refused."""
        return [each if _is_list(each) else InputError("a list is needed here") for each in batch]


class ReadInstances(Service):
    """Reads several inputs of one request, so that each can be answered separately."""

    def predict(self, batch: Any) -> Any:
        """Return the instances of each body."""
        return [_instances(each) for each in batch]


def _instances(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return refusal([("", "expected an object with instances")])
    if not _is_list(value.get("instances")):
        message = "expected an array" if "instances" in value else "missing"
        return refusal([("instances", message)])
    if len(value) > 1:
        return refusal([(str(name)[:80], "unknown field") for name in value if name != "instances"])
    return value["instances"]


def _is_list(value: Any) -> bool:
    return isinstance(value, list) or bool(getattr(value, "shape", ()))


class Methods:
    """The methods of one service, and of those that its worker has loaded besides."""

    def __init__(self, service: Service, predictor: Predictor, wrap: Wrap) -> None:
        """Wrap the endpoints of *service*.

        :raises BootError: two of them have one name, or one cannot be served.
        """
        self._wrap = wrap
        self._predictors: dict[str | Reading, Predictor] = {"": predictor}
        self._known: dict[Calls, Predictor | Run] = {(): predictor}
        self.stages: Mapping[str, Methods] = {}  #: all stages of the worker, this one included
        self.rows: list[EndpointRow] = []
        for marked, method in endpoints_of(type(service)):
            if marked.name in self._predictors:
                raise BootError(f"{type(service).__name__}: two endpoints are called {marked.name}")
            wrapped, interface = wrap(_only(service, method))
            self._predictors[marked.name] = wrapped
            stream = None if marked.stream is None else {**marked.stream}
            row = EndpointRow(marked.name, marked.path, interface, marked.envelope, stream)
            row.get, row.media_type = marked.get, marked.media_type
            self.rows.append(row)

    def of(self, items: Sequence[Item[Any]]) -> "Predictor | Run | Mixed":
        """Return what answers a batch of *items*."""
        wanted = set(map(CALLS_OF, items))
        found = self.find(*wanted) if len(wanted) == 1 else None
        return found or Mixed(self)

    def find(self, calls: Calls) -> Predictor | Run | None:
        """Return what answers *calls*; ``None`` if one of the methods does not exist."""
        found = self._known.get(calls)
        if found is None and (found := self._resolve(calls)) is not None:
            self._known[calls] = found
        return found

    def _resolve(self, calls: Calls) -> Predictor | Run | None:
        if len(calls) == 1 and not calls[0].stage:
            return self.predictor(calls[0].method)
        steps = []
        for call in calls:
            methods = self.stages.get(call.stage)
            predictor = methods.predictor(call.method) if methods is not None else None
            if predictor is None:
                return None
            steps.append((call.stage, predictor))
        return Run(steps)

    def predictor(self, method: str | Reading) -> Predictor | None:
        """Return what answers *method* of this service; ``None`` if it does not exist."""
        if isinstance(method, Reading) and method not in self._predictors:
            self._predictors[method] = self._wrap(READERS[method]())[0]
        return self._predictors.get(method)


class Mixed:
    """Answers a batch whose items are for different methods: those of one are a batch."""

    def __init__(self, methods: Methods) -> None:
        """Find them in *methods*."""
        self._methods = methods
        self.is_leaving = False  #: a service asked the process to exit

    def takes_view(self, content_type: bytes) -> bool:
        """Whether all of them may be given views of bodies of *content_type*."""
        reader = self._methods.find((MethodCall(method=Reading.WHOLE),))  # has no ``preprocess``
        return reader is not None and reader.takes_view(content_type)

    def answer(
        self, items: Sequence[OpenItem], number: int, cancelled: CancelledReader | None
    ) -> BatchResult:
        """Answer *items*, in their order; see ``Predictor.answer``."""
        answers: list[Any] = [NOWHERE] * len(items)
        times, responses, steps = (0.0, 0.0, 0.0), Responses(), dict[str, float]()
        sizes, has_rows = list[int](), False
        for calls in dict.fromkeys(item.calls for item in items):
            found = self._methods.find(calls)
            if found is None:
                continue
            places = [place for place, item in enumerate(items) if item.calls == calls]
            result = found.answer(items, number, cancelled, places)
            for place in places:
                answers[place] = result.answers[place]
            responses |= result.responses
            sizes += result.sizes or [len(places)]
            has_rows |= bool(result.sizes)
            for stage, step_s in result.steps.items():
                steps[stage] = steps.get(stage, 0.0) + step_s
            decode_s, predict_s, encode_s = map(sum, zip(times, result.times, strict=True))
            times = decode_s, predict_s, encode_s
            self.is_leaving |= found.is_leaving
        return BatchResult(answers, *times, responses, steps, sizes=sizes if has_rows else [])


READERS: Final[Mapping[Reading, type[Service]]] = {
    Reading.WHOLE: ReadWhole,
    Reading.ELEMENTS: ReadElements,
    Reading.INSTANCES: ReadInstances,
}


def _only(service: Service, method: Callable[..., Any]) -> Service:
    """Return a service whose ``predict`` is a *method* of another one, and that is all of it."""
    kind = type(type(service).__name__, (Service,), {"predict": method})
    only: Service = kind()
    only.request_headers, only.request_query = service.request_headers, service.request_query
    only.predict = method.__get__(service)  # type: ignore[method-assign]
    return only
