# SPDX-License-Identifier: Apache-2.0
"""Ties the life of a process to its parent's: no orphan survives the supervisor."""

import ctypes
import os
import signal

__all__ = ["die_with_parent"]

PR_SET_PDEATHSIG = 1  # prctl(2)


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies. Linux only.

    :param parent: the pid that started this process, which exits if that has ended already.
    """
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
