# SPDX-License-Identifier: Apache-2.0
"""The versions of a model that answer: aliases, weights and the mirror."""

from collections.abc import Callable, Mapping

from msgspec import structs

from servekit.ipc.operations import SetTraffic
from servekit.ipc.table import TrafficRow
from servekit.supervisor.models.versions import Versions

__all__ = ["ModelTraffic", "WrongTraffic"]


class WrongTraffic(ValueError):
    """A version, a share or an alias that cannot be used; the message says which."""


class ModelTraffic:
    """The shares of one model that operators have set, and those that are in force."""

    def __init__(self, versions: Versions, on_change: Callable[[], object]) -> None:
        """Let the default version answer everything; *on_change* publishes what has changed."""
        self._versions, self._on_change = versions, on_change
        self.wanted = TrafficRow()

    @property
    def named(self) -> set[str]:
        """The versions that an alias, a weight or the mirror names."""
        wanted = self.wanted
        return {*wanted.aliases.values(), *wanted.weights, *filter(None, [wanted.mirror])}

    @property
    def row(self) -> TrafficRow:
        """The part that is in force: versions that are not loaded yet are left out."""
        wanted, loaded = self.wanted, {version.version for version in self._versions.served}
        return structs.replace(
            wanted,
            aliases={name: each for name, each in wanted.aliases.items() if each in loaded},
            weights={each: share for each, share in wanted.weights.items() if each in loaded},
            mirror=wanted.mirror if wanted.mirror in loaded else "",
        )

    def resolve(self, name: str) -> str:
        """Return the loaded version that *name*, a version or an alias, means.

        :raises WrongTraffic: there is none.
        """
        return self._resolve(name, self.wanted.aliases)

    def _resolve(self, name: str, aliases: Mapping[str, str]) -> str:
        version = aliases.get(name, name)
        if self._versions.find(version) is None:
            loaded = ", ".join(each.version for each in self._versions.served)
            raise WrongTraffic(f"there is no version {name}; loaded: {loaded}")
        return version

    def change(self, order: SetTraffic) -> None:
        """Take over what *order* says.

        :raises WrongTraffic: something in it cannot be; nothing is changed.
        """
        wanted = structs.replace(self.wanted)
        if order.aliases is not None:
            wanted.aliases = self._aliases(order.aliases)
        if order.weights is not None:
            wanted.weights = self._weights(order.weights, wanted.aliases)
        if order.sticky is not None:
            wanted.sticky = order.sticky.lower()
        if order.mirror is not None:
            wanted.mirror = order.mirror and self._resolve(order.mirror, wanted.aliases)
        if order.mirror_percent is not None:
            if not 0 <= order.mirror_percent <= 100:
                raise WrongTraffic(f"mirror_percent: {order.mirror_percent} is not 0 to 100")
            wanted.mirror_percent = order.mirror_percent
        self.wanted = wanted

    def split(self, old: str, new: str, share: int) -> None:
        """Direct *share* percent of the requests to *new*, and the others to *old*."""
        self.wanted = structs.replace(self.wanted, weights={old: 100 - share, new: share})
        self._on_change()

    def all_to_default(self) -> None:
        """Direct all requests to the default version again."""
        self.wanted = structs.replace(self.wanted, weights={})
        self._on_change()

    def move(self, old: str, new: str) -> None:
        """Direct to *new* what is directed to *old*."""
        wanted = self.wanted
        weights = dict(wanted.weights)
        if old in weights and old != new:
            weights[new] = weights.get(new, 0) + weights.pop(old)
        self.wanted = structs.replace(
            wanted,
            aliases={name: new if each == old else each for name, each in wanted.aliases.items()},
            weights=weights,
            mirror="" if wanted.mirror == new else wanted.mirror,
        )

    def forget(self, version: str) -> None:
        """Remove the aliases of *version*, which is unloaded."""
        aliases = {name: each for name, each in self.wanted.aliases.items() if each != version}
        self.wanted = structs.replace(self.wanted, aliases=aliases)

    def _aliases(self, changes: Mapping[str, str]) -> dict[str, str]:
        aliases = dict(self.wanted.aliases)
        for name, version in changes.items():
            if not version:
                aliases.pop(name, None)
                continue
            if self._versions.find(name) is not None:
                raise WrongTraffic(f"aliases: {name} is the name of a version")
            if not name or "/" in name:
                raise WrongTraffic(f"aliases: {name!r} cannot be part of a path")
            aliases[name] = self.resolve(version)
        return aliases

    def _weights(self, shares: Mapping[str, int], aliases: Mapping[str, str]) -> dict[str, int]:
        weights: dict[str, int] = {}
        for name, share in shares.items():
            if share < 0:
                raise WrongTraffic(f"weights: {name}: {share} is below 0")
            version = self._resolve(name, aliases)
            weights[version] = weights.get(version, 0) + share
        if weights and not any(weights.values()):
            raise WrongTraffic("weights: all of them are 0")
        return weights
