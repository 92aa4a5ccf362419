# SPDX-License-Identifier: Apache-2.0
"""Runs a checkup: prepares a model, starts one worker that tries it, and collects what it finds."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from servekit_archiver import Manifest
from servekit_archiver.manifest import Example

from servekit.checkup.messages import (
    BatchRun,
    Checked,
    Checkup,
    Diagnosis,
    ExampleRun,
    ServiceLoaded,
    StepStarted,
    Tried,
)
from servekit.cli.output.plain import Display
from servekit.errors import StartupError
from servekit.ipc.batches import PREDICT
from servekit.ipc.control import BootFailed
from servekit.settings import Settings
from servekit.settings.archive_keys import read_archive_keys
from servekit.settings.models import parse_models
from servekit.supervisor.models.boot_plan import launch_of
from servekit.supervisor.os import exits
from servekit.supervisor.os.child import Child
from servekit.supervisor.os.environment import worker_environment
from servekit.supervisor.os.loop import Loop, Timer
from servekit.supervisor.os.memory_directory import memory_twin
from servekit.supervisor.os.process import ProcessSpec, python_module
from servekit.supervisor.os.resources import usable_cores
from servekit.supervisor.os.user import find_user, user_of_model
from servekit.supervisor.preparing.child import PrepareChild
from servekit.supervisor.preparing.messages import (
    PreparedModel,
    PreparedStage,
    PrepareOutcome,
    PrepareRequest,
    policy_of,
)

__all__ = ["Report", "examine", "prepare"]

PREPARE_TIMEOUT_S = 120.0


@dataclass
class Report:
    """The findings of a checkup."""

    prepared: PreparedModel
    stage: PreparedStage
    loaded: ServiceLoaded | None = None
    examples: list[ExampleRun] = field(default_factory=list)
    batches: list[BatchRun] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    peak_bytes: int = 0
    failure: str = ""  #: why the worker did not come to its end

    @property
    def name(self) -> str:
        """The name of the model, and of the stage if it has several."""
        return "/".join(filter(None, (self.prepared.name, self.stage.name)))

    @property
    def problems(self) -> list[str]:
        """The problems of a model that loads, one line each."""
        examples = [f"example {run.number}: {run.problem}" for run in self.examples if run.problem]
        batches = [f"batch of {run.size}: {run.problem}" for run in self.batches if run.problem]
        tried = [f"{method_label(each)}: {each.problem}" for each in self.tried if each.problem]
        return [*examples, *batches, *tried, *filter(None, [self.failure])]

    @property
    def unchecked(self) -> list[str]:
        """The methods that were not tried, one line each."""
        return [f"{method_label(each)} {each.unchecked}" for each in self.tried if each.unchecked]


def method_label(tried: Tried) -> str:
    """Return what the author calls the method."""
    return f"endpoint {tried.target}" if tried.target else "predict"


def prepare(text: str, settings: Settings, display: Display, scratch: str) -> PreparedModel:
    """Return the model at *text*, verified, unpacked and with its requirements.

    :param scratch: a directory that may be made, for what a plugin gets from a URL.
    :raises StartupError: it is refused.
    """
    (entry,) = parse_models([text])
    name = entry.provisional_name
    loop, outcomes = Loop(), list[PrepareOutcome]()
    display.attach(loop.call_later)

    def on_outcome(outcome: PrepareOutcome) -> None:
        display.progress(name, outcome.step)
        if not outcome.step:
            outcomes.append(outcome)
            loop.stop()

    request = PrepareRequest(
        entry.path,
        entry.name,
        settings.cache_dir,
        settings.install_requirements,
        worker_user=user_of_model(settings.worker_user, 0, 1),
        scratch=scratch,
        required_plugins=list(settings.require_plugins),
        policy=policy_of(settings),
        memory=str(memory_twin(Path(scratch).parent) / "archive"),
        archive_keys=read_archive_keys(settings.archive_keys),
    )
    display.progress(name, "preparing")
    timeout_s = settings.load_timeout or PREPARE_TIMEOUT_S
    child = PrepareChild(
        loop, request, timeout_s, lambda line: display.line(name, line), on_outcome
    )
    try:
        loop.run()
    finally:
        child.kill()
    if (model := outcomes[0].model) is None:
        raise StartupError("\n".join(f"{name}: {line}" for line in outcomes[0].error.splitlines()))
    return model


def examine(
    prepared: PreparedModel,
    stage: PreparedStage,
    batch_sizes: list[int],
    settings: Settings,
    display: Display,
) -> Report:
    """Load the service of *stage* in a separate worker and run everything.

    :raises StartupError: it cannot be loaded; the message names the file.
    """
    loop, report = Loop(), Report(prepared, stage)
    display.attach(loop.call_later)
    examination = Examination(loop, report, batch_sizes, settings, display)
    try:
        loop.run()
    finally:
        examination.process.kill()
    if report.loaded is None:
        raise StartupError(f"{report.name}: {report.failure}")
    return report


def inputs_of(prepared: PreparedModel, stage: PreparedStage) -> tuple[list[Example], bool]:
    """Return the examples of the pipeline that begins with *stage*, and whether others feed it."""
    manifest = Manifest.from_mapping(msgspec.json.decode(prepared.manifest))
    routes = [manifest.pipeline, *(route.steps for route in manifest.routes.values())]
    name = stage.name or PREDICT
    found = [at for route in routes for at, step in enumerate(route) if step.stage == name]
    is_first = bool(manifest.pipeline) and manifest.pipeline[0].stage == name
    if is_first and not manifest.pipeline[0].each:
        return list(manifest.examples), False
    return [], bool(found) and min(found) > 0


class Examination:
    """The worker of one checkup, seen from outside."""

    def __init__(
        self,
        loop: Loop,
        report: Report,
        batch_sizes: list[int],
        settings: Settings,
        display: Display,
    ) -> None:
        """Start it; *loop* stops when it is gone."""
        self._loop, self._report, self._settings, self._display = loop, report, settings, display
        self._name, self._step = report.name, "loading"
        self._timer: Timer | None = None
        self._is_over = False
        threads = max(1, usable_cores() // (settings.replicas or report.stage.replicas))
        self._child: Child[Diagnosis] = Child(
            loop,
            lambda control: self._spec(control, threads),
            Diagnosis,
            on_line=lambda line: display.line(report.name, line),
            on_message=self._received,
            on_exit=self._exited,
        )
        self.process = self._child.process
        launch = launch_of(report.prepared, report.stage, settings, threads)
        examples, is_fed = inputs_of(report.prepared, report.stage)
        self._child.send(Checkup(launch, batch_sizes, examples, is_fed))
        self._wait_for("loading")

    def _spec(self, control: int, threads: int) -> ProcessSpec:
        prepared, numbers = self._report.prepared, (str(os.getpid()), str(control))
        user, variables = find_user(prepared.user), self._report.stage.environments[0]
        passed = self._settings.pass_env
        return ProcessSpec(
            arguments=python_module("servekit.worker.boot.check", *numbers, python=prepared.python),
            environment=worker_environment(os.environ, threads, variables, user, passed),
            directory=prepared.directory,
            inherited=(control,),
            user=user,
        )

    def _received(self, finding: Diagnosis) -> None:
        report = self._report
        match finding:
            case StepStarted():
                self._wait_for(finding.text)
            case ServiceLoaded():
                report.loaded = finding
            case ExampleRun():
                report.examples.append(finding)
            case BatchRun():
                report.batches.append(finding)
            case Tried():
                report.tried.append(finding)
            case BootFailed():
                report.failure, self._is_over = finding.reason, True
            case Checked():
                report.peak_bytes, self._is_over = finding.peak_bytes, True

    def _wait_for(self, step: str) -> None:
        """Give what begins now as long as the model's limits allow."""
        self._step = step
        self._display.progress(self._name, step)
        stage, settings = self._report.stage, self._settings
        if self._report.loaded is None:
            limit_s = settings.load_timeout or stage.load_timeout_s
        else:
            limit_s = settings.predict_timeout or stage.predict_timeout_s
        if self._timer:
            self._timer.cancel()
        self._timer = self._loop.call_later(limit_s, lambda: self._time_out(limit_s))

    def _time_out(self, limit_s: float) -> None:
        self._report.failure = f"{self._step}: not done after {limit_s:g} s"
        self.process.kill()

    def _exited(self, exit_code: int) -> None:
        self._display.progress(self._name, "")
        if not (self._is_over or self._report.failure):
            likely = exits.likely_reason(exit_code, is_out_of_memory=None)
            why = f" ({likely})" if likely else ""
            self._report.failure = f"{self._step}: the worker exited with {exit_code}{why}"
        self._loop.stop()
