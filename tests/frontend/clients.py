# SPDX-License-Identifier: Apache-2.0
"""Clients of a front-end under test, and what its scripted worker gets."""

import contextlib
import fcntl
import os
import signal
import struct
import termios
from pathlib import Path

from servekit.frontend.metrics.families import collect
from servekit.ipc.model_counters import Label
from tests.waiting import wait_until

from .conftest import WAIT_S, post

ECHO = (Label("echo", "1.0"),)  #: what a front-end under test counts


class Clients:
    """Open connections that each have sent one request."""

    def __init__(self, front_end, stack):
        self.front_end, self.stack = front_end, stack

    def send(self, body, *headers):
        sock = self.stack.enter_context(self.front_end.connect())
        sock.sendall(post(body, *headers))
        return sock


def bodies(batch):
    return [item.body for item in batch]


def next_batch(worker):
    return worker.batches.get(timeout=WAIT_S)


def forget_batches(worker):
    while not worker.batches.empty():
        worker.batches.get_nowait()


def hold_one(front_end, clients):
    """Keep the worker busy with one request and return its connection."""
    front_end.worker.is_holding = True
    first = clients.send(b"first")
    assert bodies(next_batch(front_end.worker)) == [b"first"]
    return first


def wait_for_queue(front_end, tasks):
    """Wait until the front-end counts so many waiting tasks."""

    def waiting():
        families = {family.name: family for family in collect(front_end.counters, ECHO)}
        return families["servekit_tasks_waiting"].samples[0].value

    wait_until(lambda: waiting() == tasks, f"{tasks} tasks in the queue")


@contextlib.contextmanager
def paused(front_end):
    """Stop the front-end meanwhile: it finds all that is sent at once."""
    os.kill(front_end.pid, signal.SIGSTOP)
    try:
        stat = Path(f"/proc/{front_end.pid}/stat")
        wait_until(lambda: ") T " in stat.read_text(), "the front-end is stopped")
        yield
    finally:
        os.kill(front_end.pid, signal.SIGCONT)


def wait_until_arrived(sock):
    """Wait until the other end of *sock* has all that was sent, though it may not have read it."""

    def unacknowledged():
        return struct.unpack("=i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)))[0]

    wait_until(lambda: not unacknowledged(), "the kernel acknowledges what was sent")


def resident(front_end) -> int:
    """Return the bytes that the arenas of the front-end take."""
    blocks = {}  # of each file once: a mapping has a descriptor of its own
    for fd in Path(f"/proc/{front_end.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            if "servekit-arena" in str(fd.readlink()):
                blocks[fd.stat().st_ino] = fd.stat().st_blocks
    return 512 * sum(blocks.values())
