# SPDX-License-Identifier: Apache-2.0
"""One request, as a service sees it."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from servekit.service.identity import Identity

__all__ = ["Request"]


@dataclass(slots=True)
class Request:
    """One request, in ``preprocess`` and ``Context.requests``. Runs in: worker."""

    content_type: str  #: media type in lower case, without parameters: ``image/png``
    buffer: bytes | memoryview  #: the body without a copy; invalid after the response
    request_id: str
    decode: Callable[[], Any] = field(repr=False)
    deadline: float = math.inf  #: on the clock of ``time.monotonic``
    #: whether the client has disconnected
    has_gone: Callable[[], bool] = field(default=lambda: False, repr=False)
    #: the headers listed in ``Service.request_headers``, and ``traceparent``; lower-case names
    headers: Mapping[str, str] = field(default_factory=dict)
    #: the parameters listed in ``Service.request_query``; the last value of each
    query: Mapping[str, str] = field(default_factory=dict)
    identity: Identity | None = None  #: the client's, if a plugin has identified it

    @property
    def body(self) -> bytes:
        """A copy of the body."""
        return bytes(self.buffer)

    @property
    def input(self) -> Any:
        """The body, decoded by the codec of its content type.

        :raises BodyMalformed: the body cannot be decoded.
        :raises UnknownMediaType: no codec reads this content type.
        """
        return self.decode()

    @property
    def remaining_s(self) -> float:
        """Seconds until ``deadline``, at least 0."""
        return max(0.0, self.deadline - time.monotonic())

    @property
    def is_cancelled(self) -> bool:
        """Whether the client has disconnected or the deadline has passed.

        Needs no system call, and can be checked at any time and from any thread.
        """
        return self.has_gone() or time.monotonic() >= self.deadline
