# SPDX-License-Identifier: Apache-2.0
"""Shows what raised an error to the author of a service: tracebacks leave out servekit's frames."""

import importlib
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from traceback import TracebackException

import pluggy

from servekit.errors import StartupError

__all__ = ["authors_error", "reason_of", "traceback_text"]

#: paths of servekit, and of what calls an author's code for it: importlib, and pluggy for plugins
OURS = (
    f"{Path(__file__).parents[2]}/",
    "<frozen importlib",
    importlib.__file__,
    f"{Path(pluggy.__file__).parent}/",
)
REASON_CHARS = 500  #: characters of the message of an exception


def traceback_text(error: BaseException) -> str:
    """Return the traceback of *error* without servekit's frames, unless there are no others."""
    try:
        whole = TracebackException.from_exception(error)
        if _has_only_ours(whole) and not isinstance(error, SyntaxError):
            return "".join(whole.format())
        for each in _chain(whole):
            each.stack[:] = [frame for frame in each.stack if not _is_ours(frame.filename)]
            if not each.stack:
                each.stack = None  # type: ignore[assignment] # else its title is shown
        return "".join(whole.format())
    except Exception:  # noqa: BLE001 - an author's exception may raise while it is formatted
        return f"{type(error).__name__}, which cannot be shown\n"


def authors_error(error: BaseException) -> BaseException | None:
    """Return *error*, or the first of its causes that went through code other than servekit's."""
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
    """Yield *first*, its causes and contexts, and the members of groups."""
    waiting, seen = [first], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        inner = [each.__cause__, each.__context__, *(getattr(each, "exceptions", None) or [])]
        waiting += [one for one in inner if one is not None]


def reason_of(error: BaseException, directory: str) -> str:
    """Return one line: the error, and the line of code in *directory* that it came from."""
    text = " ".join(_text(error).split())
    if isinstance(error, StartupError) and not error.__cause__:
        return text[:REASON_CHARS]
    named = text if isinstance(error, StartupError) else f"{type(error).__name__}: {text}"
    origin = _origin(error.__cause__ or error, os.path.realpath(directory))
    return f"{named.removesuffix(': ')[:REASON_CHARS]}{origin}"


def _text(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return error.msg
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an author's exception
        return ""


def _origin(error: BaseException, directory: str) -> str:
    """Return `` (service.py:12)``, of the last frame in *directory*, else the last not of ours."""
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames = [(error.filename, error.lineno)]
    if not frames:
        return ""
    theirs = [frame for frame in frames if not _is_ours(frame[0])]
    own = [frame for frame in theirs if os.path.realpath(frame[0]).startswith(directory + os.sep)]
    filename, line = (own or theirs or frames)[-1]
    path = os.path.realpath(filename)
    shown = os.path.relpath(path, directory) if path.startswith(directory) else filename
    return f" ({shown}:{line})"
