# SPDX-License-Identifier: Apache-2.0
"""Markdown tables whose columns also line up in a terminal."""

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; numbers that are not whole get two digits."""
    texts = [list(headings), *([text_of(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(headings))]
    texts.insert(1, ["-" * width for width in widths])
    lines = (
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in texts
    )
    return "\n".join(lines) + "\n"


def text_of(cell: object) -> str:
    """Return ``1,234``, ``12.3`` or ``0.123``; other things as they are."""
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if cell >= 100 else f"{cell:.3g}"
    return str(cell)
