# SPDX-License-Identifier: Apache-2.0
"""The settings in the run directory, where all processes of a server read them."""

import dataclasses
import json
from pathlib import Path
from typing import Final

from servekit.settings.fields import Settings
from servekit.settings.plugin_values import PluginValue

__all__ = ["read_settings", "write_settings"]

FILE: Final = "settings.json"


def write_settings(settings: Settings, run_directory: Path) -> None:
    """Write *settings* without those that only the supervisor needs, as they may have secrets."""
    shared = dataclasses.replace(settings, daemons=(), deployments=())
    text = json.dumps(dataclasses.asdict(shared))
    (run_directory / FILE).write_text(text, encoding="utf-8")


def read_settings(run_directory: Path) -> Settings:
    """Return what ``write_settings`` wrote."""
    values = json.loads((run_directory / FILE).read_text(encoding="utf-8"))
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    values["plugins"] = tuple(PluginValue(**each) for each in values["plugins"])
    return Settings(**values)
