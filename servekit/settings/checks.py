# SPDX-License-Identifier: Apache-2.0
"""Checks of TOML values: each returns the value, or says what is wrong with it and where."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from servekit.settings.values import did_you_mean

__all__ = [
    "Check",
    "ValueRefused",
    "each_entry",
    "entries",
    "json_table",
    "number_between",
    "refuse",
    "shown",
    "string",
    "strings",
    "table_of",
]

Check = Callable[[str, Any], Any]  #: gets the name of a value and the value; returns the value

MAX_INTEGER: Final = 2**63 - 1


class ValueRefused(ValueError):
    """A value is not valid."""

    def __init__(self, where: str, reason: str) -> None:
        """Note what the value is called, and why it is refused."""
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason


def refuse(where: str, reason: str) -> NoReturn:
    """Refuse the value that is called *where*."""
    raise ValueRefused(where, reason)


def table_of(keys: Mapping[str, Check]) -> Check:
    """Return a check of tables with known keys."""

    def check(where: str, value: Any) -> dict[str, Any]:
        for key in entries(where, value):
            if key not in keys:
                hint = did_you_mean(key, keys) or f"; known: {', '.join(keys)}"
                refuse(where, f"unknown key {key!r}{hint}")
        return {key: keys[key](f"{where}.{key}", entry) for key, entry in value.items()}

    return check


def each_entry(check: Check) -> Check:
    """Return a check of tables whose keys are free."""

    def check_all(where: str, value: Any) -> dict[str, Any]:
        found = entries(where, value)
        return {key: check(f"{where}.{key}", entry) for key, entry in found.items()}

    return check_all


def entries(where: str, value: Any) -> dict[str, Any]:
    """Take a table."""
    if not isinstance(value, dict):
        refuse(where, f"{shown(value)} is not a table")
    return value


def number_between(low: float, high: float, *, is_whole: bool) -> Check:
    """Return a check of numbers from *low* to *high*."""
    kinds, noun = ((int,), "a whole number") if is_whole else ((int, float), "a number")

    def check(where: str, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, kinds) or value != value:
            refuse(where, f"{shown(value)} is not {noun}")
        if not low <= value <= high:
            bound = f"below {low:g}" if value < low else f"above {high:.12g}"
            refuse(where, f"{shown(value)} is {bound}")
        return value

    return check


def string(where: str, value: Any) -> str:
    """Take a string."""
    if not isinstance(value, str):
        hint = "" if isinstance(value, dict | list) else "; put it in quotes"
        refuse(where, f"{shown(value)} is not a string{hint}")
    if "\0" in value:
        refuse(where, "contains a NUL")
    return value


def strings(where: str, value: Any) -> list[str]:
    """Take a list of strings."""
    if not isinstance(value, list):
        refuse(where, f"{shown(value)} is not a list of strings")
    return [string(where, each) for each in value]


def json_table(where: str, value: Any) -> Any:
    """Take a table that JSON can express, in which dates and infinite numbers are refused."""
    return each_entry(_json)(where, value)


def _json(where: str, value: Any) -> Any:
    match value:
        case dict():
            return json_table(where, value)
        case list():
            return [_json(f"{where}[{place}]", each) for place, each in enumerate(value)]
        case bool() | str():
            return value
        case int() if abs(value) <= MAX_INTEGER:
            return value
        case float() if math.isfinite(value):
            return value
        case _:
            refuse(where, f"{value} cannot be expressed in JSON")


def shown(value: Any) -> str:
    """Return a value as one would type it, or a word for a long one."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "this list"
    return str(value).lower() if isinstance(value, bool) else f"{value!r}"
