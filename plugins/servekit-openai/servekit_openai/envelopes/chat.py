# SPDX-License-Identifier: Apache-2.0
"""``/v1/chat/completions``: conversations in, messages out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from servekit_openai.envelopes.choices import ChoiceProgress, estimate_tokens
from servekit_openai.envelopes.logprobs import finite
from servekit_openai.envelopes.text import TextEnvelope
from servekit_openai.inputs import ChatRequest
from servekit_openai.outputs import AssistantMessage, ToolCall
from servekit_openai.tasks import CHAT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Chat"]


class Chat(TextEnvelope[ChatRequest, AssistantMessage]):
    """Reads ``ChatRequest``; writes ``chat.completion`` and its chunks."""

    task = CHAT
    kind = ChatRequest
    prefix = "chatcmpl-"
    whole, chunk = "chat.completion", "chat.completion.chunk"

    def estimate(self, asked: ChatRequest, inputs: Sequence[Any]) -> int:  # noqa: ARG002
        """Return about how many tokens the conversation has."""
        return sum(estimate_tokens(message.text) for message in asked.messages)

    def output_of(self, output: Any) -> AssistantMessage:
        """Return an *output* as a message."""
        if isinstance(output, str):
            return AssistantMessage(content=output)
        return msgspec.convert(output, AssistantMessage)

    def join(self, outputs: Sequence[Any]) -> AssistantMessage:
        """Return the message of which *outputs* are the pieces."""
        pieces = [self.output_of(output) for output in outputs]
        return AssistantMessage(
            content=joined(piece.content for piece in pieces),
            refusal=joined(piece.refusal for piece in pieces),
            reasoning_content=joined(piece.reasoning_content for piece in pieces),
            tool_calls=joined_calls(call for piece in pieces for call in piece.tool_calls),
            logprobs=[each for piece in pieces for each in piece.logprobs],
            finish_reason=next((p.finish_reason for p in reversed(pieces) if p.finish_reason), ""),
            usage=next((piece.usage for piece in reversed(pieces) if piece.usage), None),
        )

    def is_bare(self, piece: AssistantMessage) -> bool:
        """Whether *piece* has no content."""
        texts = (piece.content, piece.refusal, piece.reasoning_content)
        has_lists = piece.tool_calls or piece.logprobs
        return not has_lists and all(text is None for text in texts)

    def size(self, piece: AssistantMessage) -> int:
        """Return how many bytes of text *piece* has, arguments of calls included."""
        texts = [piece.content, piece.refusal, piece.reasoning_content]
        texts += [call.name + call.arguments for call in piece.tool_calls]
        return sum(len(text.encode()) for text in texts if text)

    def choice(self, index: int, answer: AssistantMessage) -> dict[str, Any]:
        """Return the choice with the whole message."""
        calls = [call_object(call) for call in answer.tool_calls]
        message = {
            "role": "assistant",
            "content": answer.content,
            "refusal": answer.refusal,
            **({"reasoning_content": answer.reasoning_content} if answer.reasoning_content else {}),
            **({"tool_calls": calls} if calls else {}),
        }
        return {
            "index": index,
            "message": message,
            "logprobs": logprobs_object(answer),
            "finish_reason": answer.finish_reason or finish_reason(len(calls)),
        }

    def delta(
        self, index: int, piece: AssistantMessage, progress: ChoiceProgress
    ) -> dict[str, Any]:
        """Return what *piece* adds to the message."""
        texts = {
            "content": piece.content,
            "refusal": piece.refusal,
            "reasoning_content": piece.reasoning_content,
        }
        delta: dict[str, Any] = {name: text for name, text in texts.items() if text is not None}
        if piece.tool_calls:
            delta["tool_calls"] = [self._call_piece(call, progress) for call in piece.tool_calls]
        return self._chunk_choice(index, delta, progress, logprobs_object(piece), None)

    def finish(self, index: int, progress: ChoiceProgress) -> dict[str, Any]:
        """Return why the message ends."""
        reason = progress.finish_reason or finish_reason(progress.calls)
        return self._chunk_choice(index, {}, progress, None, reason)

    def _chunk_choice(
        self,
        index: int,
        delta: dict[str, Any],
        progress: ChoiceProgress,
        logprobs: Any,
        reason: Any,
    ) -> dict[str, Any]:
        if not progress.has_begun:
            delta = {"role": "assistant", "content": None if delta else "", **delta}
            progress.has_begun = True
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}

    def _call_piece(self, call: ToolCall, progress: ChoiceProgress) -> dict[str, Any]:
        """Return a call that begins, or more arguments of the one that began last."""
        if not call.name and progress.calls:
            arguments = {"arguments": call.arguments}
            return {"index": progress.calls - 1, "function": arguments}
        progress.calls += 1
        return {"index": progress.calls - 1, **call_object(call)}


def call_object(call: ToolCall) -> dict[str, Any]:
    """Return *call* as OpenAI writes it."""
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id or f"call_{uuid4().hex[:24]}", "type": "function", "function": function}


def logprobs_object(message: AssistantMessage) -> dict[str, Any] | None:
    """Return the ``logprobs`` of a choice."""
    return {"content": finite(message.logprobs), "refusal": None} if message.logprobs else None


def finish_reason(calls: int) -> str:
    """Return why a message ends that has *calls*, if its service does not say."""
    return "tool_calls" if calls else "stop"


def joined(pieces: Iterable[str | None]) -> str | None:
    """Return *pieces* as one string; ``None`` if there are none."""
    found = [piece for piece in pieces if piece is not None]
    return "".join(found) if found else None


def joined_calls(pieces: Iterable[ToolCall]) -> list[ToolCall]:
    """Return the calls that *pieces* make up."""
    calls: list[ToolCall] = []
    for piece in pieces:
        if calls and not piece.name:
            calls[-1].arguments += piece.arguments
        else:
            calls.append(ToolCall(piece.name, piece.arguments, piece.id))
    return calls
