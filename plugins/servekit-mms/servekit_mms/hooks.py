# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; light to import. Those of the observer exist if they are asked for."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from servekit import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from servekit import Service
    from servekit.extension import (
        Command,
        LogRecord,
        MetricFamily,
        Middleware,
        MigrationRow,
        Protocol,
        Routes,
        Server,
        ServerStopping,
    )
    from servekit_mms.log_file import LogFile
    from servekit_mms.metrics import MetricsReporter

__all__ = [
    "LOG_FILE",
    "LOG_LEVEL",
    "LOG_ROTATION_TIME",
    "METRICS_DIRECTORY",
    "METRICS_WRITE_TO",
    "explain_migration",
    "find_service",
    "recognise_model",
    "register_commands",
    "register_middleware",
    "register_protocols",
    "register_routes",
    "register_services",
    "register_settings",
    "unpack_archive",
]

SERVICE = "mms"
MANIFESTS = ("MANIFEST.json", "MAR-INF/MANIFEST.json")
#: variables, which ``servekit mms`` sets; the observer has no settings of plugins
LOG_FILE, LOG_LEVEL = "MMS_LOG_FILE", "MMS_LOG_LEVEL"
LOG_ROTATION_TIME = "MMS_LOG_ROTATION_TIME"
METRICS_WRITE_TO, METRICS_DIRECTORY = "MMS_METRICS_WRITE_TO", "MMS_METRICS_DIRECTORY"


class MMSSettings(Struct):
    """The settings of this plugin."""

    root: Annotated[
        bool, Meta(description="answer at / as at /ping, as MMS does; servekit mms sets it")
    ] = False
    endpoints: Annotated[
        str,
        Meta(description="file about the endpoints of a ServingFrontend, which sets it"),
    ] = ""


@hookimpl
def register_settings() -> type[MMSSettings]:
    """Change nothing by default."""
    return MMSSettings


@hookimpl
def register_services() -> Mapping[str, str]:
    """Offer the service ``mms``."""
    return {SERVICE: "servekit_mms.handlers:HandlerService"}


@hookimpl
def find_service(reference: str, directory: Path) -> type[Service] | None:
    """Return the service for the archive in *directory*, whose inputs its signature declares."""
    if reference != SERVICE:
        return None
    from servekit_mms.services import service_for

    return service_for(directory)


@hookimpl
def unpack_archive(
    path: Path, directory: Path, progress: Callable[[int, int], None]
) -> Literal[True] | None:
    """Unpack archives of MMS 0.x and 1.x."""
    from servekit_mms.unpacking import unpack

    return unpack(path, directory, progress)


@hookimpl(tryfirst=True)  # the files inside may be a model for another plugin
def recognise_model(directory: Path) -> Mapping[str, Any] | None:
    """Claim a directory with the manifest of MMS 0.x or 1.x."""
    if not any((directory / name).is_file() for name in MANIFESTS):
        return None
    from servekit_mms.offer import describe_model

    return describe_model(directory)


@hookimpl
def explain_migration(directory: Path) -> Sequence[MigrationRow] | None:
    """Say what became of the manifest and the signature."""
    from servekit_mms.migration import explain

    return explain(directory)


@hookimpl
def register_protocols(server: Server) -> list[Protocol]:
    """Answer at the paths of MMS for its models."""
    from servekit_mms.protocol import MMSProtocol

    return [MMSProtocol(server)]


@hookimpl
def register_routes(server: Server) -> list[Routes]:
    """Answer at the endpoints of a ``ServingFrontend``, if there is one."""
    file = server.plugin_settings("mms").endpoints
    if not file:
        return []
    from servekit_mms.relay import relay_routes

    return [relay_routes(Path(file))]


@hookimpl
def register_middleware(server: Server) -> list[Middleware]:
    """Answer at ``/``, if that is asked for."""
    if not server.plugin_settings("mms").root:
        return []
    from servekit_mms.pages import Pages

    return [Pages(server)]


@hookimpl
def register_commands() -> list[Command]:
    """Offer ``servekit mms``."""
    from servekit.extension import Command

    summary = "start with the arguments of mxnet-model-server"
    return [Command("mms", summary, "servekit_mms.command:configure")]


if os.environ.get(LOG_FILE):

    @hookimpl
    def export_logs(records: Sequence[LogRecord]) -> None:
        """Write lines of the server's log to the log file."""
        _log_file().write(records)


if os.environ.get(METRICS_WRITE_TO):

    @hookimpl
    def export_metrics(metrics: Sequence[MetricFamily]) -> None:
        """Report the metrics of MMS every minute."""
        _reporter().take(metrics)

    @hookimpl
    def server_stopping(event: ServerStopping) -> None:
        """Report those of the last minute."""
        del event
        _reporter().report()


@cache
def _log_file() -> LogFile:
    """Open the file, once in each observer: a SIGHUP starts a new one."""
    from servekit_mms.log_file import LogFile

    rotation, level = os.environ.get(LOG_ROTATION_TIME, "1 H"), os.environ.get(LOG_LEVEL, "info")
    return LogFile(Path(os.environ[LOG_FILE]), rotation, level)


@cache
def _reporter() -> MetricsReporter:
    from servekit_mms.metrics import MetricsReporter
    from servekit_mms.sinks import log, sink_of

    if os.environ.get(LOG_FILE):
        log.addHandler(_log_file().handler)
    directory = Path(os.environ.get(METRICS_DIRECTORY, "metrics"))
    return MetricsReporter(sink_of(os.environ[METRICS_WRITE_TO], directory))
