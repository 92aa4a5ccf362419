# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports neither Ray nor the command."""

from servekit import hookimpl
from servekit.extension import Command

__all__ = ["register_commands"]


@hookimpl
def register_commands() -> list[Command]:
    """Offer ``servekit ray``."""
    return [
        Command(
            "ray",
            "serve models on the nodes of a Ray cluster",
            "servekit_ray.command:configure",
        )
    ]
