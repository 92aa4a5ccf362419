# SPDX-License-Identifier: Apache-2.0
"""Writes texts letter by letter: many at once by slots, and in batches to compare with."""

from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct

from servekit import Context, Done, Service

WINDOW = 8  # letters that the network looks at


class Prompt(Struct):
    """What to go on with, and how."""

    text: str
    letters: Annotated[int, Meta(ge=1, le=2000)] = 200
    temperature: Annotated[float, Meta(gt=0, le=2)] = 0.8


class Writing:
    """A text under way: the slot of one request."""

    def __init__(self, prompt: Prompt, seen: np.ndarray) -> None:
        self.seen = seen  #: its last letters, as numbers
        self.left = prompt.letters
        self.temperature = prompt.temperature


class Network:
    """Guesses the next letters of many texts in one go."""

    def __init__(self, context: Context) -> None:
        names = ("letters", "embed", "hidden", "output")
        codes, *self.weights = (context.load_array(f"weights/{name}.npy") for name in names)
        self.letters = [chr(code) for code in codes]
        self.random = np.random.default_rng()

    def begin(self, prompt: Prompt) -> Writing:
        """Start a text; a letter that the network has never seen is a space to it."""
        text = prompt.text.rjust(WINDOW)[-WINDOW:]
        space = self.letters.index(" ")
        known = [self.letters.index(each) if each in self.letters else space for each in text]
        return Writing(prompt, np.array(known))

    def write(self, texts: list[Writing]) -> list[str]:
        """Add a letter to each of *texts* and return them."""
        embed, hidden, output = self.weights
        seen = np.array([text.seen for text in texts])
        units = np.tanh(embed[seen].reshape(len(texts), -1) @ hidden)
        scores = units @ output / np.array([[text.temperature] for text in texts])
        chances = scores + self.random.gumbel(size=scores.shape)  # the highest is a fair draw
        chosen = chances.argmax(axis=1)
        after = np.column_stack([seen[:, 1:], chosen])
        for text, row in zip(texts, after, strict=True):
            text.seen = row
            text.left -= 1
        return [self.letters[number] for number in chosen]


class Textgen(Service):
    """Texts come and go between two letters; each is streamed as it is written."""

    def load(self, context: Context) -> None:
        self.network = Network(context)

    def admit(self, prompt: Prompt) -> Writing:
        return self.network.begin(prompt)

    def step(self, slots: list[Writing]) -> list[Any]:
        letters = self.network.write(slots)
        pairs = zip(slots, letters, strict=True)
        return [letter if slot.left else Done(letter) for slot, letter in pairs]


class Static(Service):
    """The same in batches: the next one begins when the longest text of this one is done."""

    def load(self, context: Context) -> None:
        self.network = Network(context)

    def predict(self, batch: list[Prompt]) -> list[str]:
        texts = [self.network.begin(prompt) for prompt in batch]
        written = [""] * len(texts)
        while under_way := [place for place, text in enumerate(texts) if text.left]:
            letters = self.network.write([texts[place] for place in under_way])
            for place, letter in zip(under_way, letters, strict=True):
                written[place] += letter
        return written
