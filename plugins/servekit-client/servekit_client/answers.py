# SPDX-License-Identifier: Apache-2.0
"""The responses of the server, decoded."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from servekit_client.arrays import unpack
from servekit_client.errors import AnswerMalformed

__all__ = ["EVENTS", "JSON", "MSGPACK", "Answer", "Health", "list_of", "member", "names"]

JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"
EVENTS: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it came."""

    body: bytes
    headers: Mapping[str, str]  #: looked up in any case
    server: str = ""  #: the URL of the server that answered

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
        return member(self, "prediction") if self._is_structured else self.value

    @property
    def value(self) -> Any:
        """The decoded body: the output of the model at a path with ``envelope = false``.

        :raises AnswerMalformed: the body is not what its content type says.
        """
        if self._is_structured:
            return _loaded(self)
        return _text(self) if self.content_type == "text/plain" else self.body

    @property
    def _is_structured(self) -> bool:
        return self.content_type in (JSON, MSGPACK)


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
    loaded = _loaded(answer)
    if not isinstance(loaded, dict) or name not in loaded:
        raise _malformed(answer, f"has no {name!r}")
    return loaded[name]


def list_of(answer: Answer) -> list[Any]:
    """Return the list that *answer* holds.

    :raises AnswerMalformed: it holds none.
    """
    loaded = _loaded(answer)
    if not isinstance(loaded, list):
        raise _malformed(answer, "is not a list")
    return loaded


def _loaded(answer: Answer) -> Any:
    """Return the value of the body, JSON or msgpack.

    :raises AnswerMalformed: it is neither.
    """
    try:
        return unpack(answer.body) if answer.content_type == MSGPACK else json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise _malformed(answer, str(error)) from error


def _text(answer: Answer) -> str:
    """Return the text of the body, which is UTF-8.

    :raises AnswerMalformed: it is not.
    """
    try:
        return answer.body.decode()
    except ValueError as error:
        raise _malformed(answer, str(error)) from error


def _malformed(answer: Answer, reason: str) -> AnswerMalformed:
    detail = f"{answer.content_type or 'no content type'}: {reason}"
    return AnswerMalformed(detail=detail, request_id=answer.request_id)
