# SPDX-License-Identifier: Apache-2.0
"""The request that a snippet makes, and values as expressions of a language."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import UNSET

from servekit.description.samples import FilledArray, SampleFile, SampleForm, SampleValue
from servekit.ipc.response_style import ResponseStyle

__all__ = ["TOKEN", "SnippetRequest", "expression"]

TOKEN: Final = "SERVEKIT_TOKEN"  # noqa: S105 - the variable that holds it


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
    needs_token: bool = False  #: the token is in the environment, as ``SERVEKIT_TOKEN``

    @property
    def url(self) -> str:
        """The URL of the request."""
        return self.server + self.path

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
