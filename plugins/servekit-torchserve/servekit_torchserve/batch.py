# SPDX-License-Identifier: Apache-2.0
"""One batch: the handler is called, and what it returns or raises becomes responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from servekit.errors import RequestError
from servekit_torchserve.refusals import PredictionException
from servekit_torchserve.responses import error_response, is_out_of_resources, response_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from logging import Logger

    from servekit import Response
    from servekit_torchserve.context import HandlerContext
    from servekit_torchserve.entry import Handle
    from servekit_torchserve.requests import HandlerRequest

__all__ = ["HandlerCalls"]

#: request headers by which handlers do something else than predict; all of a call have the same
MODES: Final = ("explain", "describe")


class HandlerCalls:
    """Calls a handler, and makes a response for each request."""

    def __init__(
        self, handle: Handle, context: HandlerContext, logger: Logger, *, isolates: bool
    ) -> None:
        """Call *handle* with *context*.

        :param isolates: the requests of a batch that fails are tried again, each alone.
        """
        self._handle, self._context, self._logger = handle, context, logger
        self._isolates = isolates

    def answer(self, batch: Sequence[HandlerRequest], ids: Sequence[str]) -> list[Response]:
        """Return a response for each request of *batch*; the handler gets those of a mode at once.

        :param ids: of the requests.
        """
        answers: list[Any] = [None] * len(batch)
        for places in _groups(batch):
            requests = [batch[place] for place in places]
            found = self._answer_group(requests, [ids[place] for place in places])
            for place, response in zip(places, found, strict=True):
                answers[place] = response
        return answers

    def _answer_group(
        self, requests: Sequence[HandlerRequest], ids: Sequence[str]
    ) -> Sequence[Response]:
        try:
            return self._call(requests, ids)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything
            if not self._isolates or len(requests) == 1:
                return [self._failure(error)] * len(requests)
            self._logger.warning(
                "%d requests are tried again, each alone: %r", len(requests), error
            )
        alone = zip(requests, ids, strict=True)
        return [self._answer_group([request], [name])[0] for request, name in alone]

    def _call(self, requests: Sequence[HandlerRequest], ids: Sequence[str]) -> list[Response]:
        """Return what the handler returns. Raises what it raises."""
        self._context.begin(ids, [request.headers for request in requests])
        found, count = self._handle([each.row for each in requests], self._context), len(requests)
        if not isinstance(found, list):
            self._logger.error("the handler returned a %s, not a list", type(found).__name__)
            return [error_response(503, "Invalid model predict output")] * count
        if len(found) != count:
            self._logger.error("the handler returned %d of %d responses", len(found), count)
            return [error_response(503, "number of batch response mismatched")] * count
        heads = zip(found, self._context.request_processor, strict=True)
        return [
            response_of(each, head.get_response_status_code(), head.get_response_headers())
            for each, head in heads
        ]

    def _failure(self, error: Exception) -> Response:
        if isinstance(error, PredictionException):
            self._logger.info("the handler refuses: %s", error)
            return error_response(error.error_code, error.message)
        if isinstance(error, RequestError):
            return error_response(error.status, error.detail)
        self._logger.error("the handler failed", exc_info=error)
        if is_out_of_resources(error):
            return error_response(507, "Out of resources")
        return error_response(503, "Prediction failed")


def _groups(batch: Sequence[HandlerRequest]) -> Iterable[Sequence[int]]:
    """Return the places of the requests of each mode."""
    groups: dict[tuple[str | None, ...], list[int]] = {}
    for place, request in enumerate(batch):
        mode = tuple(request.headers.get(name) for name in MODES)
        groups.setdefault(mode, []).append(place)
    return groups.values()
