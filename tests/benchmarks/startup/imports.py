# SPDX-License-Identifier: Apache-2.0
"""What the imports of each process cost."""

import os
import subprocess
import sys
from dataclasses import dataclass
from time import monotonic
from typing import Final

__all__ = ["COMMANDS", "ImportSample", "measure", "slowest"]

#: what is measured: the arguments of the interpreter
COMMANDS: Final = {
    "python alone": ("-c", "pass"),
    "servekit --help": ("-m", "servekit.cli", "--help"),
    "supervisor": ("-c", "import servekit.cli.commands.start"),
    "prepare": ("-c", "import servekit.supervisor.preparing.prepare"),
    "front-end": ("-c", "import servekit.frontend.server.application"),
    "worker": ("-c", "import servekit.worker.boot.loading, servekit.worker.serving.batch_server"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSample:
    """One run of one interpreter, from exec to its end."""

    process: str
    wall_s: float
    cpu_s: float  #: user and system


def measure(process: str) -> ImportSample:
    """Run the imports of *process* in an interpreter of their own."""
    began = monotonic()
    child = subprocess.Popen([sys.executable, "-P", *COMMANDS[process]], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = monotonic() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{process}: exited with {child.returncode}")
    return ImportSample(process=process, wall_s=wall_s, cpu_s=usage.ru_utime + usage.ru_stime)


def slowest(process: str, count: int = 8) -> list[tuple[str, int]]:
    """Return the modules that take longest by themselves, and how many microseconds each."""
    command = [sys.executable, "-P", "-X", "importtime", *COMMANDS[process]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.removeprefix("import time:").split("|") for line in done.stderr.splitlines()]
    own = [
        (row[2].strip(), int(row[0])) for row in rows if len(row) == 3 and row[0].strip().isdigit()
    ]
    return sorted(own, key=lambda pair: -pair[1])[:count]
