# SPDX-License-Identifier: Apache-2.0
"""Whether a response is the recorded one, within a tolerance."""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from servekit.testing import difference
from servekit_record.bodies import EVENT, decode_body, parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit_record.bodies import BodyParts
    from servekit_record.recording import RecordedCall, RecordedMessage

__all__ = ["ResponseComparison"]

#: members that are new in every answer of the OpenAI API
OF_OPENAI: Final = (
    ("id",),
    ("created",),
    ("system_fingerprint",),
    ("choices", "*", "message", "tool_calls", "*", "id"),
    ("choices", "*", "delta", "tool_calls", "*", "id"),
)
OPENAI_OBJECTS: Final = ("chat.completion", "chat.completion.chunk", "text_completion")
MISSING: Final[Any] = object()
SHOWN: Final = 60  #: characters of a value


class ResponseComparison:
    """Compares responses with recorded ones."""

    def __init__(self, tolerance: float, ignored: Sequence[str] = ()) -> None:
        """Allow numbers to differ by *tolerance*, relative or absolute.

        :param ignored: paths of members that may differ: ``prediction.id``, ``choices.*.created``;
            in a stream, they are those of the data of each event, or of each line.
        """
        self._tolerance = tolerance
        self._ignored = [path.lstrip(".").split(".") for path in ignored]

    def difference(self, call: RecordedCall, status: int, found: RecordedMessage) -> str:
        """Return how the response with *status* differs; "" if it does not."""
        if status != call.status:
            told = _detail(found)
            return f"status {status}, expected {call.status}{f': {told}' if told else ''}"
        if not call.has_whole_body:
            return ""
        expected = call.response
        if found.media_type != expected.media_type:
            return f"Content-Type {found.media_type!r}, expected {expected.media_type!r}"
        if found.body == expected.body:
            return ""
        try:
            parts, recorded = parts_of(found), parts_of(expected)
            if parts is not None and recorded is not None:
                return self._of_parts(parts, recorded)
            return self._of_values(decode_body(found), decode_body(expected))
        except (ValueError, EOFError) as error:
            return f"the body cannot be read: {error}"
        except RecursionError:
            return "the body cannot be read: it is nested too deep"

    def _of_values(self, found: Any, expected: Any) -> str:
        if isinstance(found, bytes):
            return f"{len(found)} bytes, not the {len(expected)} bytes that were recorded"
        for value in (found, expected):
            self._remove_ignored(value)
        told = difference(found, expected, self._tolerance)
        return f"body{told}" if told else ""

    def _of_parts(self, found: BodyParts, expected: BodyParts) -> str:
        """Return the first event or line that differs, and how."""
        pairs = zip_longest(found.values, expected.values, fillvalue=MISSING)
        for number, (value, recorded) in enumerate(pairs, 1):
            name = f"{found.noun} {number}"
            if value is MISSING:
                return f"{name} is missing, expected {_shown(recorded)}"
            if recorded is MISSING:
                return f"{name}: {_shown(value)}, expected the end"
            for each in (value, recorded):
                self._remove_ignored(each["data"] if found.noun == EVENT else each)
            if told := difference(value, recorded, self._tolerance):
                error = _error_in(found.noun, value)
                is_new = error and not _error_in(found.noun, recorded)
                return f"{name} is an error: {error}" if is_new else f"{name}{told}"
        return ""

    def _remove_ignored(self, value: Any) -> None:
        for path in self._ignored:
            _remove(value, path)
        if isinstance(value, dict) and value.get("object") in OPENAI_OBJECTS:
            for steps in OF_OPENAI:
                _remove(value, steps)


def _remove(value: Any, path: Sequence[str]) -> None:
    """Remove the members of *value* at *path*; ``*`` is any member or element."""
    step, *rest = path
    if isinstance(value, list):
        for each in value if step == "*" else value[int(step) :][:1] if step.isdigit() else []:
            if rest:
                _remove(each, rest)
    elif isinstance(value, dict):
        for name in [*value] if step == "*" else [step]:
            if rest and name in value:
                _remove(value[name], rest)
            elif not rest:
                value.pop(name, None)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))[:SHOWN]


def _error_in(noun: str, part: Any) -> str:
    """Return what an event or a line says that reports an error; "" if it does not."""
    content = part["data"] if noun == EVENT else part
    is_error = noun == EVENT and part.get("event") == "error"
    is_error = is_error or (isinstance(content, dict) and "error" in content)
    return _told_by(content) if is_error else ""


def _detail(message: RecordedMessage) -> str:
    """Return what an error says."""
    try:
        return _told_by(json.loads(message.body))
    except (ValueError, RecursionError):
        return ""


def _told_by(problem: Any) -> str:
    """Return the text of problem details, or of an error of another API."""
    if isinstance(problem, dict):
        texts = (_told_by(problem.get(name)) for name in ("detail", "title", "message", "error"))
        return next(filter(None, texts), "")
    return problem if isinstance(problem, str) else ""
