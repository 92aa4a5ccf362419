# SPDX-License-Identifier: Apache-2.0
"""Every error that servekit raises on purpose. The class determines the HTTP status::

    ServekitError                      500
    ├── RequestError                   400   the client can fix it
    │   ├── ClientError                400   the service considers the request malformed
    │   ├── BodyMalformed              400   the body does not match its content type
    │   ├── ClientGone                 400   the client closed its side before the prediction began
    │   ├── Unauthorized               401   WWW-Authenticate is set
    │   │   └── InvalidToken                 the token is unknown
    │   ├── Forbidden                  403   known, but not allowed here
    │   ├── RouteNotFound              404
    │   ├── ModelNotFound              404
    │   ├── MethodNotAllowed           405   Allow is set
    │   ├── NotAcceptable              406   no codec can write what Accept asks for
    │   ├── ClientTooSlow              408
    │   ├── BodyTooLarge               413
    │   ├── TargetTooLong              414
    │   ├── UnknownMediaType           415
    │   │   └── UnknownCoding                Accept-Encoding is set
    │   ├── ExpectationFailed          417
    │   ├── InputError                 422   the signature or the service refused one input
    │   ├── HeadersTooLarge            431
    │   ├── NotSupported               501   a method or a transfer coding that HTTP allows
    │   └── VersionNotSupported        505
    ├── QueueFull                      429   overload, not outage; Retry-After is set
    ├── TooManyRequests                429   from one client; Retry-After is set
    ├── Unavailable                    503   try again; Retry-After is set
    │   ├── NotReady                         the model has no ready replica
    │   ├── Draining
    │   └── WorkerLost                       the worker died holding this task
    ├── DeadlineExceeded               504
    ├── ServiceError                   500   the service broke its contract
    │   ├── CallError                        another model that the service called gave no output
    │   │   └── CallUnavailable        503   ... and may do so later; Retry-After is set
    │   ├── PredictFailed
    │   ├── PoisonRequest                    it killed a worker for the second time
    │   ├── ResultNotEncodable
    │   └── WrongBatchLength
    ├── OutOfMemory                    507   the service ran out of memory
    ├── NoRoomForModel                 507   to load it on demand; Retry-After is set
    └── StartupError                         never reaches HTTP: exit status 3, one line on stderr
        ├── PluginError
        ├── ArchiveRefused                   by the policy; over HTTP, an operation answers 403
        ├── AssetError
        └── BootError

An error only says what happened. The message of an error below ``RequestError`` is
written for the client and is sent; that of any other is replaced by the ``title`` of
its class, so internals never leave the server.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

__all__ = [
    "ArchiveRefused",
    "AssetError",
    "BodyMalformed",
    "BodyTooLarge",
    "BootError",
    "CallError",
    "CallUnavailable",
    "ClientError",
    "ClientGone",
    "ClientTooSlow",
    "DeadlineExceeded",
    "Draining",
    "ExpectationFailed",
    "Forbidden",
    "HeadersTooLarge",
    "InputError",
    "InvalidToken",
    "MethodNotAllowed",
    "ModelNotFound",
    "NoRoomForModel",
    "NotAcceptable",
    "NotReady",
    "NotSupported",
    "OutOfMemory",
    "PluginError",
    "PoisonRequest",
    "PredictFailed",
    "QueueFull",
    "RequestError",
    "ResultNotEncodable",
    "RouteNotFound",
    "ServekitError",
    "ServiceError",
    "StartupError",
    "TargetTooLong",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "UnknownCoding",
    "UnknownMediaType",
    "VersionNotSupported",
    "WorkerLost",
    "WrongBatchLength",
    "error_class",
    "problem",
    "problem_of",
]


class ServekitError(Exception):
    """Base of every deliberate error."""

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"
    #: seconds a client should wait before it tries again; ``None`` sends no ``Retry-After``
    retry_after_s: int | None = None
    #: the message and the place of the failure, for ``--dev``; "" otherwise
    told: str = ""
    traceback: str = ""

    def __init__(self, *args: object, retry_after_s: int | None = None) -> None:
        """Take a better *retry_after_s* than the class has, where one is known."""
        super().__init__(*args)
        if retry_after_s is not None:
            self.retry_after_s = retry_after_s


class RequestError(ServekitError):
    """The client can fix it; the message is sent to the client."""

    status = 400
    title = "Bad request"

    def __init__(self, detail: str = "", errors: Sequence[dict[str, str]] = ()) -> None:
        """Say what is wrong; *errors* holds one ``{"field", "message"}`` for each wrong field."""
        super().__init__(detail)
        self.detail = detail
        self.errors = _listed(errors)


def _listed(errors: Any) -> list[Any]:
    """Return *errors* as a list; anything else, a mistake of the service, is its only element."""
    if errors is None:
        return []
    if isinstance(errors, Mapping | str | bytes):
        return [errors]
    try:
        return list(errors)
    except Exception:  # noqa: BLE001 - an author's object
        return [errors]


class ClientError(RequestError):
    """A service calls the request malformed."""


class ClientGone(RequestError):
    """The client closed its side of the connection before the prediction began."""

    title = "Client gone"


class BodyMalformed(RequestError):
    """The body does not decode as its content type says."""

    title = "Malformed body"


class Unauthorized(RequestError):
    """The request has no credentials, and needs them."""

    status = 401
    title = "Unauthorized"
    challenge: ClassVar[str] = 'Bearer realm="servekit"'  #: the value of ``WWW-Authenticate``


class InvalidToken(Unauthorized):
    """The token of the request is not valid."""

    title = "Invalid token"
    challenge = 'Bearer realm="servekit", error="invalid_token"'


class Forbidden(RequestError):
    """The client is known, and may not do this."""

    status = 403
    title = "Forbidden"


class RouteNotFound(RequestError):
    """No route has this path."""

    status = 404
    title = "Not found"


class ModelNotFound(RequestError):
    """No model is registered under this name."""

    status = 404
    title = "Unknown model"


class MethodNotAllowed(RequestError):
    """The route exists, with other methods."""

    status = 405
    title = "Method not allowed"

    def __init__(
        self, detail: str = "", errors: Sequence[dict[str, str]] = (), *, allow: str = "POST"
    ) -> None:
        """Say which methods there are."""
        super().__init__(detail, errors)
        self.allow = allow


class NotAcceptable(RequestError):
    """No codec writes any media type that ``Accept`` names."""

    status = 406
    title = "Not acceptable"


class ClientTooSlow(RequestError):
    """The request was not complete in time."""

    status = 408
    title = "Request timeout"


class BodyTooLarge(RequestError):
    """The body is over ``max_body``."""

    status = 413
    title = "Body too large"


class TargetTooLong(RequestError):
    """The request target is over the limit."""

    status = 414
    title = "URI too long"


class UnknownMediaType(RequestError):
    """No codec reads this content type."""

    status = 415
    title = "Unsupported media type"


class UnknownCoding(UnknownMediaType):
    """``Content-Encoding`` names a coding that the server does not accept."""

    def __init__(
        self,
        detail: str = "",
        errors: Sequence[dict[str, str]] = (),
        *,
        accepted: Sequence[str] = ("identity",),
    ) -> None:
        """Say which codings are *accepted* (RFC 9110 15.5.16)."""
        super().__init__(detail, errors)
        self.accepted = accepted


class ExpectationFailed(RequestError):
    """``Expect`` names an expectation that the server does not support."""

    status = 417
    title = "Expectation failed"


class InputError(RequestError):
    """The signature, the types or the service refused one input.

    A service may raise it (all inputs of the batch are refused) or return an instance
    in an input's slot of ``predict``'s result (that input alone is refused).
    """

    status = 422
    title = "Input refused"


class HeadersTooLarge(RequestError):
    """The header section is over the limit."""

    status = 431
    title = "Header fields too large"


class NotSupported(RequestError):
    """A method or coding of HTTP that the server does not support."""

    status = 501
    title = "Not supported"


class VersionNotSupported(RequestError):
    """A version of HTTP that the server does not speak."""

    status = 505
    title = "HTTP version not supported"


class QueueFull(ServekitError):
    """The model's queue is at capacity; the client may retry."""

    status = 429
    title = "Queue full"
    retry_after_s = 1


