# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF009 - key() declares a field, as dataclasses.field does
"""The stages of a model, and the routes that lead through them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from servekit_archiver.kinds import Json, ListOf, MapOf, Switch, Text
from servekit_archiver.record import Record, Table, key
from servekit_archiver.strictjson import join, show
from servekit_archiver.tables import Batching, Example, Signature, WarmUp, Worker, too_large
from servekit_archiver.texts import MODEL_NAME, SERVICE_NAME

__all__ = [
    "OF_BOTH",
    "PIPELINE",
    "PREDICT",
    "PROCESSES",
    "REQUEST",
    "ROUTES",
    "STAGES",
    "Route",
    "Stage",
    "Step",
    "stage_problems",
]

PREDICT: Final = "predict"  #: the stage that is the model's own ``service``
REQUEST: Final = "request"  #: as an input of a step: what the client sent
#: first parts of paths that are the server's own
FIXED: Final = frozenset(["api-description", "docs", "metrics", "openapi.json", "ping"])


def _stage_problem(name: str) -> str | None:
    return "means the request itself" if name == REQUEST else None


def _path_problem(path: str) -> str | None:
    return "is the server's own" if path.split("/")[1].casefold() in FIXED else None


NAME: Final = r"[A-Za-z][A-Za-z0-9_-]*"
IN_WORDS: Final = "made of letters, digits and _ - alone, beginning with a letter"
STAGE_NAME: Final = Text(max_length=64, pattern=NAME, says=IN_WORDS, problem=_stage_problem)
INPUT_NAME: Final = Text(max_length=64, min_length=1)
ROUTE_PATH: Final = Text(
    max_length=256,
    pattern=r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+",
    says="a path such as /v1/embeddings",
    problem=_path_problem,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Record):
    """One step of a model with a service, processes and batches of its own."""

    service: str = key(SERVICE_NAME, help="module:Class, or a plugin's name for one")
    beside: str | None = key(
        STAGE_NAME,
        default=None,
        help="a stage in whose workers this one runs; it then has no batching or worker of its own",
    )
    signature: Signature | None = key(
        Table(Signature), default=None, help="declared arrays; predict then gets stacked ones"
    )
    batching: Batching = key(Table(Batching), factory=Batching, help="how batches are made")
    worker: Worker = key(Table(Worker), factory=Worker, help="the stage's processes")
    examples: tuple[Example, ...] = key(
        ListOf(Table(Example), max_items=100),
        default=(),
        help="requests that the stage alone must answer",
    )
    warm_up: WarmUp | None = key(
        Table(WarmUp), default=None, help="batches to run before a replica is ready"
    )
    options: Mapping[str, Any] = key(
        Json(table=True), factory=dict, help="free keys for the service: context.options"
    )

    def _problems(self) -> Iterator[str]:
        if self.beside is None:
            yield from too_large(self.warm_up, self.batching)
            return
        for name, default in PROCESSES.items():
            if getattr(self, name) != default:
                yield f"{name}: beside {show(self.beside)} it has the {name} of that; leave it out"


#: keys of a stage that is beside another: those of the other
PROCESSES: Final[Mapping[str, Any]] = {"batching": Batching(), "worker": Worker()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Record):
    """One step of a route: who gets what."""

    stage: str | None = key(STAGE_NAME, default=None, help="a stage of this model")
    model: str | None = key(MODEL_NAME, default=None, help="or another model of the server")
    name: str | None = key(
        STAGE_NAME, default=None, help="what later steps call it; default: its stage or model"
    )
    inputs: tuple[str, ...] = key(
        ListOf(INPUT_NAME, max_items=64),
        default=(),
        help="earlier steps, or request; the input is what the one gave, or a mapping of what"
        " several gave; default: the step before",
    )
    each: bool = key(
        Switch(),
        default=False,
        help="the input is a list: each element is a task of its own, the output a list too",
    )

    @property
    def label(self) -> str:
        """What later steps call it."""
        return self.name or self.stage or self.model or ""

    def _problems(self) -> Iterator[str]:
        if (self.stage is None) == (self.model is None):
            yield "stage: give either stage or model"
        if self.each and len(self.inputs) > 1:
            yield "each: goes with one input, which is a list"


class StepKind:
    """A step; the name of a stage stands for one too."""

    def check(self, value: object, where: str, problems: list[str]) -> Any:
        """Return the step."""
        given = {"stage": value} if isinstance(value, str) else value
        return Table(Step).check(given, where, problems)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of either."""
        return {"anyOf": [STAGE_NAME.schema(), Table(Step).schema()]}


