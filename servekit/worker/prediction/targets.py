# SPDX-License-Identifier: Apache-2.0
"""What a batch may be for besides ``predict``: the endpoints of a service, and what is ours."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from servekit.errors import BootError, InputError, RouteNotFound
from servekit.ipc.batches import IDENTITY, INSTANCES, RUN, SPLIT, STAGE
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

__all__ = ["Mixed", "Targets"]

#: makes a predictor, and what it takes and gives, of a service
Wrap = Callable[[Service], tuple[Predictor, Interface]]

NOWHERE: Final = error_answer(RouteNotFound())


class Identity(Service):
    """Reads what one step wrote, so that it can be written for another."""

    def predict(self, batch: Any) -> Any:
        """Return *batch*."""
        return batch


class Split(Service):
    """Reads a list that a client sent, so that each element can be a task of its own."""

    def predict(self, batch: Any) -> Any:
        """Return *batch*; what is no list is refused."""
        return [each if _is_list(each) else InputError("a list is needed here") for each in batch]


class InstancesService(Service):
    """Reads several inputs of one request, so that each can be answered by itself."""

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


class Targets:
    """What answers for each target of one worker; "" is ``predict`` of its service."""

    def __init__(self, service: Service, predictor: Predictor, wrap: Wrap) -> None:
        """Wrap the endpoints of *service*.

        :raises BootError: two of them have one name, or one cannot be served.
        """
        self._wrap = wrap
        self._predictors = {"": predictor}
        self._runs: dict[str, Run] = {}
        self.stages: Mapping[str, Targets] = {}  #: of a worker of several: this one among them
        self.rows: list[EndpointRow] = []
        for marked, method in endpoints_of(type(service)):
            if marked.name in self._predictors:
                raise BootError(f"{type(service).__name__}: two endpoints are called {marked.name}")
            wrapped, interface = wrap(_only(service, method))
            self._predictors[marked.name] = wrapped
            self.rows.append(EndpointRow(marked.name, marked.path, interface))

    def of(self, targets: Sequence[str]) -> "Predictor | Run | Mixed":
        """Return what answers a batch.

        :param targets: of its items, or the one of all of them.
        """
        found = self.find(targets[0]) if targets.count(targets[0]) == len(targets) else None
        return found or Mixed(self, targets)

    def find(self, target: str) -> Predictor | Run | None:
        """Return what answers *target*, if there is such a one."""
        if STAGE in target:
            return self._runs.get(target) or self._make_run(target)
        if target not in self._predictors and target in OURS:
            self._predictors[target] = self._wrap(OURS[target]())[0]
        return self._predictors.get(target)

    def _make_run(self, target: str) -> Run | None:
        steps = []
        for step in target.split(RUN):
            stage, _, method = step.partition(STAGE)
            found = self.stages[stage].find(method) if stage in self.stages else None
            if not isinstance(found, Predictor):
                return None
            steps.append((stage, found))
        self._runs[target] = run = Run(steps)
        return run


class Mixed:
    """Answers a batch whose items are for several targets: those of one are a batch."""

    is_leaving = False  #: a service asked the process to exit

    def __init__(self, targets: Targets, wanted: Sequence[str]) -> None:
        """Of *targets*, the items are for those *wanted*, in their order."""
        self._targets, self._wanted = targets, wanted

    def takes_view(self, content_type: bytes) -> bool:
        """Whether all of them may be given views of bodies of *content_type*."""
        ours = self._targets.find(IDENTITY)  # which has no ``preprocess``
        return ours is not None and ours.takes_view(content_type)

    def answer(
        self,
        items: Sequence[OpenItem],
        number: int,
        cancelled: CancelledReader | None,
        headers: Mapping[int, Mapping[str, str]],
    ) -> BatchResult:
        """Answer *items*, in their order; see ``Predictor.answer``."""
        answers: list[Any] = [NOWHERE] * len(items)
        times, responses, steps = (0.0, 0.0, 0.0), Responses(), dict[str, float]()
        for target in dict.fromkeys(self._wanted):
            speaker = self._targets.find(target)
            if speaker is None:
                continue
            places = [place for place, each in enumerate(self._wanted) if each == target]
            result = speaker.answer(items, number, cancelled, headers, places)
            for place in places:
                answers[place] = result.answers[place]
            responses |= result.responses
            for stage, step_s in result.steps.items():
                steps[stage] = steps.get(stage, 0.0) + step_s
            decode_s, predict_s, encode_s = map(sum, zip(times, result.times, strict=True))
            times = decode_s, predict_s, encode_s
            self.is_leaving |= speaker.is_leaving
        return BatchResult(answers, *times, responses, steps)


OURS: Final = {IDENTITY: Identity, SPLIT: Split, INSTANCES: InstancesService}


def _only(service: Service, method: Callable[..., Any]) -> Service:
    """Return a service whose ``predict`` is a *method* of another one, and that is all of it."""
    kind = type(type(service).__name__, (Service,), {"predict": method})
    only: Service = kind()
    only.request_headers, only.request_query = service.request_headers, service.request_query
    only.predict = method.__get__(service)  # type: ignore[method-assign]
    return only
