# SPDX-License-Identifier: Apache-2.0
"""What a worker says on its stderr, which the supervisor reads."""

import importlib
import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["log_failure", "say", "traceback_text"]

STDERR = 2
HERE = str(Path(__file__).parent)
IMPORTS = ("<frozen importlib", importlib.__file__)
SHOWN_IDS = 32


def say(text: str) -> None:
    """Write *text* whole, whatever the service did to ``sys.stderr``."""
    rest = memoryview(text.encode("utf-8", "replace"))
    try:
        while rest:
            rest = rest[os.write(STDERR, rest) :]
    except OSError:
        return  # closed by the service: nobody to tell


def log_failure(where: str, error: BaseException, request_ids: list[str]) -> None:
    """Say which requests *error* failed, with the traceback of the author's code."""
    ids = ", ".join(request_ids[:SHOWN_IDS]) + (", ..." if len(request_ids) > SHOWN_IDS else "")
    say(f"{where} failed for {len(request_ids)} request(s): {ids}\n{traceback_text(error)}")


def traceback_text(error: BaseException) -> str:
    """Return the traceback of *error* from the first frame that is not ours, nor an import's."""
    frame: TracebackType | None = error.__traceback__
    while frame and frame.tb_frame.f_code.co_filename.startswith((HERE, *IMPORTS)):
        frame = frame.tb_next
    if frame is None and not isinstance(error, SyntaxError):  # which says itself where it is
        frame = error.__traceback__
    try:
        lines = traceback.format_exception(type(error), error, frame)
    except Exception:  # noqa: BLE001 - an author's exception may raise while it is shown
        return f"{type(error).__name__}, which cannot be shown\n"
    return "".join(lines)
