# SPDX-License-Identifier: Apache-2.0
"""Every option of ``servekit start``, written once.

A field is a flag (``--max-body``), a key of ``servekit.toml`` (``max_body``) and a
variable (``SERVEKIT_MAX_BODY``); the flag wins over the variable, the variable over the
file, the file over the default.
"""

import dataclasses
import difflib
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servekit.errors import StartupError

__all__ = ["Settings", "SettingsError", "load_settings", "options"]


class SettingsError(StartupError):
    """A setting is unknown or out of range; names where it came from."""


@dataclass(frozen=True, slots=True)
class Option:
    """One setting as its sources see it."""

    name: str
    parse: Callable[[str], Any]
    help: str
    unit: str
    default: Any
    is_list: bool = False
    is_switch: bool = False

    @property
    def flag(self) -> str:
        """``--max-body``."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """``SERVEKIT_MAX_BODY``."""
        return "SERVEKIT_" + self.name.upper()


SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
SIZES |= {"K": 2**10, "KIB": 2**10, "M": 2**20, "MIB": 2**20, "G": 2**30, "GIB": 2**30}


def size(text: str) -> int:
    """Parse ``10485760``, ``10MiB`` or ``10MB`` into bytes."""
    number = text.rstrip("BKMGIbkmgi ")
    unit = text[len(number) :].strip().upper()
    if unit not in SIZES:
        raise ValueError(f"{text!r} is not a size such as 10MiB")
    return int(float(number) * SIZES[unit])


def at_least(low: float, kind: type = int, high: float | None = None) -> Callable[[str], Any]:
    """Return a parser of numbers that refuses one out of range."""

    def parse(text: str) -> Any:
        value = size(text) if kind is bytes else kind(text)
        if not value >= low:  # NaN is refused too
            raise ValueError(f"{text} is below {low}")
        if high is not None and value > high:
            raise ValueError(f"{text} is above {high}")
        return value

    return parse


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that takes only *choices*."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def switch(text: str) -> bool:
    """Parse ``true`` or ``false``, and nothing else."""
    return one_of("true", "false")(text.lower()) == "true"


def setting(default: Any, help: str, parse: Callable[[str], Any] = str, unit: str = "") -> Any:  # noqa: A002
    """Declare one field of ``Settings``."""
    return dataclasses.field(default=default, metadata={"help": help, "parse": parse, "unit": unit})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an operator decides. Sizes are bytes and durations are seconds."""

    models: tuple[str, ...] = setting(
        (), "archives or model directories to serve; NAME=PATH serves one under another name"
    )
    host: str = setting("127.0.0.1", "address to listen on")
    port: int = setting(8080, "TCP port; 0 takes a free one", at_least(0, high=65535))
    replicas: int = setting(
        0, "worker processes per model; 0 takes each model's own number", at_least(0, high=1024)
    )
    front_ends: int = setting(1, "front-end processes", at_least(1, high=64))
    max_body: int = setting(10 * 2**20, "largest request body", at_least(1, bytes), "bytes")
    max_answer: int = setting(64 * 2**20, "largest answer", at_least(1, bytes), "bytes")
    large_body: int = setting(
        64 * 2**10,
        "bodies and answers from this size on go by shared memory",
        at_least(1, bytes),
        "bytes",
    )
    arena: int = setting(
        256 * 2**20,
        "shared memory for the large bodies of one model, taken as needed",
        at_least(2**16, bytes),
        "bytes",
    )
    max_header: int = setting(32 * 2**10, "largest header section", at_least(256, bytes), "bytes")
    max_target: int = setting(8190, "longest request target", at_least(16, bytes), "bytes")
    max_connections: int = setting(20_000, "open connections per front-end", at_least(1))
    queue: int = setting(1024, "tasks that may wait for one model", at_least(1))
    header_timeout: float = setting(
        5.0, "longest wait for a whole header section", at_least(0.1, float), "seconds"
    )
    body_timeout: float = setting(
        5.0, "longest pause within a body", at_least(0.1, float), "seconds"
    )
    send_timeout: float = setting(
        30.0, "longest wait for a client to take its answer", at_least(0.1, float), "seconds"
    )
    keep_alive: float = setting(
        75.0, "how long an idle connection is kept", at_least(0.0, float), "seconds"
    )
    predict_timeout: float = setting(
        0.0, "longest prediction; 0 takes each model's own", at_least(0.0, float), "seconds"
    )
    load_timeout: float = setting(
        0.0, "longest load of a model; 0 takes each model's own", at_least(0.0, float), "seconds"
    )
    drain_delay: float = setting(
        0.0, "how long to serve on after SIGTERM while not ready", at_least(0.0, float), "seconds"
    )
    grace: float = setting(
        30.0, "longest wait for what was taken before the stop", at_least(0.0, float), "seconds"
    )
    strict: bool = setting(False, "exit with status 3 if any model fails to load", switch)
    install_requirements: bool = setting(
        False, "install an archive's requirements.txt into an environment of its own", switch
    )
    cache_dir: str = setting("", "where archives are unpacked; default: the user's cache directory")
    run_dir: str = setting("", "parent of the private directory for sockets; default: TMPDIR")
    log_format: str = setting("text", "text or json", one_of("text", "json"))
    log_level: str = setting(
        "info", "debug, info, warning or error", one_of("debug", "info", "warning", "error")
    )


