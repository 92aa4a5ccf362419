# SPDX-License-Identifier: Apache-2.0
"""Judges the start, until the server serves or has failed to."""

import os
from collections.abc import Callable
from time import time

from servekit import __version__
from servekit.errors import StartupError
from servekit.extension.events import ServerStarted
from servekit.settings import Settings
from servekit.settings.models import unknown_model
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.registry import ModelRegistry
from servekit.supervisor.models.routes import clashes
from servekit.supervisor.reporting.journal import Notice
from servekit.supervisor.reporting.reporter import Reporter
from servekit.supervisor.server.listeners import Listeners

__all__ = ["OnlyModelRefused", "StartUp"]


class OnlyModelRefused(StartupError):
    """The only model could not be prepared; it has said ``cannot be loaded`` and why."""


class StartUp:
    """Says once that the server serves, or remembers why it cannot."""

    def __init__(
        self,
        settings: Settings,
        registry: ModelRegistry,
        listeners: Listeners,
        reporter: Reporter,
        on_failure: Callable[[str], object],
        on_settled: Callable[[], object],
        may_recover: Callable[[Model], bool],
    ) -> None:
        """Wait.

        :param on_failure: gets the reason once, when the start has failed.
        :param on_settled: is called once, to tell the front-ends and then set ``is_known``.
        :param may_recover: whether a model that has failed may still load from elsewhere.
        """
        self._settings = settings
        self._registry = registry
        self._listeners = listeners
        self._reporter = reporter
        self._on_failure, self._on_settled = on_failure, on_settled
        self._may_recover = may_recover
        self._is_telling = False
        self.has_settled = False  #: whether the first load of every model has ended
        self.is_known = False  #: to the front-ends: which models have loaded
        self.is_serving = False
        self.is_interrupted = False  #: by Ctrl-C, before it served
        self.error: StartupError | None = None

    def advance(self, *, is_front_end_ready: bool) -> None:
        """Check again; called whenever something has changed."""
        if self.is_serving or self.error:
            return
        if error := self._problem():
            self.fail(error)
            return
        has_settled = all(map(self._is_settled, self._registry))
        self.has_settled |= has_settled
        if has_settled and is_front_end_ready:
            self._go_on()

    def _go_on(self) -> None:
        """Serve once the front-ends know what has loaded."""
        if self.is_known:
            self.is_serving = True
            self._announce()
        elif not self._is_telling:
            self._is_telling = True
            self._on_settled()

    def interrupt(self) -> None:
        """Note Ctrl-C, which ends the start."""
        self.is_interrupted |= not self.is_serving

    def fail(self, error: StartupError) -> None:
        """End the server because of *error*; of several, the first one is raised."""
        if self.error is None:
            self.error = error
            self._on_failure(str(error))

    def _is_settled(self, model: Model) -> bool:
        """Whether the first load of *model* is over, well or for good."""
        return model.has_settled and (model.is_loaded or not self._may_recover(model))

    def _problem(self) -> StartupError | None:
        """Return why the start has failed, if it has; with ``reload`` models may fail."""
        models = list(self._registry)
        settled = [model for model in models if self._is_settled(model)]
        failed = [model for model in settled if not model.is_loaded]
        is_over = len(settled) == len(models)
        is_watching = self._settings.reload or self._settings.watch
        if failed and len(failed) == len(models) and not is_watching:
            is_alone = len(failed) == 1 and failed[0].failure
            kind = OnlyModelRefused if is_alone else StartupError
            return kind("no model could be loaded")
        for clash in clashes([model.row() for model in settled]):
            return StartupError(f"models: {clash.text}")
        served = [model.name for model in models]
        if is_over and not failed and (problem := unknown_model(self._settings, served)):
            return StartupError(problem)
        if failed and self._settings.strict and is_over:  # to name all of them
            names = ", ".join(model.name for model in failed)
            return StartupError(f"strict: {names} could not be loaded")
        return None

    def _announce(self) -> None:
        """Show the one line that scripts wait for."""
        url, addresses = self._listeners.url, self._listeners.addresses
        labels = [model.label for model in self._registry if model.is_loaded]
        failed = [model.name for model in self._registry if not model.is_loaded]
        shown = ", ".join(labels) or "nothing yet"
        text = f"{__version__} serving {shown} at {' and '.join(addresses)}"
        if failed:
            text += f"; {', '.join(failed)} could not be loaded"
        fields = {"url": url, "addresses": addresses, "models": labels, "failed": failed}
        self._reporter.notice(self._listeners.managed_at())
        self._reporter.notice(Notice("serving", "servekit", text, fields=fields))
        self._reporter.event(
            ServerStarted(
                time_s=time(),
                version=__version__,
                url=url,
                pid=os.getpid(),
                models=labels,
                failed=failed,
            )
        )
