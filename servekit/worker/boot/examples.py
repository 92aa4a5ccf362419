# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of a manifest as a client would: warm-up and self-test in one."""

import math
from collections.abc import Iterable
from pathlib import Path

import msgspec
from servekit_archiver.manifest import Example

from servekit.checkup.comparison import TOLERANCE, difference
from servekit.errors import BootError
from servekit.types.file_types import media_type_of
from servekit.worker.prediction.batch_result import Answered
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.predictor import Predictor

__all__ = ["example_item", "example_problem", "problem_of", "run_examples"]

JSON = "application/json"


def run_examples(examples: Iterable[Example], directory: Path, predictor: Predictor) -> None:
    """Predict every example alone, and compare where an output is expected.

    :raises BootError: one is refused, or its output differs.
    """
    for number, example in enumerate(examples, 1):
        answer = predictor.answer([example_item(example, directory, number)]).answers[0]
        if problem := example_problem(example, answer):
            raise BootError(f"example {number}: {problem}")


def example_item(example: Example, directory: Path, number: int) -> OpenItem:
    """Return the request that *example* is, as the worker gets it."""
    body, content_type = _request(example, directory)
    accept = JSON.encode() if example.output is not None else b""
    return body, content_type.encode(), accept, f"example-{number}", math.inf


def example_problem(example: Example, answer: Answered) -> str:
    """Return why *answer* is not what *example* asks for; "" if it is."""
    if problem := problem_of(answer):
        return problem
    if example.output is None:
        return ""
    found = msgspec.json.decode(answer[2])["prediction"]
    tolerance = TOLERANCE if example.tolerance is None else example.tolerance
    wrong = difference(found, example.output, tolerance)
    return f"output{wrong}" if wrong else ""


def problem_of(answer: Answered) -> str:
    """Return the error that *answer* is; "" if it is none."""
    error, _, body = answer
    return f"{error}: {msgspec.json.decode(body)['detail'] or 'see the log above'}" if error else ""


def _request(example: Example, directory: Path) -> tuple[bytes, str]:
    if example.input_file is None:
        return msgspec.json.encode(example.input), JSON
    path = directory / example.input_file
    return path.read_bytes(), example.content_type or media_type_of(path.name)
