# SPDX-License-Identifier: Apache-2.0
"""Runs uv and pip, and finds them."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from servekit_archiver.errors import ArchiveError

__all__ = [
    "RUNNING",
    "ToolFailed",
    "find_python",
    "find_uv",
    "pip_command",
    "pip_steps",
    "run_tool",
]

TAIL: Final = 15  #: the last lines of output that an error keeps
RUNNING: Final = f"{sys.version_info.major}.{sys.version_info.minor}"  #: this Python
POINTER: Final = "ResolutionImpossible"  #: pip's last line, which only says where to read more
#: how the lines of pip begin that say how far it is
PROGRESS: Final = re.compile(r"Progress (\d+) of (\d+)")
STEPS: Final = ("Collecting ", "Downloading ", "Processing ", "Building ", "Installing ", "Saved ")


class ToolFailed(ArchiveError):
    """A tool ended with an error."""

    def __init__(self, tool: str, lines: Sequence[str]) -> None:
        """Keep the end of its output.

        :param lines: what it printed.
        """
        self.tail = list(lines[-TAIL:])
        errors = [line for line in self.tail if line.lower().startswith("error")]
        errors = [line for line in errors if POINTER not in line] or errors
        self.reason = (errors or self.tail or ["failed"])[-1]
        super().__init__(f"{tool}: {self.reason}")


def run_tool(
    command: Sequence[str | Path], directory: Path, on_line: Callable[[str], object]
) -> list[str]:
    """Run *command* in *directory* and return the lines that it printed. Blocks until it ends.

    :param on_line: gets each line as it comes, without blanks around it.
    :raises ToolFailed: it failed.
    """
    lines: list[str] = []
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(
        command, cwd=directory, stdin=subprocess.DEVNULL, stdout=pipe, stderr=both
    ) as process:
        for raw in process.stdout or ():
            if line := raw.decode(errors="replace").strip():
                lines.append(line)
                on_line(line)
    if process.returncode:
        raise ToolFailed(Path(command[0]).name, lines)
    return lines


def find_uv() -> str:
    """Return the path of uv: that of the Python package, or the one on the ``PATH``.

    :raises ArchiveError: it is not installed.
    """
    try:
        from uv import find_uv_bin

        return os.fsdecode(find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if found is None:
        raise ArchiveError("uv is not installed; run: pip install 'servekit-archiver[lock]'")
    return found


def find_python(version: str) -> str:
    """Return an installed interpreter of *version*, such as 3.12: this one, or one that uv finds.

    :raises ArchiveError: it is not installed. Nothing is downloaded.
    """
    if version == RUNNING:
        return sys.executable
    command = [find_uv(), "python", "find", "--no-python-downloads", "--no-project", version]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ArchiveError(
            f"Python {version} is not installed; run: uv python install {version}, or lock for"
            f" another with --python"
        )
    return done.stdout.strip()


def pip_command(python: str, *arguments: str) -> list[str]:
    """Return the command that runs pip for the interpreter *python*.

    :raises ArchiveError: pip is not installed.
    """
    if find_spec("pip") is None:
        raise ArchiveError("pip is not installed; run: python -m ensurepip")
    quiet = ["--disable-pip-version-check", "--no-input", "--no-color"]
    command, *rest = arguments
    return [sys.executable, "-m", "pip", "--python", python, command, *quiet, *rest]


def pip_steps(tell: Callable[[str], object]) -> Callable[[str], None]:
    """Return what passes on the lines of pip that say how far it is, in short."""

    now = ""

    def pass_on(line: str) -> None:
        nonlocal now
        if line.startswith(STEPS):
            verb, _, what = line.partition(" (from ")[0].partition(" ")
            now = f"{verb.lower()} {what.rpartition('/')[2]}"
            tell(now)
        elif found := PROGRESS.fullmatch(line):
            tell(f"{now}: {int(found[1]) // 1_000_000} of {int(found[2]) // 1_000_000} MB")

    return pass_on