class TooManyRequests(ServekitError):
    """One client sends more requests than it may; others are not affected."""

    status = 429
    title = "Too many requests"
    retry_after_s = 1


class Unavailable(ServekitError):
    """The server cannot answer now; the client may retry."""

    status = 503
    title = "Unavailable"
    retry_after_s = 1


class NotReady(Unavailable):
    """The model has no ready replica."""

    title = "Model not ready"


class Draining(Unavailable):
    """The server is shutting down."""

    title = "Shutting down"


class WorkerLost(Unavailable):
    """The worker died with this task; it may or may not have run."""

    title = "Worker lost"


class DeadlineExceeded(ServekitError):
    """The task's deadline passed before it was answered."""

    status = 504
    title = "Deadline exceeded"


class ServiceError(ServekitError):
    """The service broke its contract."""

    title = "Service failed"


class CallError(ServiceError):
    """Another model, which the service has called, gave no output.

    A service may catch it. Otherwise it fails the batch, as any exception does.
    """

    title = "Call of another model failed"

    def __init__(
        self,
        model: str = "",
        called_status: int = 500,
        detail: str = "",
        errors: Sequence[dict[str, str]] = (),
    ) -> None:
        """Say what *model* answered: its status, and what a client would read."""
        super().__init__(f"{model} answered {called_status}: {detail}" if detail else model)
        self.model = model
        self.called_status = called_status  #: 422 for a refused input, 504 for one that came late
        self.detail = detail
        self.errors = list(errors)  #: one ``{"field", "message"}`` for each wrong field


