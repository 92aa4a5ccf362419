# SPDX-License-Identifier: Apache-2.0
"""The service ``huggingface-token-classification``: labels of parts of a string."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from servekit import Context, Service
from servekit.errors import BootError
from servekit_huggingface.labels import label_names
from servekit_huggingface.library import torch, transformers
from servekit_huggingface.loading import CheckpointLoader, text_limit
from servekit_huggingface.options import ClassifierOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Entity", "HuggingFaceEntities"]


class Entity(Struct):
    """A labelled part of the input."""

    label: str
    probability: float  #: mean of its tokens
    text: str
    start: int  #: index of its first character
    end: int  #: index after its last character


class LabelledToken(Struct):
    """The most probable label of one token."""

    label: str  #: without ``B-`` and ``I-``
    is_first: bool  #: whether the label begins with ``B-``
    probability: float
    start: int
    end: int


class HuggingFaceEntities(Service):
    """Returns the entities of strings: neighbouring tokens of one label, unless it is ``O``."""

    def load(self, context: Context) -> None:
        """Load the model, the tokenizer and the names of the labels."""
        options = context.read_options(ClassifierOptions)
        loader = CheckpointLoader(context, options)
        self._tokenizer = loader.tokenizer()
        if not self._tokenizer.is_fast:
            raise BootError(
                "the tokenizer does not tell where tokens are; tokenizer.json is missing"
            )
        self._model = loader.model(transformers.AutoModelForTokenClassification)
        self._names = label_names(self._model.config)
        self._limit = text_limit(self._model, self._tokenizer, options.max_tokens)

    def warm_up(self) -> None:
        """Label one string, for which all weights are read."""
        self.predict(["a"])

    def predict(self, batch: list[str]) -> list[list[Entity]]:
        """Return the entities of each text, in their order."""
        found = self._tokenizer(
            batch,
            truncation=True,
            max_length=self._limit,
            padding=True,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )
        places = found.pop("offset_mapping").tolist()
        special = found.pop("special_tokens_mask").tolist()
        with torch.inference_mode():
            logits = self._model(**found.to(self._model.device)).logits
        scores, indices = logits.float().softmax(dim=-1).max(dim=-1)
        rows = zip(batch, scores.tolist(), indices.tolist(), places, special, strict=True)
        return [entities_of(text, self._tokens(*columns)) for text, *columns in rows]

    def _tokens(
        self, scores: list[float], indices: list[int], places: Any, special: list[int]
    ) -> list[LabelledToken]:
        """Return the tokens of one text that have a label, without special ones."""
        found = []
        for score, index, (start, end), is_special in zip(
            scores, indices, places, special, strict=True
        ):
            name = self._names[index]
            if is_special or name == "O":
                continue
            mark, _, label = name.partition("-") if name[:2] in ("B-", "I-") else ("", "", name)
            found.append(LabelledToken(label, mark == "B", score, start, end))
        return found


def entities_of(text: str, tokens: Iterable[LabelledToken]) -> list[Entity]:
    """Return the entities that *tokens* of *text* make up."""
    numbered: list[tuple[int, LabelledToken]] = []
    for token in tokens:
        number, last = numbered[-1] if numbered else (0, None)
        is_next = last is not None and not text[last.end : token.start].strip()
        continues = is_next and last is not None and last.label == token.label
        numbered.append((number if continues and not token.is_first else number + 1, token))
    groups = (list(group) for _, group in groupby(numbered, key=lambda pair: pair[0]))
    return [_entity(text, [token for _, token in group]) for group in groups]


def _entity(text: str, tokens: Sequence[LabelledToken]) -> Entity:
    start, end = tokens[0].start, tokens[-1].end
    probability = sum(token.probability for token in tokens) / len(tokens)
    return Entity(tokens[0].label, probability, text[start:end], start, end)
