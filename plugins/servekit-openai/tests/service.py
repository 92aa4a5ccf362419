# SPDX-License-Identifier: Apache-2.0
"""Services that do what a test asks of them; each is a model of the server in ``conftest.py``."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from servekit_openai import (
    AssistantMessage,
    ChatRequest,
    ChatService,
    Completion,
    CompletionRequest,
    CompletionService,
    Embedding,
    EmbeddingInput,
    EmbeddingService,
    ToolCall,
    Usage,
)

from servekit import InputError, Service
from servekit.errors import OutOfMemory


class Wish(ChatRequest, kw_only=True):
    """A request with a member that OpenAI does not have."""

    top_k: int = 0


class Talk(ChatService):
    """Streams the words of the last message, or does what it says."""

    def stream(self, request: Wish) -> Iterator[str | AssistantMessage]:
        text = request.messages[-1].text
        wish = getattr(self, f"do_{text}", None)
        if wish is not None:
            yield from wish(request)
            return
        for word in text.split(" "):
            yield f"{word} "

    def do_refuse(self, request):
        raise InputError("not that", [{"field": "messages", "message": "not that"}])

    def do_break(self, request):
        yield "so "
        raise InputError("broken off")

    def do_fail(self, request):
        raise ValueError("as asked")

    def do_memory(self, request):
        raise OutOfMemory

    def do_silent(self, request):
        return ()

    def do_top_k(self, request):
        yield str(request.top_k)

    def do_count(self, request):
        yield AssistantMessage(content="a", reasoning_content="because")
        yield AssistantMessage(finish_reason="length", usage=Usage(7, 3))

    def do_call(self, request):
        yield AssistantMessage(tool_calls=[ToolCall("weather", '{"city": ')])
        yield AssistantMessage(tool_calls=[ToolCall(arguments='"Rome"}')])
        yield AssistantMessage(tool_calls=[ToolCall("time", "{}", "call_2")])

    def do_forever(self, request):
        while True:
            yield "again "
            time.sleep(0.01)

    def do_die_once(self, request):
        flag = Path(__file__).with_name("died")
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield "alive"

    def do_slow(self, request):
        time.sleep(3)
        yield "at last"


class Whole(ChatService):
    """Returns the last message in upper case."""

    def predict(self, batch: list[ChatRequest]) -> list[str | AssistantMessage]:
        return [self.answer(request.messages[-1].text) for request in batch]

    def answer(self, text: str) -> str | AssistantMessage:
        if text == "call":
            return AssistantMessage(tool_calls=[ToolCall("weather", "{}")], usage=Usage(2, 5))
        return text.upper()


class Later(ChatService):
    """Streams the words of the last message from an event loop."""

    async def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        for word in request.messages[-1].text.split(" "):
            await asyncio.sleep(0)
            yield f"{word} "


class Write(CompletionService):
    """Streams the prompt backwards, letter by letter."""

    def stream(self, request: CompletionRequest) -> Iterator[str | Completion]:
        if isinstance(request.prompt, list):
            yield Completion(text=f"{request.prompt}", usage=Usage(len(request.prompt), 1))
            return
        yield from request.prompt[::-1]
        yield Completion(finish_reason="length")


class Writes(CompletionService):
    """Returns the prompt in upper case."""

    def predict(self, batch: list[CompletionRequest]) -> list[str]:
        return [str(request.prompt).upper() for request in batch]


class Embed(EmbeddingService):
    """Returns the size of the input, 0, and the size of the batch."""

    def predict(self, batch: list[EmbeddingInput]) -> list[Any]:
        return [self.vector(each.input, len(batch)) for each in batch]

    def vector(self, text: str | list[int], batch_size: int) -> Any:
        if text == "refuse":
            return InputError("input: not that")
        vector = np.array([len(text), 0.0, batch_size], np.float32)
        return Embedding(vector, 100) if text == "counted" else vector


class Rows(EmbeddingService):
    """Returns an array with a row for each input."""

    def predict(self, batch: list[EmbeddingInput]) -> np.ndarray:
        return np.array([[3.0, 4.0, 12.0]] * len(batch), np.float32)


class Plain(Service):
    """Is for nothing that clients of OpenAI know."""

    def predict(self, batch: list[float]) -> list[float]:
        return batch
