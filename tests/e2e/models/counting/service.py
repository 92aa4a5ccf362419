# SPDX-License-Identifier: Apache-2.0
"""Counts in generators, and keeps a file with how many of them are open in this worker."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from servekit import InputError, Service


class Count(Struct):
    """How far to count, and where to fail."""

    to: int
    refuse_at: int = -1
    pause_s: float = 0.0
    directory: str = ""  #: where the file is kept


class Counting(Service):
    """Yields the numbers from 0."""

    opened = closed = 0

    def stream(self, count: Count) -> Iterator[int]:
        self.opened += 1
        try:
            for number in range(count.to):
                if number == count.refuse_at:
                    raise InputError("far enough")
                time.sleep(count.pause_s)
                yield number
        finally:
            self.closed += 1
            if count.directory:
                path = Path(count.directory, str(os.getpid()))
                path.write_text(f"{self.opened} {self.closed}")
