# SPDX-License-Identifier: Apache-2.0
"""The first stage: makes objects of many kinds."""

import array
import datetime
import decimal
import uuid

from kinds_of import Colour, Crop, Size, Track, Unknown
from PIL import Image

from servekit import Service

MADE = {
    "dataclass": lambda: Crop(Image.new("RGB", (2, 3)), (1, 2), Colour.RED),
    "struct": lambda: Size({1, 2, 3}),
    "times": lambda: [
        datetime.datetime(2026, 1, 1),
        datetime.date(2026, 1, 1),
        datetime.timedelta(1),
        uuid.UUID(int=1),
        decimal.Decimal("1.50"),
    ],
    "registered": lambda: Track([1, 2]),
    "array": lambda: array.array("f", [1, 2]),
    "unknown": Unknown,
    "several": lambda: [Size({1}), Track([1])],
}


class Make(Service):
    def predict(self, batch):
        return [MADE[name]() for name in batch]
