# SPDX-License-Identifier: Apache-2.0
"""The messages between front-ends and workers: batches, streams and their answers.

Every message is a tagged msgspec ``Struct``, encoded as a msgpack array and checked
against its types when it is decoded; nothing is pickled. Moments are seconds of
``time.monotonic()``, which all processes of one machine share.
"""

from enum import IntEnum
from typing import Generic, TypeVar

from msgspec import Struct

from servekit.ipc.response_style import ResponseStyle
from servekit.ipc.spans import BatchTrace

__all__ = [
    "ALIVE_S",
    "BETWEEN_STEPS",
    "ELEMENT",
    "MODEL_VALUE",
    "MODEL_VALUES",
    "PREDICT",
    "QUERY",
    "QUERY_BODY",
    "VALUE",
    "VALUES",
    "Answer",
    "Calls",
    "EnvelopePart",
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
    "ProtocolCall",
    "Reading",
    "Reply",
    "ReplyMessage",
    "RequestMessage",
    "SentItem",
    "Slab",
    "SlotsReply",
    "Welcome",
]

#: prefix of query parameters among headers, whose names cannot begin with it
QUERY = "?"


#: media type of an output on its way to another model, or to an envelope. As in those below, there
#: is a NUL, which no header of a client can have: only workers write what these types name
VALUE = "\0servekit/value"


#: media type of a list, each element of which will be a separate input
VALUES = "\0servekit/values"


#: the same between the stages of one model: objects of its classes arrive as such
MODEL_VALUE = "\0servekit/model-value"
MODEL_VALUES = "\0servekit/model-values"


#: media type of an element of the answer, which a worker will only write with the others
ELEMENT = "\0servekit/element"


#: all of them
BETWEEN_STEPS = (VALUE, VALUES, MODEL_VALUE, MODEL_VALUES, ELEMENT)


#: media type of the parameters of a query in place of a body
QUERY_BODY = "application/vnd.servekit.query"


ALIVE_S = 0.5  #: a worker with slots says something so often, but while it is in a service

PREDICT = "predict"  #: the stage that is the model's own service


class Reading(IntEnum):
    """In place of a method: the worker only decodes the body, and encodes the result."""

    WHOLE = 1  #: as one value
    ELEMENTS = 2  #: a list, each element of which will be a separate input
    INSTANCES = 3  #: the list in ``{"instances": [...]}``, with each element as an input


class MethodCall(Struct, array_like=True, frozen=True, gc=False):
    """One method of one of the services that a worker has loaded."""

    stage: str = ""  #: "" is the stage that the worker was started for
    method: str | Reading = ""  #: "" is ``predict``


#: one after another: each gets what the one before returned; none is ``MethodCall()``
Calls = tuple[MethodCall, ...]


class Slab(Struct, array_like=True, frozen=True):
    """The place of a large body: a range of the sender's arena."""

    offset: int
    size: int  #: bytes


class EnvelopePart(IntEnum):
    """The instruction for the envelope of a request."""

    BOTH = 0  #: it reads the body, predicts, and writes the answer
    READ = 1  #: it reads the body, and writes what envelope and models get from it as ``VALUES``
    WRITE = 2  #: it reads such values, with outputs in place of inputs, and writes the answer


class ProtocolCall(Struct, array_like=True, frozen=True):
    """By which protocol of a plugin a request comes."""

    #: ``module:class`` of the envelope that reads its body and writes its answer; "": the worker
    #: does both, as at the route of the model, and the answer is bare
    envelope: str
    parameters: dict[str, str] = {}  #: facts that the protocol has read in the head of the request
    is_stream: bool = False  #: the client wants the outputs as they come
    part: EnvelopePart = EnvelopePart.BOTH


Body = TypeVar("Body")


class Item(Struct, Generic[Body], array_like=True, gc=False):
    """One request, as a worker gets it."""

    body: Body
    content_type: bytes  #: as received; b"" without one
    accept: bytes  #: as received; b"" without one
    request_id: str
    deadline: float
    #: the headers that its service reads, and its query parameters with the prefix ``QUERY``
    headers: dict[str, str] | None = None
    calls: Calls = ()
    protocol: ProtocolCall | None = None
    identity: tuple[str, dict[str, str]] | None = None  #: name and attributes of the client
    style: ResponseStyle | None = None  #: how the response is written, if not as usual


