# SPDX-License-Identifier: Apache-2.0
"""Three services, one for each step from a picture to words."""

import io
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image

from servekit import Context, InputError, Request, Service

INK = 16.0  # the classifier was trained with 0 for paper and 16 for ink


class Prepare(Service):
    """From a picture to what the classifier was trained with. Slow, and knows no batches."""

    def preprocess(self, request: Request) -> bytes:
        """Take the file as it is."""
        return request.body

    def predict(self, batch: Sequence[bytes]) -> list[np.ndarray | InputError]:
        """Return 64 values for each picture that can be read."""
        return [read(each) for each in batch]


def read(picture: bytes) -> np.ndarray | InputError:
    """Return 8x8 values in a row, from 0, paper, to 16, ink."""
    try:
        with Image.open(io.BytesIO(picture)) as image:
            grey = np.asarray(image.convert("L").resize((8, 8), Image.Resampling.BOX))
    except (OSError, ValueError, Image.DecompressionBombError):
        return InputError("not a picture that can be read")
    is_paper_bright = grey[[0, -1]].mean() > 127
    ink = 255 - grey if is_paper_bright else grey
    return (ink.astype(np.float32) * (INK / 255)).reshape(64)


class Classify(Service):
    """The batch stage: one multiplication for all pictures that wait."""

    def load(self, context: Context) -> None:
        """Map what ``train.py`` wrote into memory."""
        self._weights = context.load_array("weights/weights.npy")

    def predict(self, batch: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return ten probabilities for each image of ``[n, 64]``."""
        scores = np.exp((batch["image"] / np.float32(INK)) @ self._weights[:-1] + self._weights[-1])
        return {"probabilities": scores / scores.sum(axis=1, keepdims=True)}


class Describe(Service):
    """From probabilities to what a person reads."""

    def load(self, context: Context) -> None:
        """Read the options of this stage."""
        self._shown = context.options["shown"]

    def predict(self, batch: Sequence[Mapping[str, np.ndarray]]) -> list[str]:
        """Return the likeliest digits of each, the best one first."""
        return [self._words(each["probabilities"]) for each in batch]

    def _words(self, probabilities: np.ndarray) -> str:
        best = np.argsort(-probabilities)[: self._shown]
        return ", ".join(f"{digit} ({probabilities[digit]:.0%})" for digit in best)
