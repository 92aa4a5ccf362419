# SPDX-License-Identifier: Apache-2.0
"""Where environments are, who builds or uses them, and their removal."""

import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep, time
from typing import Final

from servekit_archiver.cache.holding import discard
from servekit_archiver.cache.places import UNUSED_S

__all__ = [
    "FACTS_FILE",
    "FOLDER",
    "UNUSED_S",
    "building",
    "environments_in",
    "last_use",
    "python_of",
    "remove",
    "remove_unused",
]

FOLDER: Final = "environments"
FACTS_FILE: Final = "environment.json"
WAIT_S: Final = 0.2
KEY: Final = re.compile(r"[0-9a-f]{32}")


def python_of(environment: Path) -> str:
    """Return the interpreter of *environment*."""
    return str(environment / "bin" / "python")


@contextmanager
def building(environment: Path, on_wait: Callable[[], object] | None = None) -> Iterator[None]:
    """Lock *environment*: no other process builds or removes it meanwhile.

    :param on_wait: called now and then while another process is at it.
    :raises BlockingIOError: another process is at it, and there is no *on_wait*.
    """
    path = environment.with_suffix(".lock")
    while True:
        with path.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if on_wait is None:
                    raise
                on_wait()
                sleep(WAIT_S)
                continue
            if path.exists() and os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                yield  # the lock is released with the file, however we end
                return


def environments_in(folder: Path) -> list[Path]:
    """Return the environments in *folder*, complete or not."""
    return sorted(path for path in folder.glob("*/") if KEY.fullmatch(path.name))


def last_use(environment: Path) -> float:
    """Return when *environment* was used last, in seconds since the epoch."""
    facts = environment / FACTS_FILE
    return (facts if facts.exists() else environment).stat().st_mtime


def remove(environment: Path) -> bool:
    """Remove *environment* unless somebody builds or uses it; say whether it is gone."""
    with suppress(BlockingIOError), building(environment):
        discard(environment)
        if not environment.exists():
            for suffix in (".log", ".lock"):
                environment.with_suffix(suffix).unlink(missing_ok=True)
            return True
    return False


def remove_unused(folder: Path, unused_s: float) -> None:
    """Remove the environments in *folder* that were last used *unused_s* seconds ago."""
    for environment in environments_in(folder):
        with suppress(OSError):
            if last_use(environment) < time() - unused_s:
                remove(environment)
