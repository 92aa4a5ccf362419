# SPDX-License-Identifier: Apache-2.0
"""The machine a figure belongs to; without it a figure means nothing."""

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What somebody needs to know to compare two reports."""

    cpu: str
    cores: int  #: that we may use
    memory_gib: float
    kernel: str
    python: str
    wrk: str
    load: (
        float  #: processes that wanted a core in the minute before; more than a little spoils a run
    )

    def line(self) -> str:
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gib:.1f} GiB, Linux {self.kernel}, "
            f"Python {self.python}, wrk {self.wrk}; load before the run {self.load:.1f}"
        )


def read_machine() -> Machine:
    """Look at the machine that this runs on."""
    said = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False)
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cpu=cpu_model(Path("/proc/cpuinfo").read_text(encoding="utf-8")),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=memory_bytes / 2**30,
        kernel=platform.release().partition("-")[0],
        python=platform.python_version(),
        wrk=(said.stdout + said.stderr).split(" Copyright")[0].split(" ", 1)[1],
        load=os.getloadavg()[0],
    )


def cpu_model(cpuinfo: str) -> str:
    """Return the CPU's name; some architectures give none."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in {"model name", "Model"}:
            return value.strip()
    return platform.machine()
