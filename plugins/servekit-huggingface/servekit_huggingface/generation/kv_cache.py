# SPDX-License-Identifier: Apache-2.0
"""Keys and values of sequences that come and go.

Each row is a sequence. All rows end in the same column: shorter ones begin with columns of zeros,
which the attention mask hides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from servekit_huggingface.library import Cache, DynamicLayer, torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

__all__ = ["RowCache"]

ROOM: Final = 128  #: columns that are reserved at once, so that a token copies no other


class RowLayer(DynamicLayer):  # type: ignore[misc]
    """The keys and values of one layer: views of two buffers, ``[rows, heads, columns, size]``."""

    def __init__(self, **arguments: Any) -> None:
        """Begin without rows."""
        super().__init__(**arguments)
        self._buffers: tuple[Tensor, Tensor] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: Any, **_arguments: Any
    ) -> tuple[Tensor, Tensor]:
        """Add the columns of new tokens; return all columns."""
        first = self.get_seq_length() if self.is_initialized else 0
        end = first + key_states.shape[-2]
        states = (key_states, value_states)
        if self._buffers is None or end > self._buffers[0].shape[-2]:
            older = (self.keys, self.values) if self.is_initialized else (None, None)
            self._buffers = tuple(map(_larger, older, states, (end, end)))
        for buffer, state in zip(self._buffers, states, strict=True):
            buffer[:, :, first:end] = state
        self._show(end)
        return self.keys, self.values

    def _show(self, end: int) -> None:
        assert self._buffers is not None
        self.keys, self.values = (buffer[:, :, :end] for buffer in self._buffers)
        self.dtype, self.device, self.is_initialized = self.keys.dtype, self.keys.device, True

    def keep(self, rows: Tensor, first: int) -> None:
        """Keep *rows* only, from the column *first* on."""
        self._buffers = (self.keys[rows, :, first:], self.values[rows, :, first:])
        self._show(self._buffers[0].shape[-2])

    def join(self, other: RowLayer) -> None:
        """Add the rows of *other* below."""
        pairs = ((self.keys, other.keys), (self.values, other.values))
        self._buffers = tuple(_stacked(*pair) for pair in pairs)
        self._show(max(self.keys.shape[-2], other.keys.shape[-2]))


def _larger(older: Tensor | None, state: Tensor, columns: int) -> Tensor:
    """Return a buffer for at least *columns*, which begins with those of *older*."""
    rows, heads, _, size = state.shape
    buffer = state.new_empty(rows, heads, -(-columns // ROOM) * ROOM, size)
    if older is not None:
        buffer[:, :, : older.shape[-2]] = older
    return buffer


def _stacked(above: Tensor, below: Tensor) -> Tensor:
    """Return a buffer with the rows of both, which end in the same column."""
    end = max(above.shape[-2], below.shape[-2])
    shape = (len(above) + len(below), above.shape[1], -(-end // ROOM) * ROOM, above.shape[3])
    buffer = above.new_zeros(shape)  # not NaN, even where the mask hides it
    buffer[: len(above), :, end - above.shape[-2] : end] = above
    buffer[len(above) :, :, end - below.shape[-2] : end] = below
    return buffer


class RowCache(Cache):  # type: ignore[misc]
    """The cache that a model of transformers is given."""

    def __init__(self) -> None:
        """Begin without rows."""
        super().__init__(layer_class_to_replicate=RowLayer)

    def keep(self, rows: Sequence[int], first: int) -> None:
        """Keep *rows* only, from the column *first* on."""
        for layer in self.layers:
            layer.keep(torch.tensor(rows, device=layer.device), first)

    def join(self, other: RowCache) -> None:
        """Add the rows of *other* below."""
        for mine, added in zip(self.layers, other.layers, strict=True):
            mine.join(added)
