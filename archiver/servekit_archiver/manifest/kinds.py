# SPDX-License-Identifier: Apache-2.0
"""Kinds of manifest values: each checks a value and describes itself as JSON Schema."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from servekit_archiver.counting import counted
from servekit_archiver.strictjson import describe, join, show, value_problems

__all__ = ["Choice", "Either", "Json", "Kind", "ListOf", "MapOf", "Number", "Switch", "Text"]

Check = Callable[[str], str | None]  #: returns why a string is refused, or ``None``


class Kind(Protocol):
    """A kind of value that a key may hold."""

    def check(self, value: object, where: str, problems: list[str]) -> Any:
        """Return *value* as its dataclass keeps it; add what is wrong with it to *problems*."""

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A string."""

    max_length: int
    min_length: int = 0
    pattern: str = ""  #: for the whole string, in the common subset of Python and ECMAScript
    says: str = ""  #: the pattern in words: ``is not ...``
    problem: Check = lambda _: None
    lines: bool = False  #: may hold line breaks and tabs

    def check(self, value: object, where: str, problems: list[str]) -> Any:
        reason = self._problem(value)
        if reason:
            problems.append(f"{where}: {show(value)} {reason}")
        return value

    def _problem(self, value: object) -> str | None:
        if not isinstance(value, str):
            hint = "; put it in quotes" if isinstance(value, int | float) else ""
            return f"is {describe(value)}, not a string{hint}"
        if not self.min_length <= len(value) <= self.max_length:
            least = f"{self.min_length} to " if self.min_length else "limit "
            return f"is {len(value)} characters long, {least}{self.max_length}"
        if self.pattern and not re.fullmatch(self.pattern, value):
            return f"is not {self.says}"
        allowed = "\n\t" if self.lines else ""
        if any(c not in allowed and (ord(c) < 32 or 0x7F <= ord(c) < 0xA0) for c in value):
            return "contains a control character"
        if any("\ud800" <= character <= "\udfff" for character in value):
            return "is not valid Unicode"
        return self.problem(value)

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string", "maxLength": self.max_length}
        if self.min_length:
            schema["minLength"] = self.min_length
        if self.pattern:
            schema["pattern"] = f"^(?:{self.pattern})$"
        return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number between two bounds, both included."""

    low: float
    high: float
    whole: bool = False
    refused: tuple[int, ...] = ()  #: values between the bounds that are not allowed
    hint: str = ""  #: what to write instead, for the likeliest mistake

    def check(self, value: object, where: str, problems: list[str]) -> Any:
        reason = self._problem(value)
        if reason:
            hint = f" ({self.hint})" if self.hint else ""
            problems.append(f"{where}: {show(value)} {reason}{hint}")
        return value

    def _problem(self, value: object) -> str | None:
        noun = "a whole number" if self.whole else "a number"
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return f"is {describe(value)}, not {noun}"
        if isinstance(value, float) and not math.isfinite(value):
            return "is not a finite number"
        if value < self.low:
            return f"is below {self.low:g}"
        if value > self.high:
            return f"is above {self.high:.12g}"
        return "is not allowed" if value in self.refused else None

    def schema(self) -> dict[str, Any]:
        noun = "integer" if self.whole else "number"
        schema: dict[str, Any] = {"type": noun, "minimum": self.low, "maximum": self.high}
        if self.refused:
            schema["not"] = {"enum": list(self.refused)}
        return schema


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few strings."""

    values: tuple[str, ...]

    def check(self, value: object, where: str, problems: list[str]) -> Any:
        if not isinstance(value, str) or value not in self.values:
            problems.append(f"{where}: {show(value)} is not one of {', '.join(self.values)}")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.values)}


@dataclass(frozen=True, slots=True)
class Switch:
    """``true`` or ``false``."""

    def check(self, value: object, where: str, problems: list[str]) -> Any:
        if not isinstance(value, bool):
            problems.append(f"{where}: {show(value)} is {describe(value)}, not true or false")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of one kind; kept as a tuple."""

    item: Kind
    max_items: int
    min_items: int = 0

    def check(self, value: object, where: str, problems: list[str]) -> Any:
        if not isinstance(value, list | tuple):
            problems.append(f"{where}: {show(value)} is {describe(value)}, not a list")
            return ()
        if not self.min_items <= len(value) <= self.max_items:
            limits = f"{self.min_items} to {self.max_items}"
            problems.append(f"{where}: has {counted(len(value), 'item')}, limit {limits}")
            return ()
        return tuple(self.item.check(v, f"{where}[{i}]", problems) for i, v in enumerate(value))

    def schema(self) -> dict[str, Any]:
        limits = {"minItems": self.min_items, "maxItems": self.max_items}
        return {"type": "array", "items": self.item.schema(), **limits}


@dataclass(frozen=True, slots=True)
class MapOf:
    """A table with free keys of one kind and values of another."""

    key: Text
    value: Kind
    max_items: int

    def check(self, value: object, where: str, problems: list[str]) -> Any:
        if not isinstance(value, Mapping):
            problems.append(f"{where}: {show(value)} is {describe(value)}, not a table")
            return {}
        if len(value) > self.max_items:
            problems.append(f"{where}: has {counted(len(value), 'key')}, limit {self.max_items}")
            return {}
        checked: dict[str, Any] = {}
        for key, entry in value.items():
            name = self.key.check(key, f"{where}: key", problems)
            checked[name] = self.value.check(entry, join(where, key), problems)
        return checked

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "propertyNames": self.key.schema(),
            "additionalProperties": self.value.schema(),
            "maxProperties": self.max_items,
        }


@dataclass(frozen=True, slots=True)
class Either:
    """A table, or a list in place of it."""

    table: MapOf
    several: ListOf

    def check(self, value: object, where: str, problems: list[str]) -> Any:
        kind = self.several if isinstance(value, list | tuple) else self.table
        return kind.check(value, where, problems)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.table.schema(), self.several.schema()]}


@dataclass(frozen=True, slots=True)
class Json:
    """Anything that JSON can hold; with ``table``, an object."""

    table: bool = False

    def check(self, value: object, where: str, problems: list[str]) -> Any:
        if self.table and not isinstance(value, Mapping):
            problems.append(f"{where}: {show(value)} is {describe(value)}, not a table")
            return {}
        problems += value_problems(value, where)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "object"} if self.table else {}
