# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports nothing of MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servekit import hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from servekit.extension import MigrationRow, Protocol, Server

__all__ = ["explain_migration", "recognise_model", "register_protocols", "register_services"]


@hookimpl
def register_services() -> Mapping[str, str]:
    """Offer the service ``mlflow``."""
    return {"mlflow": "servekit_mlflow.service:MLflowService"}


@hookimpl(tryfirst=True)  # the files of a flavour may be a model for another plugin
def recognise_model(directory: Path) -> Mapping[str, Any] | None:
    """Claim a directory with a file ``MLmodel``."""
    if not (directory / "MLmodel").is_file():
        return None
    from servekit_mlflow.offer import describe_model

    return describe_model(directory)


@hookimpl
def explain_migration(directory: Path) -> Iterable[MigrationRow] | None:
    """Say what became of a model with a file ``MLmodel``."""
    if not (directory / "MLmodel").is_file():
        return None
    from servekit_mlflow.migration import explain

    return list(explain(directory))


@hookimpl
def register_protocols(server: Server) -> list[Protocol]:
    """Answer at ``/invocations``, ``/ping``, ``/health`` and ``/version`` for MLflow models."""
    from servekit_mlflow.protocol import MLflowProtocol

    return [MLflowProtocol(server)]
