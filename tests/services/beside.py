# SPDX-License-Identifier: Apache-2.0
"""A service that predicts batches beside a method that streams."""

from collections.abc import Iterator
from time import monotonic, sleep

from msgspec import Struct

from servekit import Service, endpoint


class Order(Struct):
    """What ``predict`` does with one input."""

    name: str = ""
    wait_s: float = 0.0  #: unless its client leaves
    exits: bool = False


class Beside(Service):
    """Answers whether the client of each input has left."""

    def load(self, context):
        self.context = context

    def predict(self, batch: list[Order]) -> list[bool]:
        found = []
        for order, request in zip(batch, self.context.requests, strict=True):
            print("began", order.name)
            until = monotonic() + order.wait_s
            while monotonic() < until and not request.is_cancelled:
                sleep(0.005)
            if order.exits:
                raise SystemExit(3)
            found.append(request.is_cancelled)
        return found

    @endpoint()
    def count(self, value: int) -> Iterator[int]:
        yield from range(value)
