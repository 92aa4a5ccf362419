# SPDX-License-Identifier: Apache-2.0
"""How long a request may take: the model's timeout, or what its client asks for if less."""

from __future__ import annotations

import re

from servekit.errors import ClientError
from servekit.frontend.batching.task import INFINITY

__all__ = ["TIMEOUT_FIELD", "Deadlines", "deadlines_of"]

TIMEOUT_FIELD = b"x-request-timeout-ms"
MILLISECONDS = re.compile(rb"[0-9]{1,9}")

#: ``monotonic``: of the response, or of a stream's first output; of all of a stream; and why the
#: request is refused, if its client asks for something that is not a number of milliseconds
Deadlines = tuple[float, float, ClientError | None]


def deadlines_of(headers: dict[bytes, bytes], timeout_s: float, now: float) -> Deadlines:
    """Return the deadlines of a request that arrived *now* for a model with *timeout_s*."""
    asked = headers.get(TIMEOUT_FIELD)
    if asked is None:
        return now + timeout_s, INFINITY, None
    if not MILLISECONDS.fullmatch(asked):
        text = "X-Request-Timeout-Ms: not a whole number of milliseconds"
        return now + timeout_s, INFINITY, ClientError(text)
    asked_s = int(asked) / 1000
    return now + min(timeout_s, asked_s), now + asked_s, None
