# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin."""

from collections.abc import Sequence

from servekit import hookimpl
from servekit.extension import Command

__all__ = ["register_commands"]


@hookimpl
def register_commands() -> Sequence[Command]:
    """Offer ``servekit bench`` and ``servekit tune``."""
    return [
        Command(
            "bench",
            "measure the latency and throughput of a server or an archive",
            "servekit_bench.command:bench",
        ),
        Command(
            "tune",
            "find the settings of a model that keep a latency",
            "servekit_bench.tune.command:tune",
        ),
    ]
