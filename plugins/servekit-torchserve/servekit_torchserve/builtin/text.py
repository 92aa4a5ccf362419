# SPDX-License-Identifier: Apache-2.0
"""Handlers of text, for models that were trained with torchtext. Runs in: worker."""

from __future__ import annotations

import html
import re
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from servekit_torchserve.builtin.base_handler import BaseHandler
from servekit_torchserve.builtin.labels import map_class_to_label

__all__ = ["TextClassifier", "TextHandler"]

VOCABULARY: Final = "source_vocab.pt"
TAG: Final = re.compile(r"<[^>]*>")
WORD: Final = re.compile(r"[a-z0-9]+")


class TextHandler(BaseHandler):
    """Has the vocabulary of the archive, which numbers the words."""

    def __init__(self) -> None:
        """Begin without a vocabulary."""
        super().__init__()
        self.source_vocab: Any = None

    def initialize(self, context: Any) -> None:
        """Load the model, and its vocabulary, whose classes must be importable."""
        import torch

        super().initialize(context)
        path = Path(context.system_properties["model_dir"]) / VOCABULARY
        if path.is_file():
            self.source_vocab = torch.load(path, weights_only=False)

    def _clean_text(self, text: str) -> str:
        """Return the words of *text* in lower case, without markup, accents and punctuation."""
        plain = unicodedata.normalize("NFKD", TAG.sub(" ", html.unescape(text)))
        ascii_only = plain.encode("ascii", "ignore").decode().lower()
        return " ".join(WORD.findall(ascii_only))


class TextClassifier(TextHandler):
    """Returns the probability of each class of one text."""

    ngrams = 2

    def preprocess(self, data: Any) -> Any:
        """Return the numbers of the words and pairs of words of one text.

        :raises ValueError: the batch has several inputs; set ``batchSize: 1``.
        """
        import torch

        if len(data) != 1:
            raise ValueError(f"{len(data)} inputs in a batch, limit 1")
        text = data[0].get("data") or data[0].get("body")
        if isinstance(text, bytes | bytearray):
            text = text.decode()
        words = self._clean_text(text).split()
        tokens = [*words, *(" ".join(pair) for pair in pairwise(words))]
        return torch.as_tensor([self.source_vocab[token] for token in tokens], device=self.device)

    def inference(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the scores of the classes."""
        import torch

        with torch.inference_mode():
            return self.model(data, torch.tensor([0], device=self.device))

    def postprocess(self, data: Any) -> list[Any]:
        """Return ``{label: probability}``."""
        return map_class_to_label(data.softmax(dim=1).tolist(), self.mapping)
