# SPDX-License-Identifier: Apache-2.0
"""Chooses how the journal of the supervisor is shown: plain lines, JSON lines, or a terminal."""

import os

from servekit.cli.output.plain import STDERR, Display, PlainDisplay
from servekit.ipc.kept_log import LOG_LEVELS
from servekit.settings import Settings

__all__ = ["create_display"]


def create_display(settings: Settings) -> Display:
    """Return the display for *settings* and for what stderr is."""
    level = LOG_LEVELS.index(settings.log_level)
    if settings.log_format == "json":
        from servekit.cli.output.json_lines import JsonDisplay

        return JsonDisplay(level)
    if os.isatty(STDERR) and os.environ.get("TERM") != "dumb":
        from servekit.cli.output.terminal import TerminalDisplay

        return TerminalDisplay(level, has_colour="NO_COLOR" not in os.environ)
    return PlainDisplay(level)
