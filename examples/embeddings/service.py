# SPDX-License-Identifier: Apache-2.0
"""Serves sentence embeddings: a JSON string or ``text/plain`` in, 384 numbers out."""

import numpy as np
from encoder import Encoder, read_safetensors
from tokenizers import Tokenizer

from servekit import Context, Service

MAX_TOKENS = 256  # what the model was trained for; the rest of a longer text is cut off


class Embeddings(Service):
    """Answers the cosine similarity of two sentences if you multiply their vectors."""

    def load(self, context: Context) -> None:
        """Map the weights; all replicas share them."""
        weights = context.directory / "weights"
        self._tokenizer = Tokenizer.from_file(str(weights / "tokenizer.json"))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.enable_padding()  # to the longest text of the batch
        self._encoder = Encoder(read_safetensors(weights / "model.safetensors"))

    def predict(self, batch: list[str]) -> np.ndarray:
        """Encode all texts at once: one row per text."""
        encodings = self._tokenizer.encode_batch(batch)
        tokens = np.array([encoding.ids for encoding in encodings])
        mask = np.array([encoding.attention_mask for encoding in encodings], np.float32)
        return self._encoder.encode(tokens, mask)
