# SPDX-License-Identifier: Apache-2.0
"""The server stops, is reloaded, or is killed in part."""

from __future__ import annotations

import signal
import socket
from time import monotonic
from typing import TYPE_CHECKING

from tests.faults import procfs
from tests.faults.client import Action, Client
from tests.faults.figures import Figure, at_least, at_most, equal, none
from tests.faults.requests import pings, predict, steady
from tests.faults.served import NotAsExpected, wait_until
from tests.faults.stage import MODELS, write_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.faults.ledger import Ledger
    from tests.faults.served import Served
    from tests.faults.stage import Stage

WORK = MODELS / "work"
LONGEST_S = 1.0  #: of the requests in flight at a stop, their time in the queue included
IN_FLIGHT = 10
GONE_S = 2.0
ASKED_S = 30.0  #: of those who ask meanwhile; whatever is waited for comes sooner


def stops(stage: Stage) -> Iterator[Figure]:
    """SIGTERM under load: nothing that the kernel accepted is dropped, exit 0 in time.

    200 fresh connections/s, 6 keep-alive clients, 10 requests of 1 s in flight. Every other
    server has a drain delay of half a second.
    """
    dropped, wrong, statuses, late_s, refused = [], [], [], [], 0
    for number in range(stage.count(20, 2)):
        delay_s = 0.5 * (number % 2)
        with stage.server("--models", WORK, "--replicas=2", f"--drain-delay={delay_s}") as server:
            ledger, status, took_s = stop_under_load(server)
        dropped += ledger.lost()
        wrong += ledger.wrong() + ledger.other_than({200})
        refused += ledger.counts()["refused"]
        statuses.append(status)
        late_s.append(took_s - delay_s - LONGEST_S)
    yield none("dropped: reset or closed without an answer", dropped)
    yield none("other than 200, wrong answers", wrong)
    yield at_least("refused once it had closed", refused, 1)
    yield equal("exit statuses", set(statuses), {0})
    yield at_most("exit after drain delay and longest request", max(late_s), stage.bound(1), "s")


def stop_under_load(server: Served, actions: Sequence[Action] = ()) -> tuple[Ledger, int, float]:
    """Stop the server under load; return the ledger, its exit status and how long it took."""
    stopped: list[float] = []
    ended: list[float] = []

    def has_ended(_ledger: Ledger) -> bool:
        if not ended and server.popen.poll() is not None:
            ended.append(monotonic())
        return bool(ended) and monotonic() > ended[0] + 0.1

    shots = list(steady("work", 200, ASKED_S, "fresh", item={"seconds": 0}, is_fresh=True))
    shots += steady("work", 60, ASKED_S, "kept", item={"seconds": 0})
    shots += [
        predict("work", f"long-{n}", {"seconds": LONGEST_S / 2}, at=0.9, kind="long")
        for n in range(IN_FLIGHT)  # two replicas: the last ones wait for the first
    ]
    server.processes()
    stop = Action(1.0, lambda: stopped.append(server.kill(server.pid, signal.SIGTERM)))
    ledger = Client(server.port, 6 + IN_FLIGHT).run(shots, [stop, *actions], until=has_ended)
    return ledger, server.popen.wait(10), ended[0] - stopped[0] if ended else float("inf")


