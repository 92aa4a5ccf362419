# SPDX-License-Identifier: Apache-2.0
"""Everything that one run measured, and its JSON."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TypeVar

from tests.benchmarks.cases import Case
from tests.benchmarks.failed import LeftOut
from tests.benchmarks.figures import Sample, Spread
from tests.benchmarks.idle import IdleSample
from tests.benchmarks.machine import Machine
from tests.benchmarks.open_loop import OpenSample
from tests.benchmarks.running import Plan
from tests.benchmarks.servers import Server


@dataclass(slots=True, kw_only=True)
class Results:
    """One run on one machine."""

    machine: Machine
    plan: Plan
    servers: dict[Server, str]  #: to their versions
    cases: list[Case] = field(default_factory=list)  #: of closed-loop load, in order
    left_out: list[LeftOut] = field(default_factory=list)
    closed: list[Sample] = field(default_factory=list)
    open: list[OpenSample] = field(default_factory=list)
    idle: list[IdleSample] = field(default_factory=list)

    def titles(self) -> dict[str, str]:
        """Return the servers' titles by key."""
        return {server.key: server.title for server in self.servers}

    def as_json(self, judged: Sequence[dict[str, Any]]) -> str:
        """Return all of it; *judged* are the targets with what came of them."""
        document = {
            "machine": asdict(self.machine),
            "plan": asdict(self.plan),
            "servers": {s.key: {"title": s.title, "version": v} for s, v in self.servers.items()},
            "left_out": [asdict(left_out) for left_out in self.left_out],
            "cases": {case.key: case.title for case in self.cases},
            "closed_loop": [asdict(sample) for sample in self.closed],
            "open_loop": [asdict(sample) for sample in self.open],
            "idle": [asdict(sample) for sample in self.idle],
            "targets": list(judged),
        }
        return json.dumps(document, indent=2) + "\n"


class Measured(Protocol):
    """A sample of any kind."""

    @property
    def server(self) -> str: ...


S = TypeVar("S", bound=Measured)


def spread_of(samples: Iterable[S], server: str, figure: Callable[[S], float]) -> Spread | None:
    """Return a figure of one server over the rounds; ``None`` if it was not measured."""
    values = [figure(sample) for sample in samples if sample.server == server]
    return Spread.of(values) if values else None
