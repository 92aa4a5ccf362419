# SPDX-License-Identifier: Apache-2.0
"""An output with its own status, headers or content type."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Number
from typing import Any, Final

__all__ = ["NAME", "Response", "check_headers", "check_status", "head_of", "plain_text"]

NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
VALUE: Final = re.compile(r"[\x20-\x7e\xa0-\xff\t]{0,4096}")
MEDIA_TYPE: Final = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?: *; *[\x20-\x7e]+)?", re.ASCII)
OWN_TYPES: Final = "application/vnd.servekit."  #: prefix of media types between stages
MAX_HEADERS: Final = 32
MAX_MEDIA_TYPE: Final = 256  #: characters
QUOTED_CHARS: Final = 80  #: characters of a value, in an error
#: statuses of responses without a body, or with a part of one
WITHOUT_BODY: Final = (204, 205, 206, 304)
#: headers of framing and of the connection (RFC 9110 7.6.1), and those that the server sets
OURS: Final = frozenset(
    (
        *("connection", "content-length", "content-range", "keep-alive", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
        *("content-type", "date", "server-timing", "x-cache", "x-request-id"),
    )
)


@dataclass(frozen=True, slots=True)
class Response:
    """Stands for an output: in a slot of what ``predict`` returns, or from ``postprocess``."""

    output: Any = None
    status: int = 200  #: 200 to 599, except those without a body
    headers: Mapping[str, str] = field(default_factory=dict)
    #: the type of an output that is bytes or a string; ``None`` encodes it as ``Accept`` says
    content_type: str | None = None

    def __post_init__(self) -> None:
        """Convert the values to plain types, and refuse those that a response cannot have.

        :raises ValueError: the status, a header or the content type is not valid.
        """
        status, headers, content_type = head_of(self)
        object.__setattr__(self, "status", status)
        object.__setattr__(self, "headers", dict(headers))
        object.__setattr__(self, "content_type", content_type)


def head_of(response: Response) -> tuple[int, list[tuple[str, str]], str | None]:
    """Return status, headers and content type of *response* as plain values.

    :raises ValueError: one is not valid; the message names it, its value and the limit.
    """
    status = _whole(response.status)
    check_status(status)
    headers = _pairs(response.headers)
    check_headers(headers)
    if response.content_type is None:
        return status, headers, None
    content_type = plain_text("content_type", response.content_type)
    if len(content_type) > MAX_MEDIA_TYPE:
        raise ValueError(f"content_type: {len(content_type)} characters, limit {MAX_MEDIA_TYPE}")
    if not MEDIA_TYPE.fullmatch(content_type):
        raise ValueError(f"{content_type!r} is not a valid content type")
    if content_type.lower().startswith(OWN_TYPES):
        raise ValueError(f"{content_type}: is reserved for the server")
    return status, headers, content_type


def _whole(status: Any) -> int:
    """Return *status*, a whole number of any type, as an ``int``."""
    try:
        found = None if isinstance(status, str | bytes) else int(status)
        if found is not None and found == status:
            return found
    except Exception:  # noqa: BLE001 - an author's object may raise anything
        found = None
    raise ValueError(f"status {_shown(status)}: not a whole number")


def _pairs(headers: Any) -> list[tuple[str, str]]:
    """Return *headers*, a mapping or ``None``, as strings."""
    if headers is None:
        return []
    if not isinstance(headers, Mapping):
        shown = _shown(headers)
        raise ValueError(f"headers {shown}: not a mapping of names to strings")  # noqa: TRY004
    return [
        (name := plain_text("header", key), plain_text(f"header {name!r}", value))
        for key, value in headers.items()
    ]


def plain_text(what: str, value: Any) -> str:
    """Return *value*, a string, bytes or a number, as a plain string.

    :raises ValueError: it is something else; the message says that it is *what*.
    """
    if isinstance(value, str):
        return str.__str__(value)  # a subclass may override it
    if isinstance(value, bytes | bytearray):
        return value.decode("latin-1")
    if isinstance(value, Number):
        return str(value)
    raise ValueError(f"{what}: {_shown(value)} is not a string")


def _shown(value: Any) -> str:
    try:
        return repr(value)[:QUOTED_CHARS]
    except Exception:  # noqa: BLE001 - an author's object, or an integer of 5,000 digits
        return f"of type {type(value).__name__}"


def check_status(status: int) -> None:
    """Raise ``ValueError`` for a status that no response with a body has."""
    if not 200 <= status <= 599 or status in WITHOUT_BODY:
        raise ValueError(f"status {_shown(status)}: not 200 to 599, or one without a body")


def check_headers(headers: Iterable[tuple[str, str]]) -> None:
    """Raise ``ValueError`` for headers that a service may not set."""
    for number, (name, value) in enumerate(headers):
        if not NAME.fullmatch(name) or not VALUE.fullmatch(value):
            raise ValueError(f"header {name!r}: malformed, or too long")
        if name.lower() in OURS or name.lower().startswith("access-control-"):
            raise ValueError(f"header {name}: is set by the server")
        if number >= MAX_HEADERS:
            raise ValueError(f"headers: limit {MAX_HEADERS}")
