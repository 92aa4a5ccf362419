# SPDX-License-Identifier: Apache-2.0
"""Checks of processors, memory, disks, limits and the kernel."""

import os
import resource
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from servekit_archiver import default_cache_dir
from servekit_archiver.cli.output import human_bytes

from servekit.cli.doctor.setup import Check, Setup
from servekit.extension.checks import Diagnosis
from servekit.settings.values import GIB, MIB
from servekit.supervisor.os.listeners import BACKLOG
from servekit.supervisor.os.resources import usable_cores
from servekit.system.cgroups import group_values, memory_groups

__all__ = ["MACHINE_CHECKS"]

LITTLE_MEMORY: Final = 512 * MIB
SMALL_SHM: Final = 256 * MIB  #: the default of container runtimes is 64 MiB
LITTLE_DISK: Final = GIB
NO_DISK: Final = 100 * MIB
FULL: Final = 0.9
FILES_BESIDE: Final = 1000  #: descriptors of a front-end besides connections
FEW_PROCESSES: Final = 1024
SWAPPED: Final = 0.1  #: share of the swap space that is worth a word


def cores(_: Setup) -> Iterator[Diagnosis]:
    """Compare the processors that are seen with those that may be used."""
    seen, usable = len(os.sched_getaffinity(0)), usable_cores()
    if usable < seen:
        yield Diagnosis(
            severity="info",
            text=f"a quota allows {usable} of the {seen} processors that programs see",
            meaning="servekit divides the quota among workers, but a library that counts"
            " processors itself starts too many threads and is throttled.",
            fix="set threads of such a model: servekit start --set NAME.threads=1",
        )


def memory(setup: Setup) -> Iterator[Diagnosis]:
    """Look at the memory that is left, of the machine and of the control groups."""
    free = setup.memory.get("MemAvailable:")
    if free is not None and free < LITTLE_MEMORY:
        yield Diagnosis(
            severity="warning",
            text=f"{human_bytes(free)} of memory is available",
            meaning="Loading a model may end other processes, or this server.",
            fix="ps -eo pid,rss,comm --sort=-rss | head",
        )
    for group in memory_groups(setup.root):
        if group.used > group.limit * FULL:
            used, limit = human_bytes(group.used), human_bytes(group.limit)
            yield Diagnosis(
                severity="error",
                text=f"the control group uses {used} of the {limit} that it may use",
                meaning="The kernel kills a process of the group when it needs more.",
                fix="raise the memory limit of the container or unit, or serve fewer replicas",
            )


def swap(setup: Setup) -> Iterator[Diagnosis]:
    """Look whether the machine swaps."""
    total, free = setup.memory.get("SwapTotal:", 0), setup.memory.get("SwapFree:", 0)
    if total and total - free > total * SWAPPED:
        yield Diagnosis(
            severity="warning",
            text=f"{human_bytes(total - free)} of swap space is in use",
            meaning="A model whose pages are swapped out answers seconds later.",
            fix="sysctl -w vm.swappiness=1, or run less on this machine",
        )


def shared_memory(setup: Setup) -> Iterator[Diagnosis]:
    """Look at the size of ``/dev/shm``."""
    size = _space(setup.root / "dev/shm")[0]
    if size < SMALL_SHM:
        yield Diagnosis(
            severity="warning",
            text=f"the file system of shared memory (/dev/shm) has {human_bytes(size)}",
            meaning="Encrypted archives are unpacked there, and data loaders of PyTorch fail with"
            " a bus error when it is full.",
            fix="docker run --shm-size=1g, or an emptyDir of medium Memory at /dev/shm",
        )


def disks(setup: Setup) -> Iterator[Diagnosis]:
    """Look at the free space where the server writes."""
    settings = setup.settings
    places = {
        "the run directory": Path(settings.run_dir or tempfile.gettempdir()),
        "the cache": Path(settings.cache_dir) if settings.cache_dir else default_cache_dir(),
        "log files": Path(settings.log_dir) if settings.log_dir else None,
    }
    for what, path in places.items():
        if path is None:
            continue
        place = next(each for each in (path, *path.parents) if each.exists())
        _, free, names = _space(place)
        if free < LITTLE_DISK or names == 0:
            shown = human_bytes(free) if names else "no file name"
            yield Diagnosis(
                severity="error" if free < NO_DISK or not names else "warning",
                text=f"{shown} is free in {place}, for {what}",
                meaning="New versions cannot be loaded, and log lines and reports are lost.",
                fix="servekit cache prune --unused-for 30",
            )


