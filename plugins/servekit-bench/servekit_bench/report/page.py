# SPDX-License-Identifier: Apache-2.0
"""One HTML file with tables and plots: no scripts, nothing from elsewhere, light and dark."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from servekit_bench.report.plot import HUES, Plot

__all__ = ["figure", "heading", "html_page", "html_table", "paragraph"]

STYLE: Final = """\
:root { color-scheme: light dark; --text: #1f2937; --faint: #6b7280; --line: #e5e7eb; --back: #fff;
  --c0: #2563eb; --c1: #d97706; --c2: #059669; --c3: #dc2626; --c4: #7c3aed; --c5: #0891b2; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --faint: #9aa4b2; --line: #2a313c;
  --back: #0d1117; --c0: #58a6ff; --c1: #f0a83a; --c2: #3fb68b; --c3: #f47067; --c4: #b392f0;
  --c5: #39c5cf; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
  max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p, figcaption { color: var(--faint); } .strong { color: var(--text); font-weight: 600; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { white-space: nowrap; padding: .3rem .8rem; text-align: right;
  border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 500; } th:first-child, td:first-child { text-align: left; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--faint); }
.grid { stroke: var(--line); } .axis { stroke: var(--faint); }
.guide { stroke: var(--faint); stroke-dasharray: 4 4; }
.line { fill: none; stroke-width: 2; } .dashed { stroke-dasharray: 5 4; }
.bar { fill-opacity: .65; }
""" + "".join(
    f"circle.s{hue}, rect.s{hue} {{ fill: var(--c{hue}); }}\n"
    f".line.s{hue} {{ stroke: var(--c{hue}); }}\n"
    for hue in range(HUES)
)
#: nothing is loaded, whatever the content says
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def html_page(title: str, parts: Iterable[str]) -> str:
    """Return the whole file; *parts* are what the other functions return."""
    body = "\n".join(parts)
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>
{STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{body}
</body>
</html>
"""


def heading(text: str) -> str:
    """Begin a section."""
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str, *, is_strong: bool = False) -> str:
    """Return text."""
    return f'<p class="strong">{escape(text)}</p>' if is_strong else f"<p>{escape(text)}</p>"


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the first column is text, the others are numbers."""
    cells = "".join(f'<th scope="col">{escape(each)}</th>' for each in head)
    lines = ("".join(f"<td>{escape(each)}</td>" for each in row) for row in rows)
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    table = f"<table><thead><tr>{cells}</tr></thead>\n<tbody>{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0">{table}</div>'


def figure(plot: Plot, caption: str = "") -> str:
    """Return a plot with its title and a sentence about it; an empty string if it has no points."""
    drawn = plot.svg()
    if not drawn:
        return ""
    about = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<h2>{escape(plot.title)}</h2>\n<figure>{drawn}{about}</figure>"
