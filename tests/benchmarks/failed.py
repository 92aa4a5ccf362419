# SPDX-License-Identifier: Apache-2.0
"""Servers that failed under way: each costs its own figures, and the run goes on."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.benchmarks.errors import BenchmarkError
from tests.benchmarks.servers import Server


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A server that was not measured with a case, and why."""

    server: str
    case: str
    reason: str


class Failed:
    """What failed, and is asked for no more."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.found: dict[tuple[str, str], LeftOut] = {}

    @contextmanager
    def alone(self, server: Server, what: str) -> Iterator[bool]:
        """Yield whether to measure *what*; an error in the block is noted, and ends the block."""
        key = (server.key, what)
        try:
            yield key not in self.found
        except (BenchmarkError, OSError) as error:
            print(f"\nbench: failed: {server.title}, {what}: {error}", file=sys.stderr)
            first = str(error).partition("\n")[0]
            self.found[key] = LeftOut(server.title, what, f"failed: {first}")
