# SPDX-License-Identifier: Apache-2.0
"""``servekit plugins``: which plugins there are, what they offer, which are broken."""

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import msgspec

from servekit.cli.parsing.exit_status import OK, PROBLEM_FOUND
from servekit.extension.commands import Run
from servekit.hookspecs import ReadOnly
from servekit.plugins import InstalledPlugin, installed_plugins
from servekit.service.base import Service
from servekit.settings.plugin_values import known_settings

__all__ = ["describe", "offer_problems", "plugins"]

EPILOG = """\
examples:
  servekit plugins
  servekit plugins --json
  servekit plugins --strict       import everything; exit with 1 if a plugin is broken
"""
SETTINGS = "register_settings"
IMPORT_STRING = re.compile(r"[\w.]+:\w+")
#: hooks whose contributions are listed, and what those are
CONTRIBUTIONS = {
    "register_services": "services",
    "register_codecs": "codecs",
    "register_fetchers": "fetchers",
    "register_commands": "commands",
}


def plugins(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="import everything that the plugins register, and exit with 1 if one is broken",
    )
    return run


def run(parsed: argparse.Namespace) -> int:
    """Print the plugins."""
    found = [describe(plugin) for plugin in installed_plugins()]
    if parsed.strict:
        for plugin in found:
            problems = filter(None, [plugin["error"], *offer_problems(plugin, found)])
            plugin["error"] = "; ".join(problems)
    print(json.dumps(found, indent=2) if parsed.json else as_text(found))
    is_broken = any(plugin["error"] for plugin in found)
    return PROBLEM_FOUND if parsed.strict and is_broken else OK


def describe(plugin: InstalledPlugin) -> dict[str, Any]:
    """Return one plugin as JSON; asking it what it offers may break it too."""
    facts: dict[str, Any] = {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "is_builtin": plugin.is_builtin,
        "hooks": list(plugin.hooks),
        **{kind: {} for kind in CONTRIBUTIONS.values()},
        "settings": {},
        "error": plugin.error,
    }
    for hook, kind in [*CONTRIBUTIONS.items(), (SETTINGS, "settings")]:
        if hook in plugin.hooks:
            try:
                found = getattr(plugin.module, hook)()
                facts[kind] = _settings(found) if hook == SETTINGS else _targets(found)
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                facts["error"] = f"{hook}: {type(error).__name__}: {error}"
    return facts


def _targets(contribution: Any) -> dict[str, str]:
    """Return the import strings of a contribution by what they are offered as."""
    if isinstance(contribution, Mapping):
        return dict(contribution)
    return {command.name: command.target for command in contribution}


def _settings(kind: Any) -> dict[str, dict[str, Any]]:
    """Return the settings of a plugin by key."""
    return {
        key: {"default": msgspec.to_builtins(setting.default), "help": setting.help}
        for key, setting in known_settings(kind).items()
    }


def offer_problems(plugin: dict[str, Any], every: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with each offer of *plugin*: it is imported, as a worker would."""
    for kind in CONTRIBUTIONS.values():
        for key, target in plugin[kind].items():
            if others := [each["name"] for each in every if _contradicts(plugin, each, kind, key)]:
                yield f"{kind[:-1]} {key}: {' and '.join(others)} offers it too"
            if problem := target_problem(kind, target):
                yield f"{kind[:-1]} {key}: {problem}"


def _contradicts(plugin: dict[str, Any], other: dict[str, Any], kind: str, key: str) -> bool:
    """Say whether both cannot be installed; what is built in is replaced, except for commands."""
    if plugin is other or key not in other[kind] or plugin["is_builtin"]:
        return False
    return kind == "commands" or not other["is_builtin"]


def target_problem(kind: str, target: object) -> str:
    """Return why the import string *target* is not an offer of *kind*, or ""."""
    if not isinstance(target, str) or not IMPORT_STRING.fullmatch(target):
        return f"{target!r} is not module:name"
    module, _, name = target.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
        return f"cannot import {target}: {type(error).__name__}: {error}"
    return f"{target} {problem}" if (problem := KINDS[kind](found, target)) else ""


def _service_problem(found: object, _: str) -> str:
    is_service = isinstance(found, type) and issubclass(found, Service)
    return "" if is_service else "is not a subclass of servekit.Service"


def _codec_problem(found: object, target: str) -> str:
    halves = [half for half in ("decode", "encode") if callable(getattr(found, half, None))]
    if not halves:
        return "has neither decode nor encode"
    if isinstance(target, ReadOnly) and "encode" in halves:
        return "is offered as ReadOnly, and has encode"
    return ""


def _call_problem(found: object, _: str) -> str:
    return "" if callable(found) else "cannot be called"


KINDS = {
    "services": _service_problem,
    "codecs": _codec_problem,
    "fetchers": _call_problem,
    "commands": _call_problem,
}


def as_text(plugins: list[dict[str, Any]]) -> str:
    """Return a few lines for each plugin."""
    lines = [_lines(plugin) for plugin in plugins]
    if all(plugin["is_builtin"] for plugin in plugins):
        lines.append("no plugins are installed; try: pip install servekit-sklearn")
    return "\n".join(lines)


def _lines(plugin: dict[str, Any]) -> str:
    origin = (
        f"{plugin['distribution']}, built in" if plugin["is_builtin"] else plugin["distribution"]
    )
    lines = [f"{plugin['name']}  ({origin})"]
    if plugin["error"]:
        lines.append(f"  broken    {plugin['error']}")
    for kind in CONTRIBUTIONS.values():
        lines += [f"  {kind[:-1]:<9} {key}  ->  {target}" for key, target in plugin[kind].items()]
    lines += [
        f"  setting   {key} = {json.dumps(setting['default'])}  {setting['help']}".rstrip()
        for key, setting in plugin["settings"].items()
    ]
    if plugin["hooks"]:
        lines.append(f"  hooks     {', '.join(plugin['hooks'])}")
    return "\n".join(lines)
