# SPDX-License-Identifier: Apache-2.0
"""Routes whose body is ``{"instances": [...]}``: each goes the whole way by itself.

A worker reads the body and writes the instances apart; then each is a flow of its own, which
stands at its place in the answer with what it gave, or with what was wrong with it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.frontend.pipelines.instances_run import Whole
from servekit.frontend.pipelines.pipeline import REQUEST, Pipeline, Place
from servekit.ipc.batches import MethodCall, Reading

if TYPE_CHECKING:
    from servekit.errors import ServekitError
    from servekit.extension.exchange import Exchange
    from servekit.ipc.batches import SentItem

__all__ = ["Each", "Instances"]


class Each(Pipeline):
    """The way of one instance, which is not counted as a request."""

    def count(self, status: int, duration_s: float) -> None:
        """Count nothing: it is a part of an answer."""

    def count_failure(self, status: int) -> None:
        """Count nothing."""


class Instances(Pipeline):
    """Answers at one path; is itself the pipeline that reads the body."""

    def __init__(self, each: Each) -> None:
        """Lead every instance through *each*."""
        place = Place(
            "", each.places[0].batcher, [REQUEST], [], calls=(MethodCall(method=Reading.INSTANCES),)
        )
        super().__init__(
            each.row, [place], each.metrics, large_body=each.large_body, loop=each.loop
        )
        self.each = each
        self.predict_timeout_s = each.predict_timeout_s

    def start(
        self,
        exchange: Exchange,
        item: SentItem,
        headers: dict[bytes, bytes],
        now: float,
        until: float,
        refusal: ServekitError | None,
    ) -> None:
        """Have the instances of *item* predicted, or respond at once."""
        exchange.prediction = whole = Whole(self, exchange, item, headers, now, until)
        whole.begin(refusal)

    def count(self, status: int, duration_s: float) -> None:
        """Count nothing yet: the body is read, and that is all."""

    def count_whole(self, status: int, duration_s: float) -> None:
        """Count the answer with all instances."""
        super().count(status, duration_s)
