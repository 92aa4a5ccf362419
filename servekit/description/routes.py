# SPDX-License-Identifier: Apache-2.0
"""What answers at each path of the models: services, their endpoints, and steps of several."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from servekit.description.interface import Described, describe
from servekit.description.schemas import relocate
from servekit.messages import PREDICT, Interface, ModelRow, Step, stage_rows

__all__ = ["describe_models"]

DEEPEST: Final = 16  #: models within models

Rows = Mapping[str, ModelRow]


def describe_models(models: Sequence[ModelRow]) -> list[Described]:
    """Return a description for each path of *models*, a model's own before its other ones."""
    rows = {row.name: row for row in models}
    return [each for row in models for each in _describe(row, rows)]


def _describe(row: ModelRow, rows: Rows) -> list[Described]:
    own = f"/{row.name}/predict"
    ways = {route.path: route.steps for route in row.routes}
    found = [] if row.stages or own in ways else [describe(_manifest(row), row.interface)]
    return found + [_of_route(row, path, steps, rows) for path, steps in sorted(ways.items())]


def _manifest(row: ModelRow) -> dict[str, Any]:
    """Return the manifest of a model; one that cannot be loaded has a name, at least."""
    named = {"name": row.name, "version": row.version, "description": row.description}
    return {**row.manifest, **named}


def _of_route(row: ModelRow, path: str, steps: Sequence[Step], rows: Rows) -> Described:
    manifest = {**_manifest(row), "signature": None}
    known = _joined(steps, _interface(row, steps, 0, rows), _interface(row, steps, -1, rows))
    if path == f"/{row.name}/predict":
        return describe(manifest, known)
    said = row.manifest.get("routes", {}).get(path, {}).get("description", "")
    described = describe({**manifest, "examples": [], "description": said}, known)
    slug = re.sub(r"[^A-Za-z0-9_-]+", "_", path.removeprefix(f"/{row.name}/")).strip("_")
    return structs.replace(described, path=path, slug=slug)


def _interface(
    row: ModelRow, steps: Sequence[Step], end: int, rows: Rows, depth: int = 0
) -> Interface | None:
    """Return the interface of the step at the *end* (0 or -1) of *steps*, as far as it is known."""
    step = steps[end]
    if step.stage:
        stages = {stage.stage or PREDICT: stage.interface for stage in stage_rows(row)}
        known = stages.get(step.stage)
        if known is None or not step.target:
            return known
        return next((e.interface for e in known.endpoints if e.name == step.target), None)
    other = rows.get(step.model)
    if other is None or depth > DEEPEST:
        return None
    own = f"/{other.name}/predict"
    inner = next((route.steps for route in other.routes if route.path == own), None)
    return _interface(other, inner, end, rows, depth + 1) if inner else other.interface


def _joined(
    steps: Sequence[Step], first: Interface | None, last: Interface | None
) -> Interface | None:
    """Return what goes into *first* and comes out of *last*."""
    if first is None or last is None:
        return None
    moves = {f"#/$defs/{name}": f"#/$defs/out-{name}" for name in last.schema_definitions}
    definitions = {f"out-{n}": relocate(s, moves) for n, s in last.schema_definitions.items()}
    signature = None
    if first.signature is not None and not steps[0].each:
        outputs = last.signature["outputs"] if last.signature else []
        signature = {"inputs": first.signature["inputs"], "outputs": outputs}
    return Interface(
        signature=signature,
        input_schema=_list(first.input_schema, is_list=steps[0].each),
        output_schema=_list(relocate(last.output_schema, moves), is_list=steps[-1].each),
        schema_definitions=first.schema_definitions | definitions,
        consumes=first.consumes,
        produces=last.produces,
    )


def _list(schema: dict[str, Any], *, is_list: bool) -> dict[str, Any]:
    return {"type": "array", "items": schema} if is_list else schema
