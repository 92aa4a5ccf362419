# SPDX-License-Identifier: Apache-2.0
"""A plugin-based model-archive server: build an archive, start it, predict."""

from typing import TYPE_CHECKING

from servekit.errors import ClientError, InputError
from servekit.service.base import Context, Done, Request, Service
from servekit.service.endpoints import endpoint
from servekit.service.response import Response
from servekit.types.arrays import Array

if TYPE_CHECKING:
    from servekit.hookspecs import hookimpl

__all__ = [
    "Array",
    "ClientError",
    "Context",
    "Done",
    "InputError",
    "Request",
    "Response",
    "Service",
    "__version__",
    "endpoint",
    "hookimpl",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import pluggy only for those who write plugins; the supervisor does not need it."""
    if name == "hookimpl":
        from servekit.hookspecs import hookimpl

        return hookimpl
    raise AttributeError(f"module 'servekit' has no attribute {name!r}")
