# SPDX-License-Identifier: Apache-2.0
"""Workers that are killed with streams under way."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from tests.faults.crowd import Crowd
from tests.faults.figures import Figure, at_least, at_most, none
from tests.faults.ledger import percentile
from tests.faults.requests import Shot, get
from tests.faults.served import wait_until
from tests.faults.stage import MODELS, ask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.crowd import Listener
    from tests.faults.served import Served
    from tests.faults.stage import Stage

COUNTS = ("servekit_model_listeners{", "servekit_streams_open{")
READY = "ready after"  #: what the log says of each worker


def streams(stage: Stage) -> Iterator[Figure]:
    """When a worker dies, its streams end with a 503 event at once; the others continue.

    Two replicas, 100 endless streams, and a SIGKILL to one of them; then as many new ones, and so
    on. In the end all clients leave.
    """
    crowd_size, kills = stage.count((100, 10), (20, 2))
    rounds: list[Round] = []
    with (
        stage.server("--models", MODELS / "talk", warm_up=warm) as server,
        closing(Crowd(server.port)) as crowd,
    ):
        for _ in range(kills):
            crowd.open(crowd_size - len(crowd.going))
            crowd.listen(partial(_all_speak, crowd.going), "every stream has begun")
            rounds.append(_kill_one(server, crowd))
        crowd.close()
        left = monotonic()
        wait_until(lambda: _open(server) == 0, "no generator is left")
        gone_s = monotonic() - left
    lost = [each for round_ in rounds for each in round_.lost]
    others = [each for round_ in rounds for each in round_.others]
    late_ms = [
        1000 * (each.over_at - each_of.killed) for each_of in rounds for each in each_of.lost
    ]
    yield at_least("streams of workers that died", len(lost), kills)
    yield none("other than an error event with 503", [e for e in lost if b"503" not in e.problem])
    late_p99_ms = percentile(sorted(late_ms), 99)
    yield at_most("death to the event, p99", late_p99_ms, stage.bound(100, "ms"), "ms")
    yield at_least("streams of the other worker meanwhile", len(others), 1)
    yield none("of them ended", [each for round_ in rounds for each in round_.broken])
    back_s = max(round_.back_s for round_ in rounds)
    yield at_most("death to the next worker's readiness, worst", back_s, stage.bound(3), "s")
    yield at_most("no generator left after", gone_s, stage.bound(1), "s")


class Round(NamedTuple):
    """What became of the streams when one worker was killed."""

    killed: float
    back_s: float
    lost: list[Listener]
    others: list[Listener]
    broken: list[Listener]  #: of the others, those that ended too


def _kill_one(server: Served, crowd: Crowd) -> Round:
    """Kill the worker that speaks in the newest stream, and wait for what follows."""
    going, ready = crowd.going, server.said.count(READY)
    victim = going[-1].worker
    lost = [each for each in going if each.worker == victim]
    others = [each for each in going if each.worker != victim]
    killed, heard = server.kill(victim), {each: each.outputs for each in others}
    crowd.listen(lambda: all(each.over_at for each in lost), "their clients are told")
    crowd.listen(lambda: all(e.over_at or e.outputs > heard[e] for e in others), "the others go on")
    broken = [each for each in others if each.over_at]
    crowd.listen(lambda: server.said.count(READY) > ready, "a worker is back")
    return Round(killed, monotonic() - killed, lost, others, broken)


def warm(server: Served) -> None:
    """Have each worker speak to somebody, and the metrics read."""
    with closing(Crowd(server.port)) as crowd:
        crowd.open(8)
        crowd.listen(partial(_all_speak, crowd.going), "every stream has begun")
    wait_until(lambda: _open(server) == 0, "no generator is left")


def _all_speak(listeners: list[Listener]) -> bool:
    return all(each.outputs for each in listeners)


def _open(server: Served) -> float:
    """Return how many generators are open, by the service's count and by the server's."""
    text = ask(server, Shot(id="metrics", wire=get("/metrics"))).body.decode()
    series = [line for line in text.splitlines() if line.startswith(COUNTS)]
    return sum(float(line.rpartition(" ")[2]) for line in series)
