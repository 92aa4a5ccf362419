# SPDX-License-Identifier: Apache-2.0
"""The tasks of models (``Service.task``) that clients of OpenAI know."""

from typing import Final

__all__ = ["ALL_TASKS", "CHAT", "COMPLETION", "EMBEDDING", "ENGINE"]

CHAT: Final = "chat"
COMPLETION: Final = "completion"
EMBEDDING: Final = "embedding"
#: an engine that runs elsewhere and answers at any of the paths
ENGINE: Final = "openai-engine"

ALL_TASKS: Final = (CHAT, COMPLETION, EMBEDDING, ENGINE)
