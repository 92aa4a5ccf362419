# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.supervisor.store PARENT CONTROL``: the child that reads a model store.

It is a separate process because archives may be hostile, and directories slow. It polls, which
works on every file system.
"""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from select import select

from servekit_archiver import ArchiveError

from servekit.ipc.channel import ChannelClosed, encode_frame
from servekit.supervisor.os.child_side import receive_request
from servekit.supervisor.store.directory import StoreDirectory, read_manifest
from servekit.supervisor.store.messages import ReadStore, StoreContent

__all__ = ["main"]

POLL_S = 0.2  #: between two looks: a file that does not change meanwhile is read


def main() -> int:
    """Read what the request names; with ``is_watched`` until the supervisor has ended."""
    try:
        control, request = receive_request(ReadStore)
        read_store(request, control)
    except (ChannelClosed, BrokenPipeError):
        pass
    return 0


def read_store(request: ReadStore, control: socket.socket) -> None:
    """Send the content, and with ``is_watched`` each later one that is different."""
    directory = StoreDirectory(Path(request.directory))
    remarks = directory.look()
    wait(control)
    remarks += directory.look()
    content = StoreContent(directory.models, remarks, [*names(request.elsewhere)])
    control.sendall(encode_frame(content))
    while request.is_watched and not wait(control):
        remarks = directory.look()
        if remarks or directory.models != content.models:
            content = StoreContent(directory.models, remarks)
            control.sendall(encode_frame(content))


def names(paths: list[str]) -> Iterator[str]:
    """Yield the names of the models at *paths*, without those that cannot be read."""
    for path in paths:
        try:
            yield read_manifest(Path(path)).name
        except (OSError, ArchiveError):
            continue


def wait(control: socket.socket) -> bool:
    """Wait for the next look, and return whether the supervisor has ended."""
    return bool(select([control], [], [], POLL_S)[0])


if __name__ == "__main__":
    os._exit(main())
