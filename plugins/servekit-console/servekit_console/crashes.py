# SPDX-License-Identifier: Apache-2.0
"""Crashes: why workers ended, what they held, and how to send it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from flask import request
from msgspec import structs, to_builtins

from servekit.extension import replay_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.extension import CrashReport, Server

__all__ = ["CrashPage"]

REPLAYED: Final = 4  #: requests of a report that are written as code


class CrashPage:
    """Makes the page."""

    def __init__(self, server: Server, may_see_secrets: Callable[[], bool]) -> None:
        """Show the crash reports of *server*.

        :param may_see_secrets: whether bodies of requests are shown to this client.
        """
        self._server, self._may_see_secrets = server, may_see_secrets

    def build(self) -> dict[str, Any]:
        """Return the reports, the newest first; those of one model if the query names it."""
        model = request.args.get("model", "")
        reports = [each for each in self._server.crashes() if model in ("", each.model)]
        return {
            "model": model,
            "models": sorted(self._server.models),
            "crashes": [self._shown(report) for report in reversed(reports)],
        }

    def _shown(self, report: CrashReport) -> dict[str, Any]:
        has_bodies = any(each.body_bytes for each in report.requests)
        if has_bodies and self._may_see_secrets():
            report = self._server.crash(report.number)
        replays = [
            {
                "request_id": held.request_id,
                "curl": replay_text(report, held, "curl", request.url_root),
                "pytest": replay_text(report, held, "pytest"),
            }
            for held in report.requests
            if held.method
        ]
        found: dict[str, Any] = to_builtins(structs.replace(report, requests=[]))
        return {**found, "replays": replays[:REPLAYED]}
