# SPDX-License-Identifier: Apache-2.0
"""Describes an archive of TorchServe as a ``model.toml`` would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from servekit_archiver import file_in

from servekit.errors import BootError
from servekit_torchserve.archive import read_manifest
from servekit_torchserve.model_config import front_end_keys, read_config

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["STREAMING_CALL", "describe_model"]

#: the function of TorchServe with which handlers send a part of a response
STREAMING_CALL: Final = "send_intermediate_predict_response"


def describe_model(directory: Path) -> dict[str, Any] | None:
    """Return the keys of a manifest for the archive that is unpacked in *directory*.

    ``None`` if its manifest is not one of torch-model-archiver.

    :raises ArchiveError: it names a file that does not lie in *directory*.
    :raises BootError: the archive is not for Python, or its configuration is not valid.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        return None
    if not manifest.runtime.startswith("python"):
        raise BootError(f"runtime: {manifest.runtime} is not served, only python")
    model = manifest.model
    keys = front_end_keys(read_config(directory, model.config_file), model.config_file or "")
    streams = _streams(directory)  # and a stream has one request
    offer: dict[str, Any] = {
        "service": "torchserve-stream" if streams else "torchserve",
        "version": model.model_version,
        "batching": {"max_batch_size": 1} if streams else keys.batching,
        "worker": keys.worker,
        "media_type": "application/octet-stream",  # for bodies that name none
    }
    if model.model_name:
        offer["name"] = model.model_name
    named = model.requirements_file
    if named and file_in(directory, named, "requirementsFile").is_file():
        offer["requirements"] = named
    return offer


def _streams(directory: Path) -> bool:
    """Whether a Python file of the archive, which lie side by side, sends parts of responses."""
    name = STREAMING_CALL.encode()
    return any(name in path.read_bytes() for path in directory.glob("*.py"))
