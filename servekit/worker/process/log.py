# SPDX-License-Identifier: Apache-2.0
"""What a worker says on its stderr, which the supervisor reads."""

import json
import os
from collections.abc import Sequence
from typing import Any

from servekit.worker.process.tracebacks import traceback_text

__all__ = ["json_line", "report", "say", "use_json"]

STDERR = 2
SHOWN_IDS = 32
#: a line of JSON; of a longer one the supervisor keeps the beginning, which is not JSON
MAX_LINE_BYTES = 4000

_is_json = False


def use_json() -> None:
    """Report failures as lines of JSON from now on, as the server's log has them."""
    global _is_json
    _is_json = True


def say(text: str) -> None:
    """Write *text* whole, whatever the service did to ``sys.stderr``."""
    rest = memoryview(text.encode("utf-8", "replace"))
    try:
        while rest:
            rest = rest[os.write(STDERR, rest) :]
    except OSError:
        return  # closed by the service: nobody to tell


def report(heading: str, error: BaseException | None, request_ids: Sequence[str] = ()) -> None:
    """Say what happened, to which requests, and the traceback of *error* if there is one."""
    text = "" if error is None else traceback_text(error)
    if _is_json:
        ids = {"request_ids": list(request_ids[:SHOWN_IDS])} if request_ids else {}
        told = {"traceback": text} if text else {}
        say(json_line({"level": "error", "message": heading or _last_line(text), **ids, **told}))
    else:
        say("".join([f"{heading}{_requests(request_ids)}\n" if heading else "", text]))


def json_line(record: dict[str, Any]) -> str:
    """Return *record* as a line of JSON; its longest members are cut until it is short enough."""
    while len(line := json.dumps(record, default=str)) > MAX_LINE_BYTES:
        longest = max(record, key=lambda name: len(json.dumps(record[name], default=str)))
        record[longest] = _half(longest, record[longest])
    return line + "\n"


def _half(name: str, value: Any) -> Any:
    """Return less of *value*; the end of a traceback says more than its beginning."""
    if isinstance(value, list):
        return value[: len(value) // 2]
    text = value if isinstance(value, str) else str(value)
    size = len(text) * 3 // 4
    return text[-size:] if name == "traceback" else text[:size]


def _requests(ids: Sequence[str]) -> str:
    if not ids:
        return ""
    more = ", ..." if len(ids) > SHOWN_IDS else ""
    return f" for {len(ids)} request(s): {', '.join(ids[:SHOWN_IDS])}{more}"


def _last_line(text: str) -> str:
    lines = text.rstrip().splitlines()
    return lines[-1] if lines else "failed"
