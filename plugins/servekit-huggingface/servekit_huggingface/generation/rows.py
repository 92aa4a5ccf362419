# SPDX-License-Identifier: Apache-2.0
"""Sequences that a model continues together, each as if it were alone."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from servekit.errors import BootError
from servekit_huggingface.generation.kv_cache import RowCache
from servekit_huggingface.library import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

__all__ = ["CausalModel", "SequenceRows", "check_positions"]

#: kinds of layers whose state is keys and values, which can be cut and joined
ATTENTION: Final = ("full_attention", "sliding_attention")
CLOSE: Final = 0.1  #: part of the deviation of scores, more than rounding to bfloat16 changes
UNSUPPORTED = (
    "{name}: {reason}, which this service cannot batch; put an engine such as vLLM behind the "
    "service openai-proxy of servekit-openai instead"
)


class CausalModel:
    """A model of transformers that guesses next tokens."""

    def __init__(self, model: Any) -> None:
        """Call *model*.

        :raises BootError: its state is more than the keys and values of a decoder.
        """
        config = model.config.get_text_config(decoder=True)
        others = sorted({*(getattr(config, "layer_types", None) or ())} - {*ATTENTION})
        self.name = name = type(model).__name__
        if model.config.is_encoder_decoder:
            raise BootError(UNSUPPORTED.format(name=name, reason="has an encoder"))
        if others or getattr(model, "_is_stateful", False):
            reason = f"has layers with other states ({', '.join(others) or 'recurrent'})"
            raise BootError(UNSUPPORTED.format(name=name, reason=reason))
        taken = inspect.signature(model.forward).parameters
        self._model, self.device = model, model.device
        self.has_positions = "position_ids" in taken
        self._cache = "cache" if "cache" in taken else "past_key_values"  # its name before 5.24
        self._extra = {"logits_to_keep": 1} if "logits_to_keep" in taken else {}
        self.vocabulary = int(config.vocab_size)
        self.context: int | None = getattr(config, "max_position_embeddings", None)

    def scores(self, ids: Tensor, mask: Tensor, positions: Tensor, cache: RowCache) -> Tensor:
        """Return the scores of all tokens as the next one, ``[rows, vocabulary]`` of float32."""
        where = {"position_ids": positions} if self.has_positions else {}
        found = self._model(
            input_ids=ids,
            attention_mask=mask,
            use_cache=True,
            **{self._cache: cache},
            **where,
            **self._extra,
        )
        scores: Tensor = found.logits[:, -1].float()
        return scores


class SequenceRows:
    """The rows of a cache: sequences that share their last column."""

    def __init__(self, model: CausalModel) -> None:
        """Begin without rows."""
        self._model, self.cache = model, RowCache()
        self.lengths: list[int] = []  #: tokens of each sequence that the model has read

    @property
    def width(self) -> int:
        """The number of columns: the length of the longest sequence."""
        return max(self.lengths, default=0)

    def read(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Let the model read more *tokens* of each row; return the scores of the next ones.

        :param tokens: as many for each row; while there are no rows, the beginnings of new ones.
        :return: ``[rows, vocabulary]``, float32.
        """
        older, count = self.width, max(map(len, tokens))
        self.lengths = [
            length + len(each)
            for length, each in zip(self.lengths or [0] * len(tokens), tokens, strict=True)
        ]
        ids = torch.tensor([[0] * (count - len(each)) + [*each] for each in tokens])
        starts = torch.tensor([older + count - length for length in self.lengths]).unsqueeze(1)
        columns = torch.arange(older + count).unsqueeze(0)
        mask = (columns >= starts).long()
        positions = (columns[:, older:] - starts).clamp(min=0)
        device = self._model.device
        return self._model.scores(ids.to(device), mask.to(device), positions.to(device), self.cache)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep *rows* only, and no column before the first token of the longest."""
        if len(rows) == len(self.lengths):
            return
        older, self.lengths = self.width, [self.lengths[row] for row in rows]
        if rows:
            self.cache.keep(rows, older - self.width)
        else:
            self.cache = RowCache()

    def join(self, other: SequenceRows) -> None:
        """Add the rows of *other* below."""
        if self.lengths:
            self.cache.join(other.cache)
        else:
            self.cache = other.cache
        self.lengths += other.lengths


def check_positions(model: CausalModel) -> None:
    """Try whether *model* continues a prompt as if it were alone, if it takes no positions.

    Such models find them by the mask (ALiBi), or count columns and are wrong in a batch.

    :raises BootError: they are wrong.
    """
    if model.has_positions:
        return
    with torch.inference_mode():
        alone = SequenceRows(model)
        alone.read([[1]])
        together = SequenceRows(model)
        together.read([[3, 2, 1], [1]])
        wanted, found = alone.read([[2]])[0], together.read([[2], [2]])[1]
    if (wanted - found).abs().max() > CLOSE * wanted.std():
        reason = "counts the positions of tokens by itself"
        raise BootError(UNSUPPORTED.format(name=model.name, reason=reason))
