# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin."""

from servekit import hookimpl
from servekit.extension import Command

__all__ = ["register_commands"]


@hookimpl
def register_commands() -> list[Command]:
    """Offer ``servekit kube``."""
    return [
        Command(
            "kube",
            "write manifests for Kubernetes, a Helm chart or a runtime of KServe",
            "servekit_kubernetes.command:configure",
        )
    ]
