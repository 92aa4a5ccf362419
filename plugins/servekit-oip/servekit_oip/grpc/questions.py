# SPDX-License-Identifier: Apache-2.0
"""The calls about models, answered by the REST half. Runs in: the gRPC process.

The JSON of the REST half is that of the messages, so both always say the same.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError

from servekit_oip.grpc.codes import GrpcError, StatusCode
from servekit_oip.grpc.inference import UNAVAILABLE, error_of, fields_of
from servekit_oip.grpc.messages import message_class

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from servekit_oip.grpc.call import GrpcCall
    from servekit_oip.grpc.http import HttpClient
    from servekit_oip.grpc.http_connection import FrontEndAnswer

__all__ = ["Questions"]

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

    :raises ValueError: the message holds files for the model.
    """
    parameters = {name: _value(each) for name, each in message.parameters.items()}
    if any(isinstance(value, bytes) for value in parameters.values()):
        reason = "failed to poll from model repository: files cannot be sent with a load"
        raise ValueError(f"failed to {verb} {message.model_name!r}, {reason}")
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


class Questions:
    """The calls about models."""

    def __init__(self, http: HttpClient) -> None:
        """Have the front-ends answer."""
        self._http = http

    def handlers(self) -> dict[str, Callable[[bytes, GrpcCall], Awaitable[bytes]]]:
        """Return the handler of each call."""
        return {
            name: partial(
                self._answer,
                question,
                message_class(f"{name}Request"),
                message_class(f"{name}Response"),
            )
            for name, question in QUESTIONS.items()
        }

    async def is_ready(self) -> bool:
        """Return whether the server is ready."""
        try:
            return (await self._ask("GET", "/v2/health/ready", None, b"")).status == 200
        except OSError:
            return False

    async def _answer(
        self, question: Question, asks: Any, answers: Any, content: bytes, call: GrpcCall
    ) -> bytes:
        try:
            request = question.target(asks.FromString(content))
        except DecodeError:
            raise GrpcError(StatusCode.INVALID_ARGUMENT, "not such a message") from None
        except ValueError as error:
            raise GrpcError(StatusCode.INTERNAL, str(error)) from None
        try:
            response = await self._ask(*request, fields_of(call))
        except OSError:
            raise GrpcError(StatusCode.UNAVAILABLE, UNAVAILABLE) from None
        answer = self._message(question, answers, response)
        return answer.SerializeToString()  # type: ignore[no-any-return]

    def _message(self, question: Question, kind: Any, response: FrontEndAnswer) -> Any:
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
        value = json.loads(response.body) if response.body else {}
        try:
            return ParseDict(question.answer(value), kind(), ignore_unknown_fields=True)
        except ParseError as error:
            raise GrpcError(StatusCode.INTERNAL, str(error)) from None

    def _ask(self, method: str, path: str, value: Any, fields: bytes) -> Awaitable[FrontEndAnswer]:
        body = NONE if value is None else json.dumps(value).encode()
        kind = "Content-Type: application/json\r\n" if body else ""
        start = f"{method} {path} HTTP/1.1\r\nHost: grpc\r\n{kind}Content-Length: {len(body)}\r\n"
        return self._http.ask(b"%b%b\r\n" % (start.encode(), fields), body)


def _error_text(response: FrontEndAnswer) -> str:
    """Return the ``error`` in the body, or the body."""
    text = response.body.decode("utf-8", "replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, TypeError, KeyError):
        return text
