# SPDX-License-Identifier: Apache-2.0
"""A wall clock that jumps, for the processes of one server."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.stage import NotHere

if TYPE_CHECKING:
    from tests.faults.stage import Stage

SOURCE = Path(__file__).with_name("clock.c")
OFFSET = struct.Struct("@l")


class Clock:
    """Shifts the clock of the processes that are started with ``environment``."""

    def __init__(self, stage: Stage) -> None:
        """Compile the library that is preloaded.

        :raises NotHere: there is no C compiler.
        """
        compiler = shutil.which("cc")
        if compiler is None:
            raise NotHere("there is no C compiler (cc)")
        self.library = stage.path("clock.so")
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(self.library), str(SOURCE)]
        subprocess.run(command, check=True, timeout=60)
        self._file = stage.path("clock")
        self._file.write_bytes(OFFSET.pack(0))
        self.environment = {"LD_PRELOAD": str(self.library), "FAULTS_CLOCK": str(self._file)}

    def shift(self, seconds: int) -> None:
        """Jump to so many seconds from the real time."""
        with self._file.open("r+b") as file:
            file.write(OFFSET.pack(seconds))

    def is_without(self, pid: int) -> bool:
        """Whether a process has the real clock."""
        return str(self.library) not in Path(f"/proc/{pid}/maps").read_text()
