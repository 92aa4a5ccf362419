# SPDX-License-Identifier: Apache-2.0
"""Workers that are killed with streams under way."""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

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
    """A worker that dies ends its streams with a 503 event at once; the others go on.

    Two replicas, 100 endless streams, and a SIGKILL to one of them; then as many new ones, and so
    on. In the end all clients leave.
    """
    crowd_size, kills = stage.count((100, 10), (20, 2))
    late_ms: list[float] = []
    back_s: list[float] = []
    lost: list[Listener] = []
    broken: list[Listener] = []
    with stage.server("--models", MODELS / "talk", warm_up=warm) as server:
        crowd = Crowd(server.port)
        for _ in range(kills):
            going = [each for each in crowd.listeners if not each.over_at]
            crowd.open(crowd_size - len(going))
            going = [each for each in crowd.listeners if not each.over_at]
            crowd.listen(partial(_all_heard, going, 1), "every stream has begun")
            ready, victim = server.said.count(READY), going[0].worker
            inside = [each for each in going if each.worker == victim]
            others = [each for each in going if each.worker != victim]
            killed = server.kill(victim)
            crowd.listen(lambda inside=inside: all(e.over_at for e in inside), "they are told")
            crowd.listen(partial(_all_heard, others, 1 + max(e.outputs for e in others)), "go on")
            crowd.listen(lambda n=ready: server.said.count(READY) > n, "a worker is back")
            back_s.append(monotonic() - killed)
            late_ms += [1000 * (each.over_at - killed) for each in inside]
            lost += inside
            broken += [each for each in others if each.over_at]
        crowd.close()
        left = monotonic()
        wait_until(lambda: _open(server) == 0, "no generator is left", 10)
        gone_s = monotonic() - left
    yield at_least("streams of workers that died", len(lost), kills)
    yield none("other than an error event with 503", [e for e in lost if b"503" not in e.problem])
    yield at_most("death to the event, p99", percentile(sorted(late_ms), 99), 100, "ms")
    yield none("streams of the other worker that ended", broken)
    yield at_most("death to the next worker's readiness, worst", max(back_s), 2, "s")
    yield at_most("no generator left after", gone_s, 1, "s")


def warm(server: Served) -> None:
    """Have each worker speak to somebody, and the metrics read."""
    crowd = Crowd(server.port)
    crowd.open(8)
    crowd.listen(partial(_all_heard, crowd.listeners, 1), "every stream has begun")
    crowd.close()
    wait_until(lambda: _open(server) == 0, "no generator is left", 10)


def _all_heard(listeners: list[Listener], outputs: int) -> bool:
    return all(each.outputs >= outputs or each.over_at for each in listeners)


def _open(server: Served) -> float:
    """Return how many generators are open, by the service's count and by the server's."""
    text = ask(server, Shot(id="metrics", wire=get("/metrics"))).body.decode()
    series = [line for line in text.splitlines() if line.startswith(COUNTS)]
    return sum(float(line.rpartition(" ")[2]) for line in series)
