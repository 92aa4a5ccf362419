# SPDX-License-Identifier: Apache-2.0
"""The service ``huggingface-embedding``: vectors of strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np  # noqa: TC002 - the annotation of the output is read
from msgspec import Struct

from servekit import Context, InputError, Service
from servekit_huggingface.library import torch, transformers
from servekit_huggingface.loading import CheckpointLoader, text_limit
from servekit_huggingface.options import EmbeddingOptions
from servekit_huggingface.sentence import read_sentence_settings

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["HuggingFaceEmbedding", "TextToEmbed", "TokenVector"]


class TextToEmbed(Struct):
    """A string, or token ids, in an object: an input of ``/v1/embeddings``."""

    input: str | list[int]


class TokenVector(TypedDict):
    """The vector of an input, and how many tokens it has."""

    vector: np.ndarray
    tokens: int


class HuggingFaceEmbedding(Service):
    """Returns vectors: at ``/v1/embeddings``, if servekit-openai is installed."""

    task = "embedding"

    def load(self, context: Context) -> None:
        """Load the model and the tokenizer; decide how tokens become one vector."""
        options = context.read_options(EmbeddingOptions)
        settings = read_sentence_settings(context.directory, options)
        loader = CheckpointLoader(context, options)
        self._tokenizer = loader.tokenizer()
        self._model = loader.model(transformers.AutoModel, spare=("pooler.",))
        self._limit = text_limit(self._model, self._tokenizer, settings.max_tokens)
        self._pool, self._prefix = POOLING[settings.pooling], settings.prefix
        self._normalizes = settings.normalize

    def warm_up(self) -> None:
        """Embed one string, for which all weights are read."""
        self.predict(["a"])

    def predict(self, batch: list[str | list[int] | TextToEmbed]) -> list[TokenVector | InputError]:
        """Return the vector of each input; longer ones are cut."""
        tokens = [
            self._tokens(each.input if isinstance(each, TextToEmbed) else each) for each in batch
        ]
        good = [each for each in tokens if not isinstance(each, InputError)]
        vectors = iter(self._vectors(good) if good else ())
        return [
            each
            if isinstance(each, InputError)
            else TokenVector(vector=next(vectors), tokens=len(each["input_ids"]))
            for each in tokens
        ]

    def _tokens(self, given: str | list[int]) -> Any:
        """Return the tokens of an input as the tokenizer does, or why it is refused."""
        if isinstance(given, str):
            return self._tokenizer(self._prefix + given, truncation=True, max_length=self._limit)
        ids = given[: self._limit]
        size = self._model.config.get_text_config().vocab_size
        if not ids or not 0 <= min(ids) <= max(ids) < size:
            return InputError(f"input: expected at least one token, with an id below {size}")
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    def _vectors(self, tokens: list[Any]) -> np.ndarray:
        """Return the vectors, ``[inputs, size]`` of float32."""
        padded = self._tokenizer.pad(tokens, return_tensors="pt").to(self._model.device)
        with torch.inference_mode():
            states = self._model(**padded).last_hidden_state.float()
            pooled = self._pool(states, padded["attention_mask"])
            if self._normalizes:
                pooled = torch.nn.functional.normalize(pooled, dim=-1)
        vectors: np.ndarray = pooled.cpu().numpy()
        return vectors


def mean_of(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the states of all tokens."""
    weights = mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)


def first_of(states: Tensor, mask: Tensor) -> Tensor:
    """Return the state of the first token."""
    first = mask.argmax(dim=1)  # the tokenizer may pad on the left
    return states[torch.arange(len(states), device=states.device), first]


def last_of(states: Tensor, mask: Tensor) -> Tensor:
    """Return the state of the last token."""
    columns = torch.arange(mask.shape[1], device=mask.device)
    last = (mask * columns).argmax(dim=1)
    return states[torch.arange(len(states), device=states.device), last]


POOLING = {"mean": mean_of, "cls": first_of, "last": last_of}
