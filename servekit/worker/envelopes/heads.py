# SPDX-License-Identifier: Apache-2.0
"""Heads of requests and responses of protocols, decoded and checked once: most are the same."""

from functools import lru_cache
from typing import Final

from servekit.service.response import Response
from servekit.worker.prediction.request_reader import sent

__all__ = ["MAX_KNOWN", "checked_head", "header_of", "text_of"]

MAX_KNOWN: Final = 64


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
def checked_head(status: int, headers: tuple[tuple[str, str], ...], media_type: str) -> Response:
    """Return a response with this head.

    :raises ValueError: it is not what a response may have.
    """
    return Response(b"", status, dict(headers), media_type or None)
