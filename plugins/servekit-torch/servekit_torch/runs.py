# SPDX-License-Identifier: Apache-2.0
"""Cuts a batch into runs of the sizes that a model takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from servekit.errors import BootError

__all__ = ["RowRun", "RunSizes"]


class RowRun(NamedTuple):
    """Rows of a batch that run together."""

    start: int
    stop: int
    size: int  #: rows of the run; those beyond ``stop`` repeat the last one


@dataclass(frozen=True, kw_only=True)
class RunSizes:
    """How many rows a run may have."""

    sizes: tuple[int, ...] = ()  #: ascending; empty: any number within the bounds
    smallest: int = 1
    largest: int | None = None

    @classmethod
    def of(cls, sizes: Sequence[int], smallest: int, largest: int | None) -> Self:
        """Return *sizes*, or the bounds of the model if there are none.

        :raises BootError: one of *sizes* is not within the bounds.
        """
        for size in sizes:
            if size < smallest or (largest is not None and size > largest):
                most = "any number" if largest is None else largest
                raise BootError(
                    f"[options] sizes: {size}, but the model takes {smallest} to {most} rows"
                )
        return cls(sizes=tuple(sorted(set(sizes))), smallest=smallest, largest=largest)

    def runs(self, count: int) -> Iterator[RowRun]:
        """Yield the runs of *count* rows, in their order."""
        start = 0
        while start < count:
            size = self._size(count - start)
            stop = min(start + size, count)
            yield RowRun(start, stop, size)
            start = stop

    def _size(self, left: int) -> int:
        if self.sizes:
            return next((size for size in self.sizes if size >= left), self.sizes[-1])
        most = left if self.largest is None else min(left, self.largest)
        return max(most, self.smallest)
