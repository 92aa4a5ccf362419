# SPDX-License-Identifier: Apache-2.0
"""What a snippet is to do, and values written as expressions of a language."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from servekit.description.samples import File, Filled, Form, Value

__all__ = ["Call", "written"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to a model."""

    server: str  #: URL without a slash at its end
    path: str
    sample: File | Form | Value
    instances: bool = False  #: the sample is one of the inputs of a body
    streams: bool = False  #: the outputs are shown one by one, as they come

    @property
    def url(self) -> str:
        """Where it goes."""
        return self.server + self.path

    @property
    def target(self) -> str:
        """What ``servekit-client`` calls it by: the name of the model, or else the path."""
        named = re.fullmatch("/([^/]+)/predict", self.path)
        return named[1] if named else self.path

    @property
    def body(self) -> Any:
        """What the body holds, if it is JSON."""
        assert isinstance(self.sample, Value)
        return {"instances": [self.sample.value]} if self.instances else self.sample.value


def written(value: Any, array: Callable[[Filled], str], leaf: Callable[[Any], str]) -> str:
    """Return *value* as an expression: *array* writes what is filled, *leaf* what is simple."""
    if isinstance(value, Filled):
        return array(value)
    if isinstance(value, Mapping):
        members = (f"{leaf(key)}: {written(each, array, leaf)}" for key, each in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(written(each, array, leaf) for each in value)}]"
    return leaf(value)
