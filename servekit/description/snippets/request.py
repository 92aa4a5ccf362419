# SPDX-License-Identifier: Apache-2.0
"""The request that a snippet makes, and values as expressions of a language."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from msgspec import UNSET

from servekit.description.samples import FilledArray, SampleFile, SampleForm, SampleValue
from servekit.ipc.response_style import ResponseStyle
from servekit.ipc.stream_formats import EVENT_STREAM

__all__ = ["TOKEN", "SnippetRequest", "expression", "variable_of"]

TOKEN: Final = "SERVEKIT_PREDICT_TOKEN"  # noqa: S105 - the variable that holds it
DECODED: Final = ("application/json", "application/msgpack")  #: by ``servekit-client``


@dataclass(frozen=True, slots=True, kw_only=True)
class SnippetRequest:
    """One request to a model."""

    server: str  #: URL without a slash at its end
    path: str
    sample: SampleFile | SampleForm | SampleValue
    instances: bool = False  #: the sample is one of the inputs of a body
    file: str = ""  #: that the response is written to, if it is a picture or a sound
    streams: bool = False  #: each output is shown when it arrives
    #: of the responses of the path
    style: ResponseStyle = field(default_factory=ResponseStyle)
    output: Any = UNSET  #: the one that a test expects; ``UNSET`` if it is not known
    needs_token: bool = False  #: the token is in the environment, as ``SERVEKIT_PREDICT_TOKEN``
    accept: str = ""  #: the media type of the response; "" leaves it to the format
    #: further headers and parameters of the query; ``None``: a secret that is in the environment
    headers: Mapping[str, str | None] = field(default_factory=dict)
    query: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The URL of the request, without the parameters that are secrets."""
        plain = {name: value for name, value in self.query.items() if value is not None}
        return self.server + self.path + ("?" + urlencode(plain) if plain else "")

    @property
    def secret_query(self) -> list[str]:
        """The names of the parameters that are secrets."""
        return [name for name, value in self.query.items() if value is None]

    @property
    def reads_environment(self) -> bool:
        """Whether some value is in the environment."""
        return self.needs_token or None in (*self.headers.values(), *self.query.values())

    def comments(self, mark: str) -> str:
        """Return a line of comment for each variable of the environment that the code reads."""
        found = {TOKEN: "the token for predictions"} if self.needs_token else {}
        secret = [name for name, value in self.headers.items() if value is None]
        found |= {variable_of(name): f"the value of the header {name}" for name in secret}
        found |= {variable_of(name): f"the parameter {name}" for name in self.secret_query}
        return "".join(
            f"{mark} Set {name} in the environment: {what}.\n" for name, what in found.items()
        )

    @property
    def answers_bytes(self) -> bool:
        """Whether ``servekit-client`` does not decode the response that ``accept`` asks for."""
        return bool(self.accept) and not self.streams and self.accept not in DECODED

    @property
    def answers_text(self) -> bool:
        """Whether those bytes are text for people, and not for a file."""
        return self.answers_bytes and not self.file

    @property
    def accepted(self) -> str:
        """The media type that the header ``Accept`` asks for; "": any."""
        by_header = self.streams and not self.asks_by_body
        return self.accept or (EVENT_STREAM if by_header else "")

    @property
    def target(self) -> str:
        """The name of the model, or the path: the argument of ``servekit-client``."""
        named = re.fullmatch("/([^/]+)/predict", self.path)
        return named[1] if named else self.path

    @property
    def body(self) -> Any:
        """The value of a JSON body."""
        assert isinstance(self.sample, SampleValue)
        if self.instances:
            return {"instances": [self.sample.value]}
        asked = {self.style.stream.field: True} if self.asks_by_body else {}
        return self.sample.value | asked if asked else self.sample.value

    @property
    def asks_by_body(self) -> bool:
        """Whether a member of the body asks for the stream, and not ``Accept``."""
        is_object = isinstance(self.sample, SampleValue) and isinstance(self.sample.value, dict)
        return self.streams and is_object and bool(self.style.stream.field)


def variable_of(name: str) -> str:
    """Return the variable of the environment for a secret: ``X_API_KEY`` for ``x-api-key``."""
    found = re.sub("[^A-Z0-9]", "_", name.upper())
    return f"_{found}" if found[:1].isdigit() else found


def expression(value: Any, array: Callable[[FilledArray], str], leaf: Callable[[Any], str]) -> str:
    """Return *value* as an expression; *array* writes filled arrays, *leaf* plain values."""
    if isinstance(value, FilledArray):
        return array(value)
    if isinstance(value, Mapping):
        members = (f"{leaf(key)}: {expression(each, array, leaf)}" for key, each in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(expression(each, array, leaf) for each in value)}]"
    return leaf(value)
