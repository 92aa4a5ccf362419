# SPDX-License-Identifier: Apache-2.0
"""The rules between the stages of a model, and for the routes that lead through them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from servekit_archiver.manifest.stages import PREDICT, REQUEST, Route, Stage, Step
from servekit_archiver.manifest.tables import Batching, WorkerSettings, too_large
from servekit_archiver.strictjson import join, show

__all__ = ["stage_problems"]

#: keys of a model that belong to its service
OWN: Final[Mapping[str, Any]] = {
    "signature": None,
    "batching": Batching(),
    "worker": WorkerSettings(),
    "warm_up": None,
    "options": {},
}


def step_problems(where: str, steps: Iterable[Step], stages: Iterable[str]) -> Iterator[str]:
    """Yield the problems of the route through *steps*; each of them is valid alone."""
    known, labels, used = set(stages), list[str](), set[str]()
    for index, step in enumerate(steps):
        at = f"{where}[{index}]"
        if step.stage is not None and step.stage not in known:
            shown = ", ".join(sorted(known)) or "none"
            yield f"{at}.stage: {show(step.stage)} is not a stage of the model; known: {shown}"
        if step.label in labels:
            yield f"{at}.name: {show(step.label)} is the name of an earlier step; give it another"
        for name in step.inputs:
            if name not in (REQUEST, *labels):
                yield f"{at}.inputs: {show(name)} is neither an earlier step nor {REQUEST}"
        used.update(step.inputs or labels[-1:])
        labels.append(step.label)
    for index, label in enumerate(labels[:-1]):
        if label not in used:
            yield f"{where}[{index}]: no later step uses the output of {show(label)}"


def stage_problems(manifest: Any) -> Iterator[str]:
    """Yield the problems of the stages of a ``Manifest`` and the routes through them.

    A key may hold anything: it may be wrong, and reported already.
    """
    if manifest.service is None and not manifest.stages:
        yield "service: is missing; module:Class, or a plugin's name for one"
        return
    stages, routes = (each if isinstance(each, dict) else {} for each in
                      (manifest.stages, manifest.routes))  # fmt: skip
    yield from _own_problems(manifest, stages, routes)
    known = {*stages, *([PREDICT] if manifest.service is not None else [])}
    for name, stage in stages.items():
        if isinstance(stage, Stage) and stage.host is not None:
            yield from _host_problems(f"{join('stages', name)}.", name, stage, manifest)
    ways = {"pipeline": manifest.pipeline}
    for path, route in routes.items():
        if isinstance(route, Route):
            ways[f"{join('routes', path)}.steps"] = route.steps
    for where, steps in ways.items():
        if isinstance(steps, tuple) and all(isinstance(step, Step) for step in steps):
            yield from step_problems(where, steps, known)


def _host_problems(where: str, name: str, stage: Stage, manifest: Any) -> Iterator[str]:
    """Yield the problems of the stage in whose workers *stage* is to run."""
    if stage.host == PREDICT and manifest.service is not None:
        yield from (f"{where}{text}" for text in too_large(stage.warm_up, manifest.batching))
        return
    host, shown = manifest.stages.get(stage.host), show(stage.host)
    named = f"{where}{'beside' if stage.colocated is None else 'colocated'}"
    if stage.host == name:
        yield f"{named}: {shown} is the stage itself"
    elif host is None:
        known = ", ".join(sorted({*manifest.stages} - {name})) or "none"
        yield f"{named}: {shown} is not a stage of the model; known: {known}"
    elif isinstance(host, Stage) and host.host is not None:
        yield f"{named}: {shown} runs in the workers of {show(host.host)}; name that stage"
    elif isinstance(host, Stage):
        yield from (f"{where}{text}" for text in too_large(stage.warm_up, host.batching))


def _own_problems(
    manifest: Any, stages: Mapping[str, Any], routes: Mapping[str, Any]
) -> Iterator[str]:
    if manifest.service is not None:
        if PREDICT in stages:
            yield f"stages.{PREDICT}: is the model's own service; give the stage another name"
        return
    if not (manifest.pipeline or routes):
        yield "pipeline: is missing; the stages that a request goes through, in their order"
    if manifest.examples and not manifest.pipeline:
        yield "examples: the model has no pipeline for them; they belong in [stages.NAME]"
    for name, default in OWN.items():
        if getattr(manifest, name) != default:
            yield f"{name}: the model itself has no service; it belongs in [stages.NAME]"
