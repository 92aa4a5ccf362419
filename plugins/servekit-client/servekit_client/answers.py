# SPDX-License-Identifier: Apache-2.0
"""The responses of the server, decoded."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from servekit_client.arrays import unpack
from servekit_client.errors import AnswerMalformed

__all__ = ["EVENTS", "JSON", "MSGPACK", "Answer", "Health", "member", "names"]

JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"
EVENTS: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it came."""

    body: bytes
    headers: Mapping[str, str]  #: looked up in any case

    @property
    def content_type(self) -> str:
        """The media type, in lower case and without parameters."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def request_id(self) -> str:
        """The id of this request in the server's log."""
        return self.headers.get("X-Request-Id", "")

    @property
    def output(self) -> Any:
        """The output of the model: out of JSON or msgpack, or the text, or the bytes.

        :raises AnswerMalformed: the body is not what its content type says.
        """
        if self.content_type in (JSON, MSGPACK):
            return member(self, "prediction")
        return self.body.decode() if self.content_type == "text/plain" else self.body


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the server, or one model, can predict; true if so."""

    reason: str = ""  #: why not

    def __bool__(self) -> bool:
        """``if client.ping(): ...``."""
        return not self.reason


def names(answer: Answer) -> list[str]:
    """Return the names of the models, from the answer to ``/``."""
    return list(member(answer, "models"))


def member(answer: Answer, name: str) -> Any:
    """Return one member of the mapping that *answer* holds.

    :raises AnswerMalformed: it holds none, or has no such member.
    """
    try:
        loaded = unpack(answer.body) if answer.content_type == MSGPACK else json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise _malformed(answer, str(error)) from error
    if not isinstance(loaded, dict) or name not in loaded:
        raise _malformed(answer, f"has no {name!r}")
    return loaded[name]


def _malformed(answer: Answer, reason: str) -> AnswerMalformed:
    detail = f"{answer.content_type or 'no content type'}: {reason}"
    return AnswerMalformed(detail=detail, request_id=answer.request_id)
