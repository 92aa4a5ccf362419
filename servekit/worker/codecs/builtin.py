# SPDX-License-Identifier: Apache-2.0
"""The codecs that come with servekit, offered as a plugin offers its own."""

from collections.abc import Mapping

from servekit.ipc.batches import VALUE, VALUES

__all__ = ["INTERNAL", "register_codecs"]

HERE = "servekit.worker.codecs"

#: in the order in which answers prefer them
CODECS = {
    "application/json": f"{HERE}.json:codec",
    "application/msgpack": f"{HERE}.msgpack:codec",
    "application/x-msgpack": f"{HERE}.msgpack:codec",
    "application/vnd.msgpack": f"{HERE}.msgpack:codec",
    "application/x-npy": f"{HERE}.npy:codec",
    "application/octet-stream": f"{HERE}.plain:raw",
    "image/*": f"{HERE}.plain:raw",
    "audio/*": f"{HERE}.plain:raw",
    "video/*": f"{HERE}.plain:raw",
    "text/plain": f"{HERE}.plain:text",
}


#: between the stages of a model alone: no client is told of them
INTERNAL = {VALUE: f"{HERE}.value:value", VALUES: f"{HERE}.value:values"}


def register_codecs() -> Mapping[str, str]:
    """Return the built-in codecs; ``inputs/forms.py`` reads ``multipart/form-data``."""
    return CODECS
