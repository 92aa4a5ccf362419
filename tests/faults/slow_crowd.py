# SPDX-License-Identifier: Apache-2.0
"""The process of the slow clients, seen from the row that has started it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.benchmarks.environments import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REPORT_S = 60.0


class SlowCrowd:
    """A running ``slow_clients.py``."""

    def __init__(self, port: int, seconds: float, counts: Mapping[str, int]) -> None:
        """Start it."""
        command = [sys.executable, "-m", "tests.faults.slow_clients", str(port), str(seconds)]
        command += [f"{kind}={count}" for kind, count in counts.items()]
        self._popen = subprocess.Popen(
            command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def wait_open(self) -> None:
        """Wait until the first ones have come; to be called before ``wait_stopped``."""
        assert self._popen.stdout is not None
        assert self._popen.stdout.readline() == "open\n", "the slow clients have failed"

    def wait_stopped(self) -> None:
        """Wait until they send no more, as they do after their seconds, and only hold on."""
        assert self._popen.stdout is not None
        said = [self._popen.stdout.readline()]
        if said == ["open\n"]:
            said.append(self._popen.stdout.readline())
        assert said[-1] == "stopped\n", f"the slow clients have failed: {said}"

    def seen(self) -> dict[str, Any]:
        """Let them go; return what they saw: statuses, longest_s and filled, by kind."""
        seen: dict[str, Any] = json.loads(self._popen.communicate("\n", REPORT_S)[0])
        return seen

    def end(self) -> None:
        """End it, however far it has come."""
        self._popen.kill()
        self._popen.communicate()


@contextmanager
def slow_crowd(port: int, seconds: float, counts: Mapping[str, int]) -> Iterator[SlowCrowd]:
    """Have slow clients for so long."""
    crowd = SlowCrowd(port, seconds, counts)
    try:
        yield crowd
    finally:
        crowd.end()
