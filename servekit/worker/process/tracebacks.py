# SPDX-License-Identifier: Apache-2.0
"""Tracebacks as the author of a service reads them: frames of servekit are left out."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from traceback import TracebackException

__all__ = ["authors_error", "traceback_text"]

OURS = (f"{Path(__file__).parents[2]}/", "<frozen importlib", importlib.__file__)


def traceback_text(error: BaseException) -> str:
    """Return the traceback of *error* without frames of ours; with them if there are no others."""
    try:
        whole = TracebackException.from_exception(error)
        if _has_only_ours(whole) and not isinstance(error, SyntaxError):
            return "".join(whole.format())
        for each in _chain(whole):
            each.stack[:] = [frame for frame in each.stack if not _is_ours(frame.filename)]
            if not each.stack:
                each.stack = None  # type: ignore[assignment] # else its title is shown
        return "".join(whole.format())
    except Exception:  # noqa: BLE001 - an author's exception may raise while it is shown
        return f"{type(error).__name__}, which cannot be shown\n"


def authors_error(error: BaseException) -> BaseException | None:
    """Return *error*, or the one that led to it, if code that is not ours had a part in it."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        frame = found.__traceback__
        while frame is not None:
            if not _is_ours(frame.tb_frame.f_code.co_filename):
                return found
            frame = frame.tb_next
        found = found.__cause__
    return None


def _is_ours(filename: str) -> bool:
    return filename.startswith(OURS)


def _has_only_ours(whole: TracebackException) -> bool:
    return all(_is_ours(frame.filename) for each in _chain(whole) for frame in each.stack)


def _chain(first: TracebackException) -> Iterator[TracebackException]:
    """Yield *first*, what led to it, and the members of groups."""
    waiting, seen = [first], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        inner = [each.__cause__, each.__context__, *(getattr(each, "exceptions", None) or [])]
        waiting += [one for one in inner if one is not None]
