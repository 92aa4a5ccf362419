# SPDX-License-Identifier: Apache-2.0
"""Pictures between stages, in lists, in streams, and as answers."""

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from msgspec import Struct
from PIL import Image as Pillow

from servekit import Service, endpoint
from servekit.types import Audio, File, Format, Image

Jpeg = Annotated[Image, Format("image/jpeg", quality=95)]


class Card(Struct):
    colour: str
    width: int = 6


class Paint(Service):
    def predict(self, batch: list[Card]) -> list[Image]:
        return [painted(card) for card in batch]

    @endpoint()
    def tone(self, batch: list[Card]) -> list[Audio]:
        return [Audio(np.full(card.width, 0.5, np.float32), 8000) for card in batch]

    @endpoint()
    def note(self, batch: list[Card]) -> list[File]:
        return [File("note.csv", "text/csv", card.colour.encode()) for card in batch]

    @endpoint()
    def watch(self, card: Card) -> Iterator[Jpeg]:
        for width in range(1, card.width + 1):
            yield painted(Card(card.colour, width))


class Turn(Service):
    def predict(self, batch: list[Image]) -> list[Jpeg]:
        return [image.rotate(90, expand=True) for image in batch]


class Split(Service):
    def predict(self, batch: list[Card]) -> list[list[Image]]:
        return [[painted(Card(card.colour, 6)), painted(Card(card.colour, 8))] for card in batch]


def painted(card):
    return Pillow.new("RGB", (card.width, 4), card.colour)
