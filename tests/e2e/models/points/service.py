# SPDX-License-Identifier: Apache-2.0
"""A typed service: adds up the coordinates of a point."""

import msgspec

from servekit import InputError, Service


class Point(msgspec.Struct):
    x: float
    y: float = 0.0


class Points(Service):
    def predict(self, batch: list[Point]) -> list[float]:
        return [InputError("x: 13 is unlucky") if p.x == 13 else p.x + p.y for p in batch]
