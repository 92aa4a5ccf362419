# SPDX-License-Identifier: Apache-2.0
"""Files that hold the servers of a discovery, and follow them."""

import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE

from servekit.client import Discovery
from servekit.errors import StartupError

__all__ = ["publish", "replace_file"]


def publish(discovery: Discovery, write: Callable[[Sequence[str]], None], *, follow: bool) -> int:
    """Call *write* with the URLs that *discovery* finds, and return the exit status.

    :param follow: do so again and again, until Ctrl-C, and wait for servers if there are none.
        After the first write a problem is printed, and the next look may be better.
    :raises StartupError: no servers were found, or the files cannot be written.
    """
    has_written, printed = False, ""
    pause = threading.Event()
    while True:
        urls, problem = _look(discovery)
        if urls:
            try:
                write(urls)
                has_written = True
            except StartupError as error:
                if not (follow and has_written):
                    raise
                problem = str(error)
        elif not follow:
            raise StartupError(problem)
        if problem and problem != printed:
            print(f"servekit: {problem}", file=sys.stderr)
        printed = problem
        if not follow:
            return 0
        pause.wait(discovery.every_s)


def _look(discovery: Discovery) -> tuple[Sequence[str], str]:
    """Return the URLs, or why there are none."""
    try:
        urls = discovery.urls()
    except OSError as error:
        return (), f"no servers found: {error}"
    return urls, "" if urls else "no servers found"


def replace_file(path: Path, text: str) -> None:
    """Replace a file at once: readers see all of it, and Envoy notices the new one.

    It keeps its mode and, where this process may set them, its owner and group.

    :raises StartupError: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.new")
    try:
        draft.write_text(text, encoding="utf-8")
        if path.exists():
            _keep_access(path, draft)
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise StartupError(f"{path}: {error.strerror}") from error


def _keep_access(path: Path, draft: Path) -> None:
    """Give *draft* the owner, the group and the mode of *path*."""
    found = path.stat()
    with suppress(PermissionError):  # only root may give files away
        os.chown(draft, found.st_uid, found.st_gid)
    draft.chmod(S_IMODE(found.st_mode))
