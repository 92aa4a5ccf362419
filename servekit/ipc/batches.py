# SPDX-License-Identifier: Apache-2.0
"""What crosses between the front-ends and the workers: batches, streams and their answers.

Every message is a tagged msgspec ``Struct``, encoded as a msgpack array and checked
against its types when it is decoded; nothing is pickled. Moments are seconds of
``time.monotonic()``, which all processes of one machine share.
"""

from enum import IntEnum
from typing import Generic, TypeVar

from msgspec import Struct

__all__ = [
    "PREDICT",
    "QUERY",
    "VALUE",
    "VALUES",
    "Answer",
    "Calls",
    "Freed",
    "Hello",
    "Item",
    "MethodCall",
    "Open",
    "Part",
    "Parts",
    "Ping",
    "Pong",
    "Predict",
    "Reading",
    "Reply",
    "ReplyMessage",
    "RequestMessage",
    "SentItem",
    "Slab",
    "Welcome",
]

#: before the name of a parameter of the query, among headers, whose names cannot begin so
QUERY = "?"


#: media type of an output on its way to the next step of its request
VALUE = "application/vnd.servekit.value"


#: of a list, each element of which will be an input of its own
VALUES = "application/vnd.servekit.values"


PREDICT = "predict"  #: the stage that is the model's own service


class Reading(IntEnum):
    """In place of a method: the worker only reads the body, and writes what it has read."""

    WHOLE = 1  #: as one value
    ELEMENTS = 2  #: a list, each element of which will be an input of its own
    INSTANCES = 3  #: the list in ``{"instances": [...]}``, with each element as an input


class MethodCall(Struct, array_like=True, frozen=True, gc=False):
    """One method of one of the services that a worker has loaded."""

    stage: str = ""  #: "" is the stage that the worker was started for
    method: str | Reading = ""  #: "" is ``predict``


#: one after another: each gets what the one before returned; none is ``MethodCall()``
Calls = tuple[MethodCall, ...]


class Slab(Struct, array_like=True, frozen=True):
    """A large body where it lies: a range of the sender's arena."""

    offset: int
    size: int  #: bytes


Body = TypeVar("Body")


class Item(Struct, Generic[Body], array_like=True, gc=False):
    """What a worker gets of one request."""

    body: Body
    content_type: bytes  #: as received; b"" without one
    accept: bytes  #: as received; b"" without one
    request_id: str
    deadline: float
    #: those that its service asked for, and with ``QUERY`` parameters of the query
    headers: dict[str, str] | None = None
    calls: Calls = ()


#: an item on its way to a worker
SentItem = Item[bytes | Slab]


#: name of a ``ServekitError`` class or "", media type, body. The body of an error is
#: JSON: ``{"detail": str, "errors": [{"field": str, "message": str}]}``
Answer = tuple[str, str, bytes | Slab]


class Predict(Struct, array_like=True, tag=1):
    """Front-end to worker: one batch, in arrival order."""

    batch: int  #: from 1, and grows: 0 marks nobody as cancelled
    items: list[SentItem]
    freed: list[int] = []  #: offsets of answers' slabs that the clients have


class Reply(Struct, array_like=True, tag=2):
    """Worker to front-end: the answers of one batch, in the order of its items."""

    batch: int
    answers: list[Answer]
    decode_s: float
    predict_s: float
    encode_s: float
    held: list[int] = []  #: offsets of the batch's slabs that the service still looks at
    is_last: bool = False  #: the worker leaves: whoever sends it another batch loses it
    #: by place: status and headers of answers that have their own
    responses: dict[int, tuple[int, list[tuple[str, str]]]] = {}
    steps: dict[str, float] = {}  #: of a worker of several stages: seconds that each of them took


class Hello(Struct, array_like=True, tag=3):
    """Worker to front-end, first of all: who I am; its answers' arena comes along."""

    generation: int
    slots: int = 0  #: streams that I hold at once; 0: I answer batches


class Welcome(Struct, array_like=True, tag=6):
    """Front-end to worker, first of all; the arena of the model's bodies comes along."""


class Open(Struct, array_like=True, tag=8):
    """Front-end to a worker that streams: begin one more stream."""

    stream: int  #: from 1, and grows; marks its place as cancelled
    place: int  #: below ``slots``, of no other stream of the channel that has not ended
    item: SentItem  #: what its calls return is answered at once, if they do not end in a stream
    until: float  #: the deadline of its last output; that of ``item`` is of the first
    freed: list[int] = []  #: as in ``Predict``


class Part(Struct, array_like=True):
    """What one turn brought for one stream."""

    stream: int
    media_type: str  #: of ``STREAM_FORMATS``; "" if the client takes one answer at the end
    body: bytes  #: the outputs, as that writes them
    outputs: int
    end: Answer | None = None  #: an error, the one answer, or all "" at the end of the outputs
    response: tuple[int, list[tuple[str, str]]] | None = None  #: of ``end``: as in ``Reply``
    steps: dict[str, float] = {}  #: as in ``Reply``, of stages that are over since the last part


class Parts(Struct, array_like=True, tag=9):
    """Worker to front-end: one turn over all its streams; empty now and then, as a sign of life."""

    parts: list[Part]


class Freed(Struct, array_like=True, tag=7):
    """Either way: nobody looks at the slabs at these offsets of your arena any more."""

    offsets: list[int]


class Ping(Struct, array_like=True, tag=4):
    """Front-end to an idle worker: do you still answer?"""


class Pong(Struct, array_like=True, tag=5):
    """Worker to front-end; *reason* is why the service's ``ping`` failed, or ""."""

    reason: str


RequestMessage = Predict | Ping | Welcome | Freed | Open


ReplyMessage = Reply | Hello | Pong | Freed | Parts
