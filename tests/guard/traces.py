# SPDX-License-Identifier: Apache-2.0
"""Reads what ``strace -ff`` wrote: the system calls of one process, turn by turn."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

CALL = re.compile(r"(\w+)\(")


class Call(NamedTuple):
    """One system call."""

    name: str
    text: str  #: with arguments and result, as strace prints them


def read_trace(path: Path) -> list[Call]:
    """Return the calls of one process in their order; signals and exits are left out."""
    lines = path.read_text(errors="replace").splitlines()
    return [Call(match[1], line) for line in lines if (match := CALL.match(line))]


def is_receipt(call: Call, text: str) -> bool:
    """Whether *call* received bytes that hold *text*."""
    return call.name.startswith(("recv", "read")) and text in call.text


def between(calls: Sequence[Call], first: Callable[[Call], bool]) -> Sequence[Call]:
    """Return what follows the first call that *first* accepts, that call included."""
    return calls[next(place for place, call in enumerate(calls) if first(call)) :]


def turns(calls: Sequence[Call], begins: Callable[[Call], bool]) -> Iterator[Sequence[Call]]:
    """Yield the whole turns: from a call that *begins* accepts up to the next such call."""
    places = [place for place, call in enumerate(calls) if begins(call)]
    for start, end in pairwise(places):
        yield calls[start:end]


def typical(parts: Sequence[Sequence[Call]]) -> dict[str, int]:
    """Return the median count of each system call over *parts*.

    What a timer or the kernel adds to some turns leaves no trace in a median.
    """
    counts = [Counter(call.name for call in part) for part in parts]
    names = sorted(set().union(*counts))
    medians = {name: median_low([count[name] for count in counts]) for name in names}
    return {name: count for name, count in medians.items() if count}
