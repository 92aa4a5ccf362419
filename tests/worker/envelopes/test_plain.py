# SPDX-License-Identifier: Apache-2.0
"""Requests that envelopes read and write without opening them, beside all others of a batch."""

import json
import math

import numpy as np
import pytest

from servekit import InputError, Response
from servekit.ipc.batches import MethodCall
from servekit.ipc.control import Launch
from servekit.service.endpoints import endpoint
from servekit.worker.envelopes.batch import EnvelopedBatch
from servekit.worker.envelopes.table import EnvelopeTable
from tests.worker.batches import echo, loaded, service_of
from tests.worker.envelopes.test_batches import LARGE, LIMIT, Marks, noting, sent
from tests.worker.worker_process import item

SIGNATURE = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": []}],
}


def run(service, *items, longest=8, cancelled=None):
    """Return the result of one batch, after another one in which the envelopes have been made."""
    made = loaded(service, max_batch_size=longest)
    launch = Launch("", b'{"name":"m","version":"7"}', 0, 1, 1, 1, longest, LIMIT, 0, LARGE)
    table = EnvelopeTable(made.interface, made.codecs, launch)
    for each in items:
        if each.protocol is not None:
            table.open(each)
    return EnvelopedBatch(table, made.methods, longest).answer(items, 1, cancelled)


def plain(body, **parameters):
    return sent(body, "Plain", **parameters)


def answered(service, *items, **keys):
    return [(error or kind, body) for error, kind, body in run(service, *items, **keys).answers]


def test_a_batch_of_plain_requests_and_native_ones_is_one_batch():
    seen = []
    result = run(noting(seen), plain(1), item(2), plain(3))

    assert seen == [[1, 2, 3]]
    assert [body for _, _, body in result.answers] == [b"plain 1", b'{"prediction":2}', b"plain 3"]
    assert (result.sizes, result.responses, result.pieces) == ([], {}, {})


def test_others_are_opened_in_the_same_batch():
    seen = []
    found = answered(noting(seen), plain(1), plain([2, 3]), item(4), sent([5]), plain(6))

    assert seen == [[1, 2, 3, 4, 5, 6]]
    assert [body for _, body in found] == [
        *(b"plain 1", b"[2,3]", b'{"prediction":4}', b"[5]", b"plain 6")
    ]


@pytest.mark.parametrize("others", [[], [[1, 2]]])
def test_errors_concern_their_request_alone(others):
    def predict(self, batch):
        return [InputError("no") if each == 2 else each for each in batch]

    late = plain(5)
    late.deadline = -math.inf
    items = [plain(1), plain(2), plain(3), late, *map(sent, others)]
    found = answered(service_of(predict), *items, cancelled=Marks(2))

    assert [name for name, _ in found[:4]] == [
        *("application/json", "InputError", "ClientGone", "DeadlineExceeded")
    ]


def test_a_batch_that_fails():
    def predict(self, batch):
        raise ValueError

    assert [name for name, _ in answered(service_of(predict), plain(1), plain(2))] == [
        "PredictFailed"
    ] * 2


@pytest.mark.parametrize(
    ("body", "parameters"),
    [
        pytest.param([1], {"decode": "fail"}, id="reading fails"),
        pytest.param(1, {"encode": "fail"}, id="writing fails"),
        pytest.param(1, {"encode": "none"}, id="writing is left"),
    ],
)
def test_what_is_not_done_is_done_by_the_other_methods(body, parameters):
    ((kind, answer), _) = answered(service_of(echo), plain(body, **parameters), plain(2))

    assert (kind, answer) == ("application/json", b"[1]")


def test_a_whole_response():
    result = run(service_of(echo), plain(1), plain(2, encode="whole"))

    assert result.answers[1] == ("", "a/b", b"ab")
    assert result.responses == {1: (200, [("x-own", "1")])}


def test_a_response_of_the_service():
    def predict(self, batch):
        return [Response(each, 201) for each in batch]

    result = run(service_of(predict), plain(1))

    assert result.answers == [("", "application/json", b"[1]")]
    assert result.responses == {0: (201, [])}


@pytest.mark.parametrize(("size", "is_large"), [(LARGE - 8, False), (LARGE, True)])
def test_large_responses_go_by_shared_memory(size, is_large):
    result = run(service_of(echo), plain(1, encode=str(size)))
    ((_, _, body),) = result.answers

    assert bytes(result.pieces[0] if is_large else body) == b"plain 1" + bytes(size)


def test_a_response_may_be_too_large():
    assert answered(service_of(echo), plain(1, encode=str(LIMIT)))[0][0] == "ResultNotEncodable"


@pytest.mark.parametrize("kind", ["head", "text"])
def test_a_response_that_is_none_fails_alone(kind, capfd):
    found = answered(service_of(echo), plain(1, encode=kind), plain(2))

    assert [found[0][0], found[1]] == ["ResultNotEncodable", ("application/json", b"plain 2")]
    assert "Plain.encode_plain failed" in capfd.readouterr().err


def test_endpoints():
    service = service_of(echo, twice=endpoint("twice")(lambda self, batch: [2 * x for x in batch]))

    found = answered(service, plain(1, calls=[MethodCall(method="twice")]), plain(1))
    assert [body for _, body in found] == [b"plain 2", b"plain 1"]


def test_lists_of_a_signature_are_stacked_and_are_the_input_of_their_request():
    seen = []

    def predict(self, batch):
        seen.append((batch["x"].tolist(), batch["x"].dtype))
        return batch["x"].sum(axis=1)

    lists = [plain({"x": [place, 0.5]}, decode="lists") for place in range(2)]
    found = answered(service_of(predict, SIGNATURE), *lists, item({"x": [7, 8]}))

    assert seen == [([[0.0, 0.5], [1.0, 0.5], [7.0, 8.0]], np.float32)]
    assert [json.loads(body) for _, body in found] == [[0.5], [1.5], {"prediction": 15.0}]


def test_lists_reach_a_service_that_takes_single_inputs():
    seen = []

    def preprocess(self, request):
        seen.append(request.input)
        return request.input

    service = service_of(
        lambda self, batch: batch["x"].sum(axis=1), SIGNATURE, preprocess=preprocess
    )
    found = answered(service, plain({"x": [1, 2]}, decode="lists"))

    assert seen == [{"x": [1, 2]}]
    assert found == [("application/json", b"[3.0]")]
