# SPDX-License-Identifier: Apache-2.0
"""The sources of settings: flags, variables, a file. Every error names the source."""

import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from servekit.errors import StartupError
from servekit.settings.addresses import SYSTEMD, split_address, unix_path
from servekit.settings.checks import shown
from servekit.settings.daemons import read_daemons
from servekit.settings.deployments import Deployment
from servekit.settings.fields import PREFIX, Option, Settings, options
from servekit.settings.model_tables import read_assignments, read_model_tables
from servekit.settings.plugin_values import (
    PLUGIN_PREFIX,
    PluginValue,
    read_plugin_assignments,
    read_plugin_tables,
    read_plugin_variables,
)
from servekit.settings.tokens import MANAGE_VARIABLE, PREDICT_VARIABLE
from servekit.settings.values import did_you_mean

__all__ = ["SettingsError", "is_loopback", "load_settings"]

#: variables that are not settings: secrets, which are read where they are used
SECRETS = (PREDICT_VARIABLE, MANAGE_VARIABLE)
DAEMONS = "daemons"  #: a key of the file that is not an option
MODELS = "models"  #: a list of paths, or a table for each model
PLUGINS = "plugins"  #: tables of the file, and values from flags and variables
TABLES = ("set", "plugin")  #: flags that are not options
SET = f"{PREFIX}SET"  #: the variable in place of ``--set``
#: a file with both, which TOML does not allow
TWO_KINDS = re.compile(
    r"^\s*models\s*=.*^\s*\[\s*models\b|^\s*\[\s*models\b.*^\s*models\s*=", re.M | re.S
)
#: variables that each pod has for each Service of its namespace, but ``NAME_PORT=tcp://...``
SERVICE_LINK = re.compile(
    PREFIX + r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_[A-Z]+)?)"
)
ADDRESS_OF_SERVICE = re.compile(r"(tcp|udp|sctp)://")
HERE = Path()  #: paths of flags and variables are relative to it


class SettingsError(StartupError):
    """A setting is unknown or out of range; the message names its source."""


