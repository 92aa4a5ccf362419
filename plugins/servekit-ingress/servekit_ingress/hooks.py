# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin."""

from servekit import hookimpl
from servekit.extension import Command

__all__ = ["register_commands"]


@hookimpl
def register_commands() -> list[Command]:
    """Offer ``servekit ingress``."""
    return [
        Command(
            "ingress",
            "put several servers behind HAProxy or Envoy",
            "servekit_ingress.command:configure",
        )
    ]
