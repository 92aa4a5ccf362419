# SPDX-License-Identifier: Apache-2.0
"""Vectors of texts by feature hashing, for clients of OpenAI: no weights, no training."""

import re
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from servekit_openai import EmbeddingInput, EmbeddingService

from servekit import Context, InputError

MOST = 4096  #: dimensions that a client may ask for


@dataclass
class Options:
    """The keys of ``[options]``."""

    dimensions: int = 256


class WordVectors(EmbeddingService):
    """Adds a number for each word, at a place and with a sign that its hash decides."""

    def load(self, context: Context) -> None:
        self.size = context.read_options(Options).dimensions

    def predict(self, batch: list[EmbeddingInput]) -> list[np.ndarray | InputError]:
        return [self.vector(each) for each in batch]

    def vector(self, given: EmbeddingInput) -> np.ndarray | InputError:
        """Return a vector of length 1; the cosine of two texts is their product."""
        if not isinstance(given.input, str):
            return InputError("input: this model has no tokens; send texts")
        size = given.dimensions or self.size
        if size > MOST:
            return InputError(f"dimensions: at most {MOST}")
        vector = np.zeros(size, np.float32)
        for word in re.findall(r"\w+", given.input.lower()):
            code = crc32(word.encode())
            vector[code % size] += 1 if code & (1 << 31) else -1
        return vector / (np.linalg.norm(vector) or 1)
