# SPDX-License-Identifier: Apache-2.0
"""The environment of a child, and the cores it may use."""

import os
from collections.abc import Mapping
from pathlib import Path

from servekit.supervisor.guard import MARK
from servekit.supervisor.user import User

__all__ = ["prepare_environment", "usable_cores", "worker_environment"]

KEPT = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "TZ", "LD_LIBRARY_PATH", MARK}
KEPT_PREFIXES = (
    "LC_", "PYTHON", "CUDA", "NVIDIA", "OMP_", "MKL_", "OPENBLAS_", "HF_", "XDG_",
)  # fmt: skip
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def worker_environment(
    ours: Mapping[str, str], threads: int, own: Mapping[str, str], user: User | None = None
) -> dict[str, str]:
    """Return what a worker sees: no secret of the operator's, only what libraries need.

    :param own: the manifest's ``worker.env``; wins over everything.
    """
    kept = {
        name: text for name, text in ours.items() if name in KEPT or name.startswith(KEPT_PREFIXES)
    }
    defaults = dict.fromkeys(THREAD_VARIABLES, str(threads))
    # a crash report without the last lines, lost in a buffer, is worth little
    account = {"HOME": user.home, "USER": user.name, "LOGNAME": user.name} if user else {}
    return defaults | {"PYTHONUNBUFFERED": "1"} | kept | account | dict(own)


def prepare_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Return what a prepare child sees: all but our own settings, since pip needs the rest."""
    return {name: text for name, text in ours.items() if not name.startswith("SERVEKIT_")}


def usable_cores() -> int:
    """Return how many cores this process may use: its affinity, or less by the cgroup's quota."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, min(cores, round(int(quota) / int(period))))
    except (OSError, ValueError):  # no cgroup v2 here, or no quota: "max"
        return cores
