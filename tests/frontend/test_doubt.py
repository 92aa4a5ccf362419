# SPDX-License-Identifier: Apache-2.0
"""A worker that breaks the protocol: its channel is closed, it is reported, nobody hangs."""

import select
from contextlib import ExitStack

import pytest

from servekit.ipc.batches import Hello, Reply, Slab
from servekit.ipc.channel import HEADER, encode_frame
from servekit.ipc.control import Hung, Lost
from servekit.ipc.table import ReplicaRow

from .clients import Clients, hold_one, next_batch
from .conftest import WAIT_S, FrontEndUnderTest, ScriptedWorker, receive

OK = ("", "application/json", b"1")


def reply(batch, *answers):
    return encode_frame(Reply(batch, list(answers), 0.0, 0.0, 0.0))


SAYS = {
    "a frame of 4 GB": lambda batch: HEADER.pack(2**32 - 1),
    "what is no message": lambda batch: HEADER.pack(4) + b"\xc1\xc1\xc1\xc1",
    "the answers of an unknown batch": lambda batch: reply(batch + 1000, OK),
    "the answers of an earlier batch": lambda batch: reply(batch - 1, OK),
    "the answers twice": lambda batch: reply(batch, OK) * 2,
    "no answer": lambda batch: reply(batch),
    "an answer too many": lambda batch: reply(batch, OK, OK),
    "an answer outside its arena": lambda batch: reply(batch, ("", "a/b", Slab(2**62, 1))),
    "an error that does not decode": lambda batch: reply(batch, ("InputError", "", b"{")),
    "an error of another shape": lambda batch: reply(batch, ("InputError", "", b'{"errors":[1]}')),
    "a media type with a line end": lambda batch: reply(batch, ("", "a/b\r\nX: y", b"1")),
    "its greeting twice": lambda batch: encode_frame(Hello(1)),
}


@pytest.fixture(scope="module")
def front_end(tmp_path_factory):
    made = FrontEndUnderTest(tmp_path_factory.mktemp("run"))
    yield made
    made.worker.close()
    made.stop()


def replace_worker(front_end):
    """Fill the replica with a worker that keeps to the protocol."""
    generation = front_end.worker.generation + 1
    front_end.worker.close()
    front_end.worker = ScriptedWorker(front_end.run_dir / str(generation), generation)
    address = str(front_end.worker.address)
    front_end.publish(replicas=[ReplicaRow(0, generation, address, "serving")])
    assert front_end.worker.greeted.wait(WAIT_S), "the front-end did not open a channel"


@pytest.mark.parametrize("says", SAYS.values(), ids=SAYS)
def test_worker_in_doubt_is_cut_off_and_nobody_waits_for_ever(front_end, says):
    with ExitStack() as stack:
        clients = Clients(front_end, stack)
        first = hold_one(front_end, clients)
        front_end.worker.channel.sendall(says(front_end.worker.held[0]))
        status, headers, _ = receive(first)
        assert (status, headers.get("retry-after")) in ((503, "1"), (200, None))
        if status == 503:
            lost = front_end.hear()
            assert isinstance(lost, Lost)
            assert [each.request_id for each in lost.requests] == [headers["x-request-id"]]
        assert_closed(front_end.worker.channel)
        replace_worker(front_end)

        assert receive(clients.send(b"next"))[::2] == (200, b"next")
        next_batch(front_end.worker)


def assert_closed(channel):
    """Wait until the other end has closed *channel*, whose reader is the scripted worker."""
    poll = select.poll()
    poll.register(channel, select.POLLHUP)
    assert channel.fileno() < 0 or poll.poll(WAIT_S * 1e3), "the channel is still open"


def test_worker_that_was_cut_off_and_lives_on_is_reported(start):
    front_end = start()
    front_end.worker.channel.sendall(SAYS["a frame of 4 GB"](1))
    hung = front_end.hear()

    assert isinstance(hung, Hung)
    assert (hung.replica, hung.generation, hung.reason) == (0, 1, "closed its channel")
