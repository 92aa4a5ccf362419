# SPDX-License-Identifier: Apache-2.0
"""Whether the programs that count are here and allowed to."""

import shutil
import subprocess

PROBES = {
    "strace": ("strace", "-f", "-o", "/dev/null", "true"),
    "valgrind": ("valgrind", "-q", "--tool=callgrind", "--callgrind-out-file=/dev/null", "true"),
}


def why_not(tool: str) -> str:
    """Return why *tool* cannot be used here, or ""."""
    if shutil.which(tool) is None:
        return f"{tool} is not installed"
    done = subprocess.run(PROBES[tool], capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return f"{tool} is not permitted here: {said}"
    return ""
