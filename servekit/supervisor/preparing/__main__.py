# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.supervisor.preparing PARENT CONTROL``: the prepare child.

It is a separate process because it runs plugin code and reads archives that may be hostile. It
answers one request over the descriptor CONTROL; its output is for people.
"""

import os
import socket
import sys

from servekit.ipc.channel import ChannelClosed, FrameReader, encode_frame
from servekit.supervisor.preparing.messages import PrepareOutcome, PrepareRequest
from servekit.supervisor.preparing.prepare import answer
from servekit.system.parent_death import die_with_parent

__all__ = ["main"]


def main() -> int:
    """Answer the one request that comes over the control descriptor."""
    parent, descriptor = (int(number) for number in sys.argv[1:])
    die_with_parent(parent)
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    try:
        request = read_request(control)
    except ChannelClosed:
        return 1

    def tell(step: str) -> None:
        control.sendall(encode_frame(PrepareOutcome(step=step)))

    outcome = answer(request, tell)
    control.sendall(encode_frame(outcome))
    return 1 if outcome.error else 0


def read_request(control: socket.socket) -> PrepareRequest:
    """Wait for the request."""
    reader: FrameReader[PrepareRequest] = FrameReader(control, PrepareRequest)
    while not (requests := reader.read()):
        pass
    return requests[0]


if __name__ == "__main__":
    exit_status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_status)  # the supervisor waits for our end; a clean one takes 15 ms
