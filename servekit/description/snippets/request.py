# SPDX-License-Identifier: Apache-2.0
"""The request that a snippet makes, and values as expressions of a language."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from servekit.description.samples import FilledArray, SampleFile, SampleForm, SampleValue

__all__ = ["SnippetRequest", "expression"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnippetRequest:
    """One request to a model."""

    server: str  #: URL without a slash at its end
    path: str
    sample: SampleFile | SampleForm | SampleValue
    instances: bool = False  #: the sample is one of the inputs of a body
    streams: bool = False  #: each output is shown when it arrives

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
        return {"instances": [self.sample.value]} if self.instances else self.sample.value


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
