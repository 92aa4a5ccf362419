# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.worker LABEL --parent PID --control FD --listener FD``.

The life of a worker, top to bottom: ``Launch`` arrives on *control*, the service is loaded,
``Ready`` is sent, front-ends connect to *listener* and send batches. ``Stop``, or the end of
*control*, ends the worker. A rank above 0 follows rank 0 instead. LABEL only shows in ``ps``.
"""

import argparse
import gc
import socket
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.ipc.channel import FrameReader, encode_frame
from servekit.ipc.control import Launch, Leaving, Ready, Retire, Stop
from servekit.system.parent_death import die_with_parent
from servekit.worker.process.log import boot_failed, report
from servekit.worker.process.setup import (
    BOOT_FAILED,
    LEFT,
    LEFT_BY_SERVICE,
    become_worker,
    forbid_core_dumps,
    leave,
    limit,
    on_fork,
    own_socket,
    pin,
)
from servekit.worker.process.tracebacks import reason_of

if TYPE_CHECKING:
    from servekit.worker.serving.batch_server import BatchServer
    from servekit.worker.serving.loaded import Loaded

__all__ = ["main", "parse", "run"]


def main() -> int:
    """Run the worker, and return the exit status."""
    arguments = parse()
    return run(arguments.parent, arguments.control, arguments.listener)


def parse() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(prog="servekit.worker")
    parser.add_argument("label")
    for name in ("--parent", "--control", "--listener"):
        parser.add_argument(name, type=int, required=True)
    return parser.parse_args()


def run(parent: int, *descriptors: int) -> int:
    """Run a worker of *parent*, and return the exit status.

    :param descriptors: of the control channel and of the listener.
    """
    die_with_parent(parent)
    become_worker()
    control, listener = (own_socket(fd) for fd in descriptors)
    reader: FrameReader[Any] = FrameReader(control, Launch | Stop | Retire)
    try:
        while not (messages := reader.read()):
            pass
    except OSError:
        return LEFT
    if len(messages) > 1:  # stopped before it began
        return LEFT
    return serve(messages[0], control, reader, listener)


def serve(
    launch: Launch, control: socket.socket, reader: FrameReader[Any], listener: socket.socket
) -> int:
    """Boot, answer batches, close; return the exit status."""
    from servekit.worker.boot.loading import load_service, loading_of
    from servekit.worker.boot.proof import prove

    started = monotonic()
    on_fork(control.close)
    on_fork(listener.close)
    if launch.rank:
        listener.close()
    try:
        pin(launch.cpus)
        limit(launch.memory_bytes, launch.files)
        if launch.is_secret:
            forbid_core_dumps()
        loading = loading_of(launch)
        loaded = load_service(loading)
        if not launch.rank:
            prove(loaded, loading)
    except BaseException as error:  # noqa: BLE001 - an author's load may raise anything
        control.sendall(encode_frame(boot_failed(error, launch.directory)))
        return BOOT_FAILED
    gc.collect()
    gc.freeze()  # the service stays loaded, so the collector can skip it
    if launch.rank:
        control.sendall(encode_frame(Ready(loaded.interface, monotonic() - started)))
        return follow(loaded, control, launch.directory)
    server = server_of(loaded, control, reader, listener, launch)
    on_fork(server.forsake)
    colocated = {name: each.interface for name, each in loaded.colocated.items()}
    control.sendall(encode_frame(Ready(loaded.interface, monotonic() - started, colocated)))
    status = server.run()
    if status == LEFT_BY_SERVICE:
        with suppress(OSError):  # the service closed it
            control.sendall(encode_frame(Leaving("its service called sys.exit")))
    loaded.close()
    return status


def follow(loaded: "Loaded", control: socket.socket, directory: str) -> int:
    """Let the service take part in what rank 0 does; return the exit status once it does not."""
    reason = "its follow() returned"
    try:
        loaded.call(loaded.service.follow)
    except BaseException as error:  # noqa: BLE001 - an author's follow may raise anything
        report("follow failed", error)
        reason = f"follow failed: {reason_of(error, directory)}"
    with suppress(OSError):
        control.sendall(encode_frame(Leaving(reason)))
    loaded.close()
    return LEFT_BY_SERVICE


def server_of(loaded: "Loaded", *arguments: Any) -> "BatchServer":
    """Return the server of *loaded*, which answers batches, streams, or runs coroutines."""
    if loaded.loop is not None:
        from servekit.worker.serving.async_server import AsyncServer  # imports asyncio

        return AsyncServer(loaded.loop, loaded, *arguments)
    from servekit.worker.serving.batch_server import BatchServer

    if not loaded.steppings:
        return BatchServer(loaded, *arguments)
    from servekit.worker.serving.stream_server import StreamServer

    return StreamServer(loaded, *arguments)


if __name__ == "__main__":
    leave(main())
