# SPDX-License-Identifier: Apache-2.0
"""A conversation after ELIZA (Joseph Weizenbaum, 1966), for clients of OpenAI."""

import re
from collections.abc import Iterator

from servekit_openai import AssistantMessage, ChatRequest, ChatService, Usage

from servekit import InputError

#: what is said, and the answer; the first that fits is used
RULES = [
    (r"\b(?:hello|hi|hey)\b", "How do you do. Please tell me your problem."),
    (r"\bi need (?P<rest>.+)", "Why do you need {rest}?"),
    (r"\bi(?: am|'m) (?P<rest>.+)", "How long have you been {rest}?"),
    (r"\bi (?:feel|felt) (?P<rest>.+)", "Do you often feel {rest}?"),
    (r"\byou are (?P<rest>.+)", "What makes you think that I am {rest}?"),
    (r"\bmy (?P<rest>mother|father|sister|brother)", "Tell me more about your {rest}."),
    (r"\bbecause\b", "Is that the real reason?"),
    (r"\?\s*$", "Why do you ask that?"),
    (r"", "Please go on."),
]
#: seen from the other side
REFLECTED = {"i": "you", "me": "you", "my": "your", "am": "are", "your": "my", "you": "me"}


class Eliza(ChatService):
    """Turns the last message of the user into a question."""

    def stream(self, request: ChatRequest) -> Iterator[str | AssistantMessage]:
        said = [message.text for message in request.messages if message.role == "user"]
        if not said:
            raise InputError("messages: none of them is from the user")
        words = re.findall(r"\S+\s*", answer(said[-1]))
        limit = len(words) if request.token_limit is None else request.token_limit
        yield from words[:limit]
        yield AssistantMessage(
            finish_reason="stop" if limit >= len(words) else "length",
            usage=Usage(sum(len(text.split()) for text in said), len(words[:limit])),
        )


def answer(said: str) -> str:
    """Return what ELIZA answers."""
    for pattern, reply in RULES:
        if found := re.search(pattern, said, re.IGNORECASE):
            rest = found.groupdict().get("rest", "").rstrip(" .!?")
            return reply.format(rest=reflected(rest))
    raise AssertionError("the last rule always fits")


def reflected(text: str) -> str:
    """Return *text* as the other one says it: "my cat" for "your cat"."""
    return " ".join(REFLECTED.get(word.lower(), word) for word in text.split())
