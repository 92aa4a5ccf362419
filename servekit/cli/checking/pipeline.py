# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of a model with stages through a server, as a client would."""

import os
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from time import monotonic
from typing import Any, Final

import msgspec
from servekit_archiver import Manifest
from servekit_archiver.manifest import Example

from servekit.checkup.comparison import TOLERANCE, difference
from servekit.checkup.messages import ExampleRun
from servekit.settings import Settings, options
from servekit.settings.fields import PREFIX
from servekit.supervisor.preparing.messages import PreparedModel
from servekit.testing import ServedModel
from servekit.testing.response import Response
from servekit.types.file_types import media_type_of

__all__ = ["PipelineReport", "examine_pipeline"]

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
#: settings that the server for the examples takes from the environment, as the workers did
OF_WORKERS: Final = (
    *("load_timeout", "predict_timeout", "max_body", "max_answer", "large_body", "arena"),
    *("pass_env", "worker_user", "worker_memory", "worker_files"),
)


@dataclass
class PipelineReport:
    """The routes through the stages of a model, and the runs of its examples."""

    paths: dict[str, list[str]]  #: to the labels of their steps
    examples: list[ExampleRun] = field(default_factory=list)
    note: str = ""  #: why there are no examples, or none were run
    failure: str = ""  #: why they could not be run

    @property
    def problems(self) -> list[str]:
        """The problems, one line each."""
        found = [f"example {run.number}: {run.problem}" for run in self.examples if run.problem]
        return [*found, *filter(None, [self.failure])]


def examine_pipeline(
    prepared: PreparedModel, manifest: Manifest, text: str, settings: Settings
) -> PipelineReport:
    """Serve the model at *text* with one worker for each stage, and ask its examples.

    Each stage has been loaded before, so what fails here is the route through them.
    """
    named = {f"/{manifest.name}/predict": manifest.pipeline} if manifest.pipeline else {}
    routes = {**named, **{path: route.steps for path, route in manifest.routes.items()}}
    report = PipelineReport({path: [step.label for step in routes[path]] for path in routes})
    steps = (step for route in routes.values() for step in route)
    others = ", ".join(dict.fromkeys(step.model for step in steps if step.model))
    if not (manifest.pipeline and manifest.examples):
        report.note = "the pipeline has no examples"
    elif others:
        report.note = f"examples not run: a step is another model, {others}"
    elif manifest.calls:  # a server has no stand-ins
        report.note = f"examples not run: its services call {', '.join(manifest.calls)}"
    else:
        directory, is_bare = Path(prepared.directory), manifest.envelope is False
        try:
            with ServedModel(text, environment=_environment(), **_flags(settings)) as served:
                served.wait_ready()
                for number, example in enumerate(manifest.examples, 1):
                    report.examples.append(
                        _run(served, example, directory, number, is_bare=is_bare)
                    )
        except AssertionError as error:  # the text has the log of the server
            report.failure = f"cannot be served: {error}"
    return report


def _flags(settings: Settings) -> dict[str, Any]:
    flags: dict[str, Any] = {"replicas": 1, "install_requirements": settings.install_requirements}
    return flags | ({"cache_dir": settings.cache_dir} if settings.cache_dir else {})


def _environment() -> dict[str, str]:
    """Return our own, without the settings that are about clients: their tokens, TLS, ports."""
    kept = {option.variable for option in options() if option.name in OF_WORKERS}
    return {
        name: text
        for name, text in os.environ.items()
        if name in kept or not name.startswith(PREFIX)
    }


def _run(
    served: ServedModel, example: Example, directory: Path, number: int, *, is_bare: bool
) -> ExampleRun:
    if example.input_file is None:
        body, content_type = msgspec.json.encode(example.input), JSON
    else:
        path = directory / example.input_file
        body, content_type = path.read_bytes(), example.content_type or media_type_of(path.name)
    headers = {} if example.output is None else {"Accept": JSON}
    started = monotonic()
    answer = served.post(f"/{served.name}/predict", body, content_type, headers)
    run_s = monotonic() - started
    return ExampleRun(number, run_s, _problem(answer, example, is_bare=is_bare))


def _problem(answer: Response, example: Example, *, is_bare: bool) -> str:
    """Return why *answer* is not what *example* asks for; "" if it is."""
    if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        if answer.content_type != PROBLEM:
            return f"{answer.status}, in {answer.content_type}"
        told = answer.json()
        detail = told.get("detail") or "see its log: servekit start"
        return f"{answer.status} {told['title']}: {detail}"
    if example.output is None:
        return ""
    if answer.content_type != JSON:
        return f"output in {answer.content_type}: only JSON is compared"
    told = answer.json()
    # a Response with a content type is sent unchanged
    is_enveloped = not is_bare and isinstance(told, dict) and "prediction" in told
    found = told["prediction"] if is_enveloped else told
    tolerance = TOLERANCE if example.tolerance is None else example.tolerance
    wrong = difference(found, example.output, tolerance)
    return f"output{wrong}" if wrong else ""
