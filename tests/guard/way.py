# SPDX-License-Identifier: Apache-2.0
"""Prints the way of one predict request: the files of servekit, one stay after another.

A *stay* is a stretch of the way within one file. A request that goes back and forth between files
has many of them, and is hard to follow. ``tests/contract/test_way.py`` runs this.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

from tests.guard.hot_path import WARM_UP, FrontEndPath, WorkerPath

PACKAGE = str(Path(__file__).parents[2] / "servekit") + "/"
CHANNEL = "ipc/channel.py"  #: the stand-ins of the other processes call it, too


def stays(run: Callable[[], None]) -> list[str]:
    """Return the files of servekit that *run* is in, one after another."""
    stack: list[str] = []
    seen: list[str] = []

    def follow(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            stack.append(frame.f_code.co_filename)
        elif event == "return" and stack:
            stack.pop()
        files = [each.removeprefix(PACKAGE) for each in stack if each.startswith(PACKAGE)]
        if files and files[0] != CHANNEL:
            seen.append(files[-1])

    sys.setprofile(follow)
    try:
        run()
    finally:
        sys.setprofile(None)
    return [file for file, _ in groupby(seen)]


def main() -> None:
    """Print both halves of the way as JSON."""
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        worker, front_end = WorkerPath(), FrontEndPath(Path(directory))
        for name, path in {"worker": worker, "front-end": front_end}.items():
            path.one_by_one(WARM_UP)  # nothing is imported or remembered after this
            found[name] = stays(lambda path=path: path.one_by_one(1))  # type: ignore[misc]
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
