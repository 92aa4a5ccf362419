# SPDX-License-Identifier: Apache-2.0
"""A BERT encoder in NumPy, weights mapped from a ``.safetensors`` file."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

HEADS = 12
EPSILON = 1e-12
MASKED = np.float32(-1e9)  # what a padded place weighs before the softmax


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Map the float32 arrays of *path*: a little-endian length, a JSON header, the bytes."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    mapped = np.memmap(path, mode="r", offset=8 + length)
    return {
        name: mapped[slice(*about["data_offsets"])].view(np.float32).reshape(about["shape"])
        for name, about in header.items()
        if about.get("dtype") == "F32"
    }


class Encoder:
    """Sentences as token numbers in, unit vectors out."""

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        """Store; *weights* under the names that BERT's authors gave them."""
        self._weights = weights
        self._layers = len({n.split(".")[2] for n in weights if n.startswith("encoder.layer.")})

    def encode(self, tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return ``[n, 384]``: the mean over the places that *mask* counts, of length 1.

        :param tokens: ``[n, length]`` numbers of the vocabulary.
        :param mask: ``[n, length]``, 1 for a token and 0 for padding.
        """
        hidden = self._embed(tokens)
        shut = (1 - mask[:, None, None, :]) * MASKED
        for index in range(self._layers):
            hidden = self._layer(f"encoder.layer.{index}", hidden, shut)
        mean = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def _embed(self, tokens: np.ndarray) -> np.ndarray:
        words = self._weights["embeddings.word_embeddings.weight"][tokens]
        places = self._weights["embeddings.position_embeddings.weight"][: tokens.shape[1]]
        kinds = self._weights["embeddings.token_type_embeddings.weight"][0]
        return self._normalise("embeddings.LayerNorm", words + places + kinds)

    def _layer(self, name: str, hidden: np.ndarray, shut: np.ndarray) -> np.ndarray:
        seen = self._attend(f"{name}.attention.self", hidden, shut)
        seen = self._dense(f"{name}.attention.output.dense", seen)
        hidden = self._normalise(f"{name}.attention.output.LayerNorm", hidden + seen)
        wide = gelu(self._dense(f"{name}.intermediate.dense", hidden))
        narrow = self._dense(f"{name}.output.dense", wide)
        return self._normalise(f"{name}.output.LayerNorm", hidden + narrow)

    def _attend(self, name: str, hidden: np.ndarray, shut: np.ndarray) -> np.ndarray:
        query, key, value = (
            self._heads(self._dense(f"{name}.{part}", hidden)) for part in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1], dtype=np.float32) + shut
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        seen = (scores / scores.sum(axis=-1, keepdims=True)) @ value
        return seen.swapaxes(1, 2).reshape(hidden.shape)

    @staticmethod
    def _heads(rows: np.ndarray) -> np.ndarray:
        count, length, _ = rows.shape
        return rows.reshape(count, length, HEADS, -1).swapaxes(1, 2)

    def _dense(self, name: str, rows: np.ndarray) -> np.ndarray:
        weight = self._weights[f"{name}.weight"]
        flat = rows.reshape(-1, weight.shape[1]) @ weight.T  # one product for the whole batch
        return (flat + self._weights[f"{name}.bias"]).reshape(*rows.shape[:-1], -1)

    def _normalise(self, name: str, rows: np.ndarray) -> np.ndarray:
        rows = rows - rows.mean(axis=-1, keepdims=True)
        rows /= np.sqrt((rows * rows).mean(axis=-1, keepdims=True) + EPSILON)
        return rows * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def gelu(x: np.ndarray) -> np.ndarray:
    """Return x times the normal distribution's P(X <= x), good to 1e-7."""
    # Abramowitz & Stegun 7.1.26: NumPy has no error function
    z = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = np.float32(1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * t + np.float32(factor)
    return x * np.float32(0.5) * (1 + np.sign(x) * (1 - series * t * np.exp(-z * z)))
