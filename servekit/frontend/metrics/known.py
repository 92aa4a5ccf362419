# SPDX-License-Identifier: Apache-2.0
"""The arrays that one front-end counts in; those of versions that are gone are used again."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from servekit.frontend.metrics.counters import ModelMetrics
from servekit.ipc.model_counters import Label, key_of

if TYPE_CHECKING:
    from servekit.ipc.counter_share import Share

__all__ = ["KnownMetrics"]

MAX_GONE = 64  #: labels of versions that are gone keep their series until there are more


class KnownMetrics(Collection[Label]):
    """The labels that have arrays, and so series in ``/metrics``."""

    def __init__(self, share: Share) -> None:
        """Take arrays from *share*."""
        self._share = share
        self._metrics: dict[Label, ModelMetrics] = {}
        self._gone: dict[Label, None] = {}  #: the first went first

    def __contains__(self, label: object) -> bool:
        return label in self._metrics

    def __iter__(self) -> Iterator[Label]:
        return iter(self._metrics)

    def __len__(self) -> int:
        return len(self._metrics)

    def find(self, label: Label) -> ModelMetrics:
        """Return the array of *label*, all zero if it is new."""
        found = self._metrics.get(label)
        if found is None:
            found = self._metrics[label] = ModelMetrics(self._share, label)
        return found

    def settle(self) -> None:
        """Add what is known of batches to the arrays."""
        for metrics in self._metrics.values():
            metrics.settle()

    def keep(self, versions: Collection[tuple[str, str]]) -> None:
        """Note which models and *versions* there are now; forget those that went long ago."""
        for label in self._metrics:
            if (label.model, label.version) in versions:
                self._gone.pop(label, None)
            else:
                self._gone.setdefault(label)
        while len(self._gone) > MAX_GONE:
            label = next(iter(self._gone))
            del self._gone[label], self._metrics[label]
            self._share.give_back(key_of(label))
