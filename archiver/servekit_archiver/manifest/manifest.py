# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF009 - key() declares a field, as dataclasses.field does
"""The manifest, key by key: this and ``tables`` are the one place that says what it may hold."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from servekit_archiver import strictjson
from servekit_archiver.errors import ForeignManifest, ManifestError
from servekit_archiver.manifest.assets import ASSET_NAME, Asset
from servekit_archiver.manifest.kinds import Json, ListOf, MapOf, Number, Switch, Text
from servekit_archiver.manifest.lock import Lock
from servekit_archiver.manifest.playground import Playground
from servekit_archiver.manifest.record import ManifestTable, TableOf, key
from servekit_archiver.manifest.references import reference_problems
from servekit_archiver.manifest.stage_rules import stage_problems
from servekit_archiver.manifest.stages import (
    OF_BOTH,
    PIPELINE,
    PREDICT,
    PROCESSES,
    ROUTES,
    STAGES,
    Route,
    Stage,
    Step,
)
from servekit_archiver.manifest.tables import (
    MEDIA_TYPE,
    Batching,
    Cache,
    Example,
    FileInfo,
    Signature,
    StreamSettings,
    WarmUp,
    WorkerSettings,
    too_large,
)
from servekit_archiver.manifest.texts import MODEL_NAME, PATH, SERVICE_NAME, VERSION
from servekit_archiver.names import MANIFEST, find_clashes
from servekit_archiver.version import CREATED_BY, FORMAT

__all__ = ["Manifest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(ManifestTable):
    """An archive's ``MAR-INF/MANIFEST.json``. To hold one is to know that it is valid."""

    format: int = key(
        Number(low=FORMAT, high=FORMAT, whole=True), default=FORMAT, help="version of the format"
    )
    created_by: str = key(
        Text(max_length=128, min_length=1), factory=lambda: CREATED_BY, help="program and version"
    )
    name: str = key(MODEL_NAME, help="the <model> of /<model>/predict")
    version: str = key(VERSION, default="1.0", help="of the model")
    service: str | None = key(
        SERVICE_NAME,
        default=None,
        help='module:Class of a file of the model ("service:Digits"), or a plugin\'s name for one',
    )
    description: str = key(Text(max_length=4096, lines=True), default="", help="for people")
    license: str = key(Text(max_length=256), default="", help="SPDX expression or a name")
    requirements: str | None = key(
        PATH, default=None, help="pip requirements file of the model's own environment"
    )
    lock: Lock | None = key(
        TableOf(Lock), default=None, help="the exact packages of that environment"
    )
    signature: Signature | None = key(
        TableOf(Signature), default=None, help="declared arrays; predict then gets stacked ones"
    )
    rows: bool = key(
        Switch(),
        default=False,
        help="whether a request holds several inputs: arrays with a batch axis",
    )
    batching: Batching = key(TableOf(Batching), factory=Batching, help="how batches are made")
    cache: Cache | None = key(
        TableOf(Cache),
        default=None,
        help="keeps answers, for services whose outputs never change",
    )
    worker: WorkerSettings = key(
        TableOf(WorkerSettings), factory=WorkerSettings, help="the model's processes"
    )
    retry: bool = key(
        Switch(),
        default=False,
        help="whether requests whose worker died are tried once more, each alone",
    )
    calls: tuple[str, ...] = key(
        ListOf(MODEL_NAME, max_items=64),
        default=(),
        help="names of other models of the server that its services may call",
    )
    stages: Mapping[str, Stage] = key(
        STAGES, factory=dict, help="stages by name; the model's own service is the stage predict"
    )
    pickle: bool | None = key(
        Switch(),
        default=None,
        help="true: what no codec can write is pickled between the stages of this model",
    )
    pipeline: tuple[Step, ...] = key(
        PIPELINE, default=(), help="the steps of /<model>/predict; default: its own service"
    )
    routes: Mapping[str, Route] = key(
        ROUTES, factory=dict, help="more paths, and the steps that answer there"
    )
    envelope: bool | None = key(
        Switch(),
        default=None,
        help='false: the body of an answer is the output, without {"prediction": ...}; for all'
        " paths of the model that do not say otherwise",
    )
    stream: StreamSettings | None = key(
        TableOf(StreamSettings),
        default=None,
        help="how outputs that come one by one are sent; for all paths that do not say otherwise",
    )
    media_type: str | None = key(
        MEDIA_TYPE,
        default=None,
        help="of a body whose request names none, and of the answer to a client that accepts any;"
        " for all paths of the model that do not say otherwise",
    )
    examples: tuple[Example, ...] = key(
        ListOf(TableOf(Example), max_items=100),
        default=(),
        help="requests that the model must answer",
    )
    warm_up: WarmUp | None = key(
        TableOf(WarmUp), default=None, help="batches to run before a replica is ready"
    )
    assets: Mapping[str, Asset] = key(
        MapOf(ASSET_NAME, TableOf(Asset), max_items=1000),
        factory=dict,
        help="files to fetch or make once, which the archive does not hold: context.asset(NAME)",
    )
    playground: Playground | None = key(
        TableOf(Playground),
        default=None,
        help="how a page for trying the model shows its inputs and outputs",
    )
    options: Mapping[str, Any] = key(
        Json(table=True), factory=dict, help="free keys for the service: context.options"
    )
    files: Mapping[str, FileInfo] = key(
        MapOf(PATH, TableOf(FileInfo), max_items=10_000),
        factory=dict,
        help="every file of the archive but the manifest",
    )

    def _problems(self) -> Iterator[str]:
        names = [name for name in self.files if isinstance(name, str)]
        for one, other in find_clashes(sorted(names)):
            yield f"files: {strictjson.show(one)} and {strictjson.show(other)} clash"
        yield from too_large(self.warm_up, self.batching)
        yield from stage_problems(self)
        if self.rows is True and (self.stages or self.pipeline or self.routes):
            yield "rows: is for models without stages, pipeline and routes"
        if self.rows is True and getattr(self.batching, "cost", None) is not None:
            yield "batching.cost: is for requests with one input, and rows is true"

    @property
    def every_stage(self) -> dict[str, Stage]:
        """The stages, the model's own service among them; examples may be those of a pipeline."""
        if self.service is None:
            return dict(self.stages)
        own = Stage(**{name: getattr(self, name) for name in OF_BOTH})
        if self.pipeline:
            own = replace(own, examples=())
        return {PREDICT: own, **self.stages}

    def of_stage(self, name: str) -> Self:
        """Return the manifest of a model that is nothing but the stage *name* of this one.

        A colocated stage has the batches and the processes of its host.
        """
        stages = self.every_stage
        stage = stages[name]
        own = {name: getattr(stage, name) for name in OF_BOTH}
        if stage.host is not None:
            own |= {name: getattr(stages[stage.host], name) for name in PROCESSES}
        return replace(self, **own, stages={}, pipeline=(), routes={})

    @classmethod
    def from_mapping(
        cls, table: object, *, exists: Callable[[str], bool] | None = None, source: str = "manifest"
    ) -> Self:
        """Check *table*, whatever it is, and return the manifest it describes.

        :param exists: says whether the model has a file, for the keys that name one.
        :raises ManifestError: with every problem.
        """
        problems: list[str] = []
        manifest = TableOf(cls).check(table, "", problems)
        if isinstance(table, Mapping) and exists is not None:
            problems += reference_problems(table, exists)
        if problems:
            raise ManifestError((problem.removeprefix(": ") for problem in problems), source)
        return manifest  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Parse the bytes of a ``MANIFEST.json``.

        :raises ManifestError: with every problem.
        """
        try:
            table = strictjson.loads(text)
        except ValueError as error:
            raise ManifestError([str(error)], MANIFEST) from None
        if problem := _foreign_problem(table):
            raise problem
        files = table.get("files") if isinstance(table, Mapping) else None
        listed = files if isinstance(files, Mapping) else {}
        return cls.from_mapping(table, exists=lambda name: name in listed, source=MANIFEST)

    def to_json(self) -> bytes:
        """Return the canonical bytes; their SHA-256 is the digest of the archive."""
        return strictjson.dumps(self.to_mapping())


def _foreign_problem(table: object) -> ManifestError | None:
    """Return why this is not a manifest of ours at all, before its keys are looked at."""
    if not isinstance(table, Mapping):
        return ForeignManifest([f"{strictjson.show(table)} is not a table"], MANIFEST)
    if "format" not in table:
        known = "modelServerVersion", "archiverVersion", "runtime", "createdOn"
        peer = next((name for name in known if name in table), None)
        served = "an archive made for TorchServe, which the plugin servekit-torchserve serves"
        hint = f"; {peer} looks like {served}" if peer else ""
        return ForeignManifest([f"format: is missing{hint}"], MANIFEST)
    found = table["format"]
    if isinstance(found, int) and not isinstance(found, bool) and found > FORMAT:
        newest = f"{FORMAT}, the newest this reader knows; upgrade it"
        return ManifestError([f"format: {found} is newer than {newest}"], MANIFEST)
    missing = [name for name in ("created_by", "files") if name not in table]
    return ManifestError([f"{missing[0]}: is missing"], MANIFEST) if missing else None
