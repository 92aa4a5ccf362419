# SPDX-License-Identifier: Apache-2.0
"""How long a request may take: the model's timeout, or what its client asks for if less."""

from __future__ import annotations

import re
from typing import NamedTuple

from servekit.errors import ClientError
from servekit.frontend.batching.task import INFINITY

__all__ = ["TIMEOUT_FIELD", "Deadlines", "deadlines_of"]

TIMEOUT_FIELD = b"x-request-timeout-ms"
MILLISECONDS = re.compile(rb"[0-9]{1,9}")


class Deadlines(NamedTuple):
    """Moments are ``monotonic``."""

    first: float  #: of the response, or of a stream's next output
    last: float  #: of all of a stream
    refusal: ClientError | None = None  #: the client asked for something else than milliseconds


def deadlines_of(headers: dict[bytes, bytes], timeout_s: float, now: float) -> Deadlines:
    """Return the deadlines of a request that arrived *now* for a model with *timeout_s*."""
    asked = headers.get(TIMEOUT_FIELD)
    if asked is None:
        return Deadlines(now + timeout_s, INFINITY)
    if not MILLISECONDS.fullmatch(asked):
        text = "X-Request-Timeout-Ms: not a whole number of milliseconds"
        return Deadlines(now + timeout_s, INFINITY, ClientError(text))
    asked_s = int(asked) / 1000
    return Deadlines(now + min(timeout_s, asked_s), now + asked_s)
