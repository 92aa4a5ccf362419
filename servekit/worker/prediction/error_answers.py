# SPDX-License-Identifier: Apache-2.0
"""Turns the error of a request into its answer, and logs what is not the client's fault."""

from collections.abc import Mapping
from typing import Any

from servekit import errors
from servekit.errors import (
    OutOfMemory,
    PredictFailed,
    RequestError,
    ResultNotEncodable,
    ServekitError,
    ServiceError,
    WrongBatchLength,
)
from servekit.service.base import Service
from servekit.worker.codecs.json import codec as json
from servekit.worker.inputs.annotations import place_of, streaming_method
from servekit.worker.process.log import report
from servekit.worker.process.tracebacks import authors_error, traceback_text

__all__ = ["error_answer", "error_of", "logged_answer"]

MESSAGE_CHARS = 2000  #: characters of a service's message that a client gets
SHOWN_FIELDS = 100
SHOWN_TRACEBACK = 20_000


def error_of(error: BaseException) -> type[ServekitError]:
    """Return the class under which *error* is sent over the channel."""
    if isinstance(error, MemoryError):
        return OutOfMemory
    if isinstance(error, RequestError | ServiceError | OutOfMemory):
        for kind in type(error).__mro__:  # an author's subclass counts as its base
            if kind.__module__ == errors.__name__:
                return errors.error_class(kind.__name__)
    return PredictFailed


def error_answer(
    error: BaseException, heading: str = "", traceback: str = ""
) -> tuple[str, str, bytes]:
    """Return the answer of one failed request; only a ``RequestError`` shows its message.

    :param heading: says what happened, for a developer; *traceback* says where.
    """
    kind = error_of(error)
    detail, fields = _said(error) if isinstance(error, RequestError) else ("", [])
    said: dict[str, Any] = {"detail": detail, "errors": fields}
    if heading:  # the end of a traceback says most
        said |= {"detail": _text(heading), "traceback": _unicode(traceback[-SHOWN_TRACEBACK:])}
    return kind.__name__, "application/json", json.encode(said)


def _said(error: RequestError) -> tuple[str, list[dict[str, str]]]:
    """Return the detail and the fields of *error*, in which its author may have put anything."""
    try:
        detail = _text(getattr(error, "detail", ""))
        return detail, [_field(entry) for entry in [*error.errors][:SHOWN_FIELDS]]
    except Exception:  # noqa: BLE001 - an author's attributes
        return "", []


def _field(entry: Any) -> dict[str, str]:
    if not isinstance(entry, Mapping):
        return {"field": "", "message": _text(entry)}
    return {"field": _text(entry.get("field", "")), "message": _text(entry.get("message", ""))}


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value[:MESSAGE_CHARS].decode("utf-8", "replace")
    try:
        text = str.__str__(str(value))
    except Exception:  # noqa: BLE001 - an author's object
        text = type(value).__name__
    return _unicode(text[:MESSAGE_CHARS])


def _unicode(text: str) -> str:
    """Return *text* without lone surrogates, which could not be sent."""
    return text.encode("utf-8", "replace").decode()


def logged_answer(
    error: BaseException, service: Service, where: str, request_ids: list[str], *, is_dev: bool
) -> tuple[str, str, bytes]:
    """Log an *error* that is not the client's, and return the answer of *request_ids*.

    :param where: the method that failed, or "answer" if the answer could not be made.
    :param is_dev: the answer shows the traceback.
    """
    heading, raised = _heading(service, where, error)
    report(heading, raised, request_ids)
    if is_dev:
        return error_answer(error, heading, traceback_text(raised) if raised else "")
    return error_answer(error)


def _heading(
    service: Service, where: str, error: BaseException
) -> tuple[str, BaseException | None]:
    """Return what happened, and the error whose traceback to log; ``None``: no traceback."""
    raised = authors_error(error)
    if raised is error or not isinstance(error, ServiceError):
        return f"{where} failed", error
    name, method = _method(service, where)
    if isinstance(error, ResultNotEncodable):
        return f"the output of {name} cannot be written: {error}{place_of(method)}", raised
    if isinstance(error, WrongBatchLength):
        return f"{name} {error}{place_of(method)}", raised
    return f"{where} failed: {error}", raised


def _method(service: Service, where: str) -> tuple[str, Any]:
    """Return the name and the method that made the output."""
    kind = type(service)
    if where != "predict" and kind.postprocess is not Service.postprocess:
        method: Any = kind.postprocess
    else:
        first = streaming_method(service)
        method = getattr(kind, "step" if first == "admit" else first or "predict")
    return f"{kind.__name__}.{getattr(method, '__name__', where)}", method
