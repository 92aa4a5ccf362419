# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF009 - key() declares a field, as dataclasses.field does
"""The stages of a model, and the routes that lead through them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from servekit_archiver.manifest.kinds import Json, ListOf, MapOf, Switch, Text
from servekit_archiver.manifest.record import ManifestTable, TableOf, key
from servekit_archiver.manifest.tables import (
    MEDIA_TYPE,
    Batching,
    Example,
    Signature,
    StreamSettings,
    WarmUp,
    WorkerSettings,
    too_large,
)
from servekit_archiver.manifest.texts import MODEL_NAME, SERVICE_NAME
from servekit_archiver.strictjson import show

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
]

PREDICT: Final = "predict"  #: the stage that is the model's own ``service``
REQUEST: Final = "request"  #: as an input of a step: what the client sent
#: first parts of paths that are the server's own
FIXED: Final = frozenset(["api-description", "docs", "metrics", "openapi.json", "ping"])


def _stage_problem(name: str) -> str | None:
    return "is reserved for the request itself" if name == REQUEST else None


def _path_problem(path: str) -> str | None:
    return "is reserved for the server" if path.split("/")[1].casefold() in FIXED else None


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
class Stage(ManifestTable):
    """A stage of a model: its service, processes and batches."""

    service: str = key(SERVICE_NAME, help="module:Class, or a plugin's name for one")
    colocated: str | None = key(
        STAGE_NAME,
        default=None,
        help="a stage in whose workers this one runs, with the batching and worker of that stage",
    )
    beside: str | None = key(STAGE_NAME, default=None, help="the old name of the key colocated")
    signature: Signature | None = key(
        TableOf(Signature), default=None, help="declared arrays; predict then gets stacked ones"
    )
    batching: Batching = key(TableOf(Batching), factory=Batching, help="how batches are made")
    worker: WorkerSettings = key(
        TableOf(WorkerSettings), factory=WorkerSettings, help="the stage's processes"
    )
    examples: tuple[Example, ...] = key(
        ListOf(TableOf(Example), max_items=100),
        default=(),
        help="requests that the stage alone must answer",
    )
    warm_up: WarmUp | None = key(
        TableOf(WarmUp), default=None, help="batches to run before a replica is ready"
    )
    options: Mapping[str, Any] = key(
        Json(table=True), factory=dict, help="free keys for the service: context.options"
    )

    @property
    def host(self) -> str | None:
        """The stage in whose workers this one runs; ``None`` if it has its own workers."""
        return self.colocated if self.colocated is not None else self.beside

    def _problems(self) -> Iterator[str]:
        if self.colocated is not None and self.beside is not None:
            yield "beside: is an older name of colocated, which is given too; leave it out"
        if self.host is None:
            yield from too_large(self.warm_up, self.batching)
            return
        for name, default in PROCESSES.items():
            if getattr(self, name) != default:
                yield f"{name}: is that of the stage {show(self.host)}; leave it out"


#: keys that a colocated stage takes from its host
PROCESSES: Final[Mapping[str, Any]] = {"batching": Batching(), "worker": WorkerSettings()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(ManifestTable):
    """One step of a route: a stage or a model, and its inputs."""

    stage: str | None = key(STAGE_NAME, default=None, help="a stage of this model")
    model: str | None = key(MODEL_NAME, default=None, help="or another model of the server")
    name: str | None = key(
        STAGE_NAME, default=None, help="the name that later steps use; default: its stage or model"
    )
    inputs: tuple[str, ...] = key(
        ListOf(INPUT_NAME, max_items=64),
        default=(),
        help="earlier steps, or request; the input is the output of one, or a mapping of the"
        " outputs of several; default: the step before",
    )
    each: bool = key(
        Switch(),
        default=False,
        help="the input is a list: each element is a separate task, and the output is a list too",
    )

    @property
    def label(self) -> str:
        """The name that later steps use."""
        return self.name or self.stage or self.model or ""

    def _problems(self) -> Iterator[str]:
        if (self.stage is None) == (self.model is None):
            yield "stage: give either stage or model"
        if self.each and len(self.inputs) > 1:
            yield "each: requires a single input, which is a list"


class StepKind:
    """A step; the name of a stage stands for one too."""

    def check(self, value: object, where: str, problems: list[str]) -> Any:
        """Return the step."""
        given = {"stage": value} if isinstance(value, str) else value
        return TableOf(Step).check(given, where, problems)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of either."""
        return {"anyOf": [STAGE_NAME.schema(), TableOf(Step).schema()]}


STEPS: Final = ListOf(StepKind(), max_items=64, min_items=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(ManifestTable):
    """One more path that the model answers at."""

    steps: tuple[Step, ...] = key(STEPS, help="as those of pipeline")
    description: str = key(Text(max_length=4096, lines=True), default="", help="for people")
    instances: bool = key(
        Switch(),
        default=False,
        help='the body is {"instances": [...]}: each goes through the steps separately',
    )
    envelope: bool | None = key(
        Switch(),
        default=None,
        help='false: the body of an answer is the output, without {"prediction": ...}, and that of'
        " instances is the list; default: that of the model",
    )
    stream: StreamSettings | None = key(
        TableOf(StreamSettings), default=None, help="how it streams; default: as the model"
    )
    media_type: str | None = key(
        MEDIA_TYPE,
        default=None,
        help="of a body whose request names none, and of the answer to a client that accepts any;"
        " default: that of the model",
    )


STAGES: Final = MapOf(STAGE_NAME, TableOf(Stage), max_items=64)
PIPELINE: Final = ListOf(StepKind(), max_items=64)
ROUTES: Final = MapOf(ROUTE_PATH, TableOf(Route), max_items=256)


#: keys that a stage and a model have both
OF_BOTH: Final = tuple(
    spec.name for spec in fields(Stage) if spec.name not in ("colocated", "beside")
)
