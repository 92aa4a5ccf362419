# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.supervisor.preparing PARENT CONTROL``: the prepare child.

It is a separate process because it runs plugin code and reads archives that may be hostile. It
answers one request over the descriptor CONTROL; its output is for people.
"""

import os
import sys

from servekit.ipc.channel import ChannelClosed, encode_frame
from servekit.supervisor.os.child_side import receive_request
from servekit.supervisor.preparing.messages import PrepareOutcome, PrepareRequest
from servekit.supervisor.preparing.prepare import answer

__all__ = ["main"]


def main() -> int:
    """Answer the one request that comes over the control descriptor."""
    try:
        control, request = receive_request(PrepareRequest)
    except ChannelClosed:
        return 1

    def tell(step: str) -> None:
        control.sendall(encode_frame(PrepareOutcome(step=step)))

    outcome = answer(request, tell)
    control.sendall(encode_frame(outcome))
    return 1 if outcome.error else 0


if __name__ == "__main__":
    exit_status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_status)  # the supervisor waits for our end; a clean one takes 15 ms
