# SPDX-License-Identifier: Apache-2.0
"""Services and clients that do what they should not, each in its way."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING

from tests.faults.client import Client
from tests.faults.figures import Figure, at_most, equal, none
from tests.faults.requests import Shot, get, predict
from tests.faults.served import NotAsExpected, Served, wait_until
from tests.faults.stage import HANG_S, MODELS, ask, write_model
from tests.faults.zoo import ALL, HANGS, KILLS, STUCK, TIMEOUT_S, does

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faults.ledger import Line
    from tests.faults.stage import Stage
    from tests.faults.zoo import Fault

FAULTS = MODELS.parents[1] / "services" / "faults.py"
BACK_S = 2.0  #: a replacement, even one after a pause of a second
INTERNALS = re.compile(rb'Traceback|File "|/tmp/|/usr/|/home/|\.py\b|\bpid\b')
STUCK_S = 3.0  #: longest prediction of the stuck model where the machine may be slow
LOAD_TIMEOUT_S = 2  #: of the model that stalls
SLOW = [*HANGS[3:], *KILLS[3:-1]]  #: left out of the short version
LOADS = {
    "raises": "raise RuntimeError('no weights')",
    "exits": "import os\nos._exit(3)",
    "interrupts": "raise KeyboardInterrupt",
    "segfaults": "import ctypes\nctypes.string_at(0)",
    "stalls": "import time\ntime.sleep(1000)",
}


def zoo(stage: Stage) -> Iterator[Figure]:
    """Whatever a service or a body does, the response is right and in time, and serving continues.

    Every fault of ``tests/faults/zoo.py``, three times in a row; after each one the model must
    answer again, by the same worker or, where it was killed, by a new one.
    """
    path = _zoo(stage, "zoo", stage.count(TIMEOUT_S, HANG_S))
    stuck = _zoo(stage, STUCK, stage.count(TIMEOUT_S, STUCK_S))
    left_out = SLOW if stage.is_short else []
    faults = [fault for fault in ALL if fault not in left_out]
    names = dict.fromkeys(fault.model for fault in faults)
    models = [f"{name}={stuck if name == STUCK else path}" for name in names]
    told: list[str] = []
    began = monotonic()
    with stage.server("--models", *models, "--max-answer=1MiB") as server:
        for turn in range(stage.count(3, 1)):
            stage.say(f"zoo, round {turn + 1}: {len(faults)} faults")
            for fault in faults:
                told += _try(stage, server, fault)
    yield none(f"of {len(faults)} faults: another status, too late, or not served after it", told)
    if not stage.is_short:
        yield at_most("minutes for the zoo", (monotonic() - began) / 60, 5)
    yield from _loads(stage)
    yield from _stubborn(stage, path)


def _zoo(stage: Stage, name: str, timeout_s: float) -> Path:
    path = stage.path(name)
    shutil.copytree(MODELS / "zoo", path)
    shutil.copy(FAULTS, path)
    with (path / "model.toml").open("a") as file:
        file.write(f"\n[worker]\npredict_timeout_s = {timeout_s}\n")
    return path


def _try(stage: Stage, server: Served, fault: Fault) -> Iterator[str]:
    """Make the fault and yield what is wrong about the answer or about what follows."""
    before, back_s = _worker(server, fault.model), stage.bound(BACK_S)
    line = ask(server, Shot(id=fault.name, wire=fault.wire))
    wrong = _wrong(fault, line, stage.bound(fault.within_s))
    if wrong:
        yield f"{fault.name}: {wrong}"
    after = predict(fault.model, "after")
    began = monotonic()
    line = ask(server, after)
    while line.status == 504 and fault.is_fatal and monotonic() < began + back_s:
        line = ask(server, after)  # its own deadline passed while the worker came back
    if line.status != 200 or not line.is_right or line.ended - began > back_s:
        yield f"{fault.name}: then {line}"
    try:
        changed = lambda: _worker(server, fault.model) not in {before, 0}  # noqa: E731
        if fault.is_fatal:
            wait_until(changed, f"{fault.name}: the worker is replaced", back_s)
        elif changed():
            yield f"{fault.name}: the worker was replaced"
    except NotAsExpected as error:
        yield str(error)


def _wrong(fault: Fault, line: Line, within_s: float) -> str:
    if line.status not in fault.statuses:
        return f"{line}, wanted {sorted(fault.statuses)}"
    if line.latency_s > within_s:
        return f"{line}, wanted within {within_s:g} s"
    if line.status >= 400 and (told := INTERNALS.search(line.body)):
        return f"the answer tells {told[0]!r}"
    return ""


def _worker(server: Served, model: str) -> int:
    """Return the pid of the worker of *model*, 0 if there is none."""
    return next((p.pid for p in server.processes() if p.role == f"worker {model}"), 0)


def _loads(stage: Stage) -> Iterator[Figure]:
    """Models that cannot load: they are 503, the others are served, --strict ends the start."""
    impatient = {"stalls": f"[worker]\nload_timeout_s = {LOAD_TIMEOUT_S}\n"}
    sick = [
        write_model(stage.path(name), load, toml=impatient.get(name, ""))
        for name, load in LOADS.items()
    ]
    arguments = ("--models", *sick, MODELS / "work")
    with stage.server(*arguments, warm_up=_none_serving, sick=LOADS) as server:
        shots = [predict(name, name, kind="sick") for name in LOADS]
        ledger = Client(server.port, 4).run([*shots, predict("work", "good")])
        ping = ask(server, Shot(id="ping", wire=get("/ping")))
    yield equal(
        "200 beside models that cannot load", ledger.of("good").counts(), Counter({"200": 1})
    )
    yield none("other than 503 from models that cannot load", ledger.of("sick").other_than({503}))
    unnamed = [name for name in LOADS if name.encode() not in ping.body]
    yield none("models that /ping does not name", unnamed + ([] if ping.status == 503 else [ping]))
    for number, path in enumerate(stage.count(sick, sick[:1])):
        server = Served(stage.path(f"strict-{number}"), "--models", path, "--strict")
        began = monotonic()
        try:
            status = server.popen.wait(LOAD_TIMEOUT_S + 30)
        finally:
            server.end()
        yield equal(f"--strict, {path.name}: exit status", status, 3)
        limit = LOAD_TIMEOUT_S + stage.bound(5)
        yield at_most(f"--strict, {path.name}: exit after", monotonic() - began, limit, "s")
        yield equal(f"--strict, {path.name}: it is named", path.name in server.said, True)


def _none_serving(server: Served) -> None:
    ask(server, predict("work", "warm-up"))


def _stubborn(stage: Stage, path: Path) -> Iterator[Figure]:
    """Threads that do not end, programs in sessions of their own, SIGTERM ignored: all end."""
    grace_s = 2

    def spoil(server: Served) -> None:
        for text in ("thread", "detach", "ignore SIGTERM"):
            ask(server, Shot(id=text, wire=does(text).wire))

    with stage.server("--models", path, f"--grace={grace_s}", warm_up=spoil) as server:
        began = monotonic()
        server.stop()
        yield at_most(
            "stop in spite of the service", monotonic() - began, grace_s + stage.bound(1), "s"
        )
