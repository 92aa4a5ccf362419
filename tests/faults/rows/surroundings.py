# SPDX-License-Identifier: Apache-2.0
"""The network and the clock around a server."""

from __future__ import annotations

import re
import shutil
from itertools import count
from typing import TYPE_CHECKING

from tests.faults import procfs
from tests.faults.client import Action, Client
from tests.faults.clock import Clock
from tests.faults.figures import Figure, at_least, at_most, equal, none
from tests.faults.requests import predict, steady
from tests.faults.rows.overload import OVERLOAD, QUEUE
from tests.faults.rows.stops import LONGEST_S, stop_under_load
from tests.faults.rows.worker_kills import judge_kills, run_with_kills
from tests.faults.stage import MODELS, NotHere, ask
from tests.guard.tools import why_not

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.stage import Stage

WORK = MODELS / "work"
#: a connect or bind that was tried, with its family: ``connect(3, {sa_family=AF_INET, ...``
CALL = re.compile(r"(connect|bind)\(\d+, \{sa_family=(AF_INET6?), (.*?)\}")
LOCAL = re.compile(r'inet_addr\("127\.|"::1"|"::ffff:127\.')
DAY_S = 86_400


def network(stage: Stage) -> Iterator[Figure]:
    """By default only this machine can reach the server, and it connects to nothing.

    Listeners from /proc/net while it serves; every connect and bind of its life under strace.
    """
    if reason := why_not("strace"):
        raise NotHere(reason)
    trace = stage.path("trace")
    tracer = ("strace", "-f", "-qq", "-e", "trace=connect,bind", "-o", str(trace))
    with stage.server("--models", WORK, tracer=tracer) as server:
        addresses = procfs.listening([process.pid for process in server.processes()])
        yield at_least("listeners found", len(addresses), 1)
        outside = [address for address in addresses if not procfs.is_loopback(address)]
        yield none("listeners that others can reach", outside)
        for number in range(20):
            ask(server, predict("work", f"F18-{number}", {"seconds": 0}))
    calls = CALL.findall(trace.read_text())
    yield at_least("sockets bound or connected, in the trace", len(calls), 1)
    yield none("connections to others", [c for c in calls if c[0] == "connect"])
    yield none("binds that others can reach", [c for c in calls if not LOCAL.search(c[2])])


def clock_jumps(stage: Stage) -> Iterator[Figure]:
    """The wall clock can jump by a day: kills, overload and shutdown work as usual.

    The clock of all processes is a day off, forth or back, each half second, while workers are
    killed, ten times too much is asked, and the server is stopped.
    """
    clock, turn, jumps = Clock(stage), count(), []

    def jump() -> None:
        jumps.append(DAY_S * (1, -1, 0)[next(turn) % 3])
        clock.shift(jumps[-1])

    seconds = stage.count(6, 2)
    every = [Action(n / 2, jump) for n in range(2 * seconds)]
    lines = "".join(f'\n{name} = "{text}"' for name, text in clock.environment.items())
    model = shutil.copytree(WORK, stage.path("work"))
    with (model / "model.toml").open("a") as file:
        file.write(f"\n[worker.env]{lines}\n")
    settings = ("--replicas=2", f"--queue={QUEUE}")
    with stage.server("--models", model, *settings, environment=clock.environment) as server:
        pids = [process.pid for process in server.processes()]
        yield none("processes with the real clock", [pid for pid in pids if clock.is_without(pid)])
        ledger, killed = run_with_kills(server, seconds - 1, every)
        yield from judge_kills(ledger, killed)
        flood = steady("work", OVERLOAD, seconds, "F5")
        ledger = Client(server.port, 2048).run(flood, every)
        yield none("overload: lost and wrong", ledger.lost() + ledger.wrong())
        yield none("overload: other than 200, 429", ledger.other_than({200, 429}))
        ledger, status, took_s = stop_under_load(server, every)
        yield none("stop: dropped", ledger.lost())
        yield equal("stop: exit status", status, 0)
        yield at_most("stop: after the longest request", took_s - LONGEST_S, stage.bound(1), "s")
    yield at_least("jumps", len(jumps), 3)
