# SPDX-License-Identifier: Apache-2.0
"""The codecs that come with servekit; ``multipart/form-data`` is read with them."""

from collections.abc import Mapping
from typing import Final

from servekit.hookspecs import hookimpl

__all__ = ["register_codecs"]

CODECS: Final = "servekit.worker.codecs"


@hookimpl
def register_codecs() -> Mapping[str, str]:
    """Offer them in the order in which answers prefer them."""
    return {
        "application/json": f"{CODECS}.json:codec",
        "application/msgpack": f"{CODECS}.msgpack:codec",
        "application/x-msgpack": f"{CODECS}.msgpack:codec",
        "application/vnd.msgpack": f"{CODECS}.msgpack:codec",
        "application/x-npy": f"{CODECS}.npy:codec",
        "application/octet-stream": f"{CODECS}.plain:raw",
        "image/*": f"{CODECS}.plain:raw",
        "audio/*": f"{CODECS}.plain:raw",
        "video/*": f"{CODECS}.plain:raw",
        "text/plain": f"{CODECS}.plain:text",
    }
