# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports nothing of onnxruntime."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servekit import hookimpl

__all__ = ["model_files", "recognise_model", "register_services"]


@hookimpl
def register_services() -> Mapping[str, str]:
    """Offer the service ``onnx``."""
    return {"onnx": "servekit_onnx.service:OnnxService"}


@hookimpl
def recognise_model(directory: Path) -> Mapping[str, Any] | None:
    """Claim a directory that holds exactly one ``.onnx`` file, its external data beside it."""
    return {"service": "onnx"} if len(model_files(directory)) == 1 else None


def model_files(directory: Path) -> list[Path]:
    """Return the ``.onnx`` files of *directory*, not below it."""
    return sorted(directory.glob("*.onnx"))
