# SPDX-License-Identifier: Apache-2.0
"""Log probabilities of tokens, as services return them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["finite", "joined_logprobs"]

LOWEST: Final = -9999.0  #: stands for minus infinity, as OpenAI defines it


def finite(value: Any) -> Any:
    """Return *value*, lists and mappings of numbers, without minus infinity, which JSON lacks."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return LOWEST if isinstance(value, float) and value == -np.inf else value


def joined_logprobs(pieces: Iterable[dict[str, Any] | None]) -> dict[str, Any] | None:
    """Join the lists of all *pieces*, by name; return ``None`` without pieces."""
    joined: dict[str, Any] = {}
    for piece in pieces:
        for name, values in (finite(piece) or {}).items():
            is_more = isinstance(values, list) and isinstance(joined.get(name), list)
            joined[name] = joined[name] + values if is_more else values
    return joined or None