def options() -> list[Option]:
    """Return every option in the order of ``--help``."""
    return [
        Option(
            name=field.name,
            parse=field.metadata["parse"],
            help=field.metadata["help"],
            unit=field.metadata["unit"],
            default=field.default,
            is_list=isinstance(field.default, tuple),
            is_switch=isinstance(field.default, bool),
        )
        for field in dataclasses.fields(Settings)
    ]


def load_settings(
    flags: Mapping[str, Any],
    file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """Merge the sources into one ``Settings``.

    :param flags: option name to text, list of texts or bool; ``None`` means not given.
    :raises SettingsError: an unknown key or variable, or a value out of range.
    """
    values = _from_file(file) if file else {}
    values |= _from_environment(environment)
    for option in options():
        given = flags.get(option.name)
        if given is not None:
            values[option.name] = _parse(option, given, option.flag)
    return Settings(**values)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: {error}") from error
    known = {option.name: option for option in options()}
    _refuse_unknown(table, known, str(path))
    values = {key: _parse(known[key], value, f"{path}: {key}") for key, value in table.items()}
    if "models" in values:  # paths are relative to the file that names them
        values["models"] = tuple(_relative_to(path.parent, entry) for entry in values["models"])
    return values


def _relative_to(directory: Path, entry: str) -> str:
    name, separator, location = entry.rpartition("=")
    return f"{name}{separator}{directory / location}"


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    known = {option.variable: option for option in options()}
    return {
        known[variable].name: _parse(known[variable], text, variable)
        for variable, text in environment.items()
        if variable in known and text
    }


def _refuse_unknown(keys: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    for key in keys:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f", did you mean {close[0]!r}?" if close else ""
            raise SettingsError(f"{where}: unknown key {key!r}{hint}")


def _parse(option: Option, value: Any, where: str) -> Any:
    """Turn what a source holds (text, or a TOML value) into the option's value."""
    if option.is_list:
        entries: Sequence[Any] = value.split() if isinstance(value, str) else value
        if not isinstance(entries, list | tuple) or not all(isinstance(e, str) for e in entries):
            raise SettingsError(f"{where}: {value!r} is not a list of texts")
        return tuple(entries)
    if isinstance(value, bool) and not option.is_switch:
        raise SettingsError(f"{where}: {value!r} is not a {type(option.default).__name__}")
    try:
        return option.parse(str(value))
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from error
