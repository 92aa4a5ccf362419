# SPDX-License-Identifier: Apache-2.0
"""Whether a service is async: the methods that answer are coroutines, or none of them is."""

import inspect
from typing import Any, Final

from servekit.errors import BootError
from servekit.service.base import Service
from servekit.service.endpoints import endpoints_of
from servekit.worker.inputs.annotations import place_of, streaming_method

__all__ = ["is_async", "is_async_method"]

#: methods that an async service may write either way
EITHER: Final = (
    *("load", "warm_up", "ping", "follow", "close"),
    *("preprocess", "postprocess", "admit", "evict"),
)
PLAIN: Final = ("stand_in", "store_assets")


def is_async_method(method: Any) -> bool:
    """Whether *method* is a coroutine function, or an async generator."""
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def is_async(service: Service) -> bool:
    """Whether requests of *service* are tasks of an event loop. The service need not be loaded.

    :raises BootError: some of its methods are async, and others that would have to be are not.
    """
    kind = type(service)
    first = streaming_method(service) or "predict"
    main = "step" if first == "admit" else first
    answering = {main: getattr(kind, main)}
    answering |= {method.__name__: method for _, method in endpoints_of(kind)}
    found = {name: is_async_method(method) for name, method in answering.items()}
    if len(set(found.values())) > 1:
        one = next(name for name in found if found[name])
        other = next(name for name in found if not found[name])
        where = place_of(answering[other])
        raise BootError(f"{kind.__name__}.{one} is async, so {other} has to be async too{where}")
    for name in PLAIN if found[main] else (*EITHER, *PLAIN):
        if is_async_method(method := getattr(kind, name, str)):
            why = "" if name in PLAIN else f", as {main} is"
            raise BootError(f"{kind.__name__}.{name}: write a plain def{why}{place_of(method)}")
    return found[main]
