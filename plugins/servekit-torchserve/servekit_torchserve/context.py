# SPDX-License-Identifier: Apache-2.0
"""The context of a handler: its model, and the requests of its batch. Runs in: worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from servekit_torchserve.handler_metrics import HandlerMetrics

__all__ = ["HandlerContext", "RequestHeaders", "RequestProcessor"]

OK: Final = 200
#: headers that requests of a sequence have; handlers get the id as ``get_sequence_id``
SEQUENCE_ID: Final = "ts_request_sequence_id"


class RequestHeaders(dict[str, str]):
    """The header fields of a request; names are compared without regard to case."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        """Take *fields*."""
        super().__init__({name.lower(): value for name, value in fields.items()})

    def __getitem__(self, name: str) -> str:
        """Return the value of *name*."""
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        """Whether there is a field *name*."""
        return super().__contains__(name.lower() if isinstance(name, str) else name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of *name*, or *default*."""
        return super().get(name.lower(), default)


class RequestProcessor:
    """The header of one request, and the head of its response as the handler wants it."""

    __slots__ = ("_headers", "_phrase", "_response", "_status")

    def __init__(self, headers: Mapping[str, str]) -> None:
        """Answer the request that has *headers*, with names in lower case."""
        self._headers = headers
        self._response: dict[str, str] | None = None
        self._status, self._phrase = OK, ""

    @property
    def is_plain(self) -> bool:
        """Whether the handler has left status and header fields as they were."""
        return self._response is None and self._status == OK

    def get_request_property(self, key: str) -> str | None:
        """Return the header field *key* of the request."""
        return self._headers.get(key.lower())

    def get_request_properties(self) -> RequestHeaders:
        """Return all header fields of the request."""
        return RequestHeaders(self._headers)

    def report_status(self, code: int, reason_phrase: str | None = None) -> None:
        """Set the status of the response to *code*."""
        self._status, self._phrase = int(code), reason_phrase or ""

    def get_response_status_code(self) -> int:
        """Return the status of the response."""
        return self._status

    def get_response_status_phrase(self) -> str:
        """Return the phrase of the status; servekit does not send it."""
        return self._phrase

    def add_response_property(self, key: str, value: object) -> None:
        """Set the header field *key* of the response."""
        self.get_response_headers()[str(key)] = str(value)

    def get_response_headers(self) -> dict[str, str]:
        """Return the header fields of the response."""
        if self._response is None:
            self._response = {}
        return self._response

    def get_response_header(self, key: str) -> str | None:
        """Return the header field *key* of the response."""
        return self.get_response_headers().get(key)


class HandlerContext:
    """The ``context`` of handlers: one for each worker, which shows the batch of the moment."""

    def __init__(
        self,
        model_name: str,
        manifest: Mapping[str, Any],
        system_properties: Mapping[str, Any],
        metrics: HandlerMetrics,
        model_yaml_config: Mapping[str, Any],
    ) -> None:
        """Describe a model, and no batch yet.

        :param manifest: the content of ``MAR-INF/MANIFEST.json``.
        """
        self.model_name, self.manifest = model_name, dict(manifest)
        self.system_properties = dict(system_properties)
        self.metrics, self.model_yaml_config = metrics, dict(model_yaml_config)
        self.request_ids: dict[int, str] = {}
        self.request_processor: list[RequestProcessor] = []
        self.stopping_criteria: Any = None
        self.cl_socket: Any = None  #: TorchServe's connection to its front-end; there is none here
        #: sends parts of the responses, one for each request; `None` if the model does not stream
        self.send_part: Callable[[Sequence[Any]], None] | None = None

    def begin(self, ids: Sequence[str], headers: Sequence[Mapping[str, str]]) -> None:
        """Show a batch: the ids of its requests, and their header fields."""
        self.request_ids = dict(enumerate(ids))
        self.request_processor = [RequestProcessor(each) for each in headers]
        self.metrics.request_ids = self.request_ids

    # ------------------------------------------------------------ of the request

    def get_request_id(self, idx: int = 0) -> str | None:
        """Return the id of the request at *idx*."""
        return self.request_ids.get(idx)

    def get_request_header(self, idx: int, key: str) -> str | None:
        """Return a header field of the request at *idx*; ``None`` without it."""
        return self.request_processor[idx].get_request_property(key)

    def get_all_request_header(self, idx: int) -> RequestHeaders:
        """Return all header fields of the request at *idx*."""
        return self.request_processor[idx].get_request_properties()

    def get_sequence_id(self, idx: int) -> str | None:
        """Return the id of the sequence that the request at *idx* belongs to."""
        return self.get_request_header(idx, SEQUENCE_ID)

    # ------------------------------------------------------------ of the response

    def get_response_content_type(self, idx: int) -> str | None:
        """Return the media type that the handler has set."""
        return self.request_processor[idx].get_response_header("content-type")

    def set_response_content_type(self, idx: int, value: str) -> None:
        """Set the media type of the response at *idx*."""
        self.set_response_header(idx, "content-type", value)

    def get_response_status(self, idx: int) -> tuple[int, str]:
        """Return code and phrase of the status of the response at *idx*."""
        processor = self.request_processor[idx]
        return processor.get_response_status_code(), processor.get_response_status_phrase()

    def set_response_status(self, code: int = OK, phrase: str = "", idx: int = 0) -> None:
        """Set the status of the response at *idx*."""
        self.request_processor[idx].report_status(code, phrase)

    def set_all_response_status(self, code: int = OK, phrase: str = "") -> None:
        """Set the status of all responses of the batch."""
        for processor in self.request_processor:
            processor.report_status(code, phrase)

    def get_response_headers(self, idx: int) -> dict[str, str]:
        """Return the header fields that the handler has set."""
        return self.request_processor[idx].get_response_headers()

    def set_response_header(self, idx: int, key: str, value: str) -> None:
        """Set a header field of the response at *idx*."""
        self.request_processor[idx].add_response_property(key, value)
