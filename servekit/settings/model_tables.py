# SPDX-License-Identifier: Apache-2.0
"""Reads the settings of models: ``[models.NAME]`` tables, ``--set``, and requests of operators.

Errors name the key, the value and the limit.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from servekit.settings.checks import (
    Check,
    each_entry,
    entries,
    json_table,
    number_between,
    refuse,
    shown,
    string,
    strings,
    table_of,
)
from servekit.settings.cpu_lists import cpu_list
from servekit.settings.deployments import Deployment
from servekit.settings.fields import PREFIX
from servekit.settings.values import (
    MIB,
    TIB,
    Between,
    absolute,
    is_url,
    size,
    variable_pattern,
)

__all__ = [
    "MAX_REPLICAS",
    "read_assignments",
    "read_deployment",
    "read_model_tables",
    "replica_range",
]

VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DIGEST: Final = re.compile(r"[0-9a-f]{64}")
DEVICE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9,:/._-]{0,255}")
MAX_REPLICAS: Final = 1024  #: workers of one stage
MAX_RANKS: Final = 64  #: processes of one replica
ENV: Final = "env"


def read_model_tables(tables: Mapping[str, Any], source: str, base: Path) -> list[Deployment]:
    """Return what the ``[models.NAME]`` tables of a file in *base* say.

    :param source: the name of the file.
    :raises ValueError: a key or a value is refused.
    """
    return [
        read_deployment(name, table, source, base, f"models.{name}")
        for name, table in tables.items()
    ]


def read_assignments(assignments: Iterable[str], source: str = "--set") -> list[Deployment]:
    """Return what the ``NAME.KEY=VALUE`` of *source* say, of which a later one wins.

    :raises ValueError: one is malformed, or its key or value is refused.
    """
    tables: dict[str, Any] = {}
    for text in assignments:
        keys, value = _assignment(text)
        _put(tables, keys, value, text)
    return [read_deployment(name, table, source, Path(), name) for name, table in tables.items()]


def read_deployment(
    name: str, table: object, source: str, base: Path, where: str = "settings"
) -> Deployment:
    """Return what *table* says about the model *name*.

    :param base: the directory that its path is relative to.
    :param where: what errors call the table.
    :raises ValueRefused: a key or a value is not valid.
    """
    checked = MODEL(where, table)
    if path := checked.get("path", ""):
        checked["path"] = path if is_url(path) else absolute(base, path)
    return msgspec.convert({**checked, "name": name, "source": source}, Deployment)


# ---------------------------------------------------------------- --set


def _assignment(text: str) -> tuple[list[str], Any]:
    """Return the keys and the value of ``NAME.KEY=VALUE``."""
    key, separator, value = text.partition("=")
    keys = _keys(key.strip())
    if not separator or len(keys) < 2:
        raise ValueError(f"{text!r} is not NAME.KEY=VALUE, such as digits.replicas=2")
    return keys, _value(value, is_variable=keys[-2] == ENV and len(keys) in (3, 5))


def _keys(text: str) -> list[str]:
    """Return the parts of a dotted key of TOML, some of them quoted; none if it is malformed."""
    try:
        node: Any = {} if "\n" in text or "\r" in text else tomllib.loads(f"{text} = 0")
    except ValueError:
        return []
    keys: list[str] = []
    while isinstance(node, dict) and node:
        ((key, node),) = node.items()
        keys.append(key)
    return keys


def _value(text: str, *, is_variable: bool) -> Any:
    """Return the TOML value that *text* is, or *text*: quotes are optional.

    Variables are strings, whatever they look like.
    """
    try:
        found = tomllib.loads(f"value = {text}")
    except ValueError:
        return text
    value = found.pop("value", text)
    return text if found or (is_variable and not isinstance(value, str)) else value


def _put(tables: dict[str, Any], keys: list[str], value: Any, text: str) -> None:
    for key in keys[:-1]:
        tables = tables.setdefault(key, {})
        if not isinstance(tables, dict):
            refuse(repr(text), f"{key} is set to a value too")
    tables[keys[-1]] = value


# ---------------------------------------------------------------- checks


def replica_range(where: str, value: Any) -> Any:
    """Take ``{ min = 1, max = 4 }``."""
    for key in ("min", "max"):
        if key not in entries(where, value):
            refuse(where, f"a range needs {key}, such as {{ min = 1, max = 4 }}")
    count = number_between(1, MAX_REPLICAS, is_whole=True)
    checked = table_of({"min": count, "max": count})(where, value)
    if checked["min"] > checked["max"]:
        refuse(where, f"min {checked['min']} is above max {checked['max']}")
    return checked


def _memory(where: str, value: Any) -> int:
    parse = Between(MIB, TIB, size)
    try:
        return int(parse(str(value) if isinstance(value, int) else string(where, value)))
    except ValueError as error:
        refuse(where, str(error).removeprefix(f"{where}: "))


def _replicas(where: str, value: Any) -> Any:
    if isinstance(value, dict):
        return replica_range(where, value)
    return number_between(1, MAX_REPLICAS, is_whole=True)(where, value)


def _replicas_or_none(where: str, value: Any) -> Any:
    """Check the replicas of a whole model; 0 loads it on demand."""
    is_zero = value == 0 and not isinstance(value, bool)
    return value if is_zero else _replicas(where, value)


def _switch(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        refuse(where, f"{shown(value)} is not true or false")
    return value


def _devices(where: str, value: Any) -> Any:
    if value in ("auto", "cpu"):
        return value
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_REPLICAS:
        refuse(where, f"{shown(value)} is not auto, cpu or a list such as [0, 1]")
    for each in value:
        text = str(each) if isinstance(each, int | str) and not isinstance(each, bool) else ""
        if not DEVICE.fullmatch(text):
            refuse(where, f"{shown(each)} is not a device such as 0 or GPU-8932f937")
    return value


def _variables(where: str, value: Any) -> dict[str, str]:
    for name in entries(where, value):
        if not VARIABLE.fullmatch(name):
            refuse(where, f"{name!r} is not the name of a variable")
        if name.startswith(PREFIX):
            refuse(where, f"{name} is reserved for the server")
    return each_entry(string)(where, value)  # type: ignore[no-any-return]


def _digest(where: str, value: Any) -> str:
    text = string(where, value).lower()
    if not DIGEST.fullmatch(text):
        refuse(where, f"{value!r} is not 64 hexadecimal digits")
    return text


def _path(where: str, value: Any) -> str:
    if not string(where, value):
        refuse(where, "is empty")
    return str(value)


def _patterns(where: str, value: Any) -> list[str]:
    for text in strings(where, value):
        try:
            variable_pattern(text)
        except ValueError as error:
            refuse(where, str(error))
    return list(value)


STAGE: Final[dict[str, Check]] = {
    "replicas": _replicas,
    "max_memory": _memory,
    "ranks": number_between(1, MAX_RANKS, is_whole=True),
    "cpus": cpu_list,
    "threads": number_between(1, 1024, is_whole=True),
    "preload": _switch,
    "devices": _devices,
    ENV: _variables,
    "options": json_table,
    "batching": table_of(
        {
            "max_batch_size": number_between(1, 65_536, is_whole=True),
            "max_delay_ms": number_between(0, 60_000, is_whole=False),
            "max_concurrency": number_between(1, 65_536, is_whole=True),
            "max_batch_cost": number_between(1, 1e15, is_whole=False),
        }
    ),
}
MODEL: Final = table_of(
    {
        **STAGE,
        "replicas": _replicas_or_none,
        "path": _path,
        "sha256": _digest,
        "pass_env": _patterns,
        "stages": each_entry(table_of(STAGE)),
        "idle_s": number_between(1, 86_400, is_whole=False),
    }
)
