# SPDX-License-Identifier: Apache-2.0
"""Checks on what a worker says of a response."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from servekit.ipc.batches import BETWEEN_STEPS
from servekit.ipc.channel import ChannelClosed
from servekit.service.response import check_headers, check_status

__all__ = ["check_fields", "media_types"]

MAX_KNOWN: Final = 256


class MediaTypes(dict[str, str]):
    """Media types of workers' answers by themselves, checked when they are first looked up."""

    def __missing__(self, media_type: str) -> str:
        """Return *media_type*.

        :raises ChannelClosed: it would not fit into a header field: the worker is broken.
        """
        if not (media_type.isascii() and media_type.isprintable()):
            raise ChannelClosed("malformed answer from worker: a media type is not printable ASCII")
        if len(self) < MAX_KNOWN:
            self[media_type] = media_type
        return media_type


media_types: Final = MediaTypes({name: name for name in BETWEEN_STEPS})


def check_fields(status: int, fields: Sequence[tuple[str, str]]) -> None:
    """Accept the status and the header fields that a service has chosen.

    :raises ChannelClosed: the worker should have refused them.
    """
    try:
        _check_once(status, tuple(fields))
    except ValueError as error:
        raise ChannelClosed(f"malformed answer from worker: {error}") from error


@lru_cache(maxsize=64)
def _check_once(status: int, fields: tuple[tuple[str, str], ...]) -> None:
    """Check a head; that of most answers has been checked before."""
    check_status(status)
    check_headers(fields)
