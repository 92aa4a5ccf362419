# SPDX-License-Identifier: Apache-2.0
"""From the scores of a model to probabilities and labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

__all__ = ["RankedLabel", "Scores", "are_probabilities", "sigmoid", "softmax", "top_k"]

Scores = np.ndarray[Any, Any]  #: ``[n, classes]``

TOLERANCE = 1e-3  #: float16 sums of 1000 probabilities are that far from 1


class RankedLabel(Struct, frozen=True):
    """One class of an answer."""

    label: str
    probability: float


def softmax(scores: Scores) -> Scores:
    """Return probabilities over the last axis, float32 or wider."""
    wide = np.asarray(scores, np.result_type(scores, np.float32))
    powers = np.exp(wide - wide.max(axis=-1, keepdims=True))
    probabilities: Scores = powers / powers.sum(axis=-1, keepdims=True)
    return probabilities


def sigmoid(scores: Scores) -> Scores:
    """Return a probability for each score, float32 or wider."""
    wide = np.asarray(scores, np.result_type(scores, np.float32))
    return 0.5 * (1 + np.tanh(0.5 * wide))  # does not overflow


def are_probabilities(scores: Scores) -> bool:
    """Whether each row is between 0 and 1 and sums to 1."""
    return bool(
        ((scores >= 0) & (scores <= 1)).all()
        and np.allclose(scores.sum(axis=-1, dtype=np.float32), 1, atol=TOLERANCE)
    )


def top_k(
    probabilities: Scores, labels: Sequence[str] | None = None, k: int = 5
) -> list[list[RankedLabel]]:
    """Return for each row the *k* most probable classes, the most probable first.

    :param probabilities: shape ``[n, classes]``.
    :param labels: one for each class; ``None`` takes the number of the class.
    :param k: all classes if there are no more.
    """
    probabilities = np.asarray(probabilities, np.result_type(probabilities, np.float16))
    order = np.argsort(-probabilities, axis=-1, kind="stable")[:, :k]
    best = np.take_along_axis(probabilities, order, axis=-1)
    return [
        [
            RankedLabel(str(place) if labels is None else labels[place], value)
            for place, value in zip(places, values, strict=True)
        ]
        for places, values in zip(order.tolist(), best.tolist(), strict=True)
    ]
