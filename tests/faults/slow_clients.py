# SPDX-License-Identifier: Apache-2.0
"""Clients that take for ever, of the kinds of ``slow_kinds.py``. A process of its own.

``python -m tests.faults.slow_clients PORT SECONDS headers=900 bodies=900 readers=200`` keeps that
many open for SECONDS, a new one for each that the server ends. It prints ``open`` once the first
ones have come, and ``stopped`` when it only holds on to what is open. At the end of its input it
prints what it saw, as JSON.
"""

from __future__ import annotations

import json
import os
import random
import select
import sys
from collections import Counter
from heapq import heappop, heappush
from time import monotonic
from typing import TYPE_CHECKING

from tests.faults.slow_kinds import KINDS, begin

if TYPE_CHECKING:
    from tests.faults.slow_kinds import Client

OPENING_PART = 0.25  #: of the time, within which the first ones come
SUDDEN_S = 0.2  #: the same for those that come all at once


class Crowd:
    """All of them, on one epoll."""

    def __init__(self, port: int, counts: dict[str, int], opening_s: float) -> None:
        """Open nothing yet; all come within *opening_s*."""
        self._port = port
        self._epoll = select.epoll()
        self._open: dict[int, tuple[str, Client, float]] = {}
        self._due: list[tuple[float, int, str, Client | None]] = []
        self._turn = 0
        self._filled = dict.fromkeys(counts, 0)
        self.statuses: dict[str, Counter[str]] = {name: Counter() for name in counts}
        self.longest_s = dict.fromkeys(counts, 0.0)
        chance = random.Random(6)
        for name, count in counts.items():
            within_s = SUDDEN_S if KINDS[name].is_sudden else opening_s
            for _ in range(count):
                self._later(chance.random() * within_s, name, None)

    @property
    def filled(self) -> dict[str, int]:
        """How many requests of each kind have said all but their drops."""
        filled = dict(self._filled)
        for name, client, _ in self._open.values():
            filled[name] += client.filled
        return filled

    def run(self, until: float, *, is_sending: bool) -> None:
        """Be slow until that moment; without sending, only hold what is open."""
        while (now := monotonic()) < until:
            while is_sending and self._due and self._due[0][0] <= now:
                _, _, name, client = heappop(self._due)
                if client is None:
                    self._begin(name)
                elif not client.is_over:
                    client.drop()
                    self._watch(client)
                    self._later(KINDS[name].every_s, name, client)
            for fd, events in self._epoll.poll(0.02):
                self._on_event(fd, events, is_sending=is_sending)

    def _later(self, seconds: float, name: str, client: Client | None) -> None:
        self._turn += 1
        heappush(self._due, (monotonic() + seconds, self._turn, name, client))

    def _begin(self, name: str) -> None:
        client = begin(name, self._port)
        self._open[client.sock.fileno()] = (name, client, monotonic())
        self._epoll.register(client.sock.fileno(), client.events)
        self._later(KINDS[name].every_s, name, client)

    def _watch(self, client: Client) -> None:
        self._epoll.modify(client.sock.fileno(), client.events)

    def _on_event(self, fd: int, events: int, *, is_sending: bool) -> None:
        name, client, began = self._open[fd]
        if events & ~select.EPOLLOUT:
            ends = client.hear()
            self.statuses[name].update(ends)
            if ends:
                self.longest_s[name] = max(self.longest_s[name], monotonic() - began)
        else:
            client.write()
        if not client.is_over:
            self._watch(client)
            return
        self._filled[name] += client.filled
        del self._open[fd]
        client.sock.close()
        if is_sending:
            self._later(KINDS[name].every_s if KINDS[name].is_sudden else 0, name, None)


def main() -> None:
    """Be a crowd until the input ends."""
    port, seconds = int(sys.argv[1]), float(sys.argv[2])
    counts = {name: int(count) for name, _, count in (arg.partition("=") for arg in sys.argv[3:])}
    crowd = Crowd(port, counts, seconds * OPENING_PART)
    end = monotonic() + seconds
    crowd.run(monotonic() + seconds * OPENING_PART, is_sending=True)
    print("open", flush=True)
    crowd.run(end, is_sending=True)
    print("stopped", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        crowd.run(monotonic() + 0.1, is_sending=False)
    seen = {"statuses": crowd.statuses, "longest_s": crowd.longest_s, "filled": crowd.filled}
    print(json.dumps(seen), flush=True)
    os._exit(0)  # closing thousands of sockets one by one takes a while


if __name__ == "__main__":
    main()
