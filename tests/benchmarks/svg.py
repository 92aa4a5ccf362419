# SPDX-License-Identifier: Apache-2.0
"""Horizontal bars in panels, as SVG that follows the reader's light or dark theme."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

COLUMNS: Final = 2
PANEL_WIDTH: Final = 476
LABEL_WIDTH: Final = 186
VALUE_WIDTH: Final = 74
ROW: Final = 22  #: of one bar with its gap
BAR: Final = 14
PANEL_HEAD: Final = 30
PANEL_GAP: Final = 22
MARGIN: Final = 20
HEAD: Final = 66

STYLE: Final = """\
svg { background: #ffffff; }
text { font: 12px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #4b5563; }
.title { font-size: 16px; font-weight: 600; fill: #111827; }
.panel { font-weight: 600; fill: #111827; }
.own { fill: #111827; font-weight: 600; }
.bar { fill: #b6bfca; } .bar-own { fill: #2563eb; } .bar-limit { fill: #e3e8ee; }
@media (prefers-color-scheme: dark) {
svg { background: #0d1117; }
text { fill: #9aa4b2; } .title, .panel, .own { fill: #e6edf3; }
.bar { fill: #4d5866; } .bar-own { fill: #58a6ff; } .bar-limit { fill: #2a313c; }
}"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One server in one panel."""

    label: str
    value: float
    text: str  #: the value as it is shown
    kind: str = ""  #: "own" for servekit, "limit" for nginx


@dataclass(frozen=True, slots=True)
class Panel:
    """Bars of one scale, from zero to the longest."""

    title: str
    bars: Sequence[Bar]

    @property
    def height(self) -> int:
        return PANEL_HEAD + ROW * len(self.bars)


@dataclass(frozen=True, slots=True)
class Chart:
    """A title, a line that says what the bars are, and panels in two columns."""

    title: str
    subtitle: str
    panels: Sequence[Panel]

    @property
    def text(self) -> str:
        """The whole file."""
        rows = [self.panels[at : at + COLUMNS] for at in range(0, len(self.panels), COLUMNS)]
        width = 2 * MARGIN + PANEL_WIDTH * min(COLUMNS, len(self.panels))
        width = max(width, 2 * MARGIN + PANEL_WIDTH + LABEL_WIDTH)
        top, lines = HEAD, [*self._head()]
        for row in rows:
            for column, panel in enumerate(row):
                lines += _panel(panel, MARGIN + column * PANEL_WIDTH, top)
            top += max(panel.height for panel in row) + PANEL_GAP
        size = f'width="{width}" height="{top}" viewBox="0 0 {width} {top}"'
        opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        named = f"<title>{escape(self.title)}</title><style>{STYLE}</style>"
        return "\n".join([opening, named, *lines, "</svg>"]) + "\n"

    def _head(self) -> Iterator[str]:
        yield _text(MARGIN, 28, self.title, "title")
        yield _text(MARGIN, 48, self.subtitle)


def _panel(panel: Panel, left: int, top: int) -> Iterator[str]:
    yield _text(left, top + 16, panel.title, "panel")
    longest = max((bar.value for bar in panel.bars), default=0) or 1
    room = PANEL_WIDTH - LABEL_WIDTH - VALUE_WIDTH
    for number, bar in enumerate(panel.bars):
        y = top + PANEL_HEAD + number * ROW
        width = max(1.0, room * bar.value / longest)
        x = left + LABEL_WIDTH
        own = "own" if bar.kind == "own" else ""
        yield _text(x - 8, y + 11, bar.label, own, anchor="end")
        kind = f"bar-{bar.kind}" if bar.kind else "bar"
        box = f'x="{x}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"'
        yield f'<rect class="{kind}" {box}/>'
        yield _text(x + width + 6, y + 11, bar.text, own)


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text{named} {place}>{escape(text)}</text>"
