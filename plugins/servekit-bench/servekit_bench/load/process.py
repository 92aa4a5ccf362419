# SPDX-License-Identifier: Apache-2.0
"""One process of the load generator: ``python -m servekit_bench.load.process``.

It reads its plan from stdin, connects, writes ``r`` to stdout, waits for the moment to begin, and
writes its report. The end of stdin, or of its parent, ends it early.
"""

import ctypes
import gc
import signal
import sys
from typing import Final

import msgspec

from servekit_bench.load.client import LoadClient
from servekit_bench.load.loops import create_run
from servekit_bench.load.plan import BEGIN, FAILED, LENGTH, READY, LoadPlan

__all__ = ["main"]

PR_SET_TIMERSLACK: Final = 29


def main() -> None:
    """Do the share of a load that the parent asks for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends stdin
    given, answer = sys.stdin.buffer, sys.stdout.buffer
    (length,) = LENGTH.unpack(given.read(LENGTH.size))
    plan = msgspec.msgpack.decode(given.read(length), type=LoadPlan)
    try:
        client = LoadClient(plan.target, plan.connections, plan.timeout_s)
    except OSError as error:
        answer.write(FAILED + (error.strerror or str(error)).encode())
        return
    answer.write(READY)
    answer.flush()
    begin = given.read(BEGIN.size)
    if len(begin) < BEGIN.size:  # the parent has ended
        return
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)  # wake up when a request is due, not 50 us later
    gc.disable()  # nothing here makes cycles, and pauses would be measured
    run = create_run(client, plan, given.fileno())
    run.run(BEGIN.unpack(begin)[0])
    answer.write(msgspec.msgpack.encode(client.recorder.report(was_stopped=run.was_stopped)))
    answer.flush()
    client.close()


if __name__ == "__main__":
    main()
