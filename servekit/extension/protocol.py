# SPDX-License-Identifier: Apache-2.0
"""API protocols that plugins add: families of paths whose requests become predictions.

A protocol has two halves. ``Protocol``, here, lives in the event loop of a front-end and decides
from the head of a request. Its ``Envelope``, in the worker of the model, reads and writes bodies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, json

from servekit.errors import problem_of
from servekit.extension.problems import problem_response

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit.errors import ServekitError
    from servekit.extension.http import HttpResponse

__all__ = ["PredictionCall", "Protocol", "RequestHead"]


class RequestHead(Struct, frozen=True):
    """A request before its body has arrived."""

    method: bytes  #: ``POST``
    path: bytes  #: decoded; an encoded slash stays ``%2F``
    query: bytes  #: as it was sent, without the question mark
    headers: Mapping[bytes, bytes]  #: names in lower case


class PredictionCall(Struct, frozen=True, kw_only=True):
    """The prediction that a request asks for."""

    model: str
    version: str = ""  #: "" is any; one that is not served is a ``ModelNotFound``
    endpoint: str = ""  #: name of a method with ``@endpoint``; "" is ``predict``
    #: for the worker half, which sees ``Content-Type`` and ``Accept`` but no other part of the head
    parameters: dict[str, str] = {}
    is_stream: bool = False  #: outputs are sent as they come; the worker half may decide it, too
    #: the worker reads and writes as at the model's own route, but the body of the response is the
    #: output alone, as with ``envelope = false``. The worker half, *parameters* and *is_stream* are
    #: not used, and ``Accept`` asks for streams, which end as those of the route
    is_native: bool = False
    #: the body names the model, which ``Protocol.find_model`` reads; *model* is a likely one, whose
    #: memory receives the body
    is_provisional: bool = False


class Protocol:
    """The front-end half: subclass it. One instance for each front-end process.

    Its methods run in the event loop, for each request of its paths. They must not block, and
    should take microseconds.
    """

    #: a path that ends in a slash stands for all paths below it. Routes of models come first; a
    #: path that two protocols have is a ``PluginError``, unless one of them leaves requests to the
    #: other
    paths: Sequence[str] = ()
    #: it answers for some models only (``Interface.task`` tells them apart), and ``find`` returns
    #: ``None`` for the others: that depends on method and target alone, and on the models. It is
    #: asked before protocols with the same path that answer for all
    is_selective: bool = False
    #: ``module:class`` of the worker half, an ``Envelope``; "" if all predictions are native
    envelope: str = ""
    #: the headers, in lower case, on which the ``PredictionCall`` of a POST request depends besides
    #: its target. Front-ends then keep the call until models change, and do not ask ``find`` about
    #: each request. ``None``: it may depend on anything
    call_headers: Sequence[bytes] | None = None
    #: sent in a stream that says nothing for some seconds; b"" for nothing
    keep_alive: bytes = b""

    def find(self, head: RequestHead) -> PredictionCall | HttpResponse | ServekitError | None:
        """Return what to do with a request.

        :return: a prediction; or the response, for requests about models rather than to them; or
            an error of ``servekit.errors``; or ``None`` to leave the request to other protocols
            and the pages of the server.
        """
        raise NotImplementedError

    def find_model(self, body: bytes | memoryview) -> str:
        """Return the model that *body* names; called if ``PredictionCall.is_provisional``.

        It must take microseconds whatever the size of the body, so it looks at its beginning and at
        its end; the worker half can compare what it finds with the name of its model.

        :raises RequestError: it names none.
        """
        raise NotImplementedError

    def error_response(self, error: ServekitError, request_id: str) -> HttpResponse:
        """Return the response for *error*, in the shape that clients of the protocol expect.

        It is the only place that sees errors: those of ``find``, of the server (401, 404, 413, 429,
        503, 504), of the worker half and of the service. See ``error_message`` and
        ``error_fields``.
        """
        return problem_response(error, request_id)

    def stream_error(self, error: ServekitError, request_id: str) -> bytes:
        """Return the last piece of a stream that ends with *error*."""
        return b"event: error\ndata: %b\n\n" % json.encode(problem_of(error, request_id))

    def openapi(self, document: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return what is merged into the OpenAPI *document* of the server: paths, schemas."""
        return {}
