# SPDX-License-Identifier: Apache-2.0
"""The arguments and return values of hooks; the hooks are in ``hookspecs``.

Hook modules are imported in every process, so each of these is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from servekit_archiver.migration import MigrationRow

    from servekit.extension.archives import ArchiveInfo, Kept, Policy, Refused
    from servekit.extension.background import BackgroundExchange
    from servekit.extension.base_exchange import BaseExchange
    from servekit.extension.bodies import read_json
    from servekit.extension.checks import Diagnosis
    from servekit.extension.commands import Command, RunningServer
    from servekit.extension.drafts import draft_directory
    from servekit.extension.envelope import (
        Codecs,
        Column,
        EncodedInput,
        EncodedResponse,
        Envelope,
        EnvelopeRequest,
        ListInput,
        PlainRequest,
        Rows,
    )
    from servekit.extension.events import (
        BatchServed,
        LifeEvent,
        LogRecord,
        MetricFamily,
        MetricSample,
        ModelLoaded,
        ModelUnloaded,
        RequestTraced,
        ServerStarted,
        ServerStopping,
        Span,
        TracedBatch,
        WorkerExited,
        WorkerReady,
    )
    from servekit.extension.exchange import BodyWriter, Exchange, InThread, ResponseFilter
    from servekit.extension.http import HttpRequest, HttpResponse
    from servekit.extension.instances import read_instances
    from servekit.extension.middleware import Middleware, Proceed
    from servekit.extension.models import ModelStatistics, ModelView
    from servekit.extension.observer import Observer
    from servekit.extension.problems import error_fields, error_message, problem_response
    from servekit.extension.processes import ProcessOffer
    from servekit.extension.protocol import PredictionCall, Protocol, RequestHead
    from servekit.extension.replay import ReplayForm, replay_text
    from servekit.extension.routes import Routes
    from servekit.extension.sampling import TraceSampling
    from servekit.extension.server import Server
    from servekit.extension.snippets import RequestToWrite
    from servekit.extension.transport import TransportOffer
    from servekit.ipc.crash_reports import CrashReport, HeldRequest
    from servekit.ipc.model_counters import DURATIONS
    from servekit.ipc.operations import (
        Load,
        Operation,
        OperationRow,
        ReloadModels,
        RollBack,
        Scale,
        SetTraffic,
        Swap,
        Unload,
    )
    from servekit.service.identity import Identity
    from servekit.service.spans import ServiceSpan
    from servekit.system.unix_http import UnixConnection

__all__ = [
    "DURATIONS",
    "ArchiveInfo",
    "BackgroundExchange",
    "BaseExchange",
    "BatchServed",
    "BodyWriter",
    "Codecs",
    "Column",
    "Command",
    "CrashReport",
    "Diagnosis",
    "EncodedInput",
    "EncodedResponse",
    "Envelope",
    "EnvelopeRequest",
    "Exchange",
    "HeldRequest",
    "HttpRequest",
    "HttpResponse",
    "Identity",
    "InThread",
    "Kept",
    "LifeEvent",
    "ListInput",
    "Load",
    "LogRecord",
    "MetricFamily",
    "MetricSample",
    "Middleware",
    "MigrationRow",
    "ModelLoaded",
    "ModelStatistics",
    "ModelUnloaded",
    "ModelView",
    "Observer",
    "Operation",
    "OperationRow",
    "PlainRequest",
    "Policy",
    "PredictionCall",
    "Proceed",
    "ProcessOffer",
    "Protocol",
    "Refused",
    "ReloadModels",
    "ReplayForm",
    "RequestHead",
    "RequestToWrite",
    "RequestTraced",
    "ResponseFilter",
    "RollBack",
    "Routes",
    "Rows",
    "RunningServer",
    "Scale",
    "Server",
    "ServerStarted",
    "ServerStopping",
    "ServiceSpan",
    "SetTraffic",
    "Span",
    "Swap",
    "TraceSampling",
    "TracedBatch",
    "TransportOffer",
    "UnixConnection",
    "Unload",
    "WorkerExited",
    "WorkerReady",
    "draft_directory",
    "error_fields",
    "error_message",
    "problem_response",
    "read_instances",
    "read_json",
    "replay_text",
]

MODULES = {
    ".archives": ("ArchiveInfo", "Kept", "Policy", "Refused"),
    ".background": ("BackgroundExchange",),
    ".base_exchange": ("BaseExchange",),
    ".bodies": ("read_json",),
    ".checks": ("Diagnosis",),
    ".commands": ("Command", "RunningServer"),
    ".drafts": ("draft_directory",),
    ".envelope": (
        "Codecs",
        "Column",
        "EncodedInput",
        "EncodedResponse",
        "Envelope",
        "EnvelopeRequest",
        "ListInput",
        "PlainRequest",
        "Rows",
    ),
    ".events": (
        "BatchServed",
        "LifeEvent",
        "LogRecord",
        "MetricFamily",
        "MetricSample",
        "ModelLoaded",
        "ModelUnloaded",
        "RequestTraced",
        "ServerStarted",
        "ServerStopping",
        "Span",
        "TracedBatch",
        "WorkerExited",
        "WorkerReady",
    ),
    ".exchange": ("BodyWriter", "Exchange", "InThread", "ResponseFilter"),
    ".http": ("HttpRequest", "HttpResponse"),
    ".instances": ("read_instances",),
    ".middleware": ("Middleware", "Proceed"),
    ".models": ("ModelStatistics", "ModelView"),
    ".problems": ("error_fields", "error_message", "problem_response"),
    ".observer": ("Observer",),
    ".processes": ("ProcessOffer",),
    ".protocol": ("PredictionCall", "Protocol", "RequestHead"),
    ".replay": ("ReplayForm", "replay_text"),
    ".routes": ("Routes",),
    ".sampling": ("TraceSampling",),
    ".server": ("Server",),
    ".snippets": ("RequestToWrite",),
    ".transport": ("TransportOffer",),
    "servekit.ipc.crash_reports": ("CrashReport", "HeldRequest"),
    "servekit.ipc.model_counters": ("DURATIONS",),
    "servekit.ipc.operations": (
        "Load",
        "Operation",
        "OperationRow",
        "ReloadModels",
        "RollBack",
        "Scale",
        "SetTraffic",
        "Swap",
        "Unload",
    ),
    "servekit.service.identity": ("Identity",),
    "servekit.service.spans": ("ServiceSpan",),
    "servekit.system.unix_http": ("UnixConnection",),
    "servekit_archiver.migration": ("MigrationRow",),
}


def __getattr__(name: str) -> Any:
    for module, names in MODULES.items():
        if name in names:
            return getattr(import_module(module, __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
