# SPDX-License-Identifier: Apache-2.0
"""Everything that a call can raise, named as the server names it.

ServekitError
├── Unreachable               no answer came, or not all of it
│   └── ConnectionRefused        no connection was made; may be tried again
├── AnswerMalformed           an answer that no servekit gives: another server, or a proxy
├── DeadlineExceeded     504  no answer in time; ``status`` is ``None`` if the client gave up first
├── RequestError         4xx  the request must change
│   ├── Unauthorized     401, 403
│   ├── NotFound         404  no such model, or no such route
│   └── InputError       422  the model refuses this input; ``errors`` names the fields
├── QueueFull            429  too much at once; may be tried again
├── Unavailable          503  no worker just now; may be tried again
└── ServiceError         5xx  the model failed; the server's log knows why, under ``request_id``
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

__all__ = [
    "AnswerMalformed",
    "ConnectionRefused",
    "DeadlineExceeded",
    "InputError",
    "NotFound",
    "QueueFull",
    "RequestError",
    "ServekitError",
    "ServiceError",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "is_final",
]


class ServekitError(Exception):
    """Base of all; holds the problem details (RFC 9457) that the server sent, if it sent any."""

    may_retry: ClassVar[bool] = False  #: the same call may succeed a little later
    title = "Failed"

    def __init__(
        self,
        title: str = "",
        *,
        status: int | None = None,
        detail: str = "",
        errors: Sequence[Mapping[str, str]] = (),
        request_id: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        """Keep what is known.

        :param errors: one ``{"field", "message"}`` for each wrong field of the input.
        :param retry_after_s: how long the server asks to wait.
        """
        super().__init__(title, detail)
        self.title = title or self.title
        self.status = status
        self.detail = detail
        self.errors = [dict(error) for error in errors]
        self.request_id = request_id
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        """``422 Input refused: x: missing (request 5f0c2a91)``."""
        status = f"{self.status} " if self.status else ""
        detail = f": {self.detail}" if self.detail else ""
        request = f" (request {self.request_id})" if self.request_id else ""
        return f"{status}{self.title}{detail}{request}"


class Unreachable(ServekitError):
    """No answer came, or not all of it; the prediction may have run."""

    title = "Server unreachable"


class ConnectionRefused(Unreachable):
    """No connection was made: nobody listens there, or nothing is there. Nothing was sent."""

    may_retry = True
    title = "Connection refused"


class AnswerMalformed(ServekitError):
    """An answer that no servekit gives."""

    title = "Answer malformed"


class DeadlineExceeded(ServekitError):
    """No answer in time."""

    title = "No answer in time"


class RequestError(ServekitError):
    """The request must change before it can succeed."""


class Unauthorized(RequestError):
    """The token is missing, wrong, or not good for this."""


class NotFound(RequestError):
    """No such model, or no such route."""

    title = "Unknown model"


class InputError(RequestError):
    """The model refuses this input."""


class QueueFull(ServekitError):
    """Too many requests wait for this model, or this client sends too many."""

    may_retry = True


class Unavailable(ServekitError):
    """No worker can answer just now."""

    may_retry = True


class ServiceError(ServekitError):
    """The model failed."""


def is_final(error: BaseException | None) -> bool:
    """Return whether another server would end a call in the same way: the request is to blame."""
    return error is None or isinstance(error, RequestError) or not isinstance(error, ServekitError)
