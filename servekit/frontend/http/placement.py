# SPDX-License-Identifier: Apache-2.0
"""Whether the body of a request is wanted, where it is kept and counted, and if it is late."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from servekit.errors import ClientTooSlow, QueueFull, ServekitError, UnknownMediaType
from servekit.frontend.http.fields import TIMEOUT_FIELD, milliseconds
from servekit.frontend.http.request_body import CollectedBody, SkippedBody
from servekit.frontend.http.request_builder import BODY
from servekit.frontend.http.upload import Upload
from servekit.frontend.memory.arriving import ArrivingRequest
from servekit.ipc.response_style import URLENCODED, style_of

if TYPE_CHECKING:
    from servekit.extension.http import HttpRequest
    from servekit.frontend.exchange.host import Host
    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.frontend.http.request_builder import RequestBuilder
    from servekit.ipc.table import ModelRow

__all__ = ["count_arrived", "end_unread", "lateness_of", "start_upload"]

FIELD_BYTES = 128  #: memory that a header field takes besides its text
#: what clients send that name no media type: nothing, or what curl adds by itself
UNNAMED = (b"", URLENCODED)
UTF_8 = ("utf-8", "utf8")
CHARSET = re.compile(rb";[ \t]*charset=([^;\s]+)", re.IGNORECASE)
SHARE = 16  #: part of an arena that a body of unknown size gets to begin with


def end_unread(builder: RequestBuilder, host: Host) -> HttpRequest | None:
    """Return the request if its body is not wanted, for a client that waits for a 100.

    :return: ``None`` if the body is wanted.
    """
    route = host.find(builder.method, builder.target, builder.headers)
    if route is None:
        is_read = host.reads_body(builder.method, builder.target, builder.headers)
        return None if is_read else builder.finish()
    refusal = refusal_of_timeout(builder.headers)
    if refusal is None and builder.method != b"GET":  # whose input is the query
        refusal = refusal_of_type(route, builder.headers)
    if refusal is None:
        return None
    request = builder.finish()
    request.refusal = refusal
    return request


def start_upload(builder: RequestBuilder, host: Host) -> Upload | None:
    """Continue a large body in the shared memory of its model.

    :return: ``None`` if it is not large, has started before, or has no model with room for it.
    """
    settings, declared, came = host.settings, builder.declared_bytes, builder.body_bytes
    if max(declared, came) < settings.large_body or isinstance(builder.sink, Upload):
        return None
    route = host.find(builder.method, builder.target, builder.headers)
    limit = declared if declared >= 0 else settings.max_body
    if route is None or not route.bodies.fits(limit):
        return None
    size = declared if declared >= 0 else max(route.bodies.arena.size // SHARE, came)
    return builder.start_upload(route, min(size, limit), limit)


def count_arrived(builder: RequestBuilder, read: int = 0) -> ServekitError | None:
    """Count an incomplete request as held for its client; return why it is refused, if it is.

    :param read: bytes that have just been read; some may be those of an earlier request.
    """
    sink, arriving = builder.sink, builder.arriving
    if isinstance(sink, SkippedBody) or (isinstance(sink, Upload) and not sink.is_waiting):
        builder.let_go()
        return None
    if arriving is None:
        arriving = builder.arriving = ArrivingRequest(builder.pressure, builder.shed)
    elsewhere = sink.counted if isinstance(sink, CollectedBody) else 0
    if builder.stage == BODY:
        body = builder.body_bytes
        held, left = _head_bytes(builder) + body, max(-1, builder.declared_bytes - body)
    else:
        held, left = max(arriving.held, builder.received or read), -1
    return None if arriving.hold(held, held, left, elsewhere) else QueueFull()


def _head_bytes(builder: RequestBuilder) -> int:
    """Return about how much memory the head takes."""
    headers = builder.headers
    texts = sum(map(len, headers)) + sum(map(len, headers.values()))
    return len(builder.target) + texts + FIELD_BYTES * len(headers)


def lateness_of(builder: RequestBuilder) -> ServekitError:
    """Return the error of a request that did not arrive in time."""
    if builder.waits_for_room:
        return QueueFull()
    return ClientTooSlow("the request did not arrive completely in time")


def refusal_of_timeout(headers: dict[bytes, bytes]) -> ServekitError | None:
    """Return the error of a timeout that is not a number, or ``None``."""
    try:
        milliseconds(headers.get(TIMEOUT_FIELD, b"0"))
    except ServekitError as error:
        return error.with_traceback(None)  # whose frames refer to the headers
    return None


def refusal_of_type(route: PredictionRoute, headers: dict[bytes, bytes]) -> ServekitError | None:
    """Return the error of a ``Content-Type`` that *route* surely refuses, or ``None``."""
    if route.call is not None:
        return None  # only the envelope of the protocol knows what it reads
    header = headers.get(b"content-type", b"").strip()
    if header.lower() in UNNAMED and _has_own_type(route.row):
        return None
    charset = _charset(header)
    if charset not in UTF_8:
        return UnknownMediaType(f"Content-Type: charset {charset[:40]!r} is not utf-8")
    given = header.partition(b";")[0].strip().lower().decode("latin-1")
    accepted = _media_types(route.row)
    is_json = given.endswith("+json") and "application/json" in accepted
    if not accepted or is_json or _is_among(given, accepted):
        return None
    problem = f"{given[:80]} is not accepted" if given else "missing"
    return UnknownMediaType(f"Content-Type: {problem}; expected one of {', '.join(accepted)}")


def _is_among(given: str, accepted: list[str]) -> bool:
    return "*/*" in accepted or any(fnmatchcase(given, each) for each in accepted)


def _has_own_type(row: ModelRow) -> bool:
    """Whether a path of *row* has a media type for bodies whose requests name none."""
    styles = [style_of(row.manifest), *(route.style for route in row.routes)]
    return any(style is not None and style.media_type for style in styles)


def _charset(header: bytes) -> str:
    """Return the charset of a ``Content-Type``; utf-8 if it names none, or has quoted values."""
    found = CHARSET.search(header) if b'"' not in header else None
    return found[1].decode("latin-1").lower() if found else UTF_8[0]


def _media_types(row: ModelRow) -> list[str]:
    """Return what any endpoint of *row* accepts; an empty list if one of them does not say."""
    if row.interface is None:
        return []
    sides = [row.interface, *(endpoint.interface for endpoint in row.interface.endpoints)]
    if not all(side.consumes for side in sides):
        return []
    return list(dict.fromkeys(name for side in sides for name in side.consumes))
