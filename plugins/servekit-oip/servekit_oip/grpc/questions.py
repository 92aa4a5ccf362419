# SPDX-License-Identifier: Apache-2.0
"""The calls about models, answered by the REST half. Runs in: front-ends, in greenlets.

The JSON of the REST half is that of the messages, so both always say the same.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from gevent.event import AsyncResult
from google.protobuf.json_format import ParseDict, ParseError

from servekit.extension import HttpResponse
from servekit.frontend.transport import watched
from servekit_oip.errors import NO_FILES
from servekit_oip.grpc.codes import GrpcError, StatusCode
from servekit_oip.grpc.exchange import GrpcExchange, error_of, request_of
from servekit_oip.grpc.messages import message_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.extension import HttpRequest
    from servekit.frontend.transport import BodyWriter, OutputStream
    from servekit_oip.grpc.call import GrpcCall

__all__ = ["handlers", "is_ready"]

NONE: Final = b""  #: for requests without a body
FAILED: Final = (400, 404, 409, 422, 500)  #: statuses of operations that have failed


class Question(NamedTuple):
    """One call: which request answers it, and what its response means."""

    target: Callable[[Any], tuple[str, str, Any]]  #: message to method, path, value of the body
    #: response as JSON to the message as JSON
    answer: Callable[[Any], Any] = lambda value: value
    is_ready: str = ""  #: the member that says whether the status is 200; "": other ones are errors
    is_operation: bool = (
        False  #: it changes what is served: if that fails, it is INTERNAL, as in Triton
    )


def _of_model(suffix: str, message: Any) -> tuple[str, str, Any]:
    """Return the request for what is below the path of a model."""
    model, version = quote(message.name, safe=""), quote(message.version, safe="")
    path = f"/v2/models/{model}" if model else "/v2/models"
    return "GET", f"{path}/versions/{version}{suffix}" if version else path + suffix, None


def _of_repository(verb: str, message: Any) -> tuple[str, str, Any]:
    """Return the request that loads or unloads a model.

    :raises ValueError: the message holds no name, or files for the model.
    """
    if not message.model_name:
        raise ValueError(f"failed to {verb} '', a model has a name")
    parameters = {name: _value(each) for name, each in message.parameters.items()}
    if any(isinstance(value, bytes) for value in parameters.values()):
        raise ValueError(f"failed to {verb} {message.model_name!r}, {NO_FILES}")
    model = quote(message.model_name, safe="")
    return "POST", f"/v2/repository/models/{model}/{verb}", {"parameters": parameters}


def _value(parameter: Any) -> Any:
    return getattr(parameter, parameter.WhichOneof("parameter_choice") or "string_param")


QUESTIONS: Final = {
    "ServerLive": Question(lambda _: ("GET", "/v2/health/live", None), is_ready="live"),
    "ServerReady": Question(lambda _: ("GET", "/v2/health/ready", None), is_ready="ready"),
    "ModelReady": Question(partial(_of_model, "/ready"), is_ready="ready"),
    "ServerMetadata": Question(lambda _: ("GET", "/v2", None)),
    "ModelMetadata": Question(partial(_of_model, "")),
    "ModelConfig": Question(partial(_of_model, "/config"), lambda value: {"config": value}),
    "ModelStatistics": Question(partial(_of_model, "/stats")),
    "RepositoryIndex": Question(
        lambda message: ("POST", "/v2/repository/index", {"ready": message.ready}),
        lambda value: {"models": value},
    ),
    "RepositoryModelLoad": Question(
        partial(_of_repository, "load"), lambda _: {}, is_operation=True
    ),
    "RepositoryModelUnload": Question(
        partial(_of_repository, "unload"), lambda _: {}, is_operation=True
    ),
}


class QuestionExchange(GrpcExchange):
    """A request whose response a greenlet waits for."""

    __slots__ = ("_body", "_head", "_result")

    is_waiting = False  #: for the client; it takes all of a body

    def __init__(self, call: GrpcCall) -> None:
        """Ask for *call*."""
        super().__init__(call)
        self._result: AsyncResult[HttpResponse] = AsyncResult()
        self._head: HttpResponse | None = None
        self._body = bytearray()

    def ask(self, request: HttpRequest) -> HttpResponse:
        """Return the response to *request*. In a greenlet, whose end drops the request."""
        try:
            self.begin(request)
            found: HttpResponse = self._result.get()
            return found
        finally:
            self.close()

    def answered(self, response: HttpResponse) -> None:
        """Pass *response* on."""
        response.body = bytes(response.body)
        response.discard()
        self._result.set(response)

    def begin_stream(self, stream: OutputStream, response: HttpResponse) -> BodyWriter:
        """Collect the body of *response*."""
        self.stream = stream
        self._head = self.filter_stream(response) if self.filters else response
        return watched(self._head, self)

    def write(self, piece: bytes) -> bool:
        """Add a part of the body."""
        self._body += piece
        return True

    def end(self) -> None:
        """Pass the response on: its body is whole."""
        assert self._head is not None
        self._head.body = bytes(self._body)
        self._result.set(self._head)

    def reset(self) -> None:
        """Pass an error on: the body will not be whole."""
        self.close()
        self._result.set(HttpResponse(502, b"the response is cut off"))


def handlers() -> dict[str, Callable[[bytes, GrpcCall], bytes]]:
    """Return the handler of each call."""
    return {
        name: partial(
            _answer, question, message_class(f"{name}Request"), message_class(f"{name}Response")
        )
        for name, question in QUESTIONS.items()
    }


def is_ready(call: GrpcCall) -> bool:
    """Return whether the server is ready."""
    return _ask(call, "GET", "/v2/health/ready", None).status == 200


def _answer(question: Question, asks: Any, answers: Any, content: bytes, call: GrpcCall) -> bytes:
    try:
        request = question.target(asks.FromString(content))
    except ValueError as error:
        raise GrpcError(StatusCode.INTERNAL, str(error)) from None
    answer = _message(question, answers, _ask(call, *request))
    return answer.SerializeToString()  # type: ignore[no-any-return]


def _message(question: Question, kind: Any, response: HttpResponse) -> Any:
    """Return the message of *kind* that *response* means.

    :raises GrpcError: it reports an error.
    """
    if question.is_ready and response.status in (200, 404, 503):
        return kind(**{question.is_ready: response.status == 200})
    if response.status != 200:
        error = error_of(response, _error_text(response))
        if question.is_operation and response.status in FAILED:
            error.code = StatusCode.INTERNAL
        raise error
    value = json.loads(bytes(response.body)) if response.body else {}
    try:
        return ParseDict(question.answer(value), kind(), ignore_unknown_fields=True)
    except ParseError as error:
        raise GrpcError(StatusCode.INTERNAL, str(error)) from None


def _ask(call: GrpcCall, method: str, path: str, value: Any) -> HttpResponse:
    body = NONE if value is None else json.dumps(value).encode()
    kind = b"application/json" if body else b""
    request = request_of(call, path.encode(), body, method.encode(), kind)
    return QuestionExchange(call).ask(request)


def _error_text(response: HttpResponse) -> str:
    """Return the ``error`` in the body, or the body."""
    text = bytes(response.body).decode("utf-8", "replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, TypeError, KeyError):
        return text
