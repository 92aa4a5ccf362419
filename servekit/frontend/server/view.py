# SPDX-License-Identifier: Apache-2.0
"""The front-end as the Flask app and plugins see it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from servekit.description.facts import model_facts
from servekit.description.routes import describe_model
from servekit.description.snippets.writing import write_all
from servekit.errors import ModelNotFound, RouteNotFound
from servekit.frontend.middleware.auth import check_token
from servekit.frontend.routing.scrape import scrape
from servekit.frontend.server.model_views import models_of, statistics_of
from servekit.ipc import crash_reports
from servekit.ipc.control import Reload, Wanted
from servekit.ipc.kept_log import read_log
from servekit.ipc.model_counters import read_version, read_versions
from servekit.ipc.operations import Operate
from servekit.web import health, operations
from servekit.web.table import OncePerTable, find_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from flask import Flask
    from msgspec import Struct
    from prometheus_client import Metric

    from servekit.errors import ServekitError
    from servekit.extension.http import HttpRequest
    from servekit.extension.models import ModelStatistics, ModelView
    from servekit.extension.snippets import RequestToWrite
    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.frontend.routing.table import Routing
    from servekit.frontend.server.core import Core
    from servekit.ipc.counter_share import Share
    from servekit.ipc.counters import Counters
    from servekit.ipc.crash_reports import CrashReport
    from servekit.ipc.kept_log import LogEntry
    from servekit.ipc.operations import Operation, OperationRow
    from servekit.ipc.table import ModelRow
    from servekit.settings import Settings
    from servekit.settings.tokens import Tokens

__all__ = ["FrontEndView"]


class FrontEndView:
    """``servekit.extension.Server`` for plugins, and ``ManagedView`` for the Flask apps."""

    def __init__(
        self,
        core: Core,
        tokens: Tokens,
        plugin_settings: Mapping[str, Struct],
        *,
        plugins_authorize: bool,
    ) -> None:
        """Show *core*.

        :param tokens: those of the server's own.
        :param plugin_settings: those of each plugin that has some.
        :param plugins_authorize: whether a plugin decides who may ask for predictions.
        """
        self.predictions_are_open = not (tokens.predict or plugins_authorize)
        self._core = core
        self._tokens, self._plugin_settings = tokens, plugin_settings
        self.settings: Settings = core.settings
        self.run_directory: Path = core.run_directory
        self.client_socket: Path = core.run_directory / "clients.sock"
        self.routing: Routing = core.routing
        self.counters: Counters = core.counters
        self.share: Share = core.share
        show_models = partial(scrape, core.routing, core.counters, core.traces)
        self.collectors: list[Callable[[], Iterable[Metric]]] = [show_models]
        self.waits: list[Callable[[], bool]] = []
        self._models_of = OncePerTable(models_of)
        self._timers: list[Any] = []
        self.management: Flask  #: the app of the management listener, set once it has been made

    @property
    def needs_token(self) -> bool:
        """Whether predictions need a bearer token of the server's own."""
        return bool(self._tokens.predict)

    def judge_manager(self, authorization: bytes | None) -> ServekitError | None:
        """Return why a request with *authorization* may not manage the server; ``None``: it may."""
        return check_token(authorization, self._tokens.manage, self._tokens.predict)

    # ------------------------------------------------------------ what models there are

    @property
    def models(self) -> Mapping[str, ModelView]:
        """The models as they are now, by name."""
        return self._models_of(self.routing.table)

    def describe_model(self, model: str) -> dict[str, Any]:
        """Return what is known about *model* and its paths, as values that JSON can hold."""
        table = self.routing.table
        return model_facts(find_model(table, model), table.models)

    def write_snippets(self, model: str, request: RequestToWrite) -> dict[str, str]:
        """Return code that makes *request* to *model*, by format."""
        table = self.routing.table
        paths = describe_model(find_model(table, model), table.models)
        found = [each for each in paths if each.path == request.path]
        if not found:
            raise RouteNotFound(f"{model} does not answer at {request.path}")
        return write_all(found[0], request)

    def plugin_settings(self, plugin: str) -> Any:
        """Return the settings of *plugin*: an instance of what its hook returned."""
        return self._plugin_settings[plugin]

    def wake(self, model: ModelRow) -> None:
        """Ask for the default version of *model* to be loaded, if it is asleep."""
        if model.is_asleep:
            self._core.control.say(Wanted(model.name, model.version))

    @property
    def is_draining(self) -> bool:
        """Whether this front-end ends."""
        return self._core.connections.is_draining

    @property
    def is_shutting_down(self) -> bool:
        """Whether the server shuts down."""
        return self.routing.table.is_draining

    def why_not_ready(self, model: str = "", version: str = "") -> list[str]:
        """Return why *version* of *model*, or the server with all of its models, is not ready."""
        return health.why_not_ready(self, model, version)

    def statistics(self, model: str, version: str) -> ModelStatistics:
        """Return what *version* of *model* has done since the server started."""
        self.routing.metrics.settle()
        return statistics_of(read_version(self.counters, model, version))

    def all_statistics(self) -> dict[tuple[str, str], ModelStatistics]:
        """Return what all versions have done since the server started, by model and version."""
        self.routing.metrics.settle()
        return {key: statistics_of(each) for key, each in read_versions(self.counters).items()}

    def find_model(self, request: HttpRequest) -> str:
        """Return the name of the model that *request* asks for a prediction; "" if it does not."""
        route = self._find(request)
        return route.row.name if route is not None and route.call is None else ""

    def name_model(self, request: HttpRequest) -> str:
        """Return the name of the model that *request* is for, whatever its protocol."""
        route = self._find(request)
        return route.row.name if route is not None else ""

    # ------------------------------------------------------------ what plugins add

    def count_refusal(self, request: HttpRequest, status: int) -> None:
        """Count a prediction that was refused with *status*."""
        route = self._find(request)
        if route is not None:
            route.metrics.count_status(status)

    def _find(self, request: HttpRequest) -> PredictionRoute | None:
        router = self.routing.router
        return request.route or router.find(request.method, request.target, request.headers)

    def add_metrics(self, collect: Callable[[], Iterable[Metric]]) -> None:
        """Add what *collect* returns to ``/metrics``."""
        self.collectors.append(collect)

    def call_every(self, interval_s: float, function: Callable[[], None]) -> None:
        """Call *function* every *interval_s* seconds."""
        timer = self._core.loop.timer(interval_s, interval_s)
        timer.start(function)
        self._timers.append(timer)

    def wait_for(self, is_busy: Callable[[], bool]) -> None:
        """Let a shutdown wait while *is_busy* returns true."""
        self.waits.append(is_busy)

    # ------------------------------------------------------------ for operators

    def crashes(self) -> list[CrashReport]:
        """Return the crash reports that are kept, newest last, without bodies of requests."""
        return crash_reports.read_all(self.run_directory)

    def crash(self, number: int) -> CrashReport:
        """Return crash report *number*, with the bodies that were kept.

        :raises RouteNotFound: it is not there, or not any more.
        """
        try:
            return crash_reports.read(self.run_directory, number)
        except OSError:
            raise RouteNotFound(f"there is no crash report {number}") from None

    @property
    def log_run(self) -> str:
        """A name of this run of the server."""
        return self.run_directory.name

    def log_lines(self, after: int) -> tuple[list[LogEntry], int]:
        """Return the lines of the log that are kept from the place *after* on, and its end."""
        return read_log(self.run_directory, after)

    def read_management(self, path: str) -> Any:
        """Return what ``GET`` *path* of the management listener answers."""
        response = self.management.test_client().get(path)
        found: Any = response.json
        if response.status_code != 200:
            raise ModelNotFound(found["detail"])
        return found

    def ask_reload(self) -> None:
        """Ask the supervisor to reload, as SIGHUP does."""
        self._core.control.say(Reload())

    def begin_operation(self, id_: str, operation: Operation) -> None:
        """Ask the supervisor to begin *operation*; the next tables have its row."""
        self._core.control.say(Operate(id_, operation))

    def operate(self, operation: Operation, wait_s: float = 0.0) -> OperationRow:
        """Begin *operation*; return its row at its end, or after *wait_s* seconds."""
        return operations.operate(self, operation, wait_s)

    def wait_for_table(self, timeout_s: float) -> None:
        """Return when a new routing table has arrived, or after *timeout_s* seconds."""
        self._core.control.wait_for_table(timeout_s)
