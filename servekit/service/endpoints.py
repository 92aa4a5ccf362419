# SPDX-License-Identifier: Apache-2.0
"""Marks methods of a service that are served besides ``predict``."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

__all__ = ["Endpoint", "endpoint", "endpoints_of"]

Method = TypeVar("Method", bound=Callable[..., Any])

NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
PATH: Final = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
TAKEN: Final = ("predict", "ping")
MARK: Final = "__servekit_endpoint__"


class Endpoint(NamedTuple):
    """The name and path of a method."""

    name: str
    path: str  #: "" is ``/<model>/<name>``


def endpoint(name: str = "", *, path: str = "") -> Callable[[Method], Method]:
    """Serve a method as ``POST /<model>/<name>``, or at *path*, in the same way as ``predict``.

    The method takes a batch and returns an output for each input; its own annotations say
    what they are. ``preprocess``, ``postprocess`` and the signature are those of ``predict``.

    :param name: the method's own if left out.
    :raises ValueError: the name or the path is not valid, or the method is a generator: only
        ``stream`` returns outputs one by one.
    """

    def mark(method: Method) -> Method:
        called = name or method.__name__
        if not NAME.fullmatch(called) or called in TAKEN:
            raise ValueError(f"endpoint: {called!r} is not a valid name, or is reserved")
        if path and not PATH.fullmatch(path):
            raise ValueError(f"endpoint {called}: {path!r} is not a path such as /v1/embeddings")
        if inspect.isgeneratorfunction(method):
            raise ValueError(f"endpoint {called}: is a generator; return a list, or write stream()")
        setattr(method, MARK, Endpoint(called, path))
        return method

    return mark


def endpoints_of(kind: type) -> Iterator[tuple[Endpoint, Callable[..., Any]]]:
    """Yield the marked methods of *kind*, each with its endpoint."""
    for attribute in dir(kind):
        method = getattr(kind, attribute, None)
        marked = getattr(method, MARK, None)
        if isinstance(marked, Endpoint) and method is not None:
            yield marked, method
