"""Batches and streams in one service."""

import time
from collections.abc import Iterator

from msgspec import Struct

from servekit import Service, endpoint


class Count(Struct):
    to: int
    words: list[str] = []
    stream: bool = False


class Mixed(Service):
    def predict(self, batch: list[float]) -> list[dict[str, int]]:
        time.sleep(max(batch))
        return [{"batch": len(batch)} for _ in batch]

    @endpoint(get=True, stream={"end": ""})
    def ticks(self, count: Count) -> Iterator[int | str]:
        yield from range(count.to)
        yield from count.words

    @endpoint(get=True, envelope=True)
    def squares(self, batch: list[Count]) -> list[int]:
        return [count.to**2 for count in batch]
