# SPDX-License-Identifier: Apache-2.0
"""``servekit plugins``: what is installed, what it offers, what is broken."""

import argparse
import json
from typing import Any

from servekit.cli.exit_status import OK, PROBLEM_FOUND
from servekit.plugins import InstalledPlugin, installed_plugins

__all__ = ["add_arguments", "run"]

EPILOG = """\
examples:
  servekit plugins
  servekit plugins --json
  servekit plugins --strict       exit with 1 if any is broken
"""
CONTRIBUTIONS = {
    "register_services": "services",
    "register_codecs": "codecs",
    "register_fetchers": "fetchers",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.epilog = EPILOG
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a plugin is broken")


def run(parsed: argparse.Namespace) -> int:
    """Print the plugins."""
    found = [describe(plugin) for plugin in installed_plugins()]
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
