# SPDX-License-Identifier: Apache-2.0
"""Makes answers of the scores of classes, by options and labels."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from servekit.errors import BootError
from servekit.vision.options import Activation, OutputOptions
from servekit.vision.scores import RankedLabel, Scores, are_probabilities, sigmoid, softmax, top_k

__all__ = ["ClassOutput"]

ACTIVATIONS: Final[dict[Activation, Callable[[Scores], Scores]]] = {
    "softmax": softmax,
    "sigmoid": sigmoid,
    "none": lambda scores: scores,
}


class ClassOutput:
    """Answers with the most probable classes. A service calls ``settle`` in ``load``."""

    def __init__(self, options: OutputOptions, labels: Sequence[str] | None) -> None:
        """Keep the *labels*, one for each class; ``None`` answers with the numbers of classes."""
        self._options, self._labels = options, labels
        self.activation: Activation = options.activation or "softmax"

    def settle(self, scores: Any) -> None:
        """Check the number of labels, and find out whether the scores are probabilities already.

        :param scores: what the model computes of at least two different inputs.
        :raises BootError: there are more or fewer labels than classes, or *scores* are no such.
        """
        rows = _rows(scores)
        shape, classes = np.shape(scores), rows.shape[1]
        if classes not in shape[1:] and classes > 1:
            raise BootError(f"[options.output]: {list(shape)} are not scores [n, classes]")
        if self._labels is not None and len(self._labels) != classes:
            raise BootError(
                f"[options.output] labels: {len(self._labels)} labels for {classes} classes"
            )
        if self._options.activation is None:
            self.activation = _activation_of(rows)

    def answers(self, scores: Any) -> list[list[RankedLabel]]:
        """Return the labels of each row of *scores*, the most probable first.

        :param scores: shape ``[n, classes]``; further axes must have the size 1.
        """
        probabilities = ACTIVATIONS[self.activation](_rows(scores))
        return top_k(probabilities, self._labels, self._options.top)


def _activation_of(rows: Scores) -> Activation:
    if rows.shape[1] == 1:  # the probability of one class
        return "none" if ((rows >= 0) & (rows <= 1)).all() else "sigmoid"
    return "none" if are_probabilities(rows) else "softmax"


def _rows(scores: Any) -> Scores:
    """Return ``[n, classes]`` as floats."""
    rows = np.asarray(scores)
    return np.asarray(rows.reshape(len(rows), -1), np.result_type(rows, np.float16))
