# SPDX-License-Identifier: Apache-2.0
"""Whether an output is the one that an example expects, within a tolerance."""

import json
import math
from typing import Any, Final

__all__ = ["TOLERANCE", "difference"]

TOLERANCE: Final = 1e-6  #: where an example names none


def difference(found: Any, expected: Any, tolerance: float) -> str:
    """Return where *found* is not *expected*, and how; "" if it is."""
    if isinstance(expected, dict) and isinstance(found, dict) and found.keys() == expected.keys():
        pairs = [(f".{key}", (found[key], expected[key])) for key in expected]
    elif isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        pairs = [(f"[{i}]", both) for i, both in enumerate(zip(found, expected, strict=True))]
    else:
        return "" if _is_close(found, expected, tolerance) else _told(found, expected, tolerance)
    wrong = ((where, difference(*both, tolerance)) for where, both in pairs)
    return next((where + what for where, what in wrong if what), "")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_close(found: Any, expected: Any, tolerance: float) -> bool:
    if _is_number(found) and _is_number(expected):
        try:
            is_close = math.isclose(found, expected, rel_tol=tolerance, abs_tol=tolerance)
        except OverflowError:  # an int above all floats
            return bool(found == expected)
        return is_close or (math.isnan(found) and math.isnan(expected))
    return type(found) is type(expected) and bool(found == expected)


def _told(found: Any, expected: Any, tolerance: float) -> str:
    shown = [
        json.dumps(value, ensure_ascii=False, separators=(",", ":"))[:60]
        for value in (found, expected)
    ]
    suffix = f" (tolerance {tolerance:g})" if _is_number(expected) else ""
    return f": {shown[0]}, expected {shown[1]}{suffix}"
