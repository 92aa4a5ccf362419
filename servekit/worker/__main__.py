# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.worker LABEL --parent PID --control FD --listener FD``.

The life of a worker, top to bottom: ``Launch`` comes in on *control*, the service is
loaded, ``Ready`` goes out, front-ends connect to *listener* and send batches, ``Stop`` or
the end of *control* ends it. LABEL is for ``ps`` only.
"""

import argparse
import gc
import socket
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.errors import StartupError
from servekit.ipc.channel import FrameReader, encode_frame
from servekit.ipc.control import BootFailed, Launch, Leaving, Ready, Retire, Stop
from servekit.system.parent_death import die_with_parent
from servekit.worker.process.log import report
from servekit.worker.process.process import (
    BOOT_FAILED,
    LEFT,
    LEFT_BY_SERVICE,
    become_worker,
    leave,
    limit,
    on_fork,
    own_socket,
)

if TYPE_CHECKING:
    from servekit.worker.serving.batch_server import BatchServer
    from servekit.worker.serving.loaded import Loaded


def main() -> int:
    """Be a worker, and return the exit status."""
    parser = argparse.ArgumentParser(prog="servekit.worker")
    parser.add_argument("label")
    for name in ("--parent", "--control", "--listener"):
        parser.add_argument(name, type=int, required=True)
    arguments = parser.parse_args()
    die_with_parent(arguments.parent)
    become_worker()
    control, listener = (own_socket(fd) for fd in (arguments.control, arguments.listener))
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
    from servekit.worker.boot.booting import boot, reason_of

    started = monotonic()
    on_fork(control.close)
    on_fork(listener.close)
    try:
        limit(launch.memory_bytes, launch.files)
        loaded = boot(launch)
    except BaseException as error:  # noqa: BLE001 - an author's load may raise anything
        if cause := error.__cause__ if isinstance(error, StartupError) else error:
            report("", cause)
        control.sendall(encode_frame(BootFailed(reason_of(error, launch.directory))))
        return BOOT_FAILED
    gc.collect()
    gc.freeze()  # what was loaded stays: the collector need not look at it again
    server = server_of(loaded, control, reader, listener, launch)
    on_fork(server.forsake)
    beside = {name: each.interface for name, each in loaded.beside.items()}
    control.sendall(encode_frame(Ready(loaded.interface, monotonic() - started, beside)))
    status = server.run()
    if status == LEFT_BY_SERVICE:
        with suppress(OSError):  # the service closed it
            control.sendall(encode_frame(Leaving("its service called sys.exit")))
    loaded.close()
    return status


def server_of(loaded: "Loaded", *arguments: Any) -> "BatchServer":
    """Return what serves *loaded*: batches, or streams."""
    from servekit.worker.serving.batch_server import BatchServer

    if loaded.stepping is None:
        return BatchServer(loaded, *arguments)
    from servekit.worker.serving.stream_server import StreamServer

    return StreamServer(loaded.stepping, loaded, *arguments)


if __name__ == "__main__":
    leave(main())
