# SPDX-License-Identifier: Apache-2.0
"""The front-end as plugins see it: what they read, and what they hand in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from prometheus_client import Metric

    from servekit.errors import ServekitError
    from servekit.extension.http import HttpRequest
    from servekit.extension.models import ModelStatistics, ModelView
    from servekit.extension.snippets import RequestToWrite
    from servekit.ipc.crash_reports import CrashReport
    from servekit.ipc.operations import Operation, OperationRow
    from servekit.settings import Settings

__all__ = ["Server"]


class Server(Protocol):
    """One front-end process. Hooks of the front-end get it when they register something."""

    @property
    def settings(self) -> Settings:
        """The settings; they never change while the process lives."""

    @property
    def run_directory(self) -> Path:
        """Directory that all processes of this server share, and nobody else can read."""

    @property
    def client_socket(self) -> Path:
        """Path of the Unix socket where processes of plugins make requests, as clients do.

        It is in the run directory; it serves HTTP in the clear, whatever other listeners do.
        ``UnixConnection`` connects to it.
        """

    @property
    def models(self) -> Mapping[str, ModelView]:
        """The models as they are now, by name; another object after every change."""

    @property
    def needs_token(self) -> bool:
        """Whether predictions need a bearer token of the server's own."""

    @property
    def predictions_are_open(self) -> bool:
        """Whether everybody who reaches the server may ask for predictions.

        They need no token of the server's own, and no plugin decides about them.
        """

    def judge_manager(self, authorization: bytes | None) -> ServekitError | None:
        """Return why a request with *authorization* may not manage the server; ``None``: it may."""

    def describe_model(self, model: str) -> Mapping[str, Any]:
        """Return what is known about *model* and its paths, as values that JSON can hold.

        It has the keys ``name``, ``version``, ``versions``, ``description``, ``playground`` and
        ``paths``: for each path what ``servekit describe --json`` prints, and a ``sample``.

        :raises ModelNotFound: there is no such model.
        """

    def write_snippets(self, model: str, request: RequestToWrite) -> Mapping[str, str]:
        """Return code that makes *request* to *model*, by format: ``curl``, ``python`` ...

        :raises RouteNotFound: *model* does not answer at this path.
        """

    def plugin_settings(self, plugin: str) -> Any:
        """Return the settings of *plugin*: an instance of what ``register_settings`` returned.

        :param plugin: the name of its entry point.
        """

    @property
    def is_draining(self) -> bool:
        """Whether this front-end ends: the server shuts down, or another front-end replaces it."""

    @property
    def is_shutting_down(self) -> bool:
        """Whether the server shuts down."""

    def why_not_ready(self, model: str = "", version: str = "") -> Sequence[str]:
        """Return why *model*, or the server with all of its models, is not ready.

        :param version: name or alias of a version of *model*; "" is the default one.
        :raises ModelNotFound: there is no such model or version.
        """

    def crashes(self) -> Sequence[CrashReport]:
        """Return the crash reports that are kept, newest last, without bodies of requests."""

    def crash(self, number: int) -> CrashReport:
        """Return crash report *number*, with the bodies of requests if the operator has them kept.

        They are secrets: show them only where the management token is needed.

        :raises RouteNotFound: it is not there, or not any more.
        """

    def statistics(self, model: str, version: str) -> ModelStatistics:
        """Return what *version* of *model* has done; reading it takes tens of microseconds."""

    def all_statistics(self) -> Mapping[tuple[str, str], ModelStatistics]:
        """Return the same of all versions, by model and version; the memory is read once."""

    def find_model(self, request: HttpRequest) -> str:
        """Return the name of the model that *request* asks for a prediction; "" if it does not.

        Requests that come by a protocol of a plugin do not count.
        """

    def name_model(self, request: HttpRequest) -> str:
        """Return the name of the model that *request* is for, whatever its protocol; "" for none.

        Clients of some protocols name the model in the body: before the route of the request is
        final, that is only the likely one. Filters of responses see the one that answers.
        """

    def count_refusal(self, request: HttpRequest, status: int) -> None:
        """Count a prediction that was refused with *status* before it reached its model."""

    def add_metrics(self, collect: Callable[[], Iterable[Metric]]) -> None:
        """Add what *collect* returns to ``/metrics``. Called at each scrape; must not block."""

    def call_every(self, interval_s: float, function: Callable[[], None]) -> None:
        """Call *function* every *interval_s* seconds, as long as the process lives."""

    def read_management(self, path: str) -> Any:
        """Return what ``GET`` *path* of the management listener answers, as JSON has it.

        Call it in a greenlet, and show it to those alone who may manage the server, or who are on
        its machine.

        :param path: such as ``/models``, with its query.
        :raises ModelNotFound: *path* names a model that does not exist.
        """

    def operate(self, operation: Operation, wait_s: float = 0.0) -> OperationRow:
        """Carry out *operation*, as operators do: load, swap, scale, unload models ...

        Blocks until the operation has ended, for at most *wait_s* seconds, or until this front-end
        ends. Call it in a greenlet, such as a view of ``register_routes``. Its users can
        have any file of the server loaded: see ``Routes.managed``.

        :return: how far it is: its ``state`` is ``done``, ``failed`` (then ``error`` says why, and
            ``status`` is a status of HTTP) or still ``running``.
        :raises Draining: the server shuts down.
        :raises servekit.errors.InputError: a field has the wrong type, or is out of range.
        """

    def wait_for(self, is_busy: Callable[[], bool]) -> None:
        """Let a shutdown wait, within the grace, while *is_busy* returns true."""