def open_files(setup: Setup) -> Iterator[Diagnosis]:
    """Compare the limit of open files with the connections."""
    hard, wanted = resource.getrlimit(resource.RLIMIT_NOFILE)[1], setup.settings.max_connections
    if hard != resource.RLIM_INFINITY and hard < wanted + FILES_BESIDE:
        yield Diagnosis(
            severity="warning",
            text=f"the limit of open files is {hard}, and max_connections is {wanted}",
            meaning="A front-end cannot accept that many connections.",
            fix=f"ulimit -Hn {wanted + FILES_BESIDE}, LimitNOFILE={wanted + FILES_BESIDE} in the"
            " unit, or a lower --max-connections",
        )


def processes(setup: Setup) -> Iterator[Diagnosis]:
    """Look at the limits of processes and threads, of the user and of the control group."""
    soft, hint = resource.getrlimit(resource.RLIMIT_NPROC)[0], "ulimit -u, or LimitNPROC="
    is_limited = soft != resource.RLIM_INFINITY and os.geteuid() != 0  # root is never
    limits = [(soft, "this user", hint)] if is_limited else []
    groups = [int(text) for text in group_values("pids.max", setup.root) if text.isdecimal()]
    limits += [(each, "the control group", "--pids-limit, or TasksMax=") for each in groups]
    for limit, whose, fix in limits:
        if limit < FEW_PROCESSES:
            yield Diagnosis(
                severity="warning",
                text=f"{whose} can have {limit} processes and threads",
                meaning="Each worker has tens of threads; one that cannot start a thread fails.",
                fix=f"raise it: {fix}",
            )


def core_files(_: Setup) -> Iterator[Diagnosis]:
    """Look whether crashes leave core files."""
    if resource.getrlimit(resource.RLIMIT_CORE)[0] != 0:
        yield Diagnosis(
            severity="info",
            text="crashing workers may leave core files",
            meaning="They have the size of the model, and hold inputs of clients.",
            fix="ulimit -c 0, or LimitCORE=0 in the unit",
        )


def kernel(setup: Setup) -> Iterator[Diagnosis]:
    """Look at the settings of the kernel that matter."""
    backlog = setup.number("proc/sys/net/core/somaxconn")
    if backlog is not None and backlog < BACKLOG:
        yield Diagnosis(
            severity="warning",
            text=f"net.core.somaxconn is {backlog}, below {BACKLOG}",
            meaning="When many clients connect at once, some wait a second or more.",
            fix=f"sysctl -w net.core.somaxconn={BACKLOG}",
        )
    if setup.number("proc/sys/vm/overcommit_memory") == 2:
        yield Diagnosis(
            severity="warning",
            text="vm.overcommit_memory is 2",
            meaning="Processes reserve more memory than they use; workers fail to start though"
            " there is room.",
            fix="sysctl -w vm.overcommit_memory=0",
        )


def _space(path: Path) -> tuple[int, int, int]:
    """Return the size and the free bytes of a file system, and its free names; -1: no limit."""
    try:
        found = os.statvfs(path)
    except OSError:
        return 0, 0, 0
    names = found.f_favail if found.f_files else -1
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize, names


MACHINE_CHECKS: Final[Iterable[Check]] = (
    Check("cores", "processors, and the quota of the control group", cores),
    Check("memory", "free memory, and the limit of the control group", memory),
    Check("swap", "swap space in use", swap),
    Check("shared memory", "the size of /dev/shm", shared_memory),
    Check("disks", "free space of the run directory, the cache and log files", disks),
    Check("open files", "the limit of open files", open_files),
    Check("processes", "the limits of processes and threads", processes),
    Check("core files", "whether crashes leave core files", core_files),
    Check("kernel", "somaxconn and overcommit", kernel),
)
