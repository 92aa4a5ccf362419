# SPDX-License-Identifier: Apache-2.0
"""The source and the settings of a version, for ``servekit load`` and ``servekit swap``."""

import argparse
from pathlib import Path
from typing import Any

import msgspec

from servekit.errors import StartupError
from servekit.settings.model_tables import read_assignments
from servekit.settings.values import absolute, is_url

__all__ = ["absolute_source", "add_settings", "given_settings"]


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add ``--set``."""
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting as in [models.NAME] of servekit.toml, such as replicas=2",
    )


def given_settings(parsed: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that ``--set`` gives.

    :raises StartupError: one is malformed, unknown or out of range.
    """
    try:
        found = read_assignments(f"model.{text}" for text in parsed.set)
    except ValueError as error:
        raise StartupError(f"--set: {error}") from error
    settings: dict[str, Any] = msgspec.to_builtins(found[0]) if found else {}
    return {key: value for key, value in settings.items() if key not in ("name", "source")}


def absolute_source(text: str) -> str:
    """Return a URL unchanged, and a path as the server can open it from its own directory."""
    return text if is_url(text) else absolute(Path(), text)
