# SPDX-License-Identifier: Apache-2.0
"""Does what the input says; ``faults`` lies beside it, see ``tests/services``."""

import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import time

from faults import Fault


def spin():
    """Never end, in Python."""
    while True:
        pass


def hoard():
    """Ask for more memory than there may be."""
    resource.setrlimit(resource.RLIMIT_AS, (2**31, resource.getrlimit(resource.RLIMIT_AS)[1]))
    return bytearray(2**33)


def detach():
    """Start a program in a session of its own that outlives us."""
    return subprocess.Popen(["sleep", "1000"], start_new_session=True).pid


def ignore(number):
    """Ignore a signal from now on."""
    signal.signal(number, signal.SIG_IGN)


KILLERS = {
    "exit 0": lambda: os._exit(0),
    "exit 3": lambda: os._exit(3),
    "segfault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "close descriptors": lambda: os.closerange(3, 1000),
    "spin": spin,
    "spin in C": lambda: re.match("(a+)+$", "a" * 40 + "b"),
    "count in C": lambda: sum(range(10**13)),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "spin, deaf": lambda: (ignore(signal.SIGTERM), spin()),
    "sleep": lambda: time.sleep(1000),
    "sys.exit": lambda: sys.exit(3),
    "hoard": hoard,
    "detach": detach,
    "umask": lambda: os.umask(0o777) * 0,
    "ignore SIGTERM": lambda: ignore(signal.SIGTERM),
    "binary on stdout": lambda: os.write(1, bytes(range(256)) * 100),
    "forged log lines": lambda: print('[METRICS]x\n\x1b[2J\r\n{"level":"x"}'),
}


class Zoo(Fault):
    """A fault for each text; anything else comes back as it is."""

    def predict(self, batch):
        for item in batch:
            if isinstance(item, str) and item in KILLERS:
                KILLERS[item]()
        return super().predict(batch)
