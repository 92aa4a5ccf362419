# SPDX-License-Identifier: Apache-2.0
"""Inputs made of what a service says of them, for ``servekit check`` where there is no example."""

import math
from collections.abc import Iterator

import msgspec

from servekit.checkup.messages import Tried
from servekit.description.sample_values import sample_value
from servekit.errors import RequestError, error_class
from servekit.ipc.table import Interface
from servekit.service.base import Service
from servekit.worker.boot.examples import problem_of
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.predictor import Predictor
from servekit.worker.prediction.targets import Targets

__all__ = ["made_input", "refusal_of", "try_endpoints", "why_none"]

JSON = b"application/json"


def made_input(interface: Interface) -> OpenItem | None:
    """Return a request made of the types of inputs; ``None`` if they say nothing."""
    if not interface.input_schema:
        return None
    value = sample_value(interface.input_schema, interface.schema_definitions)
    return msgspec.json.encode(value), JSON, b"", "made", math.inf


def why_none(service: Service) -> str:
    """Return why no input can be made for *service*."""
    if type(service).preprocess is not Service.preprocess:
        return "what its preprocess takes only an example can show"
    return "neither an example, a signature nor types say what an input is"


def refusal_of(predictor: Predictor, item: OpenItem) -> str:
    """Return why the service refuses *item*; "" if it answers it, or fails."""
    (answer,) = predictor.answer([item]).answers
    is_refused = bool(answer[0]) and issubclass(error_class(answer[0]), RequestError)
    return problem_of(answer) if is_refused else ""


def try_endpoints(targets: Targets) -> Iterator[Tried]:
    """Call each endpoint with an input made of its types, and yield what came of it."""
    for row in targets.rows:
        predictor, item = targets.find(row.name), made_input(row.interface)
        if not isinstance(predictor, Predictor) or item is None:
            yield Tried(row.name, unchecked="was not called: its types do not say what an input is")
        elif refused := refusal_of(predictor, item):
            yield Tried(row.name, unchecked=f"refuses the input that was made of types: {refused}")
        else:
            yield Tried(row.name, problem_of(predictor.answer([item]).answers[0]))
