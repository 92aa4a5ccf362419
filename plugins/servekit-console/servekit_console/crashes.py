# SPDX-License-Identifier: Apache-2.0
"""Crashes: why workers ended, what they held, and how to send it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import request

if TYPE_CHECKING:
    from servekit.extension import Server

__all__ = ["CrashPage"]


class CrashPage:
    """Makes the page."""

    def __init__(self, server: Server) -> None:
        """Show the crash reports of *server*."""
        self._server = server

    def build(self) -> dict[str, Any]:
        """Return the reports, the newest first; those of one model if the query names it."""
        model = request.args.get("model", "")
        found = self._server.read_management("/crashes")["crashes"]
        crashes = [each for each in reversed(found) if model in ("", each["model"])]
        return {"model": model, "models": sorted(self._server.models), "crashes": crashes}
