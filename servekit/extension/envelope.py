# SPDX-License-Identifier: Apache-2.0
"""The worker half of an API protocol: it reads request bodies and writes responses.

It runs in a worker of the model that the request is for, so a body that is slow to read delays
requests to that model only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit.extension.models import ModelView
    from servekit.service.identity import Identity
    from servekit.service.response import Response

__all__ = [
    "Codecs",
    "Column",
    "EncodedInput",
    "EncodedResponse",
    "Envelope",
    "EnvelopeRequest",
    "ListInput",
    "PlainRequest",
    "Rows",
]


class Codecs(Protocol):
    """The codecs of a worker, built in and of plugins, by media type."""

    def read(self, content_type: str, body: bytes) -> Any:
        """Return the value of *body*.

        :raises UnknownMediaType: there is no codec that reads it.
        :raises BodyMalformed: it is not what its content type says.
        """

    def write(self, media_type: str, output: Any) -> bytes:
        """Return *output* as *media_type*, without an envelope of our own around it.

        :raises NotAcceptable: there is no codec that writes it.
        :raises ResultNotEncodable: it cannot hold such an output.
        """

    def list_type(self, dtype: str, shape: Sequence[int]) -> Any:
        """Return the type with which msgspec checks the JSON of an array, for a ``ListInput``.

        :param shape: as in a signature, without an axis of rows.
        :return: ``None`` if a value of such a type would need another check.
        """


class EnvelopeRequest(Struct, kw_only=True, eq=False):
    """One request, as its envelope sees it."""

    body: bytes | memoryview  #: a view is of shared memory, and is gone after the response
    content_type: str  #: as received; "" without one
    accept: str  #: as received; "" without one
    request_id: str
    parameters: Mapping[str, str]  #: those of the ``PredictionCall``
    identity: Identity | None = None  #: of the client, if a plugin has named it
    #: outputs are sent as they come, if the model has outputs that come one by one. As the
    #: ``PredictionCall`` says, or as ``decode`` sets it
    is_stream: bool = False
    #: the stages of the model run in separate workers: ``decode`` runs in a worker of the first
    #: stage and sees its interface, ``encode`` in one of the last stage
    is_split: bool = False
    #: for ``decode``, to pass values to the methods that are called later. In a pipeline, these run
    #: in other workers: msgpack must be able to hold the values, and ``body`` is empty there
    state: Any = None
    #: in a stream: the input, by its place in what ``decode`` returned, that ``encode_output`` gets
    #: an output of, or whose end ``encode_input_end`` writes
    place: int = 0
    #: the ``Response`` that the service returned, if it did; for ``encode``, if there is one input
    response: Response | None = None


class EncodedInput(NamedTuple):
    """An input that the model reads as if it were the whole body of a request."""

    content_type: str
    body: bytes | memoryview


class ListInput(Struct, frozen=True, eq=False):
    """An input of a model with a signature as lists, which are not checked again."""

    #: a value of ``Codecs.list_type`` for each input of the signature, in their order
    values: Mapping[str, Any]


class PlainRequest(Struct, frozen=True, eq=False):
    """A request with one input that an envelope has read without an ``EnvelopeRequest``."""

    input: Any  #: as in the list that ``Envelope.decode`` returns
    state: Any  #: for ``encode_plain``; and for ``encode``, as ``EnvelopeRequest.state``


class Column:
    """A column of a table that a codec has read: it becomes an array once its dtype is known."""

    def array(self, dtype: str) -> Any:
        """Return the ndarray ``[count, *shape]`` of *dtype*, a dtype of signatures.

        :raises ValueError: an element is not of *dtype*; the message says which one.
        """
        raise NotImplementedError


class Rows(Struct, frozen=True, eq=False):
    """Several inputs in one array for each name, or their outputs.

    A codec of tables decodes to it, for models with a signature.
    """

    values: Mapping[str, Any]  #: name to ndarray ``[count, *shape]``, or to a ``Column``
    count: int


class EncodedResponse(Struct, frozen=True, kw_only=True):
    """The response to one request."""

    #: buffers are sent one after another; large ones are copied once, into shared memory
    body: bytes | Sequence[bytes | memoryview]
    media_type: str = "application/json"
    status: int | None = None  #: ``None``: that of ``EnvelopeRequest.response``, or 200
    #: besides those of ``EnvelopeRequest.response``
    headers: Mapping[str, str] = {}


class Envelope:
    """The worker half of a protocol: subclass it.

    Each worker makes one instance for each method of its service that the protocol calls, and
    calls it for one request at a time. If a method raises a ``RequestError``, such as
    ``BodyMalformed`` or ``InputError``, the response is what ``Protocol.error_response`` makes of
    it. Any other exception from ``decode`` becomes a ``BodyMalformed``; from other methods it is
    logged, and the response is a 500.
    """

    #: the media type of streams; proxies do not buffer ``text/event-stream``
    stream_media_type = "text/event-stream"
    #: a stream can have several inputs, whose outputs come in turns: ``EnvelopeRequest.place`` says
    #: to which of them one belongs. Otherwise a stream with several inputs is refused
    streams_several_inputs = False

    def __init__(self, model: ModelView, codecs: Codecs) -> None:
        """Serve *model*, whose interface is that of the method.

        :param codecs: to read and write parts of bodies with.
        """
        self.model, self.codecs = model, codecs

    def decode(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return the inputs in the body of *request*.

        Each is a value, as a codec would decode it, an ``EncodedInput`` or a ``ListInput``. They
        join the batches of the model with those of other requests. A stream has exactly one, unless
        ``streams_several_inputs``.

        ``Rows`` are several inputs of a model with a signature that stay together: they are
        checked and stacked as one array for each name, and divided only if there are more than
        ``max_batch_size``. Other models get them one by one, as mappings of names to elements.
        """
        raise NotImplementedError

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the response with *outputs*, one for each input in the order of ``decode``.

        For ``Rows`` it is ``Rows`` of as many outputs, by their names in the signature; a lone
        output without a name has the name ``output`` if the signature declares none.

        It is called once there is an output for all of them: one that is refused or fails is the
        error of the whole request. The output of a model whose outputs come one by one is the list
        of them.
        """
        raise NotImplementedError

    def decode_plain(
        self,
        body: bytes | memoryview,  # noqa: ARG002
        parameters: Mapping[str, str],  # noqa: ARG002
    ) -> PlainRequest | None:
        """Return the request in *body* if it has one input and is of a frequent form.

        A shortcut for small requests, without what is made for each of the others. Those, such as
        all with a mistake, are ``None``, and go through ``decode``; both ways have to come to the
        same result. It is not asked about requests for streams, nor about those to models with
        stages in several workers.

        :param parameters: those of the ``PredictionCall``.
        """
        return None

    def encode_plain(
        self, states: Sequence[Any], outputs: Sequence[Any]
    ) -> Sequence[bytes | EncodedResponse | None]:
        """Return the responses to requests of one batch that ``decode_plain`` has read.

        :param outputs: one for each request, as the service returned them.
        :return: for each, the body of a response in JSON; or the whole response; or ``None``:
            ``encode`` writes it.
        """
        raise NotImplementedError

    def encode_output(self, request: EnvelopeRequest, output: Any) -> bytes:
        """Return the piece of a stream that *output* is: ``b"data: ...\\n\\n"``.

        For the first output, it may set ``is_stream`` to false instead: there is no stream, and
        ``encode`` gets all outputs.
        """
        raise NotImplementedError

    def encode_input_end(self, request: EnvelopeRequest) -> bytes:  # noqa: ARG002
        """Return the piece of a stream that follows the last output of one input; b"" for none."""
        return b""

    def encode_end(self, request: EnvelopeRequest) -> bytes:  # noqa: ARG002
        """Return the last piece of a stream that is whole; b"" for none."""
        return b""
