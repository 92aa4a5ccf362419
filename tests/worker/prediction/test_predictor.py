# SPDX-License-Identifier: Apache-2.0
"""The way of a batch, without a process around it."""

import math
import os
from time import monotonic

import msgspec
import pytest

from servekit import ClientError, InputError
from servekit.errors import OutOfMemory, QueueFull
from servekit.ipc.cancellation import Cancelled, CancelledReader
from servekit.plugins import create_plugin_manager
from servekit.service.request import Request
from servekit.worker.boot.assembly import assemble
from servekit.worker.codecs.table import CodecTable
from servekit.worker.prediction.current_batch import CurrentBatch
from servekit.worker.prediction.request_reader import BodyReaders
from tests.worker.batches import answer, answers, echo, item, loaded, service_of


def raising(error):
    """Return a predict that raises *error*."""

    def predict(self, batch):
        raise error

    return predict


class Moody(InputError):
    """An author's subclass that keeps what it was given to itself."""

    def __init__(self):
        """Forget everything."""


@pytest.mark.parametrize(
    ("error", "name", "detail"),
    [
        (InputError("no"), "InputError", "no"),
        (ClientError("no"), "ClientError", "no"),
        (InputError(5), "InputError", "5"),
        (Moody(), "InputError", ""),
        (InputError("x" * 9999), "InputError", "x" * 2000),
        (InputError("\ud800"), "InputError", "?"),
        (QueueFull("secret"), "PredictFailed", ""),
        (OutOfMemory("secret"), "OutOfMemory", ""),
        (MemoryError("secret"), "OutOfMemory", ""),
        (ValueError("secret"), "PredictFailed", ""),
        (BaseExceptionGroup("secret", [KeyboardInterrupt()]), "PredictFailed", ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_class_of_an_error_is_its_status_and_only_refusals_bring_a_text(error, name, detail):
    found, body = answer(service_of(raising(error)), 1)

    assert (found, msgspec.json.decode(body)["detail"]) == (name, detail)


@pytest.mark.parametrize("errors", [["plain text"], [{"field": 1, "message": None}], [{}], [None]])
def test_the_fields_of_a_refusal_are_texts_whatever_the_author_gave(errors):
    _, body = answer(service_of(raising(InputError("no", errors))), 1)

    (entry,) = msgspec.json.decode(body)["errors"]
    assert set(map(type, entry.values())) == {str}


def test_a_batch_without_a_good_member_is_not_predicted():
    calls = []
    service = service_of(lambda self, batch: calls.append(batch) or batch)
    answers(service, item(b"{"), item(b""))

    assert calls == []


def test_only_good_members_reach_predict_and_answers_stay_in_place():
    service = service_of(lambda self, batch: [f"{x} of {batch}" for x in batch])
    found = answers(service, item(1), item(b"{"), item(2))

    assert [body for _, body in found][::2] == [
        b'{"prediction":"1 of [1, 2]"}',
        b'{"prediction":"2 of [1, 2]"}',
    ]


def test_an_exit_in_any_step_makes_the_worker_leave():
    for steps in ({"preprocess": raising(SystemExit())}, {"postprocess": raising(SystemExit())}):
        predictor = loaded(service_of(echo, **steps)).predictor
        turn = predictor.answer([item(1), item(2)])

        assert [error for error, _, _ in turn.answers] == ["PredictFailed"] * 2
        assert predictor.is_leaving


def test_times_are_told_for_each_step():
    turn = loaded(service_of(echo)).predictor.answer([item(1)])

    assert all(0 <= seconds < math.inf for seconds in turn.times)


def test_steps_that_are_not_overridden_are_not_called(monkeypatch):
    from servekit import Service

    service = service_of(echo)
    monkeypatch.setattr(type(service), "postprocess", Service.postprocess)

    assert loaded(service).predictor.postprocess is None


def test_what_is_late_or_abandoned_never_reaches_predict():
    calls = []
    predictor = loaded(service_of(lambda self, batch: calls.append(batch) or batch)).predictor
    ours = Cancelled(8)
    with ours.descriptor() as descriptor:
        cancelled = CancelledReader(os.dup(descriptor))
    ours.mark(7, 1)
    items = [item(0, deadline=monotonic() - 1), item(1), item(2)]
    found = predictor.answer(items, 7, cancelled).answers
    predictor.answer([item(3), item(4)], 8, cancelled)

    assert [name for name, _, _ in found] == ["DeadlineExceeded", "ClientGone", ""]
    assert calls == [[2], [3, 4]]


def watching(seen, signature=None):
    """Return a predictor of a service that notes the requests it has, and its context."""
    table = CodecTable(create_plugin_manager(discover=False))
    current = CurrentBatch(BodyReaders(table))
    service = service_of(lambda self, batch: seen.append(current.requests()) or batch)
    service.signature = signature
    return assemble(service, table, current).predictor, current


def test_the_requests_of_a_batch_stand_in_the_order_of_its_inputs():
    seen = []
    predictor, current = watching(seen)
    ids = ["a", "bad", "c"]
    bodies = [b"1", b"{", b"3"]
    predictor.answer([item(b, request_id=i) for b, i in zip(bodies, ids, strict=True)])

    ((first, second),) = seen
    assert [first.request_id, second.request_id] == ["a", "c"]
    assert (second.body, second.input, second.content_type) == (b"3", 3, "application/json")
    assert current.requests() == []


def test_inputs_of_different_shapes_each_have_their_own_requests():
    seen = []
    signature = {
        "inputs": [{"name": "x", "dtype": "float32", "shape": [-1]}],
        "outputs": [{"name": "x", "dtype": "float32", "shape": [-1]}],
    }
    predictor, _ = watching(seen, signature)
    values = {"a": [1], "b": [1, 2], "c": [3]}
    predictor.answer([item({"x": x}, request_id=name) for name, x in values.items()])

    assert sorted([request.request_id for request in call] for call in seen) == [["a", "c"], ["b"]]


@pytest.mark.parametrize(
    ("deadline_s", "is_cancelled"), [(-1.0, True), (60.0, False), (math.inf, False)]
)
def test_a_request_is_cancelled_when_its_deadline_has_passed(deadline_s, is_cancelled):
    request = Request("text/plain", b"", "r", bytes, monotonic() + deadline_s)

    assert request.is_cancelled is is_cancelled
    assert (request.remaining_s > 0) is not is_cancelled
