# SPDX-License-Identifier: Apache-2.0
"""The machine and the settings that checks look at."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from servekit.extension.checks import Diagnosis
from servekit.settings import Settings
from servekit.settings.addresses import SYSTEMD, split_address, unix_path
from servekit.settings.sources import is_loopback
from servekit.system.cgroups import memory_groups, table

__all__ = ["Check", "Setup"]


@dataclass(frozen=True, slots=True)
class Setup:
    """A machine, and the settings of a server that is to run on it."""

    settings: Settings = field(default_factory=Settings)
    owned: frozenset[int | str] = frozenset()  #: ports and paths of sockets of the running server
    root: Path = Path("/")  #: of ``proc`` and ``sys``; another one in tests
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def number(self, path: str) -> int | None:
        """Return the number in the file *path* below the root; ``None`` if there is none."""
        try:
            return int((self.root / path).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    @property
    def memory(self) -> dict[str, int]:
        """``/proc/meminfo``, in bytes, by names that end with a colon."""
        found = table(self.root / "proc/meminfo")
        return {name: kib * 1024 for name, kib in found.items()}

    @property
    def memory_limit(self) -> int:
        """How much memory the server may use: of the machine, or less by its control group."""
        limits = [group.limit for group in memory_groups(self.root)]
        return min([*limits, self.memory.get("MemTotal:", 1 << 62)])

    @property
    def hosts(self) -> list[tuple[str, int]]:
        """The TCP addresses on which predictions are served."""
        bind = self.settings.bind
        if not bind:
            return [(self.settings.host, self.settings.port)]
        return [split_address(each) for each in bind if each != SYSTEMD and not unix_path(each)]

    @property
    def public(self) -> list[str]:
        """The hosts among those that other machines can reach, as far as that is known."""
        return [host or "0.0.0.0" for host, _ in self.hosts if not is_loopback(host)]  # noqa: S104


class Check(NamedTuple):
    """One check."""

    name: str
    summary: str  #: the things that it looks at
    find: Callable[[Setup], Iterable[Diagnosis]]
