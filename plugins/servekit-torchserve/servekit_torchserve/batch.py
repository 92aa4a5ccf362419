# SPDX-License-Identifier: Apache-2.0
"""One batch: the handler is called, and what it returns or raises becomes responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servekit.errors import RequestError
from servekit_torchserve.refusals import PredictionException
from servekit_torchserve.responses import error_response, is_out_of_resources, response_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from logging import Logger

    from servekit_torchserve.context import HandlerContext
    from servekit_torchserve.entry import Handle
    from servekit_torchserve.requests import HandlerRequest
    from servekit_torchserve.responses import HandlerResponse

__all__ = ["HandlerCalls"]


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

    def answer(self, batch: Sequence[HandlerRequest]) -> Sequence[HandlerResponse]:
        """Return a response for each request; those that ask for the same are one call."""
        groups = _groups(batch)
        if len(groups) == 1:
            return self._answer_group(batch)
        answers: list[Any] = [None] * len(batch)
        for places in groups:
            requests = [batch[place] for place in places]
            found = self._answer_group(requests)
            for place, response in zip(places, found, strict=True):
                answers[place] = response
        return answers

    def _answer_group(self, requests: Sequence[HandlerRequest]) -> Sequence[HandlerResponse]:
        try:
            return self._call(requests)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything
            if not self._isolates or len(requests) == 1:
                return [self._failure(error)] * len(requests)
            self._logger.warning(
                "%d requests are tried again, each alone: %r", len(requests), error
            )
        return [self._answer_group([request])[0] for request in requests]

    def _call(self, requests: Sequence[HandlerRequest]) -> list[HandlerResponse]:
        """Return what the handler returns. Raises what it raises."""
        ids = [request.request_id for request in requests]
        self._context.begin(ids, [request.headers for request in requests])
        found, count = self._handle([each.row for each in requests], self._context), len(requests)
        if not isinstance(found, list):
            self._logger.error("the handler returned a %s, not a list", type(found).__name__)
            return [error_response(503, "Invalid model predict output")] * count
        if len(found) != count:
            self._logger.error("the handler returned %d of %d responses", len(found), count)
            return [error_response(503, "number of batch response mismatched")] * count
        return [*map(response_of, found, self._context.request_processor)]

    def _failure(self, error: Exception) -> HandlerResponse:
        if isinstance(error, PredictionException):
            self._logger.info("the handler refuses: %s", error)
            return error_response(error.error_code, error.message)
        if isinstance(error, RequestError):
            return error_response(error.status, error.detail)
        self._logger.error("the handler failed", exc_info=error)
        if is_out_of_resources(error):
            return error_response(507, "Out of resources")
        return error_response(503, "Prediction failed")


def _groups(batch: Sequence[HandlerRequest]) -> Collection[Sequence[int]]:
    """Return the places of the requests that ask for the same: predictions, explanations ..."""
    groups: dict[tuple[str | None, str | None], list[int]] = {}
    for place, request in enumerate(batch):
        mode = request.headers.get("explain"), request.headers.get("describe")
        groups.setdefault(mode, []).append(place)
    return groups.values()
