# SPDX-License-Identifier: Apache-2.0
"""Small line charts as paths of SVG, drawn on the server."""

from collections.abc import Sequence
from math import isnan
from typing import Final

__all__ = ["HEIGHT", "SHOWN", "spark_path"]

SHOWN: Final = 90  #: points: a quarter of an hour
HEIGHT: Final = 20  #: units of the picture; a point is one unit wide


def spark_path(values: Sequence[float]) -> str:
    """Return the ``d`` of a path through the last points of *values*, the newest at the right.

    The scale begins at zero. There is a gap where a value is nan, and no line if all are zero.
    """
    shown = values[-SHOWN:]
    top = max((value for value in shown if not isnan(value)), default=0.0)
    if top <= 0:
        return ""
    scale = (HEIGHT - 2) / top
    parts, before, first = [], False, SHOWN - len(shown)
    for x, value in enumerate(shown, first):
        if isnan(value):
            before = False
            continue
        y = HEIGHT - 1 - value * scale
        parts.append(f"{'L' if before else 'M'}{x} {y:.1f}")
        before = True
    return "".join(parts)
