# SPDX-License-Identifier: Apache-2.0
"""A plugin-based model-archive server: build an archive, start it, predict."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from servekit.errors import ClientError, InputError
    from servekit.hookspecs import hookimpl
    from servekit.local_server.server import LocalServer, serve
    from servekit.service.base import Context, Done, Service
    from servekit.service.endpoints import endpoint
    from servekit.service.request import Request
    from servekit.service.response import Response
    from servekit.service.spans import span
    from servekit.types.arrays import Array

__all__ = [
    "Array",
    "ClientError",
    "Context",
    "Done",
    "InputError",
    "LocalServer",
    "Request",
    "Response",
    "Service",
    "__version__",
    "endpoint",
    "hookimpl",
    "serve",
    "span",
]

__version__ = "0.1.0"

#: where the public names are: each is imported when it is first used, since the supervisor and
#: the prepare child need none of them
MODULES: Final = {
    "Array": "types.arrays",
    "ClientError": "errors",
    "Context": "service.base",
    "Done": "service.base",
    "InputError": "errors",
    "LocalServer": "local_server.server",
    "Request": "service.request",
    "Response": "service.response",
    "Service": "service.base",
    "endpoint": "service.endpoints",
    "hookimpl": "hookspecs",
    "serve": "local_server.server",
    "span": "service.spans",
}


def __getattr__(name: str) -> object:
    if name not in MODULES:
        raise AttributeError(f"module 'servekit' has no attribute {name!r}")
    found = getattr(import_module(f"servekit.{MODULES[name]}"), name)
    globals()[name] = found
    return found
