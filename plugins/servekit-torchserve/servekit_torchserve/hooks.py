# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports nothing of an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from servekit import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from typing import Literal

    from servekit.extension import Command, MigrationRow, ProcessOffer, Protocol, Routes, Server
    from servekit_torchserve.settings import TorchServeSettings

__all__ = [
    "explain_migration",
    "recognise_model",
    "register_commands",
    "register_processes",
    "register_protocols",
    "register_routes",
    "register_services",
    "register_settings",
    "unpack_archive",
]

CONFIG: Final = "config/config.properties"
MANIFEST: Final = "MAR-INF/MANIFEST.json"
WORKFLOW: Final = "WAR-INF/MANIFEST.json"


@hookimpl
def unpack_archive(
    path: Path, directory: Path, progress: Callable[[int, int], None]
) -> Literal[True] | None:
    """Unpack what TorchServe's archivers have packed: ``.mar``, ``.tar.gz`` and ``.war``."""
    from servekit_torchserve.archive import unpack
    from servekit_torchserve.workflow.archive import unpack_workflow

    is_known = unpack(path, directory, progress) or unpack_workflow(path, directory, progress)
    return is_known or None


@hookimpl(tryfirst=True)  # the files of the archive may be a model for another plugin
def recognise_model(directory: Path) -> Mapping[str, Any] | None:
    """Claim a directory with a manifest of TorchServe's archivers, or with its configuration."""
    if (directory / WORKFLOW).is_file():
        from servekit_torchserve.workflow.offer import describe_workflow

        return describe_workflow(directory)
    if (directory / CONFIG).is_file():
        from servekit_torchserve.model_store import describe_store

        return describe_store(directory)
    if not (directory / MANIFEST).is_file():
        return None
    from servekit_torchserve.offer import describe_model

    return describe_model(directory)


@hookimpl
def explain_migration(directory: Path) -> Iterable[MigrationRow] | None:
    """Say what became of an archive of TorchServe."""
    if (directory / WORKFLOW).is_file():
        from servekit_torchserve.workflow.migration import explain_workflow

        return explain_workflow(directory)
    if not (directory / MANIFEST).is_file():
        return None
    from servekit_torchserve.migration import explain

    return explain(directory)


@hookimpl
def register_services() -> Mapping[str, str]:
    """Offer the service ``torchserve``, and those for handlers that stream and for workflows."""
    return {
        "torchserve": "servekit_torchserve.service:TorchServeModel",
        "torchserve-function": "servekit_torchserve.workflow.node:FunctionNode",
        "torchserve-join": "servekit_torchserve.workflow.node:JoinNode",
        "torchserve-node": "servekit_torchserve.workflow.node:ModelNode",
        "torchserve-stream": "servekit_torchserve.streaming:StreamingTorchServeModel",
    }


@hookimpl
def register_protocols(server: Server) -> list[Protocol]:
    """Answer TorchServe's inference API for models that were archived for it, and measure them."""
    from servekit_torchserve.protocol import TorchServeProtocol
    from servekit_torchserve.served_models import ServedModels
    from servekit_torchserve.server_metrics import TorchServeMetrics
    from servekit_torchserve.workflow.protocol import WorkflowProtocol

    server.add_metrics(TorchServeMetrics(server, ServedModels(server).own).collect)
    return [TorchServeProtocol(server), WorkflowProtocol(server)]


@hookimpl
def register_settings() -> type[TorchServeSettings]:
    """Return the settings: the addresses for management, metrics and gRPC, off by default."""
    from servekit_torchserve.settings import TorchServeSettings

    return TorchServeSettings


@hookimpl
def register_commands() -> list[Command]:
    """Offer ``servekit torchserve``."""
    from servekit.extension import Command

    summary = "start as TorchServe does, by its flags and its config.properties"
    return [Command("torchserve", summary, "servekit_torchserve.command.start:configure")]


@hookimpl
def register_processes(server: Server) -> list[ProcessOffer]:
    """Run the processes for the addresses of management, metrics and gRPC."""
    from servekit_torchserve.offers import processes

    return list(processes(server, server.plugin_settings("torchserve")))


@hookimpl
def register_routes(server: Server) -> list[Routes]:
    """Describe the API at ``/``; let the processes ask whether a token may manage."""
    from servekit.extension import Routes
    from servekit_torchserve.root import create_root

    routes = [Routes(blueprint=create_root(server))]
    own = server.plugin_settings("torchserve")
    if own.management or own.grpc_management:
        from servekit_torchserve.management.access import JUDGE_PATH
        from servekit_torchserve.management.routes import create_blueprint

        routes.append(Routes(blueprint=create_blueprint(), managed=[JUDGE_PATH]))
    return routes