#: an item on its way to a worker
SentItem = Item[bytes | Slab]


#: name of a ``ServekitError`` class or "", media type, body. The body of an error is
#: JSON: ``{"detail": str, "errors": [{"field": str, "message": str}]}``
Answer = tuple[str, str, bytes | Slab]


class Predict(Struct, array_like=True, tag=1):
    """Front-end to worker: one batch, in arrival order."""

    batch: int  #: from 1, increasing: 0 marks nothing as cancelled
    items: list[SentItem]
    freed: list[int] = []  #: offsets of slabs of answers that were sent


class Reply(Struct, array_like=True, tag=2):
    """Worker to front-end: the answers of one batch, in the order of its items."""

    batch: int
    answers: list[Answer] = []
    decode_s: float = 0.0
    predict_s: float = 0.0
    encode_s: float = 0.0
    held: list[int] = []  #: offsets of slabs of the batch that the service still uses
    is_last: bool = False  #: the worker exits after it: do not send another batch
    #: place in the batch to status and headers, for answers that set them
    responses: dict[int, tuple[int, list[tuple[str, str]]]] = {}
    steps: dict[str, float] = {}  #: stage to seconds, if the worker has several
    #: inputs or rows in each call of ``predict``; empty: one call, with an input for each answer
    sizes: list[int] = []
    cost: float = 0.0  #: the sum over its inputs, if the model says what an input costs
    trace: BatchTrace | None = None  #: if a member is traced


class SlotsReply(Reply, array_like=True, tag=10):
    """Worker to front-end: the answers of requests in slots, which were predicted as one batch."""

    streams: list[int] = []  #: their numbers, in the order of the answers


class Hello(Struct, array_like=True, tag=3):
    """Worker to front-end, the first message; the arena of its answers comes with it."""

    generation: int
    slots: int = 0  #: requests that it holds at once; 0: it answers batches
    is_async: bool = False  #: they are tasks of one event loop; otherwise streams that take turns


class Welcome(Struct, array_like=True, tag=6):
    """Front-end to worker, the first message; the arena of the model's bodies comes with it."""

    is_sampling: bool = False  #: spans of batches with a sampled member are wanted


class Open(Struct, array_like=True, tag=8):
    """Front-end to a worker with slots: begin one more request."""

    stream: int  #: from 1, increasing; marks its place as cancelled
    place: int  #: below ``slots``, unique among the running streams of the channel
    item: SentItem  #: answered in one piece if its calls do not end in a stream
    until: float  #: deadline of its last output; the deadline of ``item`` is that of the first
    freed: list[int] = []  #: as in ``Predict``


class Part(Struct, array_like=True):
    """The outputs of one turn for one stream, or the answer of one request."""

    stream: int
    media_type: str  #: one of ``STREAM_FORMATS``; "" if the client accepts one answer at the end
    body: bytes  #: the encoded outputs
    outputs: int
    end: Answer | None = None  #: an error, the one answer, or all "" at the end of the outputs
    response: tuple[int, list[tuple[str, str]]] | None = None  #: for ``end``, as in ``Reply``
    steps: dict[str, float] = {}  #: as in ``Reply``, for stages that ended since the last part
    times: tuple[float, float, float] | None = None  #: for ``end``: to decode, predict and encode
    trace: BatchTrace | None = None  #: for ``end``, if the request is traced


class Parts(Struct, array_like=True, tag=9):
    """Worker to front-end: parts for any of its slots; sometimes empty, as a sign of life."""

    parts: list[Part]
    #: the worker exits after it, and has taken no stream after the one with this number
    taken: int | None = None


class Freed(Struct, array_like=True, tag=7):
    """In both directions: the slabs at these offsets of your arena are no longer used."""

    offsets: list[int]


class Ping(Struct, array_like=True, tag=4):
    """Front-end to an idle worker: do you still answer?"""


class Pong(Struct, array_like=True, tag=5):
    """Worker to front-end; *reason* is why the service's ``ping`` failed, or ""."""

    reason: str


RequestMessage = Predict | Ping | Welcome | Freed | Open


ReplyMessage = Reply | SlotsReply | Hello | Pong | Freed | Parts
