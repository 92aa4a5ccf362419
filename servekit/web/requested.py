# SPDX-License-Identifier: Apache-2.0
"""The query and the body of a request to the management listener."""

import math
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from flask import request
from msgspec import Struct

from servekit.errors import BodyMalformed, InputError, RequestError, UnknownMediaType
from servekit.extension.bodies import read_json
from servekit.ipc.operations import Load, Operation, Swap
from servekit.mistakes import mistake_of
from servekit.settings.checks import ValueRefused
from servekit.settings.model_tables import read_deployment
from servekit.settings.values import is_url
from servekit.web.errors import quoted

__all__ = [
    "MAX_WAIT_S",
    "TAG",
    "asked_body",
    "asked_number",
    "asked_object",
    "asked_wait",
    "checked",
    "checked_operation",
    "refusal",
]

MAX_WAIT_S: Final = 600.0
TAG: Final = "type"  #: the key that tells the messages apart between the processes

Asked = TypeVar("Asked", bound=Struct)
Loading = TypeVar("Loading", Load, Swap)


def asked_wait() -> float:
    """Return how many seconds the client wants to wait, as far as it may.

    :raises RequestError: ``wait`` is not a number of seconds.
    """
    return min(asked_number("wait", 0.0), MAX_WAIT_S)


def asked_number(name: str, default: float) -> float:
    """Return the parameter *name*.

    :raises RequestError: it is not a finite number, or negative.
    """
    text = request.args.get(name, "")
    try:
        number = float(text or default)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        message = f"{quoted(text)} is not a number from 0 on"
        raise RequestError(f"{name}: {message}", [{"field": name, "message": message}])
    return number


def asked_object() -> dict[str, Any]:
    """Return the body, a JSON object; without a body an empty one.

    :raises RequestError: it is not.
    """
    body = request.get_data()
    if not body:
        return {}
    if not request.is_json:
        raise UnknownMediaType("send application/json")
    try:
        decoded = read_json(body, object)
    except ValueError as error:
        raise BodyMalformed(str(error)) from error
    if not isinstance(decoded, dict):
        raise refusal("", "expected an object")
    return decoded


def asked_body(kind: type[Asked], **known: str) -> Asked:
    """Return the body as a *kind*; its *known* fields are in the path, and only there.

    :raises InputError: a field is missing, unknown or wrong.
    """
    body = asked_object()
    for field in (TAG, *known):
        if field in body:
            raise refusal(field, "unknown field")
    try:
        return msgspec.convert(body | known, kind)
    except msgspec.ValidationError as error:
        raise refusal(*mistake_of(error)) from error


def checked(asked: Loading) -> Loading:
    """Return *asked* if its source and its settings can be meant.

    :raises InputError: a setting is unknown or wrong, or a path is relative.
    """
    if asked.source and not (is_url(asked.source) or asked.source.startswith("/")):
        raise refusal("source", "neither an absolute path nor a URL")
    if "path" in asked.settings:
        raise refusal("settings.path", "give the path as source")
    try:
        read_deployment("", asked.settings, "", Path())
    except ValueRefused as error:
        raise refusal(error.where, error.reason) from error
    return asked


def checked_operation(operation: Operation) -> Operation:
    """Return *operation* if the supervisor can decode it: plugins fill in what they like.

    :raises InputError: the value of a field has the wrong type, or is out of range.
    """
    try:
        encoded = msgspec.msgpack.encode(operation)
        decoded: Operation = msgspec.msgpack.decode(encoded, type=Operation)
    except msgspec.ValidationError as error:
        raise refusal(*mistake_of(error)) from error
    except (TypeError, OverflowError) as error:  # a value that no message can hold
        raise refusal("", str(error)) from error
    return decoded


def refusal(path: str, message: str) -> InputError:
    """Return the error of the field at *path*."""
    field = path.removeprefix(".")
    detail = f"{field}: {message}" if field else message
    return InputError(detail, [{"field": field, "message": message}])
