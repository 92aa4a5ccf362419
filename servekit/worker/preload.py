# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.worker.preload LABEL --parent PID --control FD --listener FD``.

Imports a service once, and forks workers that have it imported. Runs in: a preloaded parent, which
has one thread and never loads the service. *listener* is the socket that asks for workers.
"""

import gc
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

import msgspec

from servekit.ipc.channel import FrameReader, encode_frame
from servekit.ipc.control import Launch
from servekit.ipc.preloading import PID_BYTES, Fork, NotPreloaded, Preloaded
from servekit.system.parent_death import die_with_parent
from servekit.worker.__main__ import parse, run
from servekit.worker.process.setup import LEFT, forbid_core_dumps, leave, own_socket

if TYPE_CHECKING:
    from servekit.worker.boot.loading import Loading

MOST_BYTES = 1 << 20  #: the size limit of a ``Fork``
DESCRIPTORS = 3
ADOPTED_S = 5.0  #: the longest wait until the supervisor is the parent of a worker


def main() -> int:
    """Import, and fork until the supervisor closes the socket; return the exit status."""
    arguments = parse()
    die_with_parent(arguments.parent)
    control, forks = (own_socket(fd) for fd in (arguments.control, arguments.listener))
    reader: FrameReader[Launch] = FrameReader(control, Launch)
    try:
        while not (launches := reader.read()):
            pass
    except OSError:
        return LEFT
    started = monotonic()
    if problem := preload(launches[0]):
        control.sendall(encode_frame(NotPreloaded(problem)))
        return LEFT
    control.sendall(encode_frame(Preloaded(monotonic() - started)))
    while (request := receive(forks)) is not None:
        fork, descriptors = request
        if (pid := fork_worker()) == 0:
            control.close()
            forks.close()
            return be_worker(fork, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        forks.send(pid.to_bytes(PID_BYTES))
    return LEFT


def preload(launch: Launch) -> str:
    """Import what a worker needs for *launch*; return why it may not fork, or ""."""
    from servekit.worker.boot.loading import import_services, loading_of
    from servekit.worker.serving import batch_server  # noqa: F401 - each worker needs it

    if launch.is_secret:
        forbid_core_dumps()
    loading: Loading = loading_of(launch)
    try:
        import_services(loading)
    except BaseException as error:  # noqa: BLE001 - a module may raise anything
        return f"{type(error).__name__}: {error}"
    threads = len(list(Path("/proc/self/task").iterdir())) - 1
    if threads:
        return f"its imports start threads ({threads}), which a fork does not copy"
    gc.collect()
    gc.freeze()  # the collector of a worker writes to no shared page
    return ""


def receive(forks: socket.socket) -> tuple[Fork, list[int]] | None:
    """Wait for a request; ``None``: there will be no more."""
    packet, descriptors, _, _ = socket.recv_fds(forks, MOST_BYTES, DESCRIPTORS)
    return (msgspec.json.decode(packet, type=Fork), descriptors) if packet else None


def fork_worker() -> int:
    """Fork a process that is nobody's child here, and leads a session; return its pid, or 0 in it.

    The process in between ends at once, so that the supervisor adopts the worker.
    """
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        if os.fork():
            os._exit(0)
        os.setsid()
        os.write(writing, os.getpid().to_bytes(PID_BYTES))
        os.close(reading)
        os.close(writing)
        return 0
    os.close(writing)
    os.waitpid(between, 0)
    pid = int.from_bytes(os.read(reading, PID_BYTES))
    os.close(reading)
    return pid


def be_worker(fork: Fork, control: int, listener: int, output: int) -> int:
    """Run a worker as if it had been started; return the exit status."""
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    os.environ.clear()
    os.environ.update(fork.environment)
    deadline = monotonic() + ADOPTED_S
    while os.getppid() != fork.parent and monotonic() < deadline:
        sleep(0.001)
    if (random := sys.modules.get("numpy.random")) is not None:
        with suppress(Exception):
            random.seed()  # otherwise all workers draw the same numbers
    return run(fork.parent, control, listener)


if __name__ == "__main__":
    leave(main())
