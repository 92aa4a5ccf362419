# SPDX-License-Identifier: Apache-2.0
"""Says what failed while a batch was answered, and where its author can look."""

from typing import Any

from servekit.errors import ResultNotEncodable, ServiceError, WrongBatchLength
from servekit.service.base import Service
from servekit.worker.inputs.annotations import place_of, streaming_method
from servekit.worker.process.tracebacks import authors_error

__all__ = ["told"]


def told(service: Service, where: str, error: BaseException) -> tuple[str, BaseException | None]:
    """Return what happened, and the error whose traceback shows it if it was not us who raised it.

    :param where: the method, or "answer" for what comes after it.
    """
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
    """Return the method whose output it is, and what its author calls it."""
    kind = type(service)
    if where != "predict" and kind.postprocess is not Service.postprocess:
        method: Any = kind.postprocess
    else:
        first = streaming_method(service)
        method = getattr(kind, "step" if first == "admit" else first or "predict")
    return f"{kind.__name__}.{getattr(method, '__name__', where)}", method
