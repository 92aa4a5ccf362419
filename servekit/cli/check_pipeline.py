# SPDX-License-Identifier: Apache-2.0
"""The examples of a model with stages, asked of a server: the whole way, as a client would."""

from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final

import msgspec
from servekit_archiver import Manifest
from servekit_archiver.manifest import Example

from servekit.checkup import ExampleRun
from servekit.comparing import TOLERANCE, difference
from servekit.media_types import media_type_of
from servekit.settings import Settings
from servekit.supervisor.prepared import Prepared
from servekit.testing import ServedModel
from servekit.testing.response import OK, Response

__all__ = ["PipelineReport", "examine_pipeline"]

JSON: Final = "application/json"


@dataclass
class PipelineReport:
    """The ways through the stages of a model, and what came of its examples."""

    paths: dict[str, list[str]]  #: to the labels of their steps
    examples: list[ExampleRun] = field(default_factory=list)
    note: str = ""  #: why there are no examples, or none were run
    failure: str = ""  #: why they could not be run

    @property
    def problems(self) -> list[str]:
        """What is wrong, one line each."""
        found = [f"example {run.number}: {run.problem}" for run in self.examples if run.problem]
        return [*found, *filter(None, [self.failure])]


def examine_pipeline(
    prepared: Prepared, manifest: Manifest, text: str, settings: Settings
) -> PipelineReport:
    """Serve the model at *text* with one worker for each stage, and ask its examples.

    Each stage has been loaded before, so what fails here is the way through them.
    """
    named = {f"/{manifest.name}/predict": manifest.pipeline} if manifest.pipeline else {}
    ways = {**named, **{path: route.steps for path, route in manifest.routes.items()}}
    report = PipelineReport({path: [step.label for step in ways[path]] for path in ways})
    others = ", ".join(step.model for step in manifest.pipeline if step.model)
    if not (manifest.pipeline and manifest.examples):
        report.note = "no examples of the whole"
    elif others:
        report.note = f"examples not run: a step is another model, {others}"
    else:
        directory = Path(prepared.directory)
        try:
            with ServedModel(text, **_flags(settings)) as served:
                served.wait_ready()
                for number, example in enumerate(manifest.examples, 1):
                    report.examples.append(_run(served, example, directory, number))
        except AssertionError as error:  # what the server could not do, and its log
            report.failure = f"cannot be served: {error}"
    return report


def _flags(settings: Settings) -> dict[str, Any]:
    flags: dict[str, Any] = {"replicas": 1, "install_requirements": settings.install_requirements}
    return flags | ({"cache_dir": settings.cache_dir} if settings.cache_dir else {})


def _run(served: ServedModel, example: Example, directory: Path, number: int) -> ExampleRun:
    if example.input_file is None:
        body, content_type = msgspec.json.encode(example.input), JSON
    else:
        path = directory / example.input_file
        body, content_type = path.read_bytes(), example.content_type or media_type_of(path.name)
    headers = {} if example.output is None else {"Accept": JSON}
    started = monotonic()
    answer = served.post(f"/{served.name}/predict", body, content_type, headers)
    return ExampleRun(number, monotonic() - started, _problem(answer, example))


def _problem(answer: Response, example: Example) -> str:
    """Return why *answer* is not what *example* asks for; "" if it is."""
    if answer.status != OK:
        told = answer.json()
        detail = told.get("detail") or "see its log: servekit start"
        return f"{answer.status} {told['title']}: {detail}"
    if example.output is None:
        return ""
    tolerance = TOLERANCE if example.tolerance is None else example.tolerance
    wrong = difference(answer.prediction, example.output, tolerance)
    return f"output{wrong}" if wrong else ""
