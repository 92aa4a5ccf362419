# SPDX-License-Identifier: Apache-2.0
"""Predictions beside streams, in a real worker process with one front-end or two."""

import json
import math

import pytest

from servekit.ipc.batches import ALIVE_S, Open, Parts, SlotsReply
from tests.worker.worker_process import item


@pytest.fixture
def worker(start):
    return start("beside:Beside").boot()


def send(channel, stream, **order):
    channel.send(Open(stream, stream - 1, item(order), math.inf))


def receive_reply(channel):
    """Return the next reply to a batch; signs of life come before it or with it."""
    while True:
        for message in channel.receive_some():
            if isinstance(message, SlotsReply):
                return message
            assert message == Parts([])


def leave(channel, stream):
    channel.cancelled.mark(stream, stream - 1)


def test_another_front_end_hears_of_the_worker_after_each_batch(worker):
    """It may wait for its own, and takes a worker that is silent for too long for hung."""
    channel, other = worker.connect(), worker.connect()
    for stream in (1, 2):
        send(channel, stream, wait_s=2 * ALIVE_S)
        receive_reply(channel)
        assert other.receive_some() == [Parts([])]


def test_a_prediction_is_told_that_its_client_has_left(worker):
    channel = worker.connect()
    send(channel, 1, name="a", wait_s=1000)
    worker.wait_for_log("began a")
    leave(channel, 1)
    ((_, _, body),) = receive_reply(channel).answers

    assert json.loads(body)["prediction"] is True


def test_a_request_whose_client_left_while_it_waited_is_not_predicted(worker):
    channel = worker.connect()
    send(channel, 1, name="a", wait_s=1000)
    worker.wait_for_log("began a")
    send(channel, 2, name="gone")
    send(channel, 3, name="here")
    leave(channel, 2)
    leave(channel, 1)
    worker.wait_for_log("began here")

    assert "began gone" not in worker.log.read_text()


def test_a_worker_that_exits_says_which_request_it_has_taken_last(worker):
    channel, other = worker.connect(), worker.connect()
    send(channel, 1, name="a", wait_s=1.0, exits=True)
    worker.wait_for_log("began a")
    send(channel, 2, name="too late")
    reply, last = channel.receive_many(2)

    assert (reply.streams, reply.is_last, last) == ([1], True, Parts([], taken=1))
    assert other.receive() == Parts([], taken=0)
    assert worker.wait() == 1
    assert "too late" not in worker.log.read_text()
