# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them: three digits that matter, and a unit."""

import json
from datetime import UTC, datetime
from typing import Final

__all__ = ["FILTERS", "count", "duration", "memory", "number", "percent"]

LINE: Final = 80  #: characters
NOTHING: Final = "–"
THIN: Final = "\N{NARROW NO-BREAK SPACE}"
PREFIXES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def number(value: float | None) -> str:
    """Return ``0``, ``0.4``, ``12.3``, ``640``, ``1.23k``."""
    if value is None:
        return NOTHING
    for scale, prefix in PREFIXES:
        if abs(value) >= scale * 0.9995:
            return f"{_digits(value / scale)}{prefix}"
    return _digits(value)


def count(value: float | None) -> str:
    """Return a whole number, with spaces between thousands."""
    return NOTHING if value is None else f"{value:,.0f}".replace(",", THIN)


def duration(seconds: float | None) -> str:
    """Return ``840 µs``, ``1.2 ms``, ``3.4 s``, ``12 min``, ``3.1 h``, ``2 d``."""
    if seconds is None:
        return NOTHING
    for limit, scale, unit in (
        (0.0009995, 1e6, "µs"),
        (0.9995, 1e3, "ms"),
        (99.95, 1, "s"),
        (5400, 1 / 60, "min"),
        (172_800, 1 / 3600, "h"),
    ):
        if seconds < limit:
            return f"{_digits(seconds * scale)}{THIN}{unit}"
    return f"{seconds / 86_400:.0f}{THIN}d"


def memory(size: float | None) -> str:
    """Return ``312 MiB``."""
    if not size:
        return NOTHING
    for unit in UNITS:
        if size < 999.5 or unit == UNITS[-1]:
            break
        size /= 1024
    return f"{_digits(size)}{THIN}{unit}"


def percent(share: float | None) -> str:
    """Return ``12 %`` for 0.12."""
    return NOTHING if share is None else f"{_digits(share * 100)}{THIN}%"


def clock(time_s: float) -> str:
    """Return the time of day in UTC."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%H:%M:%S")


def _digits(value: float) -> str:
    """Return three digits that matter, without zeros at the end of a fraction."""
    size = abs(value)
    if size >= 99.95 or value == 0:
        return f"{value:.0f}"
    text = f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def plain_json(value: object) -> str:
    """Return JSON for people: short values on one line."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LINE else json.dumps(value, ensure_ascii=False, indent=2)


FILTERS: Final = {
    "clock": clock,
    "count": count,
    "duration": duration,
    "memory": memory,
    "number": number,
    "percent": percent,
    "plain_json": plain_json,
}
