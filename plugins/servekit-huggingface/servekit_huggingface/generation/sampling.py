# SPDX-License-Identifier: Apache-2.0
"""How the next token of one sequence is chosen: as ``generate`` of transformers does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, ValidationError, convert

from servekit.errors import BootError
from servekit_huggingface.checkpoint import read_json
from servekit_huggingface.generation.requests import refusal
from servekit_huggingface.library import torch, transformers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor

    from servekit_huggingface.generation.requests import GenerationPrompt

__all__ = ["Sampler", "SamplingDefaults"]

FILE: Final = "generation_config.json"
COLDEST: Final = 0.01  #: lower temperatures are 0: scores divided by them could be infinite


class SamplingDefaults(Struct):
    """The values of ``generation_config.json``, for requests that have none."""

    do_sample: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int | None = None

    @classmethod
    def read(cls, directory: Path) -> SamplingDefaults:
        """Return those of the model in *directory*.

        :raises BootError: a value has another type.
        """
        try:
            return convert(dict(read_json(directory / FILE) or {}), cls)
        except ValidationError as error:
            raise BootError(f"{FILE}: {error}") from None

    def temperature_of(self, prompt: GenerationPrompt) -> float:
        """Return the temperature for *prompt*."""
        found = prompt.temperature
        if found is None and self.do_sample:
            found = 1.0 if self.temperature is None else self.temperature
        return found if found is not None and found >= COLDEST else 0.0

    def cuts_of(self, prompt: GenerationPrompt) -> tuple[int, float]:
        """Return how many of the likeliest tokens are drawn from, and their joint probability."""
        top_k = self.top_k if self.do_sample and prompt.top_k is None else prompt.top_k
        top_p = self.top_p if self.do_sample and prompt.top_p is None else prompt.top_p
        return top_k or 0, 1.0 if top_p is None else top_p


class Sampler:
    """Chooses the tokens of one answer."""

    def __init__(
        self, prompt: GenerationPrompt, defaults: SamplingDefaults, vocabulary: int
    ) -> None:
        """Choose as *prompt* asks, or else as *defaults* say.

        :raises InputError: ``logit_bias`` names a token that does not exist.
        """
        temperature = defaults.temperature_of(prompt)
        self._presence, self._frequency = prompt.presence_penalty, prompt.frequency_penalty
        self._bias = _bias(prompt.logit_bias or {}, vocabulary)
        self._processors: list[Any] = []
        if defaults.repetition_penalty not in (None, 1.0):
            kind = transformers.RepetitionPenaltyLogitsProcessor
            self._processors.append(kind(defaults.repetition_penalty))
        self._draws = temperature > 0
        if self._draws:
            self._processors += _warpers(temperature, *defaults.cuts_of(prompt))
        self._random = torch.Generator()
        if prompt.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(prompt.seed % 2**64)

    @property
    def is_plain(self) -> bool:
        """Whether it always takes the likeliest token, whatever came before."""
        has_penalty = bool(self._presence or self._frequency)
        return not (self._draws or self._processors or self._bias or has_penalty)

    def choose(self, scores: Tensor, prompt: Sequence[int], written: Sequence[int]) -> int:
        """Return the next token.

        :param scores: of all tokens, ``[vocabulary]``, float32, on the CPU.
        :param prompt: the tokens of the prompt.
        :param written: the tokens of the answer so far.
        """
        scores = scores.clone().unsqueeze(0)
        for token, bias in self._bias.items():
            scores[0, token] += bias
        if written and (self._presence or self._frequency):
            counts = torch.bincount(torch.tensor(written), minlength=scores.shape[1])
            scores -= self._frequency * counts + self._presence * (counts > 0)
        ids = torch.tensor([[*prompt, *written]])
        for process in self._processors:
            scores = process(ids, scores)
        if not self._draws:
            return int(scores.argmax())
        chances = scores.softmax(dim=-1)
        return int(torch.multinomial(chances, 1, generator=self._random))


def _warpers(temperature: float, top_k: int, top_p: float) -> list[Any]:
    """Return what ``generate`` does with scores before it draws, in its order."""
    found: list[Any] = []
    if temperature != 1.0:
        found.append(transformers.TemperatureLogitsWarper(temperature))
    if top_k:
        found.append(transformers.TopKLogitsWarper(top_k))
    if top_p < 1.0:
        found.append(transformers.TopPLogitsWarper(top_p))
    return found


def _bias(wanted: dict[str, float], vocabulary: int) -> dict[int, float]:
    if not all(token.isdecimal() and int(token) < vocabulary for token in wanted):
        raise refusal("logit_bias", f"expected token ids below {vocabulary}")
    return {int(token): bias for token, bias in wanted.items()}
