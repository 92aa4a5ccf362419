# SPDX-License-Identifier: Apache-2.0
"""Serves archives of MXNet Model Server, and answers its clients."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from servekit_mms.serving_frontend import ServingFrontend

__all__ = ["ServingFrontend"]


def __getattr__(name: str) -> Any:
    if name == "ServingFrontend":  # every process of a server imports this package
        from servekit_mms.serving_frontend import ServingFrontend

        return ServingFrontend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
