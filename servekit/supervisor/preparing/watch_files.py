# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.supervisor.preparing.watch_files PARENT CONTROL``: the watch child.

Reports when the files of a model change. It polls them, which works on every file system, in a
separate process, since a large directory takes long.
"""

import os
import socket
from pathlib import Path
from select import select

from servekit_archiver import ArchiveError

from servekit.ipc.channel import ChannelClosed, encode_frame
from servekit.supervisor.os.child_side import receive_request
from servekit.supervisor.preparing.messages import FileChanged, WatchBegan, WatchFiles
from servekit.supervisor.preparing.stamping import stamp

__all__ = ["main"]

POLL_S = 0.1
CALM_S = 0.05  #: without a change, before one is reported: a save can take several steps


def main() -> int:
    """Watch the paths that come over the control descriptor, until it is closed."""
    try:
        control, request = receive_request(WatchFiles)
        watch([Path(path) for path in request.paths], control)
    except (ChannelClosed, BrokenPipeError):
        pass
    return 0


def watch(paths: list[Path], control: socket.socket) -> None:
    """Report each path whose content changes, until the supervisor has ended."""
    known = [safe_stamp(path) for path in paths]
    control.sendall(encode_frame(WatchBegan()))
    while not wait(control, POLL_S):
        for place, path in enumerate(paths):
            if (found := safe_stamp(path)) != known[place]:
                while not wait(control, CALM_S) and found != (again := safe_stamp(path)):
                    found = again
                known[place] = found
                control.sendall(encode_frame(FileChanged(place)))


def safe_stamp(path: Path) -> str:
    """Return the stamp of *path*, or the error if it cannot be read."""
    try:
        return stamp(path)
    except (OSError, ArchiveError) as error:
        return str(error)


def wait(control: socket.socket, seconds: float) -> bool:
    """Wait, and return whether the supervisor has ended."""
    return bool(select([control], [], [], seconds)[0])


if __name__ == "__main__":
    os._exit(main())
