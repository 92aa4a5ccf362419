# SPDX-License-Identifier: Apache-2.0
"""The messages of calls: a worker asks a front-end for a prediction of another model.

They have their own socket beside the channel, so that a worker that is inside ``predict`` gets its
answers without reading the channel. The worker makes the pair and sends one end with ``Hello``.
"""

from msgspec import Struct

__all__ = ["CallAnswer", "CallRequest", "CancelCall", "ModelCall"]


class ModelCall(Struct, array_like=True, tag=1):
    """Worker to front-end: predict with *model*."""

    number: int  #: unique on this socket
    model: str
    body: bytes  #: media type ``VALUE``
    request_id: str  #: that of the calling request
    deadline: float  #: ``monotonic``; infinity: that of the called model
    headers: dict[str, str] = {}  #: those of the calling request, as its service got them
    identity: tuple[str, dict[str, str]] | None = None  #: the client that sent the calling request


class CancelCall(Struct, array_like=True, tag=2):
    """Worker to front-end: nobody waits for this call any more."""

    number: int


class CallAnswer(Struct, array_like=True, tag=3):
    """Front-end to worker: the outcome of a call; none comes after ``CancelCall``."""

    number: int
    status: int
    body: bytes = b""  #: media type ``VALUE``; empty for an error
    detail: str = ""  #: what a client would read of an error
    errors: list[dict[str, str]] = []


CallRequest = ModelCall | CancelCall
