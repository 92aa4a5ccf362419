# SPDX-License-Identifier: Apache-2.0
"""Sizes and times in words, and a progress bar for work that takes a while."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from servekit_archiver.progress import Progress

__all__ = ["human_bytes", "human_seconds", "progress_bar"]

MIN_BYTES: Final = 64 << 20  #: smaller work is done before anybody could read a bar


def human_bytes(size: int) -> str:
    """Return *size* with a decimal unit: ``5.1 MB``."""
    if size < 1000:
        return f"{size} B"
    number, units = float(size), iter(("kB", "MB", "GB", "TB", "PB", "EB"))
    while number >= 999.95:
        number /= 1000
        unit = next(units)
    return f"{number:.1f} {unit}"


def human_seconds(seconds: float) -> str:
    """Return *seconds* in three digits, with a unit that fits: ``12.3 ms``, ``2.5 s``."""
    for unit, count in (("us", 1e6 * seconds), ("ms", 1e3 * seconds), ("s", seconds)):
        if abs(count) < 0.001:
            return "0 s"
        if abs(count) < 999.5:
            return f"{count:.3g} {unit}"
    return f"{seconds:,.0f} s"


@contextmanager
def progress_bar(label: str) -> Iterator[Progress | None]:
    """Yield what draws a bar on stderr; ``None`` if that is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar: Any = None

    def report(done: int, total: int) -> None:
        nonlocal bar
        if total >= MIN_BYTES:
            bar = bar or _new_bar(label, total)
            bar.update(done - bar.n)

    try:
        yield report
    finally:
        if bar is not None:
            bar.close()


def _new_bar(label: str, total: int) -> Any:
    from tqdm import tqdm

    return tqdm(desc=label, total=total, unit="B", unit_scale=True, leave=False, file=sys.stderr)
