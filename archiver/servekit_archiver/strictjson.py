# SPDX-License-Identifier: Apache-2.0
"""JSON as the manifest allows it: no duplicate keys, no NaN, bounded size and depth."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from servekit_archiver.limits import MANIFEST_BYTES, NESTING

__all__ = ["describe", "dumps", "join", "loads", "show", "value_problems"]

INT64_MIN: Final = -(1 << 63)
UINT64_MAX: Final = (1 << 64) - 1
QUOTED_CHARS: Final = 60  #: characters of a value, in an error


def dumps(value: Any) -> bytes:
    """Return the canonical bytes: UTF-8, keys sorted by code point, no white space."""
    text = json.dumps(
        value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return text.encode()


def loads(text: bytes | str) -> Any:
    """Parse *text*.

    :raises ValueError: the text is too large, not JSON, or has a key twice in one object.
    """
    if len(text) > MANIFEST_BYTES:
        raise ValueError(f"is {len(text)} bytes long, limit {MANIFEST_BYTES}")
    try:
        return json.loads(
            text if isinstance(text, str) else text.decode("utf-8"),
            object_pairs_hook=_refuse_duplicates,
            parse_constant=_refuse_constant,
        )
    except RecursionError:
        raise ValueError(f"is nested too deeply, limit {NESTING}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error}") from None


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"key {show(twice)} is given twice")
    return table


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def value_problems(value: object, where: str) -> list[str]:
    """Return what keeps a free-form *value* out of a JSON document; nothing if it fits."""
    problems: list[str] = []
    waiting: list[tuple[object, str, int]] = [(value, where, 1)]
    while waiting:  # no recursion: the value may be nested more deeply than the stack allows
        item, path, depth = waiting.pop()
        if depth > NESTING:
            return [f"{where}: is nested too deeply, limit {NESTING}"]
        if isinstance(item, Mapping):
            problems += [
                f"{path}: the key {show(key)} is not a string"
                for key in item
                if _scalar_problem(key) or not isinstance(key, str)
            ]
            waiting += [(entry, join(path, key), depth + 1) for key, entry in item.items()]
        elif isinstance(item, list | tuple):
            waiting += [(entry, f"{path}[{i}]", depth + 1) for i, entry in enumerate(item)]
        elif problem := _scalar_problem(item):
            problems.append(f"{path}: {show(item)} {problem}")
    return problems


def _scalar_problem(value: object) -> str | None:
    match value:
        case None | bool():
            return None
        case int():
            return None if INT64_MIN <= value <= UINT64_MAX else "does not fit in 64 bits"
        case float():
            return None if math.isfinite(value) else "is not a finite number"
        case str():
            return None if _is_unicode(value) else "is not valid Unicode"
    return f"is a {type(value).__name__}, which JSON cannot hold"


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def join(where: str, key: object) -> str:
    """Return the path of *key* in the table at *where*: ``files."a b"`` on one line."""
    plain = isinstance(key, str) and re.fullmatch(r"[\w./-]{1,80}", key)
    return f"{where}.{key}" if plain else f"{where}.{show(key)}"


def show(value: object) -> str:
    """Return *value* on one line, cut to a length that fits an error message."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested without end; more digits than Python prints
        text = f"<{type(value).__name__}>"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= QUOTED_CHARS else f"{text[:QUOTED_CHARS]}..."


def describe(value: object) -> str:
    """Return what *value* is, in the words of TOML and JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list() | tuple():
            return "a list"
    return "a table" if isinstance(value, Mapping) else f"a {type(value).__name__}"
