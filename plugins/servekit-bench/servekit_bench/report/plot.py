# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG: lines, dots and bars over linear or logarithmic axes.

The colours are classes (``s0`` to ``s5``) of the page that the plot is part of: ``page.STYLE``.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Final, Literal

__all__ = ["HUES", "Axis", "Guide", "Plot", "PlotSeries"]

WIDTH: Final = 720
HEIGHT: Final = 320
LEFT: Final = 72
RIGHT: Final = 16
TOP: Final = 20
BOTTOM: Final = 48
TICKS: Final = 6
MAX_DOTS: Final = 150  #: lines with more points have no dots to point at
HUES: Final = 6


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale, with its label."""

    label: str
    is_log: bool = False
    ticks: Sequence[tuple[float, str]] = ()  #: value and text; none: chosen from the values
    low: float | None = None  #: begin of the scale; ``None``: the smallest value


@dataclass(frozen=True, slots=True)
class PlotSeries:
    """Points of one kind, in the order of x."""

    label: str
    points: Sequence[tuple[float, float]]
    kind: Literal["line", "dots", "bars"] = "line"
    hue: int = 0  #: 0 to 5
    is_dashed: bool = False
    notes: Sequence[str] = ()  #: shown when a point is pointed at; none: its numbers


@dataclass(frozen=True, slots=True)
class Guide:
    """A line across the plot, such as a limit."""

    value: float
    label: str
    is_vertical: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot with a title; ``svg`` is the whole element."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[PlotSeries]
    guides: Sequence[Guide] = field(default=())

    def svg(self) -> str:
        """Return the element ``<svg>``; an empty string if there are no points."""
        shown = [each for each in self.series if each.points]
        if not shown:
            return ""
        across = _Scale.of(self.x, self._values(0), LEFT, WIDTH - RIGHT)
        up = _Scale.of(self.y, self._values(1), HEIGHT - BOTTOM, TOP)
        lines = [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.title)}">',
            *_x_axis(self.x, across),
            *_y_axis(self.y, up),
            *(line for each in self.guides for line in _guide(each, across, up)),
            *(line for each in shown for line in _series(each, across, up)),
            *_legend(shown),
            "</svg>",
        ]
        return "\n".join(lines)

    def _values(self, place: int) -> list[float]:
        found = [point[place] for each in self.series for point in each.points]
        return found + [each.value for each in self.guides if each.is_vertical == (place == 0)]


@dataclass(frozen=True, slots=True)
class _Scale:
    """From values to places of the picture."""

    low: float
    high: float
    begin: float
    end: float
    is_log: bool

    @classmethod
    def of(cls, axis: Axis, values: Sequence[float], begin: float, end: float) -> "_Scale":
        if axis.is_log:
            values = [each for each in values if each > 0] or [1.0]
            low, high = min(values), max(values)
            return cls(low, max(high, low * 1.1), begin, end, is_log=True)
        low = min(values) if axis.low is None else axis.low
        high = max(*values, low)
        return cls(low, high if high > low else low + 1, begin, end, is_log=False)

    def place(self, value: float) -> float:
        """Return the place of a value; values below a logarithmic scale are at its begin."""
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = math.log(max(value, low)), math.log(low), math.log(high)
        return self.begin + (value - low) / (high - low) * (self.end - self.begin)

    def ticks(self) -> list[tuple[float, str]]:
        """Return round values of the scale with their text."""
        found = _log_ticks(self.low, self.high) if self.is_log else _ticks(self.low, self.high)
        return [(each, _short(each)) for each in found if self.low <= each <= self.high * 1.0001]


def _ticks(low: float, high: float) -> Iterator[float]:
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= rough)
    number = math.ceil(low / step - 1e-9)
    while number * step <= high * 1.0001 + 1e-12:
        yield number * step
        number += 1


def _log_ticks(low: float, high: float) -> Iterator[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    parts = (1, 2, 5) if len(decades) < 5 else (1,)
    yield from (part * 10.0**decade for decade in decades for part in parts)


def _short(value: float) -> str:
    """Return a number with at most three digits that matter, and more as ``k`` or ``M``."""
    for most, by, unit in ((999.5, 1, ""), (999.5e3, 1e3, "k"), (999.5e6, 1e6, "M")):
        if abs(value) < most:
            return f"{value:.0f}" if 999.5 <= abs(value) < 9_999.5 else f"{value / by:.3g}{unit}"
    return f"{value / 1e6:,.0f}M"


def _x_axis(axis: Axis, scale: _Scale) -> Iterator[str]:
    bottom = HEIGHT - BOTTOM
    for value, text in axis.ticks or scale.ticks():
        x = scale.place(value)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>'
        yield _text(x, bottom + 16, text, "middle")
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, axis.label, "middle")


def _y_axis(axis: Axis, scale: _Scale) -> Iterator[str]:
    for value, text in axis.ticks or scale.ticks():
        y = scale.place(value)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(LEFT - 8, y + 4, text, "end")
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 14 {middle:.0f})"'
    yield _text(14, middle, axis.label, "middle", turned)


def _guide(guide: Guide, across: _Scale, up: _Scale) -> Iterator[str]:
    if guide.is_vertical:
        x = across.place(guide.value)
        yield f'<line class="guide" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        yield _text(x + 4, TOP + 12, guide.label)
    else:
        y = up.place(guide.value)
        yield f'<line class="guide" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(WIDTH - RIGHT, y - 4, guide.label, "end")


def _series(series: PlotSeries, across: _Scale, up: _Scale) -> Iterator[str]:
    hue = f"s{series.hue % HUES}"
    places = [(across.place(x), up.place(y)) for x, y in series.points]
    if series.kind == "bars":
        yield from _bars(series, places, hue)
        return
    if series.kind == "line":
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dashed = " dashed" if series.is_dashed else ""
        yield f'<polyline class="line {hue}{dashed}" points="{path}"/>'
    if series.kind == "dots" or len(places) <= MAX_DOTS:
        for (x, y), note in zip(places, _notes(series), strict=True):
            yield f'<circle class="{hue}" cx="{x:.1f}" cy="{y:.1f}" r="3">{note}</circle>'


def _bars(series: PlotSeries, places: Sequence[tuple[float, float]], hue: str) -> Iterator[str]:
    """Draw bars that end where the next one begins."""
    bottom, gaps = HEIGHT - BOTTOM, [b[0] - a[0] for a, b in pairwise(places)]
    widths = [*gaps, gaps[-1] if gaps else 20.0]
    for (x, y), width, note in zip(places, widths, _notes(series), strict=True):
        shown = max(1.0, min(width - 1, WIDTH - RIGHT - x))
        box = f'x="{x:.1f}" y="{y:.1f}" width="{shown:.1f}"'
        yield f'<rect class="bar {hue}" {box} height="{bottom - y:.1f}">{note}</rect>'


def _notes(series: PlotSeries) -> list[str]:
    texts = series.notes or [f"{_short(x)}: {_short(y)}" for x, y in series.points]
    name = f"{series.label}, " if series.label else ""
    return [f"<title>{escape(name + text)}</title>" for text in texts]


def _legend(series: Sequence[PlotSeries]) -> Iterator[str]:
    """Name the series, if there are several."""
    named = [each for each in series if each.label]
    x = float(LEFT)
    most = (WIDTH - LEFT) // (7 * max(1, len(named))) - 5
    for each in named if len(named) > 1 else []:
        label = each.label if len(each.label) <= most else f"...{each.label[3 - most :]}"
        yield f'<circle class="s{each.hue % HUES}" cx="{x + 5:.0f}" cy="8" r="4"/>'
        yield _text(x + 14, 12, label)
        x += 34 + 7 * len(label)


def _text(x: float, y: float, text: str, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'
