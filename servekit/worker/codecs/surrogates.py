# SPDX-License-Identifier: Apache-2.0
"""JSON texts with lone surrogates: ``"\\ud800"`` stands for no character.

RFC 8259 (8.2) leaves open what becomes of them. A model that takes anything gets them, and they
survive in a JSON answer; nothing else can hold them. As good as never needed, so slow.
"""

import json
import math
import re
from typing import Any, Final

__all__ = ["dumps", "loads", "may_be_in"]

ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def may_be_in(body: bytes) -> bool:
    """Whether *body* escapes a surrogate, be it one of a pair."""
    return ESCAPE.search(body) is not None


def loads(body: bytes) -> Any:
    """Return the value of *body*, which must not nest too deep.

    :raises ValueError: it is not JSON, surrogates aside.
    """
    return json.loads(body.decode(), parse_float=_finite, parse_constant=_finite)


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


def dumps(value: Any) -> bytes:
    """Return *value*, made of what JSON has, with all but ASCII escaped.

    :raises ValueError: it holds NaN or infinity.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
