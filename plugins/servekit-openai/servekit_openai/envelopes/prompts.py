# SPDX-License-Identifier: Apache-2.0
"""Prompts and inputs: one or many, each a string or a list of token ids."""

from __future__ import annotations

from typing import Any, Final

from servekit_openai.errors import refusal

__all__ = ["MAX_INPUTS", "prompts_in"]

MAX_INPUTS: Final = 2048  #: in one request, which is the limit of OpenAI too


def prompts_in(body: dict[str, Any], name: str) -> list[str | list[int]]:
    """Return the member *name* of *body* as a list.

    :raises InputError: it is missing, empty or too long, or holds anything but strings and token
        ids.
    """
    if name not in body:
        raise refusal(name, "missing")
    given = body[name]
    found = [given] if is_one(given) else given
    if not isinstance(found, list) or not all(map(is_one, found)):
        raise refusal(name, "expected a string, token ids, or a list of either")
    if not 1 <= len(found) <= MAX_INPUTS:
        raise refusal(name, f"expected 1 to {MAX_INPUTS}, got {len(found)}")
    return found


def is_one(value: Any) -> bool:
    """Whether *value* is a string or a list of token ids."""
    if isinstance(value, str):
        return True
    return isinstance(value, list) and bool(value) and all(type(each) is int for each in value)
