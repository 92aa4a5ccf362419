# SPDX-License-Identifier: Apache-2.0
"""Renders every error of the Flask app as problem details (RFC 9457), in this one place."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from flask import Flask, Response, jsonify, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import MethodNotAllowed as WrongMethod

from servekit.errors import (
    BodyTooLarge,
    ClientTooSlow,
    Forbidden,
    InputError,
    MethodNotAllowed,
    NotAcceptable,
    QueueFull,
    RequestError,
    RouteNotFound,
    ServekitError,
    TargetTooLong,
    Unauthorized,
    Unavailable,
    UnknownMediaType,
    problem,
)

__all__ = ["add_error_pages", "problem_page", "quoted", "render", "render_http"]

logger = logging.getLogger("servekit.web")

#: status of ``abort`` to the error class of servekit that has it
KINDS: Final[dict[int, type[ServekitError]]] = {
    kind.status: kind
    for kind in (RequestError, Unauthorized, Forbidden, RouteNotFound, NotAcceptable,
                 ClientTooSlow, BodyTooLarge, TargetTooLong, UnknownMediaType, InputError,
                 QueueFull, Unavailable)
}  # fmt: skip
LONGEST_QUOTE: Final = 64


def quoted(text: str) -> str:
    """Return *text* from a client in quotes, cut and in printable ASCII."""
    cut = text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "..."
    return ascii(cut)


def add_error_pages(app: Flask) -> None:
    """Answer deliberate errors with their class's status; anything else with a bare 500."""
    app.register_error_handler(ServekitError, render)
    app.register_error_handler(HTTPException, render_http)
    app.register_error_handler(Exception, render_unexpected)


def render(error: ServekitError) -> Response:
    """Answer a deliberate error."""
    if isinstance(error, RequestError):
        return _answer(type(error), error.detail, error.errors)
    return _answer(type(error))


def render_http(error: HTTPException) -> ResponseReturnValue:
    """Answer an error of Flask or Werkzeug without its message, which is HTML."""
    if isinstance(error, WrongMethod):
        return _render_wrong_method(sorted(error.valid_methods or ()))
    if error.code is None or error.code == 500:
        return render_unexpected(error)
    kind = KINDS.get(error.code)
    if kind is RouteNotFound:
        return _answer(kind, f"no route has the path {quoted(request.path)}")
    return _answer(kind) if kind else problem_page(error.code, error.name)


def problem_page(
    status: int, title: str, detail: str = "", more: Mapping[str, Any] | None = None
) -> Response:
    """Answer with a *status* that no class of ours has, and with *more* members."""
    members = problem(RequestError, _request_id(), detail) | {"status": status, "title": title}
    return _finish({**members, **(more or {})})


def render_unexpected(error: Exception) -> Response:
    """Log the traceback under the request id; the client gets the id and nothing else."""
    what = f"{request.method} {quoted(request.path)}"
    logger.error("%s failed, request %s", what, quoted(_request_id()), exc_info=error)
    return _answer(ServekitError)


def _render_wrong_method(allowed: Sequence[str]) -> Response:
    methods = ", ".join(allowed)
    answer = _answer(MethodNotAllowed, f"allowed here: {methods}")
    answer.headers["Allow"] = methods
    return answer


def _answer(
    kind: type[ServekitError], detail: str = "", errors: Sequence[Mapping[str, str]] = ()
) -> Response:
    answer = _finish(problem(kind, _request_id(), detail, errors))
    if kind.retry_after_s is not None:
        answer.headers["Retry-After"] = str(kind.retry_after_s)
    if issubclass(kind, Unauthorized):
        answer.headers["WWW-Authenticate"] = kind.challenge
    return answer


def _finish(members: Mapping[str, Any]) -> Response:
    answer = jsonify(members)
    answer.status_code = members["status"]
    answer.mimetype = "application/problem+json"
    return answer


def _request_id() -> str:
    return str(request.environ.get("servekit.request_id", ""))
