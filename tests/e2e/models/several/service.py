# SPDX-License-Identifier: Apache-2.0
"""Refuses some inputs, fails at others, and remembers how many came together."""

from msgspec import Struct

from servekit import InputError, Service


class Query(Struct):
    x: float
    pad: str = ""


class Root(Service):
    def predict(self, batch: list[Query]) -> list[float | InputError]:
        if any(query.x == 13 for query in batch):
            raise RuntimeError("thirteen")
        return [query.x**0.5 if query.x >= 0 else InputError("x: negative") for query in batch]


class Double(Service):
    def predict(self, batch):
        return [InputError("no: 5") if root == 5 else root * 2 for root in batch]


class Keep(Service):
    def predict(self, batch):
        return batch
