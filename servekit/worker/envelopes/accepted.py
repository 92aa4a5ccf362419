# SPDX-License-Identifier: Apache-2.0
"""Responses of envelopes, checked and in the form in which a worker sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from servekit.errors import ResultNotEncodable
from servekit.extension.envelope import EncodedResponse
from servekit.ipc.arena import Pieces
from servekit.service.response import Response, head_of
from servekit.worker.envelopes.heads import checked_head

if TYPE_CHECKING:
    from servekit.ipc.control import Launch
    from servekit.worker.envelopes.heads import Head
    from servekit.worker.prediction.batch_result import Answered

__all__ = ["AcceptedResponse", "accepted"]


class AcceptedResponse(NamedTuple):
    """One response of an envelope: its answer, and what is more than a body."""

    answer: Answered
    response: tuple[int, list[tuple[str, str]]] | None  #: status and headers, if not the usual
    pieces: Pieces | None  #: the body, if it goes by shared memory: that in ``answer`` is empty


def accepted(
    encoded: EncodedResponse, launch: Launch, own: Response | None = None
) -> AcceptedResponse:
    """Return *encoded*, which an envelope has returned.

    :param launch: has the limits of answers.
    :param own: the response of the service.
    :raises TypeError: it is something else.
    :raises ValueError: its head is not what a response may have.
    :raises ResultNotEncodable: it is larger than an answer may be.
    """
    if not isinstance(encoded, EncodedResponse):
        raise TypeError(f"the envelope returned {type(encoded).__name__}")
    media_type, response = _head_of(encoded, own)
    body, limit, large = encoded.body, launch.max_answer_bytes, launch.large_body_bytes
    if type(body) is bytes and len(body) < min(limit, large):
        return AcceptedResponse(("", media_type, body), response, None)
    pieces = Pieces([body] if isinstance(body, bytes | memoryview) else body)
    if len(pieces) > limit:
        raise ResultNotEncodable(f"output: {len(pieces)} bytes, limit {limit}")
    if len(pieces) < large:
        return AcceptedResponse(("", media_type, bytes(pieces)), response, None)
    return AcceptedResponse(("", media_type, b""), response, pieces)


def _head_of(encoded: EncodedResponse, own: Response | None) -> Head:
    """Return the head of *encoded*, with what it leaves to the response of the service.

    :raises ValueError: it is not what a response may have.
    """
    status, headers = encoded.status or 200, encoded.headers
    if own is not None:
        own_status, fields, _ = head_of(own)
        status, headers = encoded.status or own_status, {**dict(fields), **headers}
    return checked_head(status, (*headers.items(),), encoded.media_type)
