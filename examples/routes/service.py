# SPDX-License-Identifier: Apache-2.0
"""Texts to vectors, and vectors to the answer that lies nearest."""

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from servekit import Context, Service


def vector(text: str, size: int) -> np.ndarray:
    """Return how often each group of three letters is in *text*, hashed, of length 1."""
    padded = f"  {text.casefold()}  ".encode()
    found = np.zeros(size, np.float32)
    for start in range(len(padded) - 2):
        found[crc32(padded[start : start + 3]) % size] += 1
    return found / np.linalg.norm(found)


class Embed(Service):
    """The stage that two routes share."""

    def load(self, context: Context) -> None:
        """Read the size of the vectors."""
        self._size = context.options["size"]

    def predict(self, batch: list[str]) -> list[np.ndarray]:
        """Return a vector for each text, of whichever route."""
        return [vector(text, self._size) for text in batch]


class Nearest(Service):
    """Compares a vector with those of the questions that have an answer."""

    def load(self, context: Context) -> None:
        """Read ``faq.txt``: a question and its answer on each line."""
        lines = (context.directory / "faq.txt").read_text(encoding="utf-8").splitlines()
        self._pairs = [line.split("|") for line in lines]

    def predict(self, batch: Sequence[np.ndarray]) -> list[dict[str, object]]:
        """Return the answer to the question that is most alike, and how much it is."""
        asked = np.stack(batch)
        known = np.stack([vector(question, asked.shape[1]) for question, _ in self._pairs])
        alike = asked @ known.T
        return [
            {"answer": self._pairs[best][1].strip(), "score": round(float(row[best]), 3)}
            for row, best in zip(alike, alike.argmax(axis=1), strict=True)
        ]