STEPS: Final = ListOf(StepKind(), max_items=64, min_items=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Record):
    """One more path that the model answers at."""

    steps: tuple[Step, ...] = key(STEPS, help="as those of pipeline")
    description: str = key(Text(max_length=4096, lines=True), default="", help="for people")
    instances: bool = key(
        Switch(),
        default=False,
        help='the body is {"instances": [...]}: each goes through the steps and is answered by'
        " itself",
    )


STAGES: Final = MapOf(STAGE_NAME, Table(Stage), max_items=64)
PIPELINE: Final = ListOf(StepKind(), max_items=64)
ROUTES: Final = MapOf(ROUTE_PATH, Table(Route), max_items=256)


#: keys of a model that are those of its own service
OWN: Final[Mapping[str, Any]] = {
    "signature": None,
    "batching": Batching(),
    "worker": Worker(),
    "warm_up": None,
    "options": {},
}

#: keys that a stage and a model have both
OF_BOTH: Final = tuple(spec.name for spec in fields(Stage) if spec.name != "beside")


def step_problems(where: str, steps: Iterable[Step], stages: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with the way through *steps*, each of them right by itself."""
    known, labels, used = set(stages), list[str](), set[str]()
    for index, step in enumerate(steps):
        at = f"{where}[{index}]"
        if step.stage is not None and step.stage not in known:
            shown = ", ".join(sorted(known)) or "none"
            yield f"{at}.stage: {show(step.stage)} is no stage of the model; known: {shown}"
        if step.label in labels:
            yield f"{at}.name: {show(step.label)} is the name of an earlier step; give it another"
        for name in step.inputs:
            if name not in (REQUEST, *labels):
                yield f"{at}.inputs: {show(name)} is no earlier step, nor {REQUEST}"
        used.update(step.inputs or labels[-1:])
        labels.append(step.label)
    for index, label in enumerate(labels[:-1]):
        if label not in used:
            yield f"{where}[{index}]: nothing takes what {show(label)} gives"


def stage_problems(manifest: Any) -> Iterator[str]:
    """Yield what is wrong between the stages of a ``Manifest`` and the ways through them.

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
        if isinstance(stage, Stage) and stage.beside is not None:
            yield from _beside_problems(f"{join('stages', name)}.", name, stage, manifest)
    ways = {"pipeline": manifest.pipeline}
    for path, route in routes.items():
        if isinstance(route, Route):
            ways[f"{join('routes', path)}.steps"] = route.steps
    for where, steps in ways.items():
        if isinstance(steps, tuple) and all(isinstance(step, Step) for step in steps):
            yield from step_problems(where, steps, known)


def _beside_problems(where: str, name: str, stage: Stage, manifest: Any) -> Iterator[str]:
    """Yield what is wrong with the stage in whose workers *stage* is to run."""
    if stage.beside == PREDICT and manifest.service is not None:
        yield from (f"{where}{text}" for text in too_large(stage.warm_up, manifest.batching))
        return
    host, shown = manifest.stages.get(stage.beside), show(stage.beside)
    if stage.beside == name:
        yield f"{where}beside: {shown} is the stage itself"
    elif host is None:
        known = ", ".join(sorted({*manifest.stages} - {name})) or "none"
        yield f"{where}beside: {shown} is no stage of the model; known: {known}"
    elif isinstance(host, Stage) and host.beside is not None:
        yield f"{where}beside: {shown} is beside {show(host.beside)} itself; name that"
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
        yield "examples: there is no pipeline for them; they belong in [stages.NAME]"
    for name, default in OWN.items():
        if getattr(manifest, name) != default:
            yield f"{name}: there is no service for it; it belongs in [stages.NAME]"
