# SPDX-License-Identifier: Apache-2.0
"""The context of handlers of MMS 1.x: the model, the requests, and metrics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from servekit import Response

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit import Context, Request

__all__ = ["MMSContext", "MetricDimension", "MetricsStore", "RefusedPrediction"]

OK: Final = 200
NAME: Final = re.compile(r"[^a-zA-Z0-9_]")
TEXT: Final = "text/plain"
BINARY: Final = (bytes, bytearray)


class RefusedPrediction(Exception):
    """Raised by a handler to choose the status of a whole batch."""

    def __init__(self, message: str, error_code: int = 500) -> None:
        """Keep both; the client gets them."""
        super().__init__(message)
        self.message, self.error_code = message, error_code


class MetricDimension:
    """A name and a value that qualify a metric."""

    def __init__(self, name: str, value: str) -> None:
        """Keep both."""
        self.name, self.value = name, value


class MMSContext:
    """The ``context`` of ``handle``; methods with ``idx`` are about one element of the batch."""

    def __init__(
        self,
        model_name: str,
        manifest: Mapping[str, Any],
        system_properties: Mapping[str, Any],
        requests: Sequence[Request],
        metrics: MetricsStore,
    ) -> None:
        """Describe the model, and *requests*: those of a batch, or none while it is initialized."""
        self.model_name, self.manifest = model_name, manifest
        self.system_properties = system_properties
        self.metrics = metrics
        self.request_ids = {at: request.request_id for at, request in enumerate(requests)}
        self._requests = requests
        self._statuses: dict[int, int] = {}
        self._headers: dict[int, dict[str, str]] = {}
        self._types: dict[int, str] = {}

    def get_request_id(self, idx: int = 0) -> str:
        """Return the id of a request."""
        return self.request_ids.get(idx, "")

    def get_request_header(self, idx: int, key: str) -> str | None:
        """Return the value of a header, whatever the case of *key*."""
        return self._requests[idx].headers.get(key.lower())

    def get_all_request_header(self, idx: int) -> dict[str, str]:
        """Return all headers, with names in lower case."""
        return dict(self._requests[idx].headers)

    def set_response_content_type(self, idx: int, value: str) -> None:
        """Set the type of a body."""
        self._types[idx] = value

    def get_response_content_type(self, idx: int) -> str | None:
        """Return the type that has been set."""
        return self._types.get(idx)

    def set_response_header(self, idx: int, key: str, value: str) -> None:
        """Set a header."""
        self._headers.setdefault(idx, {})[key] = value

    def get_response_headers(self, idx: int) -> dict[str, str]:
        """Return the headers that have been set."""
        return dict(self._headers.get(idx, {}))

    def set_response_status(self, code: int = OK, phrase: str = "", idx: int = 0) -> None:  # noqa: ARG002 - HTTP/2 has no phrases
        """Set the status of one response."""
        self._statuses[idx] = code

    def get_response_status(self, idx: int) -> tuple[int, str]:
        """Return the status that has been set, without a phrase."""
        return self._statuses.get(idx, OK), ""

    def set_all_response_status(self, code: int = OK, phrase: str = "") -> None:  # noqa: ARG002
        """Set the status of all responses."""
        self._statuses = dict.fromkeys(range(max(1, len(self._requests))), code)

    def response(self, idx: int, output: Any) -> Any:
        """Return *output* with what has been set for its response. Text has no quotes."""
        status, headers = self._statuses.get(idx, OK), self._headers.get(idx, {})
        media_type = self._types.get(idx)
        if isinstance(output, str):
            media_type = media_type or TEXT
        elif media_type is not None and not isinstance(output, BINARY):
            output = msgspec.json.encode(output)
        if status == OK and not headers and media_type is None:
            return bytes(output) if isinstance(output, bytearray) else output
        return Response(output, status=status, headers=headers, content_type=media_type)


class MetricsStore:
    """``context.metrics``: what a handler adds becomes metrics of the server.

    Counters are summed up; of anything else, ``/metrics`` shows the last value.
    """

    def __init__(self, context: Context) -> None:
        """Make one metric of each kind; the name that a handler chooses is a label."""
        labels = ["name", "unit"]
        text = "counters of the handler, by its names"
        self._counter = context.metrics.counter("mms_handler_counts", text, labels)
        text = "other metrics of the handler, by its names: the last values"
        self._gauge = context.metrics.gauge("mms_handler_values", text, labels)

    def add_counter(
        self, name: str, value: float, idx: int | None = None, dimensions: Any = None
    ) -> None:
        """Count *value* more."""
        del idx, dimensions
        self._counter.inc(value, name=_label(name), unit="count")

    def add_time(
        self,
        name: str,
        value: float,
        idx: int | None = None,
        unit: str = "ms",
        dimensions: Any = None,
    ) -> None:
        """Set a duration; *unit* is ``ms`` or ``s``."""
        self.add_metric(name, value, idx, unit, dimensions)

    def add_size(
        self,
        name: str,
        value: float,
        idx: int | None = None,
        unit: str = "MB",
        dimensions: Any = None,
    ) -> None:
        """Set a size; *unit* is ``kB``, ``MB`` or ``GB``."""
        self.add_metric(name, value, idx, unit, dimensions)

    def add_percent(
        self, name: str, value: float, idx: int | None = None, dimensions: Any = None
    ) -> None:
        """Set a percentage."""
        self.add_metric(name, value, idx, "percent", dimensions)

    def add_error(self, name: str, value: Any, dimensions: Any = None) -> None:
        """Count an error; its text is not kept."""
        del value
        self.add_counter(name, 1, None, dimensions)

    def add_metric(
        self,
        name: str,
        value: float,
        idx: int | None = None,
        unit: str | None = None,
        dimensions: Any = None,
    ) -> None:
        """Set a value."""
        del idx, dimensions
        self._gauge.set(value, name=_label(name), unit=unit or "")


def _label(name: str) -> str:
    return NAME.sub("_", str(name))
