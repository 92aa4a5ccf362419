# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports nothing of torch or transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servekit import hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["recognise_model", "register_services"]


@hookimpl
def register_services() -> Mapping[str, str]:
    """Offer a service for each task."""
    package = "servekit_huggingface"
    return {
        "huggingface-chat": f"{package}.generation.services:HuggingFaceChat",
        "huggingface-completion": f"{package}.generation.services:HuggingFaceCompletion",
        "huggingface-embedding": f"{package}.embedding:HuggingFaceEmbedding",
        "huggingface-image-classification": f"{package}.images:HuggingFaceImages",
        "huggingface-text-classification": f"{package}.texts:HuggingFaceTexts",
        "huggingface-token-classification": f"{package}.entities:HuggingFaceEntities",
    }


@hookimpl
def recognise_model(directory: Path) -> Mapping[str, Any] | None:
    """Claim a directory that transformers has saved: ``config.json`` beside weights."""
    if not (directory / "config.json").is_file():
        return None
    from servekit_huggingface.checkpoint import describe_checkpoint

    return describe_checkpoint(directory)