def load_settings(
    flags: Mapping[str, Any],
    file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """Merge the sources into one ``Settings``, all of whose paths are absolute.

    :param flags: option name to string, number, list of strings or bool; ``None`` means not given.
        ``set`` has the ``NAME.KEY=VALUE`` of single models, and ``plugin`` those of plugins.
    :raises SettingsError: an unknown name, a value out of range, or ``dev`` at an
        address that other machines can reach.
    """
    values = _from_file(file) if file else {}
    environment = {n: text for n, text in environment.items() if not _is_service_link(n, text)}
    values["deployments"] = (
        *values.get("deployments", ()),
        *_assigned(_split(SET, environment.get(SET, "")), SET),
        *_assigned(flags.get("set") or (), "--set"),
    )
    values[PLUGINS] = (
        *values.get(PLUGINS, ()),
        *read_plugin_variables(environment),
        *_told_plugins(flags.get("plugin") or ()),
    )
    values |= _from_environment(environment) | _from_flags(flags)
    settings = Settings(**values)
    for name in ("host", "port"):
        if settings.bind and name in values:
            raise SettingsError(f"bind: cannot be combined with {name}; add HOST:PORT to bind")
    if settings.watch and not settings.model_store:
        raise SettingsError("watch: needs model_store")
    if settings.dev:
        _require_loopback(settings)
    return settings


def _require_loopback(settings: Settings) -> None:
    """Check that only this machine can connect, as far as that is known."""
    tcp = [address for address in settings.bind if not unix_path(address)]
    hosts = [address if address == SYSTEMD else split_address(address)[0] for address in tcp]
    for host in hosts if settings.bind else [settings.host]:
        if not is_loopback(host):
            where = f"host {host!r}" if host else "every address"
            reason = f"responses contain tracebacks, and {where} is not a loopback address"
            raise SettingsError(f"dev: {reason}")


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to *host*."""
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:  # another host name
        return False


def _from_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    _refuse_unknown(flags, [*(option.name for option in options()), *TABLES], "unknown setting")
    return {
        option.name: _value(option, given, option.name if option.is_list else option.flag, HERE)
        for option in options()
        if (given := flags.get(option.name)) is not None
    }


def _assigned(assignments: Iterable[str], source: str) -> list[Deployment]:
    try:
        return read_assignments(assignments, source)
    except ValueError as error:
        raise SettingsError(f"{source}: {error}") from error
    except OSError as error:  # a relative path in a working directory that was removed
        raise SettingsError(f"{source}: {error.strerror}") from error


def _told_plugins(assignments: Iterable[str]) -> list[PluginValue]:
    try:
        return read_plugin_assignments(assignments)
    except ValueError as error:
        raise SettingsError(f"--plugin: {error}") from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    known = {option.variable: option for option in options()}
    given = {
        name: text
        for name, text in environment.items()
        if name.startswith(PREFIX)
        and not name.startswith(PLUGIN_PREFIX)
        and text
        and name not in SECRETS
    }
    given.pop(SET, None)
    _refuse_unknown(given, [*known, *SECRETS, SET], "unknown variable")
    return {
        known[name].name: _value(known[name], _words(known[name], text), name, HERE)
        for name, text in given.items()
    }


def _is_service_link(name: str, text: str) -> bool:
    """Whether Kubernetes set it, for a Service called ``servekit`` or ``servekit-NAME``."""
    is_address = name.startswith(PREFIX) and name.endswith("_PORT")
    return bool(SERVICE_LINK.fullmatch(name) or (is_address and ADDRESS_OF_SERVICE.match(text)))


def _words(option: Option, text: str) -> Any:
    return _split(option.variable, text) if option.is_list else text


def _split(variable: str, text: str) -> list[str]:
    """Split the list in a variable as a shell would: a quoted path may hold spaces."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise SettingsError(f"{variable}: {text!r}: no closing quotation mark") from error


def _from_file(path: Path) -> dict[str, Any]:
    known = {option.name: option for option in options()}
    table = _table(path)
    daemons = table.pop(DAEMONS, [])
    plugins = table.pop(PLUGINS, {})
    models = table.pop(MODELS) if isinstance(table.get(MODELS), dict) else {}
    _refuse_unknown(table, [*known, DAEMONS, PLUGINS], f"{path}: unknown key")
    values = {
        key: _value(known[key], value, f"{path}: {key}", path.parent)
        for key, value in table.items()
    }
    try:
        values["deployments"] = tuple(read_model_tables(models, path.name, path.parent))
        values[PLUGINS] = tuple(read_plugin_tables(plugins, str(path)))
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from error
    try:
        return values | {DAEMONS: read_daemons(path.parent, daemons)}
    except ValueError as error:
        raise SettingsError(f"{path}: {DAEMONS}: {error}") from error


def _table(path: Path) -> dict[str, Any]:
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: byte {error.start} is not UTF-8") from error
    except ValueError as error:
        hint = "; models is a list or tables, not both" if TWO_KINDS.search(text) else ""
        raise SettingsError(f"{path}: {error}{hint}") from error


def _refuse_unknown(names: Iterable[str], known: Iterable[str], what: str) -> None:
    for name in names:
        if name not in known:
            raise SettingsError(f"{what} {name!r}{did_you_mean(name, known)}")


def _value(option: Option, given: Any, where: str, base: Path) -> Any:
    """Turn the value of a source (a string, or a TOML value) into the option's value."""
    try:
        if option.is_list:
            return tuple(option.resolve(base, option.parse(text)) for text in _texts(option, given))
        return option.resolve(base, option.parse(_text(option, given)))
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from error
    except OSError as error:  # a relative path in a working directory that was removed
        raise SettingsError(f"{where}: {error.strerror}") from error


def _texts(option: Option, given: Any) -> list[str]:
    if isinstance(given, list | tuple) and all(isinstance(entry, str) for entry in given):
        return list(given)
    raise ValueError(f"{shown(given)} is not {option.kind}")


def _text(option: Option, given: Any) -> str:
    """Return *given* as a string if it has the option's type."""
    if isinstance(given, str):
        return given
    wanted = (bool,) if option.is_switch else (int, float) if option.is_number else ()
    if isinstance(given, wanted) and isinstance(given, bool) == option.is_switch:
        return str(given)
    raise ValueError(f"{shown(given)} is not {option.kind}")
