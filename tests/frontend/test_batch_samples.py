# SPDX-License-Identifier: Apache-2.0
"""Samples of batches reach the observer, few enough, and harm nothing when it is not there."""

import socket
from types import SimpleNamespace

import msgspec
import pytest

from servekit.extension import BatchServed
from servekit.frontend.batching.samples import BatchSamples, statuses_of
from servekit.frontend.tracing.observer_port import ObserverPort
from servekit.ipc.batches import Reply

ROW = SimpleNamespace(name="m", version="1.0", stage="a", label="m:a")


def batch_of(size, deadline=100.0):
    owner = SimpleNamespace(row=ROW, tracer=None)
    return [SimpleNamespace(owner=owner, arrived=1.0, deadline=deadline) for _ in range(size)]


def reply_to(batch, **more):
    return Reply(1, [("", "", b"")] * len(batch), 0.1, 0.2, 0.3, **more)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "observer.sock"


@pytest.fixture
def observer(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(10)
        yield listener


@pytest.fixture
def samples(path, monkeypatch):
    monkeypatch.setattr("servekit.frontend.tracing.observer_port.RETRY_S", 0.0)
    port = ObserverPort(path)
    yield BatchSamples(port)
    port.close()


def read(connection):
    connection.settimeout(10)
    (event,) = msgspec.msgpack.decode(connection.recv(1 << 16), type=list[BatchServed])
    return event


def test_a_stage_is_sampled_ten_times_a_second(samples, observer):
    batch = batch_of(3)
    for now in (5.0, 5.02, 5.04, 5.11):
        samples.note(batch, reply_to(batch), 2, 1.5, now)
    with observer.accept()[0] as connection:
        first, second = read(connection), read(connection)

    assert (first.model, first.version, first.stage, first.replica) == ("m", "1.0", "a", 2)
    assert (first.size, first.batches, first.statuses) == (3, 1, {200: 3})
    assert (first.queue_s, first.decode_s, first.predict_s, first.encode_s) == (0.5, 0.1, 0.2, 0.3)
    assert second.batches == 3


def test_batches_count_on_where_there_is_no_observer(samples, path, observer):
    other = path.rename(path.with_name("away"))
    batch = batch_of(1)
    samples.note(batch, reply_to(batch), 0, 1.0, 5.0)
    other.rename(path)
    samples.note(batch, reply_to(batch), 0, 1.0, 6.0)
    with observer.accept()[0] as connection:
        assert read(connection).batches == 2


def test_after_the_end_of_an_observer_the_next_one_is_reached_at_once(samples, observer):
    batch = batch_of(1)
    samples.note(batch, reply_to(batch), 0, 1.0, 5.0)
    observer.accept()[0].close()
    samples.note(batch, reply_to(batch), 0, 1.0, 6.0)
    with observer.accept()[0] as connection:
        assert read(connection).batches == 1


def test_an_observer_that_does_not_read_costs_nothing(samples, observer):
    batch = batch_of(1)
    for now in range(5000):
        samples.note(batch, reply_to(batch), 0, 1.0, float(now))


def test_statuses():
    batch = [*batch_of(4), *batch_of(1, deadline=2.0)]
    answers = [("", "", b""), ("InputError", "", b"{}"), ("PredictFailed", "", b"{}"),
               ("", "", b""), ("", "", b"")]  # fmt: skip
    reply = Reply(1, answers, 0.0, 0.0, 0.0, responses={3: (201, [])})

    assert statuses_of(batch, reply, 3.0) == {200: 1, 422: 1, 500: 1, 201: 1, 504: 1}
