# SPDX-License-Identifier: Apache-2.0
"""``servekit plugins``: what is installed, what it offers, what is broken."""

import argparse
import json
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from servekit import Service
from servekit.cli.parsing.exit_status import OK, PROBLEM_FOUND
from servekit.hookspecs import ReadOnly
from servekit.plugins import InstalledPlugin, installed_plugins

__all__ = ["add_arguments", "run"]

EPILOG = """\
examples:
  servekit plugins
  servekit plugins --json
  servekit plugins --strict       import all that they offer; exit with 1 if any is broken
"""
IMPORT_STRING = re.compile(r"[\w.]+:\w+")
CONTRIBUTIONS = {
    "register_services": "services",
    "register_codecs": "codecs",
    "register_fetchers": "fetchers",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.epilog = EPILOG
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="import what the plugins offer, and exit with 1 if one is broken",
    )


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
        "hooks": list(plugin.hooks),
        "services": {},
        "codecs": {},
        "fetchers": {},
        "error": plugin.error,
    }
    for hook, kind in CONTRIBUTIONS.items():
        if hook in plugin.hooks:
            try:
                facts[kind] = dict(getattr(plugin.module, hook)())
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                facts["error"] = f"{hook}: {type(error).__name__}: {error}"
    return facts


def offer_problems(plugin: dict[str, Any], every: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with each offer of *plugin*: it is imported, as a worker would."""
    for kind in CONTRIBUTIONS.values():
        for key, target in plugin[kind].items():
            others = [each["name"] for each in every if each is not plugin and key in each[kind]]
            if others:
                yield f"{kind[:-1]} {key}: {' and '.join(others)} offers it too"
            if problem := target_problem(kind, target):
                yield f"{kind[:-1]} {key}: {problem}"


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


def _fetcher_problem(found: object, _: str) -> str:
    return "" if callable(found) else "cannot be called"


KINDS = {"services": _service_problem, "codecs": _codec_problem, "fetchers": _fetcher_problem}


def as_text(plugins: list[dict[str, Any]]) -> str:
    """Return a few lines for each plugin."""
    if not plugins:
        return "no plugins are installed; try: pip install servekit-sklearn"
    return "\n".join(_lines(plugin) for plugin in plugins)


def _lines(plugin: dict[str, Any]) -> str:
    lines = [f"{plugin['name']}  ({plugin['distribution']})"]
    if plugin["error"]:
        lines.append(f"  broken    {plugin['error']}")
    for kind in CONTRIBUTIONS.values():
        lines += [f"  {kind[:-1]:<9} {key}  ->  {target}" for key, target in plugin[kind].items()]
    if plugin["hooks"]:
        lines.append(f"  hooks     {', '.join(plugin['hooks'])}")
    return "\n".join(lines)
