# SPDX-License-Identifier: Apache-2.0
"""Memory of one process, shared pages by their part."""

from pathlib import Path


def read_pss(pid: int) -> int:
    """Return the proportional set size in bytes; 0 for a process that has just gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line[:4] == "Pss:")
