# SPDX-License-Identifier: Apache-2.0
"""A running server as the checks see it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

from servekit.cli.server.connection import ManagedServer

__all__ = ["LiveServer", "replica_name"]

RECENT: Final = timedelta(minutes=10)


@dataclass
class LiveServer:
    """A running server; each document is asked for once."""

    server: ManagedServer
    options: str = ""  #: by which commands find it: `` --run-dir DIR``
    is_gone: bool = False  #: it does not answer any more

    @cached_property
    def models(self) -> list[dict[str, Any]]:
        """The answer of ``/models``."""
        found: list[dict[str, Any]] = self.server.get("/models")["models"]
        return found

    @cached_property
    def crashes(self) -> list[dict[str, Any]]:
        """The crash reports of the last minutes."""
        since = (datetime.now(UTC) - RECENT).isoformat(timespec="milliseconds")
        return [each for each in self.server.get("/crashes")["crashes"] if each["time"] >= since]

    def command(self, words: str) -> str:
        """Return a command that asks this server."""
        return f"servekit {words}{self.options}"

    @property
    def replicas(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The replicas of all versions, each with its name in the log."""
        for model in self.models:
            for version in (model, *model["versions"]):
                for each in version["replicas"]:
                    yield replica_name(model["name"], each.get("stage"), each["index"]), each


def replica_name(model: str, stage: str | None, index: int) -> str:
    """Return the name of a replica in the log."""
    return "/".join(filter(None, (model, stage, str(index))))
