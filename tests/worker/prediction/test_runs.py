# SPDX-License-Identifier: Apache-2.0
"""Services that share a worker answer as they do in separate workers."""

import math
import os
from time import monotonic

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from servekit import InputError, Response, Service
from servekit.ipc.batches import VALUE
from servekit.ipc.cancellation import Cancelled, CancelledReader
from servekit.plugins import create_plugin_manager
from servekit.worker.boot.assembly import assemble
from servekit.worker.codecs.table import CodecTable
from servekit.worker.prediction.request_reader import BodyReaders
from servekit.worker.prediction.runs import Run
from servekit.worker.streaming.stepping import CurrentMembers
from tests.worker.batches import loaded, service_of
from tests.worker.worker_process import item


class Point(msgspec.Struct):
    """What a typed stage takes and gives."""

    x: float
    y: float = 0.0


def typed(self, batch: list[Point]) -> list[Point]:
    """Move each."""
    return [Point(each.x + 1, each.x) for each in batch]


class Other(msgspec.Struct):
    """What another stage takes as a ``Point``."""

    x: float


def structured(self, batch):
    """Give what the next one calls otherwise."""
    return [Other(_x(each)) for each in batch]


def stacked(self, batch):
    """Add up, by name."""
    return {"x": batch["x"] * 2, "y": batch["x"].sum(keepdims=True) + 0 * batch["x"]}


def refusing(self, batch):
    """Refuse what is negative, alone."""
    return [each if _x(each) >= 0 else InputError(f"{_x(each)} is negative") for each in batch]


def failing(self, batch):
    """Fail the whole batch for one of its members."""
    if any(_x(each) == 3 for each in batch):
        raise ValueError("three")
    return batch


def forgetful(self, batch):
    """Forget the last of three."""
    return batch[:2]


def responding(self, batch):
    """Say things of its own."""
    return [Response(each, 201 + _x(each) % 2, {"X-Said": "it"}) for each in batch]


def writing(self, batch):
    """Write what goes on itself."""
    return [Response(f'{{"x": {_x(each)}}}', content_type="application/json") for each in batch]


def bare(self, batch):
    """Give numbers of numpy's."""
    return np.array([_x(each) for each in batch], np.float32)


def stepwise(self, batch):
    """Give several outputs, one by one."""
    yield from range(int(_x(batch)))


def _x(value):
    if isinstance(value, dict):
        return int(np.asarray(value["x"]))
    return len(value) if isinstance(value, list) else int(getattr(value, "x", value))


def whole(self, request):
    """Look at the request itself."""
    return {"x": _x(request.input), "bytes": len(request.body) > 0}


def named(self, output):
    """Put a name to an output."""
    if _x(output) == 5:
        raise InputError("five")
    return {"x": _x(output)}


SIGNATURE = {"inputs": [{"name": "x", "dtype": "float32", "shape": []}], "outputs": []}
STAGES = {
    "typed": (typed, None, {}),
    "structured": (structured, None, {}),
    "stacked": (stacked, SIGNATURE, {}),
    "refusing": (refusing, None, {}),
    "failing": (failing, None, {}),
    "forgetful": (forgetful, None, {}),
    "responding": (responding, None, {}),
    "writing": (writing, None, {}),
    "bare": (bare, None, {}),
    "stepwise": (stepwise, None, {}),
    "preprocessing": (lambda self, batch: batch, None, {"preprocess": whole}),
    "postprocessing": (lambda self, batch: batch, None, {"postprocess": named}),
}


def predictor_of(name):
    predict, signature, steps = STAGES[name]
    return loaded(service_of(predict, signature, **steps)).predictor


PREDICTORS = {name: predictor_of(name) for name in STAGES}


def run_of(names):
    return Run([(str(at), PREDICTORS[name]) for at, name in enumerate(names)])


