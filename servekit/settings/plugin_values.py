# SPDX-License-Identifier: Apache-2.0
"""The settings of plugins: ``[plugins.NAME]``, ``--plugin NAME.KEY=VALUE``, and variables.

They are collected as they are written. Only processes that import plugins know which settings
there are: these turn the values into the types that the plugins have registered.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from servekit.mistakes import mistake_of
from servekit.settings.checks import entries, json_table
from servekit.settings.values import did_you_mean

__all__ = [
    "PLUGIN_PREFIX",
    "KnownSetting",
    "PluginValue",
    "known_settings",
    "plugin_settings",
    "read_plugin_assignments",
    "read_plugin_tables",
    "read_plugin_variables",
]

PLUGIN_PREFIX: Final = "SERVEKIT_PLUGIN_"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginValue:
    """One value, as it is written."""

    plugin: str  #: "" for a variable, whose name does not say where that of the plugin ends
    key: str  #: for a variable, what follows ``SERVEKIT_PLUGIN_``
    value: Any  #: as JSON has it
    source: str  #: what errors call it: ``servekit.toml: plugins.oip.grpc``
    is_text: bool  #: it comes from a flag or a variable, and may be meant as a number


def read_plugin_tables(tables: Any, source: str) -> list[PluginValue]:
    """Return what the ``[plugins.NAME]`` tables of the file *source* say.

    :raises ValueError: one is not a table, or has a value that JSON has not.
    """
    return [
        PluginValue(
            plugin=plugin,
            key=key,
            value=value,
            source=f"{source}: plugins.{plugin}.{key}",
            is_text=False,
        )
        for plugin, table in entries("plugins", tables).items()
        for key, value in json_table(f"plugins.{plugin}", table).items()
    ]


def read_plugin_assignments(assignments: Iterable[str]) -> list[PluginValue]:
    """Return what the ``NAME.KEY=VALUE`` of ``--plugin`` say.

    :raises ValueError: one is malformed.
    """
    found = []
    for text in assignments:
        name, separator, value = text.partition("=")
        plugin, dot, key = name.strip().partition(".")
        if not (separator and dot and plugin and key):
            raise ValueError(f"{text!r} is not NAME.KEY=VALUE")
        where = f"--plugin {plugin}.{key}"
        found.append(PluginValue(plugin=plugin, key=key, value=value, source=where, is_text=True))
    return found


def read_plugin_variables(environment: Mapping[str, str]) -> list[PluginValue]:
    """Return what the variables ``SERVEKIT_PLUGIN_NAME_KEY`` say."""
    return [
        PluginValue(
            plugin="", key=name.removeprefix(PLUGIN_PREFIX), value=text, source=name, is_text=True
        )
        for name, text in environment.items()
        if name.startswith(PLUGIN_PREFIX) and text
    ]


# ---------------------------------------------------------------- what plugins register


class KnownSetting(NamedTuple):
    """One setting of a plugin."""

    type: Any
    default: Any
    help: str


def known_settings(kind: type[msgspec.Struct]) -> dict[str, KnownSetting]:
    """Return the settings that are the fields of *kind*, by key.

    :raises ValueError: it is not a Struct, or a field has no default.
    """
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        raise ValueError(f"{kind!r} is not a subclass of msgspec.Struct")  # noqa: TRY004 - one kind of error
    found = {}
    for field in msgspec.structs.fields(kind):
        if field.required:
            raise ValueError(f"{field.name} has no default")
        notes = getattr(field.type, "__metadata__", ())
        texts = [note.description for note in notes if isinstance(note, msgspec.Meta)]
        is_made = field.default is msgspec.NODEFAULT
        default = field.default_factory() if is_made else field.default
        found[field.name] = KnownSetting(field.type, default, next(filter(None, texts), ""))
    return found


def plugin_settings(
    values: Iterable[PluginValue], kinds: Mapping[str, type[msgspec.Struct]]
) -> dict[str, msgspec.Struct]:
    """Return the settings of each plugin; a later one of *values* wins.

    :param kinds: what the plugins have registered, by the name of the plugin.
    :raises ValueError: a name or a key is unknown, or a value is not valid; the message begins
        with its source.
    """
    known = {plugin: known_settings(kind) for plugin, kind in kinds.items()}
    found: dict[str, dict[str, Any]] = {plugin: {} for plugin in kinds}
    for each in values:
        plugin, key = _variable(each, known) if not each.plugin else _named(each, known)
        try:
            found[plugin][key] = _converted(each, known[plugin][key].type)
        except msgspec.ValidationError as error:
            path, message = mistake_of(error)
            raise ValueError(f"{each.source}{path}: {message}") from None
    return {plugin: kinds[plugin](**own) for plugin, own in found.items()}


def _named(each: PluginValue, known: Mapping[str, Mapping[str, KnownSetting]]) -> tuple[str, str]:
    """Return plugin and key of a value that names both."""
    if each.plugin not in known:
        hint = did_you_mean(each.plugin, known)
        raise ValueError(f"{each.source}: no plugin {each.plugin!r} has settings{hint}")
    settings = known[each.plugin]
    if each.key not in settings:
        hint = did_you_mean(each.key, settings) or f"; known: {', '.join(settings)}"
        raise ValueError(f"{each.source}: unknown key {each.key!r}{hint}")
    return each.plugin, each.key


def _variable(
    each: PluginValue, known: Mapping[str, Mapping[str, KnownSetting]]
) -> tuple[str, str]:
    """Return plugin and key of a variable."""
    names = {
        f"{plugin}_{key}".upper().replace("-", "_"): (plugin, key)
        for plugin, settings in known.items()
        for key in settings
    }
    if each.key not in names:
        hint = did_you_mean(each.source, [PLUGIN_PREFIX + name for name in names])
        raise ValueError(f"{each.source}: no plugin has this setting{hint}")
    return names[each.key]


def _converted(each: PluginValue, kind: Any) -> Any:
    """Return the value as *kind*; lists and tables in a flag or a variable are TOML."""
    try:
        return msgspec.convert(each.value, kind, strict=not each.is_text)
    except msgspec.ValidationError:
        if not each.is_text:
            raise
        try:
            value = tomllib.loads(f"value = {each.value}")["value"]
        except (ValueError, KeyError):
            value = each.value
        return msgspec.convert(value, kind)
