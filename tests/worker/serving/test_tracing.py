# SPDX-License-Identifier: Apache-2.0
"""What workers record of traced requests, in real processes."""

import math

import pytest

from servekit.ipc.batches import Open
from tests.worker.worker_process import item, parts_of, run

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TRACE = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
OTHER = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"}


def tree(trace):
    """Return the names of spans and of their parents, in the order in which they began."""
    names = {each.id: each.name for each in trace.spans} | {trace.id: ""}
    began = sorted(trace.spans, key=lambda each: each.start_s)
    return [(each.name, names[each.parent]) for each in began]


@pytest.fixture
def ask(start):
    """Return what sends requests to slots, and returns the traces of their ends."""

    def ask_slots(service, *items):
        channel = start(service).boot().connect()
        for number, each in enumerate(items, 1):
            channel.send(Open(number, number - 1, each, math.inf))
        found = {}
        while len(found) < len(items):
            for message in channel.receive_some():
                ends = [part for part in parts_of(message) if part.end is not None]
                found |= {part.stream: part.trace for part in ends}
        return [found[number] for number in sorted(found)]

    return ask_slots


def test_a_batch_with_a_traced_member_brings_its_spans_back(start):
    channel = start("spans:Tokenizes").boot().connect()
    channel.predict(item("a"), item("b", headers=OTHER))
    assert channel.reply.trace is None

    channel.predict(item("a"), item("b", headers=TRACE))
    trace = channel.reply.trace
    assert tree(trace) == [("prepare", ""), ("tokenize", "prepare"), ("thread", "prepare")]
    (prepared,) = [each for each in trace.spans if each.name == "prepare"]
    assert prepared.attributes == {"inputs": 2, "tokens": 12}

    ((error, _),) = channel.predict(item("fail", headers=TRACE))
    assert error == "PredictFailed"
    assert channel.reply.trace.spans[-1].attributes == {"error.type": "ValueError"}
    channel.predict(item("a"))
    assert channel.reply.trace is None


def test_stages_that_share_a_worker_are_told_apart(start):
    worker = start("spans:Tokenizes", colocated={"double": "spans:Doubles"}).boot()
    channel = worker.connect()
    calls = run("host", "double")
    channel.predict(item("a", headers=TRACE, calls=calls))

    stages = {each.name: each.stage for each in channel.reply.trace.spans}
    assert stages == {"tokenize": "host", "thread": "host", "prepare": "host", "double": "double"}


def test_each_stream_has_its_own_spans(ask):
    first, none, second = ask(
        "spans:Generator",
        item({"to": 2}, headers=TRACE),
        item({"to": 2}),
        item({"to": 1}, headers=TRACE),
    )

    assert none is None
    assert tree(first) == [("all", ""), ("one", "all"), ("one", "all")]
    assert tree(second) == [("all", ""), ("one", "all")]
    assert first.id != second.id


@pytest.mark.parametrize("service", ["spans:Slots", "spans:AsyncSlots"])
def test_a_step_belongs_to_all_traced_members(ask, service):
    first, none, second = ask(
        service, item({"to": 3}, headers=TRACE), item({"to": 9}), item({"to": 4}, headers=TRACE)
    )

    assert none is None
    assert [each.name for each in first.spans].count("step") == 3
    assert [each.name for each in second.spans].count("step") == 4
    assert {each.parent for each in second.spans} == {second.id}


def test_coroutines_do_not_mix_their_spans(ask):
    found = ask("spans:Coroutines", *[item(n, headers=TRACE) for n in range(4)], item(4))

    assert found[4] is None
    for number, trace in enumerate(found[:4]):
        assert tree(trace) == [("wait", ""), ("thread", "wait")]
        assert trace.spans[-1].attributes == {"value": number}
