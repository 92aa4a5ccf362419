# SPDX-License-Identifier: Apache-2.0
"""Instructions per request, counted by callgrind: the same on a busy machine as on an idle one."""

import os
import subprocess
import sys
from pathlib import Path

from tests.guard.hot_path import FEW, MANY

ROOT = Path(__file__).parents[2]
LIMIT_S = 280.0


def count_instructions(directory: Path) -> dict[str, int]:
    """Return the instructions per request of each case; takes about 12 s on an idle machine.

    :param directory: keeps callgrind's files, for ``callgrind_annotate``.
    """
    names = directory / "names"
    output = directory / "callgrind"
    command = ["valgrind", "-q", "--tool=callgrind", "--dump-before=getppid"]
    command += [f"--callgrind-out-file={output}", sys.executable, "-m", "tests.guard.hot_path"]
    subprocess.run(
        [*command, "--names", str(names)],
        env=os.environ | {"PYTHONHASHSEED": "0"},
        cwd=ROOT,
        check=True,
        timeout=LIMIT_S,
    )
    return {
        name: (total_of(output, 3 * place + 3) - total_of(output, 3 * place + 2)) // (MANY - FEW)
        for place, name in enumerate(names.read_text().split())
    }


def total_of(output: Path, mark: int) -> int:
    """Return the instructions between mark number *mark* and the one before."""
    lines = Path(f"{output}.{mark}").read_text(errors="replace").splitlines()
    return int(next(line for line in lines if line.startswith("totals:")).split()[1])
