# SPDX-License-Identifier: Apache-2.0
"""The service ``huggingface-text-classification``."""

from msgspec import Struct

from servekit import Context, Service
from servekit.vision import RankedLabel
from servekit_huggingface.labels import class_output
from servekit_huggingface.library import torch, transformers
from servekit_huggingface.loading import CheckpointLoader, text_limit
from servekit_huggingface.options import ClassifierOptions

__all__ = ["HuggingFaceTexts", "TextPair"]


class TextPair(Struct):
    """A string, or two whose relation is classified."""

    text: str
    pair: str | None = None


class HuggingFaceTexts(Service):
    """Returns the labels of strings."""

    def load(self, context: Context) -> None:
        """Load the model, the tokenizer and the names of the classes."""
        options = context.read_options(ClassifierOptions)
        loader = CheckpointLoader(context, options)
        self._tokenizer = loader.tokenizer()
        self._model = loader.model(transformers.AutoModelForSequenceClassification)
        if self._model.config.pad_token_id is None:
            self._model.config.pad_token_id = self._tokenizer.pad_token_id
        self._output = class_output(self._model.config, options.output, context.directory)
        self._limit = text_limit(self._model, self._tokenizer, options.max_tokens)

    def warm_up(self) -> None:
        """Classify one string, for which all weights are read."""
        self.predict(["a"])

    def predict(self, batch: list[str | TextPair]) -> list[list[RankedLabel]]:
        """Return the labels of each text, or of each pair."""
        found = [
            self._tokenizer(*_parts(each), truncation=True, max_length=self._limit)
            for each in batch
        ]
        padded = self._tokenizer.pad(found, return_tensors="pt").to(self._model.device)
        with torch.inference_mode():
            logits = self._model(**padded).logits
        return self._output.answers(logits.float().cpu().numpy())


def _parts(given: str | TextPair) -> list[str]:
    """Return the one or two strings of an input."""
    if isinstance(given, str):
        return [given]
    return [given.text] if given.pair is None else [given.text, given.pair]
