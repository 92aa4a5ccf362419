# SPDX-License-Identifier: Apache-2.0
"""How many servers a deployment needs, by how long requests wait in their queues."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = ["Queue", "QueueLoad", "ServerScaler", "read_loads"]

LONG_WAIT_S: Final = 0.1  #: requests that wait longer need more servers
SHORT_WAIT_S: Final = 0.025  #: where they wait less, fewer servers may do
LONGEST_BUSY: Final = 0.7  #: of the time, for the replicas that would be left
MORE_AFTER_S: Final = 4.0
LESS_AFTER_S: Final = 60.0
LINE: Final = re.compile(r"^servekit_(?:stage_)?(\w+)\{(.*)\} (\S+)$", re.MULTILINE)
LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
#: series of a model, and with ``stage_`` of a stage: to the field of a ``QueueLoad``
FIELDS: Final = {
    "queue_duration_seconds_sum": "waited_s",
    "predict_duration_seconds_sum": "predicted_s",
    "queue_duration_seconds_count": "batches",
    "tasks_waiting": "waiting",
}

#: model, version and stage; the stage is "" for a model without stages
Queue: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """The work from one queue since its server started, and the queue now."""

    waited_s: float = 0.0  #: sum over the oldest task of each batch
    predicted_s: float = 0.0  #: time in ``predict``
    batches: float = 0.0
    waiting: float = 0.0  #: tasks in the queue, now
    replicas: float = 0.0  #: that serve, now; of a stage: its part of those of the model

    def since(self, before: "QueueLoad") -> "QueueLoad":
        """Return what was done since *before*."""
        return QueueLoad(
            self.waited_s - before.waited_s,
            self.predicted_s - before.predicted_s,
            self.batches - before.batches,
            self.waiting,
            self.replicas,
        )

    def __add__(self, other: "QueueLoad") -> "QueueLoad":
        """Return the work of both."""
        return QueueLoad(
            self.waited_s + other.waited_s,
            self.predicted_s + other.predicted_s,
            self.batches + other.batches,
            self.waiting + other.waiting,
            self.replicas + other.replicas,
        )

    @property
    def is_stuck(self) -> bool:
        """Whether requests wait and none was taken."""
        return self.batches <= 0 < self.waiting

    @property
    def wait_s(self) -> float:
        """How long the oldest task of a batch waited, on average."""
        return self.waited_s / max(self.batches, 1.0)


def read_loads(text: str) -> dict[Queue, QueueLoad]:
    """Read the page ``/metrics`` of a server.

    The page counts the replicas of a model and not those of its stages, so each stage counts an
    equal part of them.
    """
    found: dict[Queue, dict[str, float]] = defaultdict(dict)
    replicas: dict[tuple[str, str], float] = {}
    for series, labels, value in LINE.findall(text):
        named = dict(LABEL.findall(labels))
        version = named.get("model", ""), named.get("version", "")
        if series in FIELDS:
            found[*version, named.get("stage", "")][FIELDS[series]] = float(value)
        elif series == "replicas" and named.get("state") == "serving":
            replicas[version] = float(value)
    stages = Counter((model, version) for model, version, stage in found if stage)
    return {
        queue: QueueLoad(**fields, replicas=replicas.get(queue[:2], 0.0) / (stages[queue[:2]] or 1))
        for queue, fields in found.items()
    }


class ServerScaler:
    """Decides from one look to the next. Times are those of ``monotonic``."""

    def __init__(self) -> None:
        """Begin without loads."""
        self._before: dict[str, Mapping[Queue, QueueLoad]] = {}
        self._looked_at = 0.0
        self._long_since: float | None = None  #: requests of a model wait too long
        self._idle_since: float | None = None  #: one server less would do

    def reset(self) -> None:
        """Begin again: the number of servers has changed."""
        self._long_since = self._idle_since = None

    def decide(
        self, now: float, loads: Mapping[str, Mapping[Queue, QueueLoad]], *, starting: int = 0
    ) -> int:
        """Return how many servers more or fewer there should be; 0 for no change.

        The queue that is worst off decides, added up over the servers.

        :param loads: by server, of all that serve.
        :param starting: servers that wait for a node or load. While there are any, no more are
            wanted; one less means one of these.
        """
        elapsed_s, self._looked_at = now - self._looked_at, now
        known = [name for name in loads if name in self._before]
        done = totals((loads[name], self._before[name]) for name in known)
        self._before = dict(loads)
        if not known:
            return 0
        left = 1.0 if starting else 1 - 1 / len(known)
        self._note(now, [*done.values()], left * elapsed_s, may_grow=not starting)
        if self._long_since is not None and now - self._long_since >= MORE_AFTER_S:
            return len(loads)
        if self._idle_since is not None and now - self._idle_since >= LESS_AFTER_S:
            return -1
        return 0

    def _note(self, now: float, done: list[QueueLoad], left_s: float, *, may_grow: bool) -> None:
        """Take notice of what the queues did; *left_s*: for each replica, with one server less."""
        is_long = any(load.is_stuck or load.wait_s > LONG_WAIT_S for load in done)
        self._long_since = (self._long_since or now) if is_long and may_grow else None
        is_idle = all(
            not load.is_stuck
            and load.wait_s < SHORT_WAIT_S
            and load.predicted_s <= LONGEST_BUSY * load.replicas * left_s
            for load in done
        )
        self._idle_since = (self._idle_since or now) if is_idle else None


def totals(
    looks: Iterable[tuple[Mapping[Queue, QueueLoad], Mapping[Queue, QueueLoad]]],
) -> dict[Queue, QueueLoad]:
    """Return what was done from each queue between two looks, over all servers.

    :param looks: of each server, the later look and the earlier one.
    """
    found: dict[Queue, QueueLoad] = {}
    for after, before in looks:
        for queue in after.keys() & before.keys():
            done = after[queue].since(before[queue])
            found[queue] = found.get(queue, QueueLoad()) + done
    return found
