# SPDX-License-Identifier: Apache-2.0
"""Describes each path of the models: their services, endpoints and pipelines."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from servekit.description.interface import (
    JSON,
    MULTIPART,
    VERSION,
    PathDescription,
    describe,
    with_style,
)
from servekit.description.schemas import relocate
from servekit.ipc.batches import PREDICT
from servekit.ipc.response_style import ResponseStyle
from servekit.ipc.stream_formats import STREAM_FORMATS
from servekit.ipc.table import Interface, ModelRow, RouteRow, StepRow, path_of_version, stage_rows

__all__ = ["describe_model", "describe_models", "predict_interface"]

#: media types that can hold a mapping, or a list of anything
STRUCTURED: Final = (
    JSON,
    "application/msgpack",
    "application/x-msgpack",
    "application/vnd.msgpack",
)
#: prefixes of media types of a single plain value
PLAIN: Final = ("text/", "image/", "audio/", "video/", "application/octet-stream", "*/", MULTIPART)
MAX_DEPTH: Final = 16  #: models within models

Rows = Mapping[str, ModelRow]


def describe_models(models: Sequence[ModelRow]) -> list[PathDescription]:
    """Return a description of each path of *models*, ``/predict`` before the others of a model."""
    rows = {row.name: row for row in models}
    return [each for row in models for each in _with_versions(row, _describe(row, rows))]


def describe_model(row: ModelRow, models: Sequence[ModelRow]) -> list[PathDescription]:
    """Return a description of each path of the model of *row*, ``/predict`` first.

    :param models: all models of the server: a pipeline may call them.
    """
    return list(_with_versions(row, _describe(row, {each.name: each for each in models})))


def predict_interface(row: ModelRow, models: Sequence[ModelRow]) -> Interface | None:
    """Return the inputs and the outputs at ``/<model>/predict``, whichever services answer there.

    ``None`` if they are not known yet.
    """
    steps = row.own_steps
    return _joined(row, steps, {each.name: each for each in models}) if steps else row.interface


def _with_versions(
    row: ModelRow, described: Sequence[PathDescription]
) -> Iterator[PathDescription]:
    """Yield the paths of a model, and those that name a version, if there are several.

    A version is a parameter of the path, so that the description does not grow with each of them.
    """
    yield from described
    if row.versions or row.traffic.aliases:
        for each in described:
            path = path_of_version(row.name, VERSION, each.path)
            yield structs.replace(each, path=path)


def _describe(row: ModelRow, rows: Rows) -> list[PathDescription]:
    own = f"/{row.name}/predict"
    answering = [route for route in row.routes if not route.problem]
    routes = sorted(answering, key=lambda route: (route.path != own, route.path))
    has_own = not row.stages and all(route.path != own for route in routes)
    found = [describe(_manifest(row), row.interface)] if has_own else []
    return found + [_of_route(row, route, rows) for route in routes]


def _manifest(row: ModelRow) -> dict[str, Any]:
    """Return the manifest of a model; even one that cannot be loaded has a name."""
    named = {"name": row.name, "version": row.version, "description": row.description}
    return {**row.manifest, **named}


def _of_route(row: ModelRow, route: RouteRow, rows: Rows) -> PathDescription:
    manifest = {**_manifest(row), "signature": None}
    known = _joined(row, route.steps, rows)
    if route.path == f"/{row.name}/predict":
        return describe(manifest, known)
    said = row.manifest.get("routes", {}).get(route.path, {}).get("description", "")
    described = describe({**manifest, "examples": [], "description": said}, known)
    slug = re.sub(r"[^A-Za-z0-9_-]+", "_", route.path.removeprefix(f"/{row.name}/")).strip("_")
    described = structs.replace(described, path=route.path, slug=slug, get=route.get)
    described = with_style(described, route.style)
    return _of_instances(described) if route.instances else described


def _of_instances(described: PathDescription) -> PathDescription:
    return structs.replace(
        described,
        instances=True,
        consumes=[*STRUCTURED, MULTIPART],
        produces=[JSON],
        style=described.style.whole or ResponseStyle(),
    )


def _interface(
    row: ModelRow, steps: Sequence[StepRow], end: int, rows: Rows, depth: int = 0
) -> Interface | None:
    """Return the interface of the step at the *end* (0 or -1) of *steps*, if it is known."""
    step = steps[end]
    if step.stage:
        known = _of_stage(row, step.stage)
        if known is None or not step.target:
            return known
        return next((e.interface for e in known.endpoints if e.name == step.target), None)
    other = rows.get(step.model)
    if other is None or depth > MAX_DEPTH:
        return None
    inner = other.own_steps
    return _interface(other, inner, end, rows, depth + 1) if inner else other.interface


def _of_stage(row: ModelRow, name: str) -> Interface | None:
    stages: dict[str, Interface | None] = {}
    for stage in stage_rows(row):
        stages |= {stage.stage or PREDICT: stage.interface, **stage.colocated}
    return stages.get(name)


def _every(
    row: ModelRow, steps: Sequence[StepRow], rows: Rows, depth: int = 0
) -> Iterator[Interface]:
    """Yield the interface of every service of *steps* whose interface is known."""
    for step in steps:
        other = rows.get(step.model)
        if step.stage:
            known = _of_stage(row, step.stage)
        elif other is None or depth > MAX_DEPTH:
            continue
        else:
            yield from _every(other, other.own_steps, rows, depth + 1)
            known = other.interface
        if known is not None:
            yield known


def _joined(row: ModelRow, steps: Sequence[StepRow], rows: Rows) -> Interface | None:
    """Return the inputs of the first of *steps* and the outputs of the last."""
    first, last = _interface(row, steps, 0, rows), _interface(row, steps, -1, rows)
    if first is None or last is None:
        return None
    moves = {f"#/$defs/{name}": f"#/$defs/out-{name}" for name in last.schema_definitions}
    definitions = {f"out-{n}": relocate(s, moves) for n, s in last.schema_definitions.items()}
    signature = None
    if first.signature is not None and not steps[0].each:
        outputs = last.signature["outputs"] if last.signature else []
        signature = {"inputs": first.signature["inputs"], "outputs": outputs}
    is_list, every = steps[-1].each, list(_every(row, steps, rows))
    return Interface(
        signature=signature,
        input_schema=_list(first.input_schema, is_list=steps[0].each),
        output_schema=_list(relocate(last.output_schema, moves), is_list=is_list),
        schema_definitions=first.schema_definitions | definitions,
        consumes=_of_lists(first.consumes) if steps[0].each else first.consumes,
        produces=_of_lists(last.produces) if is_list else last.produces,
        request_headers=sorted({name for each in every for name in each.request_headers}),
        request_query=sorted({name for each in every for name in each.request_query}),
        task=last.task,
    )


def _of_lists(media_types: Sequence[str]) -> list[str]:
    """Return those of *media_types* that can hold a list of what they hold."""
    return [each for each in media_types if not (each.startswith(PLAIN) or each in STREAM_FORMATS)]


def _list(schema: dict[str, Any], *, is_list: bool) -> dict[str, Any]:
    return {"type": "array", "items": schema} if is_list else schema
