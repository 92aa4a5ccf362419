# SPDX-License-Identifier: Apache-2.0
"""Heads of requests and responses of protocols, decoded and checked once: most are the same."""

from functools import lru_cache
from typing import Final

from servekit.service.response import Response
from servekit.worker.prediction.request_reader import sent

__all__ = ["MAX_KNOWN", "Head", "checked_head", "header_of", "text_of"]

MAX_KNOWN: Final = 64

#: the media type of a response; its status and headers, if they are not the usual
Head = tuple[str, tuple[int, list[tuple[str, str]]] | None]


@lru_cache(maxsize=MAX_KNOWN)
def text_of(field: bytes) -> str:
    """Return the value of a header as a string."""
    return field.decode("latin-1")


@lru_cache(maxsize=MAX_KNOWN)
def header_of(content_type: str) -> bytes:
    """Return the ``Content-Type`` of an input that an envelope has found.

    :raises UnknownMediaType: it is one that only our own processes use.
    """
    return sent(content_type.encode("latin-1"))


@lru_cache(maxsize=MAX_KNOWN)
def checked_head(status: int, headers: tuple[tuple[str, str], ...], media_type: str) -> Head:
    """Return this head as a worker sends it.

    :raises ValueError: it is not what a response may have.
    """
    response = Response(b"", status, dict(headers), media_type or None)
    fields = [*response.headers.items()]
    is_usual = response.status == 200 and not fields
    return response.content_type or "", None if is_usual else (response.status, fields)
