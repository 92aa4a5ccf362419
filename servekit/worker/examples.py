# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of a manifest as a client would: warm-up and self-test in one."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from servekit_archiver.manifest import Example

from servekit.errors import BootError
from servekit.media_types import media_type_of
from servekit.worker.current import OpenItem
from servekit.worker.predictor import Answered, Predictor

__all__ = ["difference", "example_item", "example_problem", "problem_of", "run_examples"]

JSON = "application/json"
TOLERANCE = 1e-6


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


def difference(found: Any, expected: Any, tolerance: float) -> str:
    """Return where *found* is not *expected*, and how; "" if it is."""
    if isinstance(expected, dict) and isinstance(found, dict) and found.keys() == expected.keys():
        pairs = [(f".{key}", (found[key], expected[key])) for key in expected]
    elif isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        pairs = [(f"[{i}]", both) for i, both in enumerate(zip(found, expected, strict=True))]
    else:
        return "" if _is_close(found, expected, tolerance) else _told(found, expected, tolerance)
    wrong = ((where, difference(*both, tolerance)) for where, both in pairs)
    return next((where + what for where, what in wrong if what), "")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_close(found: Any, expected: Any, tolerance: float) -> bool:
    if _is_number(found) and _is_number(expected):
        return math.isclose(found, expected, rel_tol=tolerance, abs_tol=tolerance)
    return type(found) is type(expected) and bool(found == expected)


def _told(found: Any, expected: Any, tolerance: float) -> str:
    shown = [msgspec.json.encode(value).decode()[:60] for value in (found, expected)]
    suffix = f" (tolerance {tolerance:g})" if _is_number(expected) else ""
    return f": {shown[0]}, expected {shown[1]}{suffix}"
