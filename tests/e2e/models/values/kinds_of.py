# SPDX-License-Identifier: Apache-2.0
"""The classes that stages hand on."""

import enum
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from servekit.types import register_value_type


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Crop:
    image: Any
    at: tuple[int, int]
    colour: Colour


class Size(Struct):
    parts: set[int]


class Track:
    def __init__(self, points: list[int]) -> None:
        self.points = points


class Unknown:
    """No codec knows it."""


register_value_type(Track, write=lambda track: track.points, read=Track)
