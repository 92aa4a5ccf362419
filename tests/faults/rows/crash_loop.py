# SPDX-License-Identifier: Apache-2.0
"""A model that can never serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.faults import procfs
from tests.faults.client import Client
from tests.faults.figures import Figure, at_most, none
from tests.faults.requests import predict, steady
from tests.faults.stage import MODELS, write_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.ledger import Ledger
    from tests.faults.stage import Stage

RATE = 15.0
SPAWNS = 12  #: in two minutes: five with growing pauses, then one a minute


def crash_loop(stage: Stage) -> Iterator[Figure]:
    """A model that dies at load is started a few times a minute and does not affect others.

    ``os._exit(1)`` in ``load``; a healthy model is asked 15 times a second, on a server without
    the sick one and on one with it.
    """
    seconds = stage.count(120.0, 3.0)
    sick = write_model(stage.path("sick"), "import os\nos._exit(1)")
    with stage.server(
        "--models", sick, MODELS / "work", warm_up=lambda _server: None, sick=["sick"]
    ) as server:
        ticks = procfs.cpu_s(server.processes())
        shots = list(steady("work", RATE, seconds, "F11"))
        shots += [
            predict("sick", f"sick-{n}", kind="sick", at=seconds * (0.7 + 0.02 * n))
            for n in range(10)
        ]
        ledger = Client(server.port, 16).run(shots)
        used = procfs.cpu_s(server.processes()) - ticks
        spawns = server.said.count("sick/0 exited with ")
    good, refused = ledger.of("good"), ledger.of("sick")
    yield at_most(f"starts in {seconds:g} s", spawns, SPAWNS)
    yield none("other than 200 from its neighbour", good.other_than({200}) + good.lost())
    if not stage.is_short:  # a start every two seconds is not what the promise is about
        yield at_most("CPU of the whole server", 100 * used / seconds, 5, "%")
        bound = 1.2 * _alone(stage).latency_ms(99, 200)
        yield at_most("its neighbour's p99", good.latency_ms(99, 200), bound, "ms")
    yield none("other than 503 from it", refused.other_than({503}) + refused.lost())
    yield at_most("its 503, p50", refused.latency_ms(50, 503), stage.bound(10, "ms"), "ms")


def _alone(stage: Stage) -> Ledger:
    """Ask the healthy model on a server without the sick one."""
    with stage.server("--models", MODELS / "work") as server:
        return Client(server.port, 16).run(steady("work", RATE, 20, "alone"))
