# SPDX-License-Identifier: Apache-2.0
"""Serves the classifier that ``train.py`` made."""

import io
from collections.abc import Mapping
from typing import Any

import joblib
import numpy as np
from PIL import Image

from servekit import Context, InputError, Request, Service

INK = 16  # the classifier was trained with 0 for paper and 16 for ink
BRIGHT = 127


class Digits(Service):
    """Says which digit an image shows, and how sure it is of each."""

    def load(self, context: Context) -> None:
        """Map the classifier into memory; all replicas share it."""
        self._model = joblib.load(context.directory / "digits.joblib", mmap_mode="r")

    def preprocess(self, request: Request) -> Any:
        """Turn a picture into the array that the signature asks for."""
        if request.content_type.startswith("image/"):
            return {"image": read_picture(request.body)}
        return request.input

    def predict(self, batch: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Classify all images at once: *batch* holds one array of shape ``[n, 8, 8]``."""
        probabilities = self._model.predict_proba(batch["image"].reshape(-1, 64))
        return {"digit": probabilities.argmax(axis=1), "probabilities": probabilities}


def read_picture(body: bytes) -> np.ndarray:
    """Return a picture of any size as 8x8 values from 0, paper, to 16, ink."""
    try:
        with Image.open(io.BytesIO(body)) as picture:
            grey = np.asarray(picture.convert("L").resize((8, 8), Image.Resampling.BOX))
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise InputError("image: not a picture that can be read") from error
    edge = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    if edge.mean() > BRIGHT:  # dark ink on bright paper
        grey = 255 - grey
    return grey.astype(np.float32) * (INK / 255)
