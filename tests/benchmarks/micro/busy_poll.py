# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.micro.busy_poll``: a message to a worker and back, in microseconds.

The worker waits as ``BusyPoll`` does, or always asleep; the next message comes so long after the
answer. Alternating; medians of several rounds. CPU is that of the worker for each message.
"""

import os
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter, process_time

from servekit.ipc.busy_times import BUSY_S
from servekit.worker.serving.busy_poll import BusyPoll

ROUNDS = 7
MESSAGES = 5000
PAUSES_US = (20, 100, 150, 400)
END = b"e"


def answer(sock: socket.socket, wait: Callable[[], object]) -> float:
    """Answer the messages of *sock* until the last one; return the seconds of CPU that it took."""
    began = process_time()
    while True:
        wait()
        if sock.recv(1) == END:
            return process_time() - began
        sock.send(b"a")


@contextmanager
def worker(*, is_awake: bool) -> Iterator[socket.socket]:
    """Yield the socket of a process that answers; END gets its seconds of CPU."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        ours.close()
        poll = select.poll()
        poll.register(theirs, select.POLLIN)
        wait = BusyPoll(poll, BUSY_S).wait if is_awake else poll.poll
        theirs.send(str(answer(theirs, wait)).encode())
        os._exit(0)
    theirs.close()
    with ours:
        yield ours
    os.waitpid(child, 0)


def measure(pause_us: int, *, is_awake: bool) -> tuple[float, float]:
    """Return the seconds for a message, there and back, and those of CPU of the worker."""
    took_s = 0.0
    with worker(is_awake=is_awake) as sock:
        for _ in range(MESSAGES):
            sent = perf_counter()
            sock.send(b"q")
            sock.recv(1)
            answered = perf_counter()
            took_s += answered - sent
            while perf_counter() < answered + pause_us / 1e6:
                pass
        sock.send(END)
        return took_s / MESSAGES, float(sock.recv(64)) / MESSAGES


def main() -> None:
    """Print both ways for each pause."""
    for pause_us in PAUSES_US:
        found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        for _ in range(ROUNDS):
            for is_awake, each in found.items():
                each.append(measure(pause_us, is_awake=is_awake))
        for is_awake, each in found.items():
            took_us, cpu_us = (median(times) * 1e6 for times in zip(*each, strict=True))
            way = "awake" if is_awake else "asleep"
            print(f"pause {pause_us:3} us, {way:6} {took_us:5.1f} us, CPU {cpu_us:5.1f} us")


if __name__ == "__main__":
    main()
