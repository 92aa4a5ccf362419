# SPDX-License-Identifier: Apache-2.0
"""Figures in words, with units that fit."""

from servekit_bench.report.figures import LoadFigures

__all__ = ["connections_words", "load_words", "milliseconds", "size"]


def load_words(load: LoadFigures) -> str:
    """Describe a load in words."""
    if load.rate is None:
        return f"closed loop, {connections_words(load.connections)}"
    return f"open loop, {load.rate:g} requests/s, {load.arrivals} arrivals"


def connections_words(count: int) -> str:
    """Return a number of connections in words."""
    return f"{count} connection{'s' if count != 1 else ''}"


def milliseconds(value: float | None) -> str:
    """Return milliseconds in three digits, with their unit."""
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value / 1000:.3g} s"
    return f"{value:.3g} ms" if value >= 1 else f"{1000 * value:.3g} us"


def size(count: float) -> str:
    """Return bytes in a unit that fits: ``1.5 MB``."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
