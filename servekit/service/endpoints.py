# SPDX-License-Identifier: Apache-2.0
"""Marks methods of a service that are served besides ``predict``."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypedDict, TypeVar

__all__ = ["Endpoint", "StreamOptions", "endpoint", "endpoints_of"]

Method = TypeVar("Method", bound=Callable[..., Any])

NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
PATH: Final = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
MEDIA_TYPE: Final = re.compile(r"[A-Za-z0-9_!#$&^.+-]+/[A-Za-z0-9_!#$&^.+-]+")
TAKEN: Final = ("predict", "ping")
MARK: Final = "__servekit_endpoint__"


class StreamOptions(TypedDict, total=False):
    """How outputs that come one by one are sent; the keys of ``[stream]`` in ``model.toml``."""

    end: str  #: data of the last event, "" for none
    raw: bool  #: an output that is a string is sent without quotes
    field: str  #: member of the body that asks for a stream


STREAM_KEYS: Final = StreamOptions.__annotations__


class Endpoint(NamedTuple):
    """A method with its own path."""

    name: str
    path: str  #: "" is ``/<model>/<name>``
    envelope: bool | None = None  #: ``None``: as the model
    stream: StreamOptions | None = None  #: ``None``: as the model
    get: bool = False  #: it answers GET as well as POST
    media_type: str | None = None  #: ``None``: as the model


def endpoint(
    name: str = "",
    *,
    path: str = "",
    envelope: bool | None = None,
    stream: StreamOptions | None = None,
    get: bool = False,
    media_type: str | None = None,
) -> Callable[[Method], Method]:
    """Serve a method as ``POST /<model>/<name>``, or at *path*, in the same way as ``predict``.

    The method takes a batch and returns an output for each input; if it is ``async def``, it takes
    one input. A generator takes one input too, and yields outputs, which can be streamed. The
    annotations of the method say what inputs and outputs are; ``preprocess``, ``postprocess`` and
    the signature are those of ``predict``.

    :param name: the method's own if left out.
    :param envelope: ``False``: the output itself is the body of a response, without
        ``{"prediction": ...}``.
    :param stream: how the outputs of a generator are sent.
    :param get: also answer ``GET``, for which the parameters of the query are the input, as the
        fields of a form are: for ``EventSource`` of browsers, and for links.
    :param media_type: of a body whose request names none, and of the response to a client that
        accepts any.
    :raises ValueError: one of them is not valid.
    :raises TypeError: the name is no text: ``@endpoint`` stands without parentheses.
    """
    if not isinstance(name, str):
        raise TypeError("endpoint: write @endpoint(), with parentheses")

    def mark(method: Method) -> Method:
        called = name or method.__name__
        if not NAME.fullmatch(called) or called in TAKEN:
            raise ValueError(f"endpoint: {called!r} is not a valid name, or is reserved")
        if path and not PATH.fullmatch(path):
            raise ValueError(f"endpoint {called}: {path!r} is not a path such as /v1/embeddings")
        if media_type is not None and not MEDIA_TYPE.fullmatch(media_type):
            raise ValueError(f"endpoint {called}: {media_type!r} is not a media type")
        if problem := _stream_problem(stream):
            raise ValueError(f"endpoint {called}: stream: {problem}")
        setattr(method, MARK, Endpoint(called, path, envelope, stream, get, media_type))
        return method

    return mark


def _stream_problem(stream: object) -> str:
    """Return what is wrong with *stream*; "" if nothing is."""
    if stream is None:
        return ""
    if not isinstance(stream, dict):
        return f"{stream!r} is not a dict such as {{'end': '[DONE]'}}"
    for name, value in stream.items():
        kind = STREAM_KEYS.get(name)
        if kind is None:
            return f"unknown key {name!r}; known: {', '.join(STREAM_KEYS)}"
        if type(value) is not kind:
            return f"{name}: {value!r} is not a {kind.__name__}"
    lines = str(stream.get("end", "")).splitlines()
    return "end: has several lines" if len(lines) > 1 else ""


def endpoints_of(kind: type) -> Iterator[tuple[Endpoint, Callable[..., Any]]]:
    """Yield the marked methods of *kind*, each with its endpoint."""
    for attribute in dir(kind):
        method = getattr(kind, attribute, None)
        marked = getattr(method, MARK, None)
        if isinstance(marked, Endpoint) and method is not None:
            yield marked, method
