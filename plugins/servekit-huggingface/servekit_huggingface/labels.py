# SPDX-License-Identifier: Apache-2.0
"""Scores of classes as labels with probabilities, best first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Labels", "ScoredLabel"]


class ScoredLabel(Struct):
    """One class, and how probable it is; for a regression the value itself."""

    label: str
    score: float


class Labels:
    """The classes of one model."""

    def __init__(self, config: Any, top: int) -> None:
        """Name the classes as *config* does; keep the *top* best, 0 for all."""
        self.names = [str(config.id2label[index]) for index in range(config.num_labels)]
        self._top = top or len(self.names)
        self._problem = config.problem_type or ""

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the scores of *logits*, ``[..., classes]``, by the kind of problem."""
        logits = logits.float().cpu()
        if self._problem == "regression":
            return logits
        if self._problem == "multi_label_classification" or len(self.names) == 1:
            return logits.sigmoid()
        return logits.softmax(dim=-1)

    def best(self, logits: Tensor) -> list[list[ScoredLabel]]:
        """Return the best classes of each row of *logits*, ``[rows, classes]``."""
        found = self.probabilities(logits).topk(min(self._top, len(self.names)), dim=-1)
        rows = zip(found.indices.tolist(), found.values.tolist(), strict=True)
        return [
            [ScoredLabel(self.names[index], score) for index, score in zip(*row, strict=True)]
            for row in rows
        ]
