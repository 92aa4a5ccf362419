# SPDX-License-Identifier: Apache-2.0
"""What a ``predict`` gave back, judged: outputs, or which error."""

import sys
from collections.abc import Mapping
from typing import Any

from servekit import errors
from servekit.counting import counted
from servekit.errors import (
    OutOfMemory,
    PredictFailed,
    RequestError,
    ServekitError,
    ServiceError,
    WrongBatchLength,
)
from servekit.worker.codecs.json import codec as json

__all__ = ["error_answer", "error_of", "outputs_of"]

SHOWN = 2000  #: characters of a service's message that a client gets
SHOWN_FIELDS = 100
SHOWN_TRACEBACK = 20_000


def outputs_of(result: Any, count: int, *, may_be_mapping: bool) -> list[Any]:
    """Return one output per input.

    :param result: what ``predict`` returned for *count* inputs.
    :param may_be_mapping: the service has a signature, so outputs may have names.
    :raises WrongBatchLength: it is no list of *count*, no array of *count* rows, and not such by
        name.
    """
    if isinstance(result, list):
        outputs = list(result)  # a subclass may count otherwise than it lists
    elif _rows(result) is not None:
        outputs = list(result)
    elif may_be_mapping and isinstance(result, Mapping) and result:
        return _by_name(result, count)
    else:
        shown = f"a {type(result).__name__}" if result is not None else "None"
        raise WrongBatchLength(f"returned {shown}, expected a list of {count}")
    if len(outputs) != count:
        raise WrongBatchLength(
            f"returned {counted(len(outputs), 'output')} for {counted(count, 'input')}"
        )
    return outputs


def _rows(value: Any) -> int | None:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray) and value.ndim:
        return len(value)
    return None


def _by_name(result: Mapping[Any, Any], count: int) -> list[Any]:
    for name, value in result.items():
        if (len(value) if type(value) is list else _rows(value)) != count:
            raise WrongBatchLength(f"returned {name!r} that is not an array or a list of {count}")
    return [dict(zip(result, row, strict=True)) for row in zip(*result.values(), strict=True)]


def error_of(error: BaseException) -> type[ServekitError]:
    """Return the class under which *error* crosses the channel."""
    if isinstance(error, MemoryError):
        return OutOfMemory
    if isinstance(error, RequestError | ServiceError | OutOfMemory):
        for kind in type(error).__mro__:  # an author's own subclass is what it derives from
            if kind.__module__ == errors.__name__:
                return errors.error_class(kind.__name__)
    return PredictFailed


def error_answer(
    error: BaseException, heading: str = "", traceback: str = ""
) -> tuple[str, str, bytes]:
    """Return the answer of one failed request; only a ``RequestError`` brings its text.

    :param heading: what happened, and *traceback* where, for answers to those who develop it.
    """
    kind = error_of(error)
    detail, fields = _told(error) if isinstance(error, RequestError) else ("", [])
    said: dict[str, Any] = {"detail": detail, "errors": fields}
    if heading:
        said |= {"detail": _text(heading), "traceback": sendable(traceback)}
    body = json.encode(said)
    return kind.__name__, "application/json", body


def sendable(traceback: str) -> str:
    """Return the end of *traceback*, which says most, without lone surrogates."""
    return traceback[-SHOWN_TRACEBACK:].encode("utf-8", "replace").decode()


def _told(error: RequestError) -> tuple[str, list[dict[str, str]]]:
    """Return what *error* says; its author may have put anything there."""
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
        return value[:SHOWN].decode("utf-8", "replace")
    try:
        text = str.__str__(str(value))
    except Exception:  # noqa: BLE001 - an author's object
        text = type(value).__name__
    return text[:SHOWN].encode("utf-8", "replace").decode()
