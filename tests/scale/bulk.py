# SPDX-License-Identifier: Apache-2.0
"""What a megabyte costs, while more and more of them are under way at once."""

from __future__ import annotations

from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING, Final

from tests.scale.flock import post
from tests.scale.prober import probing
from tests.scale.subject import BULK, Subject, started
from tests.scale.table import table
from tests.scale.transfers import chunked, transfer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scale.sections import Plan

MB: Final = 1_000_000
LARGEST_MB: Final = {"answers": 64, "uploads in chunks": 10}  #: by default, of one client
AT_LEAST_MB: Final = 100  #: are sent for each row, else their CPU time could not be read
LIMIT_S: Final = 7.0  #: of a row; then it says how far it came
WIRES: Final[dict[str, Callable[[int], bytes]]] = {
    "answers": lambda size: post("/bulk/predict", b'{"bytes":%d}' % size),
    "uploads in chunks": lambda size: chunked("/bulk/predict", size),
}


def bulk(plan: Plan, progress: Callable[[str], None]) -> str:
    """Large answers and chunked uploads: cost of a megabyte, and the longest /ping meanwhile."""
    rows: list[list[object]] = []
    for what, wire in WIRES.items():
        for clients, each_mb in plan.bulk:
            if each_mb > LARGEST_MB[what]:
                continue
            progress(f"{what}: {clients} of {each_mb} MB")
            with started(str(BULK), options=("--queue-memory=8GiB",)) as subject:
                found = _cost(subject, wire(each_mb * MB), clients, each_mb)
            rows.append([what, clients, each_mb, clients * each_mb, *found])
    headings = (
        "clients",
        "MB each",
        "MB in flight",
        "MB/s",
        "front-end",
        "all",
        "longest /ping ms",
    )
    return table(("large", *headings, "other than 200"), rows)


def _cost(subject: Subject, wire: bytes, clients: int, each_mb: int) -> list[object]:
    """Return MB/s, CPU ms per MB of the front-end and in all, longest /ping, and what failed."""
    seen = Counter[str]()
    transfer(subject.port, wire, 1, LIMIT_S)  # memory is mapped, the worker knows the way
    begun, before = monotonic(), subject.cpu_s()
    with probing(subject.port) as prober:
        while clients * each_mb * _rounds(seen, clients) < AT_LEAST_MB:
            left_s = begun + LIMIT_S - monotonic()
            if left_s <= 0:
                break
            seen += transfer(subject.port, wire, clients, left_s)
        took_s, after = monotonic() - begun, subject.cpu_s()
    done = seen["200"] * each_mb
    spent = [(after[role] - before[role]) * 1e3 / done for role in ("front-end", "all") if done]
    failed = ", ".join(f"{seen[end]:,} {end}" for end in sorted(seen) if end != "200")
    return [done / took_s, *(spent or ["-", "-"]), prober.longest_ms, failed or "0"]


def _rounds(seen: Counter[str], clients: int) -> int:
    return seen.total() // clients