def answers_apart(names, items):
    """Send a batch through predictors as front-end and workers do, value by value."""
    answers, places, responses = [None] * len(items), range(len(items)), {}
    accepts = [VALUE.encode()] * (len(names) - 1) + [items[0].accept]
    for name, accept in zip(names, accepts, strict=True):
        batch = [replace(each, accept=accept) for each in items]
        turn = PREDICTORS[name].answer(batch) if batch else None
        given = list(zip(places, turn.answers if turn else (), strict=True))
        responses = {places[at]: said for at, said in (turn.responses if turn else {}).items()}
        for place, answer in given:
            answers[place] = answer
        going = [at for at, (_, (error, *_)) in enumerate(given) if not error]
        items = [
            replace(items[at], body=given[at][1][2], content_type=given[at][1][1].encode())
            for at in going
        ]
        places = [places[at] for at in going]
    return answers, responses


VALUES = st.one_of(
    st.integers(-2, 9),
    st.builds(lambda x: {"x": x}, st.integers(-2, 9)),
    st.just({"x": "text"}),
    st.just("text"),
)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(sorted(STAGES)), min_size=1, max_size=4),
    st.lists(VALUES, min_size=1, max_size=5),
)
def test_a_run_answers_as_its_stages_do_apart(names, values):
    items = [item(value, request_id=str(at)) for at, value in enumerate(values)]
    turn = run_of(names).answer(items)

    assert (turn.answers, turn.responses) == answers_apart(names, items)


def test_objects_are_handed_on_as_they_are():
    given, taken = [], []

    class Giver(Service):
        def predict(self, batch):
            given.extend(object() for _ in batch)
            return given

    class Taker(Service):
        def predict(self, batch):
            taken.extend(batch)
            return [1 for _ in batch]

    run = Run([("give", loaded(Giver()).predictor), ("take", loaded(Taker()).predictor)])
    turn = run.answer([item(1), item(2)])

    assert [each is other for each, other in zip(given, taken, strict=True)] == [True, True]
    assert list(turn.steps) == ["give", "take"]
    assert 0 <= sum(turn.steps.values()) <= turn.predict_s


def test_a_later_service_sees_requests_as_it_would_apart():
    table, seen = CodecTable(create_plugin_manager(discover=False)), []
    current = CurrentMembers(BodyReaders(table))

    def look(self, batch):
        seen.extend((each.request_id, each.body) for each in current.requests())
        return [1 for _ in batch]

    giver = loaded(service_of(lambda self, batch: [{"x": 1}, object()])).predictor
    taker = assemble(service_of(look), table, current).predictor
    Run([("give", giver), ("take", taker)]).answer([item(1, request_id=each) for each in "ab"])

    assert seen == [("a", b"\x81\xa1x\x01"), ("b", b"")]  # an object has no bytes


@pytest.mark.parametrize("ends", ["cancelled", "expired"])
def test_whom_nobody_waits_for_any_more_goes_no_further(ends):
    cancelled, seen = Cancelled(4), []
    soon = monotonic() + 0.05

    class Slow(Service):
        def predict(self, batch):
            if ends == "cancelled":
                cancelled.mark(7, 1)
            while ends == "expired" and monotonic() <= soon:
                pass
            return batch

    class Next(Service):
        def predict(self, batch):
            seen.extend(batch)
            return batch

    run = Run([("slow", loaded(Slow()).predictor), ("next", loaded(Next()).predictor)])
    with cancelled.descriptor() as descriptor:
        reader = CancelledReader(os.dup(descriptor))
    items = [item(1), item(2, deadline=soon if ends == "expired" else math.inf), item(3)]
    turn = run.answer(items, 7, reader)

    assert seen == [1, 3]
    expected = "ClientGone" if ends == "cancelled" else "DeadlineExceeded"
    assert [error for error, *_ in turn.answers] == ["", expected, ""]


def test_a_service_that_leaves_is_noticed_whichever_it_is():
    def leave(self, batch):
        raise SystemExit(0)

    run = Run([("stay", PREDICTORS["bare"]), ("leave", loaded(service_of(leave)).predictor)])
    run.answer([item(1)])

    assert run.is_leaving
