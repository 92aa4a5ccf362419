# SPDX-License-Identifier: Apache-2.0
"""A progress bar for work that takes long enough to wonder."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from servekit_archiver.progress import Progress

__all__ = ["progress_bar"]

LEAST_BYTES: Final = 64 << 20  #: below, it is done before a bar can be read


@contextmanager
def progress_bar(label: str) -> Iterator[Progress | None]:
    """Yield what draws a bar on stderr; ``None`` if that is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar: Any = None

    def report(done: int, total: int) -> None:
        nonlocal bar
        if total >= LEAST_BYTES:
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