class CallUnavailable(CallError):
    """The called model was not ready, had too much to do or took too long (429, 503, 504)."""

    status = 503
    title = "Called model unavailable"
    retry_after_s = 1


class PredictFailed(ServiceError):
    """``predict`` raised; the traceback is in the worker's log, under the request id."""

    title = "Prediction failed"


class PoisonRequest(ServiceError):
    """A worker died twice with this request, the second time with no other."""

    title = "Request killed its worker"


class ResultNotEncodable(ServiceError):
    """An output cannot be written in the media type that was asked for."""

    title = "Result not encodable"


class WrongBatchLength(ServiceError):
    """The number of outputs of ``predict`` is not the number of its inputs."""

    title = "Wrong number of outputs"


class OutOfMemory(ServekitError):
    """The service ran out of memory; the worker continues."""

    status = 507
    title = "Out of memory"


class NoRoomForModel(ServekitError):
    """The model is loaded on demand, and there is no memory for it."""

    status = 507
    title = "No memory for the model"
    retry_after_s = 5


class StartupError(ServekitError):
    """servekit cannot start as asked."""

    title = "Startup failed"


class PluginError(StartupError):
    """A plugin fails to import or breaks the plugin contract."""


class ArchiveRefused(StartupError):
    """The policy of the server, or a plugin, does not allow an archive."""

    title = "Archive refused"


class AssetError(StartupError):
    """An asset cannot be fetched, or is not what the manifest says."""


class BootError(StartupError):
    """A worker failed before it was ready."""


def error_class(name: str) -> type[ServekitError]:
    """Return the class of an error that crossed a channel; an unknown name is ``PredictFailed``."""
    found = globals().get(name)
    if isinstance(found, type) and issubclass(found, ServekitError):
        return found
    return PredictFailed


def problem_of(error: ServekitError, request_id: str) -> dict[str, Any]:
    """Return the problem details of *error*."""
    detail, errors = getattr(error, "detail", ""), getattr(error, "errors", ())
    members = problem(type(error), request_id, detail, errors)
    if error.told:
        members |= {"detail": error.told, "traceback": error.traceback}
    return members


def problem(
    kind: type[ServekitError], request_id: str, detail: str = "", errors: Sequence[Any] = ()
) -> dict[str, Any]:
    """Return the problem details (RFC 9457) of one error, ready for JSON.

    *detail* and *errors* are used for errors below ``RequestError`` only.
    """
    members: dict[str, Any] = {"type": "about:blank", "title": kind.title, "status": kind.status}
    if issubclass(kind, RequestError):
        if detail:
            members["detail"] = detail
        if errors:
            members["errors"] = list(errors)
    members["request_id"] = request_id
    return members