def reloads(stage: Stage) -> Iterator[Figure]:
    """Models are replaced under load without a failed request; a broken one changes nothing.

    The model directory is rewritten and SIGHUP sent, every third time with one that cannot load.
    """
    times, every_s = stage.count((10, 4.0), (2, 2.0))
    directory = write_model(stage.path("model"), version="0")
    good = [n for n in range(times) if n % 3 != 2]

    def reload(number: int) -> None:
        if number % 3 == 2:
            write_model(directory, "raise RuntimeError('broken')", version=str(number + 1))
        else:
            write_model(directory, version=str(number + 1))
        server.kill(server.pid, signal.SIGHUP)

    with stage.server("--models", directory) as server:
        actions = [
            Action(
                0.5 + n * every_s, lambda n=n: reload(n), once=lambda seen, n=n: _serves(seen, n)
            )
            for n in range(times)
        ]
        asked_s = stage.count(times * every_s + 0.5, ASKED_S)
        shots = steady("model", 100, asked_s, "F8")
        ledger = Client(server.port, 64).run(
            shots, actions, until=lambda seen: stage.is_short and _serves(seen, times)
        )
    yield none("other than 200", ledger.other_than({200}))
    yield none("resets, hangs, wrong answers", ledger.lost() + ledger.wrong())
    seen = list(dict.fromkeys(line.body.rpartition(b'"version":')[2] for line in ledger))
    wanted = [b'"%d"}}' % n for n in (0, *(number + 1 for number in good))]
    yield equal("versions that answered, in order", [*map(_digits, seen)], [*map(_digits, wanted)])


def _serves(ledger: Ledger, number: int) -> bool:
    """Whether the last good version before reload *number* has answered; a third are broken."""
    newest = b'"version":"%d"' % (number - (number > 0 and number % 3 == 0))
    return any(newest in line.body for line in ledger.lines[-1000:])


def _digits(text: bytes) -> str:
    return "".join(filter(str.isdigit, text.decode("latin-1")))


def supervisor_kills(stage: Stage) -> Iterator[Figure]:
    """A killed supervisor leaves no process and no directory, and its port is free at once.

    The service has started a program, and a daemon in a session of its own.
    """
    programs = write_model(stage.path("programs"), PROGRAMS)
    gone_s, left, bound = [], [], stage.bound(GONE_S)
    for _ in range(stage.count(20, 2)):
        with stage.server("--models", programs, WORK) as server:
            wait_until(lambda s=server: _sleepers(s) >= 2, "the service's programs run")
            server.processes()
            killed = server.kill(server.pid)
            server.popen.wait()
            left += server.left_over(bound)
            try:
                wait_until(lambda p=server.port: _is_free(p), "the port is free", bound)
            except NotAsExpected:
                gone_s.append(float("inf"))
            else:
                gone_s.append(monotonic() - killed)
    yield none(f"processes left after {bound:g} s, {len(gone_s)} servers", left)
    yield at_most("until all is gone and the port is free, worst", max(gone_s), bound, "s")


PROGRAMS = """\
import os, subprocess
subprocess.Popen(["sleep", "600"])
if os.fork() == 0:
    os.setsid()
    os.execvp("sleep", ["sleep", "601"])
"""


def _sleepers(server: Served) -> int:
    return sum("sleep\0" in procfs.command_line(each.pid) for each in server.processes())


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def front_end_kills(stage: Stage) -> Iterator[Figure]:
    """A killed front-end is serving again within two seconds, with the same workers.

    SIGKILL to the front-end and to gunicorn's arbiter in turn; /ping each 50 ms.
    """
    back_s = []
    with stage.server("--models", WORK) as server:
        workers = server.pids("worker")
        for number in range(stage.count(20, 2)):
            role = ("front-end", "arbiter")[number % 2]
            pid, killed = server.pid_of(role), []
            kill = Action(0.1, lambda p=pid, k=killed: k.append(server.kill(p)))

            def is_back(ledger: Ledger, killed: list[float] = killed) -> bool:
                return bool(killed) and any(
                    line.status == 200 and line.due > killed[0] + 0.02 for line in ledger
                )

            ledger = Client(server.port, 1).run(
                pings(20, ASKED_S, server.subject.ping_path), [kill], until=is_back
            )
            ends = [x.ended for x in ledger.answered(200) if x.due > killed[0] + 0.02]
            back_s.append(min(ends) - killed[0] if ends else float("inf"))
        yield none("workers that were replaced", set(workers) - set(server.pids("worker")))
    yield at_most("death to /ping 200, worst", max(back_s), stage.bound(2), "s")
