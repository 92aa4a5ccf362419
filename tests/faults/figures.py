# SPDX-License-Identifier: Apache-2.0
"""One promise in numbers: what was wanted, what was measured, and whether that is enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    what: str
    wanted: str
    measured: str
    is_met: bool


def at_most(what: str, measured: float, limit: float, unit: str = "") -> Figure:
    """Meet *limit*; what could not be measured (NaN) does not."""
    return Figure(what, f"<= {show(limit, unit)}", show(measured, unit), measured <= limit)


def at_least(what: str, measured: float, limit: float, unit: str = "") -> Figure:
    """Reach *limit*; what could not be measured (NaN) does not."""
    return Figure(what, f">= {show(limit, unit)}", show(measured, unit), measured >= limit)


def none(what: str, found: Collection[object]) -> Figure:
    """Have nothing of the kind; the first few that were found are named."""
    named = "; ".join(map(str, list(found)[:4]))
    return Figure(what, "0", f"{len(found)}: {named}" if found else "0", not found)


def equal(what: str, measured: object, wanted: object) -> Figure:
    """Be exactly that."""
    return Figure(what, str(wanted), str(measured), measured == wanted)


def show(value: float, unit: str = "") -> str:
    """Return ``1,234``, ``12.3 ms`` or ``0.123 s``."""
    text = f"{value:,.0f}" if float(value).is_integer() or value >= 100 else f"{value:.3g}"
    return f"{text} {unit}" if unit else text
