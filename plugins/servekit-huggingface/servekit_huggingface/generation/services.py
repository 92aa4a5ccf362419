# SPDX-License-Identifier: Apache-2.0
"""The services ``huggingface-chat`` and ``huggingface-completion``."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from servekit import Context, Done, InputError, Service
from servekit.errors import BootError
from servekit_huggingface.generation.answer import GeneratedAnswer
from servekit_huggingface.generation.requests import (
    ChatPrompt,
    Count,
    GenerationPrompt,
    LastPiece,
    TextPrompt,
    refusal,
)
from servekit_huggingface.generation.rows import CausalModel, check_positions
from servekit_huggingface.generation.sampling import Sampler, SamplingDefaults
from servekit_huggingface.generation.text_stream import TextStream
from servekit_huggingface.generation.writer import AnswerWriter
from servekit_huggingface.library import torch, transformers
from servekit_huggingface.loading import CheckpointLoader
from servekit_huggingface.options import GenerationOptions

__all__ = ["HuggingFaceChat", "HuggingFaceCompletion"]

SHORT: Final = 16  #: tokens of a completion whose client sets no limit, as at OpenAI


class GenerationService(Service):
    """Writes the answers of many clients at once. Subclasses read the prompts."""

    piece: ClassVar[str]  #: the member of a piece that is its text

    def load(self, context: Context) -> None:
        """Load the model, the tokenizer, and the defaults of the model for sampling."""
        self._options = options = context.read_options(GenerationOptions)
        loader = CheckpointLoader(context, options)
        self.tokenizer = loader.tokenizer()
        loaded = loader.model(transformers.AutoModelForCausalLM)
        self._model = CausalModel(loaded)
        check_positions(self._model)
        self._defaults = SamplingDefaults.read(context.directory)
        self._ends = _end_tokens(loaded.generation_config.eos_token_id, self.tokenizer)
        limits = (options.max_context, self._model.context, self.tokenizer.model_max_length)
        self._context = min(limit for limit in limits if limit)
        self._writer = AnswerWriter(self._model, options.prefill_tokens)
        self._read = context.metrics.counter("prompt_tokens", "Tokens of prompts")
        self._written = context.metrics.counter("completion_tokens", "Tokens of answers")

    def warm_up(self) -> None:
        """Write two tokens, for which all weights are read."""
        prompt = GenerationPrompt(max_tokens=2)
        answer = self.begin([min(self._ends, default=0)], prompt, None, "prompt")
        with torch.inference_mode():
            self._writer.step()
            self._writer.step()
            self._writer.evict(answer)

    def begin(
        self, ids: list[int], prompt: GenerationPrompt, default: int | None, field: str
    ) -> GeneratedAnswer:
        """Return the answer to *ids*, which will be written.

        :param default: the most tokens, if *prompt* does not say.
        :param field: where *ids* come from, for errors.
        :raises InputError: the model cannot continue *ids*, or *prompt* asks for more than it can.
        """
        prompt.check()
        room = self._context - len(ids)
        if room < 1:
            reason = f"{len(ids)} tokens, and this model takes at most {self._context - 1}"
            raise refusal(field, reason)
        if not ids or not 0 <= min(ids) <= max(ids) < self._model.vocabulary:
            limit = self._model.vocabulary
            raise refusal(field, f"expected at least one token, with an id below {limit}")
        wanted = prompt.limit or self._defaults.max_new_tokens or default
        limits = (room, wanted, self._options.max_tokens)
        answer = GeneratedAnswer(
            ids,
            min(limit for limit in limits if limit),
            ends=self._ends,
            sampler=Sampler(prompt, self._defaults, self._model.vocabulary),
            text=TextStream(self.tokenizer, ids, prompt.stops),
        )
        self._writer.admit(answer)
        return answer

    def step(self, slots: list[GeneratedAnswer]) -> list[Any]:
        """Return what one step adds to each answer: a string, and at the end a ``LastPiece``."""
        with torch.inference_mode():
            self._writer.step()
        return [self._entry(answer) for answer in slots]

    def _entry(self, answer: GeneratedAnswer) -> Any:
        news = answer.take()
        if news.error is not None:
            return news.error
        self._written.inc(news.tokens)
        if news.tokens and len(answer.tokens) == 1:
            self._read.inc(len(answer.prompt))
        if not news.finish_reason:
            return news.text or None
        usage = Count(prompt_tokens=len(answer.prompt), completion_tokens=len(answer.tokens))
        last = LastPiece(finish_reason=news.finish_reason, usage=usage)
        return Done({self.piece: news.text, **last} if news.text else last)

    def evict(self, slot: GeneratedAnswer) -> None:
        """Free the keys and values of an answer that has ended, or lost its client."""
        with torch.inference_mode():
            self._writer.evict(slot)


class HuggingFaceChat(GenerationService):
    """Answers conversations: at ``/v1/chat/completions``, if servekit-openai is installed."""

    task = "chat"
    piece = "content"

    def load(self, context: Context) -> None:
        """Do what all do, and refuse a model without a template for conversations."""
        super().load(context)
        if not self.tokenizer.chat_template:
            raise BootError(
                'the tokenizer has no chat_template; use service = "huggingface-completion"'
            )

    def admit(self, prompt: ChatPrompt) -> GeneratedAnswer:
        """Begin the answer to a conversation."""
        try:
            ids = self.tokenizer.apply_chat_template(
                prompt.turns(),
                add_generation_prompt=True,
                sanitize_control_tokens=True,  # clients cannot write control tokens
                return_dict=False,
            )
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001 - a template may raise anything about the turns
            raise refusal("messages", f"the model's template refuses them: {error}") from None
        return self.begin(ids, prompt, None, "messages")


class HuggingFaceCompletion(GenerationService):
    """Continues prompts: at ``/v1/completions``, if servekit-openai is installed."""

    task = "completion"
    piece = "text"

    def admit(self, prompt: TextPrompt) -> GeneratedAnswer:
        """Begin the continuation of a string, or of token ids."""
        given = prompt.prompt
        ids = self.tokenizer(given)["input_ids"] if isinstance(given, str) else given
        if not ids and self.tokenizer.bos_token_id is not None:
            ids = [self.tokenizer.bos_token_id]
        return self.begin(ids, prompt, SHORT, "prompt")


def _end_tokens(named: int | list[int] | None, tokenizer: Any) -> frozenset[int]:
    """Return the tokens that end an answer."""
    if named is None:
        named = tokenizer.eos_token_id
    return frozenset([named] if isinstance(named, int) else named or ())
