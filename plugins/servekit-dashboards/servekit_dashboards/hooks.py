# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin."""

from servekit import hookimpl
from servekit.extension import Command

__all__ = ["register_commands"]


@hookimpl
def register_commands() -> list[Command]:
    """Offer ``servekit dashboards``."""
    return [
        Command(
            "dashboards",
            "write Grafana dashboards and Prometheus alerts",
            "servekit_dashboards.command:configure",
        )
    ]
