# SPDX-License-Identifier: Apache-2.0
"""Checks of a running server, by its management."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final, NamedTuple

from servekit_archiver.cli.output import human_bytes

from servekit import __version__
from servekit.cli.doctor.live_server import LiveServer, replica_name
from servekit.cli.doctor.queues import full_queues, refused_requests
from servekit.counting import counted
from servekit.extension.checks import Diagnosis
from servekit.settings.values import MIB
from servekit.supervisor.os.resources import available_bytes

__all__ = ["LIVE_CHECKS", "LiveCheck"]

MANY_CRASHES: Final = 3  #: for one model, in that time
SKEW_S: Final = 5.0
LITTLE_MEMORY: Final = 256 * MIB
SWAPPED: Final = 16 * MIB


def health(live: LiveServer) -> Iterator[Diagnosis]:
    """Ask whether it is healthy."""
    _, ping = live.server.ask("/ping")
    for reason in ping.get("reasons", []):
        yield Diagnosis(
            severity="error",
            text=reason,
            meaning="/ping answers 503, so load balancers send no requests.",
            fix=f"{live.command('logs --level warning')}; {live.command('models')}",
        )


def failed_replicas(live: LiveServer) -> Iterator[Diagnosis]:
    """Look for replicas that cannot be filled: their workers do not load, or crash."""
    for name, replica in live.replicas:
        if replica["state"] == "failed":
            yield Diagnosis(
                severity="error",
                text=f"{name}: failed too often, {replica['reason']}",
                meaning="Its worker is tried once a minute, and takes no requests.",
                fix=live.command(f"crashes --model {name.partition('/')[0]}"),
            )


def crash_loops(live: LiveServer) -> Iterator[Diagnosis]:
    """Look for workers that crash again and again; a failed load is not a crash."""
    failed = {name for name, replica in live.replicas if replica["state"] == "failed"}
    crashes = [
        each
        for each in live.crashes
        if each["served_s"] is not None
        and replica_name(each["model"], each.get("stage"), each["replica"]) not in failed
    ]
    for model, count in Counter(each["model"] for each in crashes).items():
        causes = ", ".join(sorted({each["cause"] for each in crashes if each["model"] == model}))
        yield Diagnosis(
            severity="error" if count >= MANY_CRASHES else "warning",
            text=f"{model}: {counted(count, 'crash', 'crashes')} in ten minutes: {causes}",
            meaning="The requests that a worker holds when it crashes are lost.",
            fix=live.command(f"crashes --model {model}"),
        )


def restarts(live: LiveServer) -> Iterator[Diagnosis]:
    """Look for replicas whose workers were replaced."""
    for name, replica in live.replicas:
        if replica["restarts"] and replica["state"] != "failed":
            crashes = f"crashes --model {name.partition('/')[0]}"
            yield Diagnosis(
                severity="info",
                text=f"{name}: {counted(replica['restarts'], 'restart')} since the server started",
                meaning="A worker could not be loaded, crashed, hung or was killed.",
                fix=f"{live.command(crashes)}; {live.command('logs')}",
            )


def pressure(live: LiveServer) -> Iterator[Diagnosis]:
    """Look at the memory that is left, and at workers that are swapped out; on this machine."""
    if live.server.run_dir is None:
        return
    left = available_bytes()
    used = sum(each["memory_bytes"] or 0 for _, each in live.replicas)
    if left is not None and left < LITTLE_MEMORY:
        yield Diagnosis(
            severity="error",
            text=f"workers use {human_bytes(used)}, and {human_bytes(left)} of memory are left",
            meaning="The kernel ends a worker when one needs more.",
            fix=f"{live.command('scale MODEL N')}, with a lower N, or"
            f" {live.command('unload MODEL')}",
        )
    for name, replica in live.replicas:
        swapped = _swapped(replica["pid"]) if replica["pid"] else 0
        if swapped > SWAPPED:
            yield Diagnosis(
                severity="warning",
                text=f"{name}: {human_bytes(swapped)} of its memory are swapped out",
                meaning="A request that needs them takes seconds.",
                fix="run less on this machine, or sysctl -w vm.swappiness=1",
            )


def _swapped(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = re.search(r"^VmSwap:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def version(live: LiveServer) -> Iterator[Diagnosis]:
    """Compare the version of the server with that of this command."""
    found = live.server.get("/openapi.json")["info"]["version"]
    if found != __version__:
        yield Diagnosis(
            severity="warning",
            text=f"the server is servekit {found}, and this command {__version__}",
            meaning="The package was changed after the server started, or elsewhere.",
            fix="restart the server, for example systemctl restart servekit",
        )


def clock(live: LiveServer) -> Iterator[Diagnosis]:
    """Compare the clocks; on this machine they are the same."""
    date = live.server.date()
    skew_s = abs((parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds()) if date else 0
    if skew_s > SKEW_S:
        yield Diagnosis(
            severity="warning",
            text=f"the clock of the server differs from that of this machine by {skew_s:.0f} s",
            meaning="Logs of both do not fit together; certificates and tokens may be refused.",
            fix="timedatectl set-ntp true, on the one that is wrong",
        )


def operations(live: LiveServer) -> Iterator[Diagnosis]:
    """Look for operations that failed in the last minutes."""
    for row in live.server.get("/operations")["operations"]:
        if row["state"] == "failed":
            yield Diagnosis(
                severity="warning",
                text=f"{row['kind']} of {row['model'] or 'a model'} failed: {row['error']}",
                meaning="What was served before still is.",
                fix=live.command("status"),
            )


class LiveCheck(NamedTuple):
    """One check of a running server."""

    name: str
    summary: str  #: the things that it looks at
    find: Callable[[LiveServer], Iterable[Diagnosis]]


LIVE_CHECKS: Final[Iterable[LiveCheck]] = (
    LiveCheck("health", "why /ping says unhealthy", health),
    LiveCheck("failed replicas", "replicas that failed too often", failed_replicas),
    LiveCheck("crash loops", "crashes of the last ten minutes", crash_loops),
    LiveCheck("restarts", "replicas whose workers were replaced", restarts),
    LiveCheck("queues", "full queues", full_queues),
    LiveCheck("refusals", "requests that were refused", refused_requests),
    LiveCheck("memory pressure", "memory that is left, workers that are swapped out", pressure),
    LiveCheck("server version", "the version of the server and of this command", version),
    LiveCheck("clock", "the clocks of the server and of this machine", clock),
    LiveCheck("operations", "operations that failed in the last minutes", operations),
)
