# SPDX-License-Identifier: Apache-2.0
"""The other end of the control channel, in a process that ``module_child`` starts."""

import socket
import sys
from typing import TypeVar

from servekit.ipc.channel import FrameReader
from servekit.system.parent_death import die_with_parent

__all__ = ["receive_request"]

Request = TypeVar("Request")


def receive_request(kind: type[Request]) -> tuple[socket.socket, Request]:
    """Return the control channel of this process, and the one request that comes over it.

    From now on this process ends with the supervisor.

    :raises ChannelClosed: the supervisor has ended.
    """
    parent, descriptor = (int(number) for number in sys.argv[1:])
    die_with_parent(parent)
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    reader: FrameReader[Request] = FrameReader(control, kind)
    while not (requests := reader.read()):
        pass
    return control, requests[0]
