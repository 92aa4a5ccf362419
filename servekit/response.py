# SPDX-License-Identifier: Apache-2.0
"""An output with a status, headers or a content type of its own."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["NAME", "Response", "check_headers", "check_status"]

NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
VALUE: Final = re.compile(r"[\x20-\x7e\xa0-\xff\t]{0,4096}")
MEDIA_TYPE: Final = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?: *; *[\x20-\x7e]+)?", re.ASCII)
OWN_TYPES: Final = "application/vnd.servekit."  #: what stages alone write for one another
MAX_HEADERS: Final = 32
#: their answers have no body, or a part of one
WITHOUT_BODY: Final = (204, 205, 206, 304)
#: framing and the connection's own (RFC 9110 7.6.1), and what the server says itself
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
    status: int = 200  #: 200 to 599, but none whose answers have no body
    headers: Mapping[str, str] = field(default_factory=dict)
    #: the output, bytes or a text, is sent as this; ``None`` encodes it as ``Accept`` says
    content_type: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no answer can say.

        :raises ValueError: the status, a header or the content type is none.
        """
        check_status(self.status)
        check_headers(self.headers.items())
        if self.content_type is not None and not MEDIA_TYPE.fullmatch(self.content_type):
            raise ValueError(f"{self.content_type!r} is no content type")
        if (self.content_type or "").startswith(OWN_TYPES):
            raise ValueError(f"{self.content_type}: is the server's to say")


def check_status(status: int) -> None:
    """Take what an answer with a body may have, or raise ``ValueError``."""
    if not 200 <= status <= 599 or status in WITHOUT_BODY:
        raise ValueError(f"status {status}: not 200 to 599, or one without a body")


def check_headers(headers: Iterable[tuple[str, str]]) -> None:
    """Take what a service may say, or raise ``ValueError``."""
    for number, (name, value) in enumerate(headers):
        if not NAME.fullmatch(name) or not VALUE.fullmatch(value):
            raise ValueError(f"header {name!r}: malformed, or too long")
        if name.lower() in OURS or name.lower().startswith("access-control-"):
            raise ValueError(f"header {name}: is the server's to say")
        if number >= MAX_HEADERS:
            raise ValueError(f"headers: limit {MAX_HEADERS}")
