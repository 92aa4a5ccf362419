# SPDX-License-Identifier: Apache-2.0
"""Figures in words, with units that fit."""

from servekit_archiver.cli.output import human_seconds

from servekit_bench.report.figures import LoadFigures

__all__ = ["connections_words", "load_words", "milliseconds", "rate_words", "size"]


def load_words(load: LoadFigures) -> str:
    """Describe a load in words."""
    if load.rate is None:
        return f"closed loop, {connections_words(load.connections)}"
    return f"open loop, {load.rate:.10g} requests/s, {load.arrivals} arrivals"


def connections_words(count: int) -> str:
    """Return a number of connections in words."""
    return f"{count} connection{'s' if count != 1 else ''}"


def milliseconds(value: float | None) -> str:
    """Return milliseconds in three digits, with a unit that fits."""
    return "-" if value is None else human_seconds(value / 1000)


def rate_words(value: float) -> str:
    """Return a rate without decimals, unless it is small: ``12,345``, ``0.5``."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def size(count: float) -> str:
    """Return bytes in a unit that fits: ``1.5 MB``."""
    for unit in ("B", "kB", "MB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB" if count < 999.5 else f"{count:,.0f} GB"
