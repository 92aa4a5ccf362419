# SPDX-License-Identifier: Apache-2.0
"""Base classes for services. Clients of OpenAI find a model by the task that its class declares."""

from servekit import Service
from servekit_openai.tasks import CHAT, COMPLETION, EMBEDDING

__all__ = ["ChatService", "CompletionService", "EmbeddingService"]


class ChatService(Service):
    """Answers ``/v1/chat/completions``: subclass it and define one of these.

    * ``def stream(self, request: ChatRequest) -> Iterator[str | AssistantMessage]`` yields the
      pieces of one message;
    * ``def admit(self, request: ChatRequest)``, ``step`` and ``evict`` do so for many messages in
      one step (see ``servekit.Service``);
    * ``def predict(self, batch: list[ChatRequest]) -> list[str | AssistantMessage]`` returns whole
      messages.

    A client may ask each of them for a stream or for a whole message. A string is a part of the
    text; an ``AssistantMessage`` can hold tool calls, a finish reason and the usage as well.
    """

    task = CHAT


class CompletionService(Service):
    """Answers ``/v1/completions``: the same with ``CompletionRequest`` and ``Completion``."""

    task = COMPLETION


class EmbeddingService(Service):
    """Answers ``/v1/embeddings``: subclass it and define ``predict``.

    ``def predict(self, batch: list[EmbeddingInput])`` returns a vector for each input: an array of
    n rows, or a list of arrays, lists of floats or ``Embedding``. The inputs of one request and
    those of other clients share batches.
    """

    task = EMBEDDING
