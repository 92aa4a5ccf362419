# SPDX-License-Identifier: Apache-2.0
"""Server-sent events, read from bytes as they come.

Every output is an event whose ``data`` is JSON, or text. An event ``error`` carries problem
details; an event ``end``, or one with the data that a path has chosen, says that the stream is
whole. Lines that begin with a colon keep it alive.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from servekit_client.answers import EVENTS, Answer
from servekit_client.errors import AnswerMalformed, ServekitError, Unreachable
from servekit_client.problems import problem

__all__ = ["Events"]


class Events:
    """One stream."""

    def __init__(
        self,
        request_id: str,
        headers: Mapping[str, str],
        *,
        raw: bool = False,
        end: str | None = None,
    ) -> None:
        """Begin.

        :param raw: the data of an event is text.
        :param end: data of the last event, "" for none; ``None``: the event ``end``.
        :raises AnswerMalformed: *headers* announce something else.
        """
        self.is_over = False  #: the end has come, as it should
        self._request_id = request_id
        self._is_raw, self._end = raw, None if end is None else end.encode()
        self._rest = b""  #: a line that has not ended
        self._event = ""
        self._data: list[bytes] = []
        found = Answer(b"", headers).content_type
        if found != EVENTS:
            raise self._malformed(f"{found or 'no content type'}, expected {EVENTS}")

    def outputs(self, piece: bytes) -> Iterator[Any]:
        """Yield the outputs that are whole with *piece*, the next bytes.

        :raises ServekitError: the model failed on the way.
        """
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line:
                self._read_field(line)
            elif self._data or self._event:
                yield from self._dispatch()

    def require_over(self) -> None:
        """Refuse a stream that stopped without an end.

        :raises Unreachable: it did.
        """
        if not self.is_over and self._end != b"":
            raise Unreachable("Stream broken off", request_id=self._request_id)

    def _read_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode(errors="replace")

    def _dispatch(self) -> Iterator[Any]:
        event, data = self._event, b"\n".join(self._data)
        self._event, self._data = "", []
        if event == "end" or (self._end and data == self._end):
            self.is_over = True
        elif event == "error":
            raise self._problem(data)
        elif event in ("", "message"):
            yield data.decode(errors="replace") if self._is_raw else self._loaded(data)

    def _problem(self, data: bytes) -> ServekitError:
        told = self._loaded(data)
        status = told.get("status") if isinstance(told, dict) else None
        return problem(status if isinstance(status, int) else 500, {}, data, self._request_id)

    def _loaded(self, data: bytes) -> Any:
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._malformed(f"an event is not JSON: {error}") from error

    def _malformed(self, detail: str) -> AnswerMalformed:
        return AnswerMalformed(detail=detail, request_id=self._request_id)
