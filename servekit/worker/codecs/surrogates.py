# SPDX-License-Identifier: Apache-2.0
"""JSON with lone surrogates: ``"\\ud800"`` is valid JSON, but not Unicode.

RFC 8259 (8.2) leaves their treatment open. A model that takes any value gets them, and a JSON
answer may hold them; no other format can. They hardly occur, so this may be slow.
"""

import json
import math
import re
from typing import Any, Final

__all__ = ["dumps", "loads", "may_be_in"]

ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def may_be_in(body: bytes) -> bool:
    """Whether *body* escapes a surrogate, which may be one of a pair."""
    return ESCAPE.search(body) is not None


def loads(body: bytes) -> Any:
    """Return the value of *body*, which must not be nested too deep.

    :raises ValueError: it is not JSON.
    """
    return json.loads(body.decode(), parse_float=_finite, parse_constant=_finite)


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


def dumps(value: Any) -> bytes:
    """Return *value*, which consists of JSON types, as ASCII.

    :raises ValueError: it holds NaN or infinity.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
