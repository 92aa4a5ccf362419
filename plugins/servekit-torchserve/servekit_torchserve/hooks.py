# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports nothing of an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from servekit import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Literal

    from servekit.extension import Protocol, Server

__all__ = ["recognise_model", "register_protocols", "register_services", "unpack_archive"]

MANIFEST: Final = "MAR-INF/MANIFEST.json"


@hookimpl
def unpack_archive(
    path: Path, directory: Path, progress: Callable[[int, int], None]
) -> Literal[True] | None:
    """Unpack what torch-model-archiver has packed: ``.mar`` and ``.tar.gz``."""
    from servekit_torchserve.archive import unpack

    return unpack(path, directory, progress) or None


@hookimpl(tryfirst=True)  # the files of the archive may be a model for another plugin
def recognise_model(directory: Path) -> Mapping[str, Any] | None:
    """Claim a directory with a manifest of torch-model-archiver."""
    if not (directory / MANIFEST).is_file():
        return None
    from servekit_torchserve.offer import describe_model

    return describe_model(directory)


@hookimpl
def register_services() -> Mapping[str, str]:
    """Offer the service ``torchserve``, and the one for handlers that stream."""
    return {
        "torchserve": "servekit_torchserve.service:TorchServeModel",
        "torchserve-stream": "servekit_torchserve.streaming:StreamingTorchServeModel",
    }


@hookimpl
def register_protocols(server: Server) -> list[Protocol]:
    """Answer TorchServe's inference API for models that were archived for it."""
    from servekit_torchserve.protocol import TorchServeProtocol

    return [TorchServeProtocol(server)]
