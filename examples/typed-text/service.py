# SPDX-License-Identifier: Apache-2.0
"""A typed text service: picks the sentences of a text that say most."""

import math
import re
from collections import Counter
from typing import Annotated, Literal

from msgspec import Meta, Struct

from servekit import InputError, Service
from servekit.types import Text

SENTENCE = re.compile(r"[^\s.!?][^.!?]*[.!?]?")
WORD = re.compile(r"[^\W\d_]{3,}")
SMALL_WORDS = {
    *("and", "are", "but", "for", "from", "has", "her", "his"),
    *("its", "not", "that", "the", "their", "this", "was", "with"),
}


class Document(Struct, forbid_unknown_fields=True):
    """What a client sends, as JSON, msgpack or a form."""

    text: Annotated[Text, Meta(min_length=1, max_length=100_000)]
    sentences: Annotated[int, Meta(ge=1, le=10)] = 2
    order: Literal["text", "weight"] = "text"


class Sentence(Struct):
    """One sentence of the document."""

    sentence: str
    position: int
    weight: float


class Summary(Struct):
    """What the client gets."""

    summary: list[Sentence]
    keywords: list[str]


class Summarise(Service):
    """Weighs sentences by how often their words occur in the whole document."""

    def predict(self, batch: list[Document]) -> list[Summary | InputError]:
        """Summarise each document; every one has been checked against ``Document`` before."""
        return [summarise(document) for document in batch]


def summarise(document: Document) -> Summary | InputError:
    """Return the summary, or what is wrong beyond the types."""
    counts = Counter(words(document.text))
    if not counts:
        return InputError("text: no words", [{"field": "text", "message": "no words"}])
    found = [
        Sentence(sentence.strip(), position, weight(sentence, counts))
        for position, sentence in enumerate(SENTENCE.findall(document.text))
    ]
    best = sorted(found, key=lambda each: (-each.weight, each.position))[: document.sentences]
    if document.order == "text":
        best.sort(key=lambda each: each.position)
    return Summary(best, [word for word, _ in counts.most_common(5)])


def words(text: str) -> list[str]:
    """Return the words of *text* that tell something."""
    return [word for word in WORD.findall(text.lower()) if word not in SMALL_WORDS]


def weight(sentence: str, counts: Counter[str]) -> float:
    """Return how much *sentence* has of the frequent words; longer ones gain less and less."""
    own = set(words(sentence))
    return round(sum(counts[word] for word in own) / math.sqrt(len(own) or 1), 3)
