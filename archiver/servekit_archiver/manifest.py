# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF009 - key() declares a field, as dataclasses.field does
"""The manifest, key by key: the one place that says what a manifest may hold."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from servekit_archiver import strictjson
from servekit_archiver.errors import ManifestError
from servekit_archiver.kinds import Choice, Json, ListOf, MapOf, Number, Text
from servekit_archiver.names import MANIFEST, RESERVED, find_clashes, is_reserved, name_problem
from servekit_archiver.record import Record, Table, key
from servekit_archiver.references import PLUGIN_SERVICE, SERVICE, reference_problems
from servekit_archiver.version import CREATED_BY, FORMAT

__all__ = [
    "DTYPES",
    "RESERVED_NAMES",
    "Batching",
    "Example",
    "FileInfo",
    "Manifest",
    "Signature",
    "Tensor",
    "Worker",
]

#: what ``/<model>/...`` may not be called: first parts of paths that the server or a plugin owns
RESERVED_NAMES: Final = frozenset(
    [
        "admin",
        "api-description",
        "docs",
        "favicon.ico",
        "health",
        "healthz",
        "invocations",
        "livez",
        "management",
        "metrics",
        "models",
        "openapi.json",
        "ping",
        "predictions",
        "readyz",
        "robots.txt",
        "static",
        "v1",
        "v2",
    ]
)

#: NumPy's names; ``str`` is text of any length
DTYPES: Final = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "str"),
)

NAME: Final = r"[A-Za-z0-9](?:\.?[A-Za-z0-9_-])*\.?"
NAME_IN_WORDS: Final = (
    "made of letters, digits and . _ - alone, beginning with a letter or digit, without '..'"
)
TOKEN: Final = r"[A-Za-z0-9_!#$&^.+-]+"


def _name_problem(name: str) -> str | None:
    return "is reserved for the server" if name.casefold() in RESERVED_NAMES else None


def _env_problem(name: str) -> str | None:
    return "is the server's own" if name.startswith("SERVEKIT_") else None


def _file_problem(name: str) -> str | None:
    return name_problem(name) or (
        f"is in {RESERVED}, which is reserved" if is_reserved(name) else None
    )


def _service_problem(service: str) -> str | None:
    if SERVICE.fullmatch(service) or PLUGIN_SERVICE.fullmatch(service):
        return None
    return "is not module:Class (a file of the model) or the name of a plugin's service"


MODEL_NAME: Final = Text(max_length=64, pattern=NAME, says=NAME_IN_WORDS, problem=_name_problem)
PATH: Final = Text(max_length=1024, min_length=1, problem=_file_problem)
SECONDS: Final = Number(low=0.001, high=86_400)
REPLICAS: Final = Number(low=1, high=1024, whole=True)
AXIS: Final = Number(
    low=-1,
    high=1 << 31,
    whole=True,
    refused=(0,),
    hint="-1 means any size; the batch axis is left out",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor(Record):
    """One named input or output of a model, without the batch axis."""

    name: str = key(Text(max_length=128, min_length=1), help="the key of this array in a request")
    dtype: str = key(Choice(DTYPES), help="NumPy's name of the element type; str for text")
    shape: tuple[int, ...] = key(
        ListOf(AXIS, max_items=32), help="size of each axis, -1 for any, without the batch axis"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature(Record):
    """The declared inputs and outputs of a model."""

    inputs: tuple[Tensor, ...] = key(
        ListOf(Table(Tensor), max_items=256, min_items=1), help="arrays a request holds"
    )
    outputs: tuple[Tensor, ...] = key(
        ListOf(Table(Tensor), max_items=256), default=(), help="arrays an answer holds"
    )

    def _problems(self) -> Iterator[str]:
        for side, tensors in ("inputs", self.inputs), ("outputs", self.outputs):
            if isinstance(tensors, tuple):
                names = Counter(t.name for t in tensors if isinstance(t, Tensor))
                for name in (name for name, count in names.items() if count > 1):
                    yield f"{side}: the name {strictjson.show(name)} is there {names[name]} times"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching(Record):
    """How waiting inputs become a batch."""

    max_batch_size: int = key(
        Number(low=1, high=65_536, whole=True), default=32, help="inputs per batch at most"
    )
    max_delay_ms: float = key(
        Number(low=0, high=60_000),
        default=0,
        help="how long an idle replica holds a partial batch back for company, in milliseconds",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker(Record):
    """The processes that serve a model."""

    replicas: int = key(REPLICAS, default=1, help="processes that hold the model at once")
    predict_timeout_s: float = key(SECONDS, default=30, help="limit of one predict, in seconds")
    load_timeout_s: float = key(SECONDS, default=120, help="limit of one load, in seconds")
    env: Mapping[str, str] = key(
        MapOf(
            Text(
                max_length=128,
                pattern=r"[A-Za-z_][A-Za-z0-9_]*",
                says="a variable name",
                problem=_env_problem,
            ),
            Text(max_length=32_768, lines=True),
            max_items=256,
        ),
        factory=dict,
        help="environment variables of the worker processes",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Example(Record):
    """One request that the model must answer: warm-up, self-test and documentation."""

    input: Any = key(Json(), default=None, help="the input as JSON; or give input_file")
    input_file: str | None = key(PATH, default=None, help="a file of the model to send as it is")
    content_type: str | None = key(
        Text(max_length=127, pattern=rf"{TOKEN}/{TOKEN}", says="a media type"),
        default=None,
        help="media type of input_file",
    )
    output: Any = key(Json(), default=None, help="the answer expected; left out: not compared")
    tolerance: float | None = key(
        Number(low=0, high=1e300), default=None, help="largest difference of a number in output"
    )

    def _problems(self) -> Iterator[str]:
        if (self.input is None) == (self.input_file is None):
            yield "input: give either input or input_file"
        if self.content_type is not None and self.input_file is None:
            yield "content_type: goes with input_file"
        if self.tolerance is not None and self.output is None:
            yield "tolerance: goes with output"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo(Record):
    """What a file of the archive must be."""

    size: int = key(Number(low=0, high=1 << 62, whole=True), help="bytes")
    sha256: str = key(
        Text(max_length=64, pattern=r"[0-9a-f]{64}", says="64 hexadecimal digits in lower case"),
        help="SHA-256 of the content, hexadecimal",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Record):
    """An archive's ``MAR-INF/MANIFEST.json``. To hold one is to know that it is valid."""

    format: int = key(
        Number(low=FORMAT, high=FORMAT, whole=True), default=FORMAT, help="version of the format"
    )
    created_by: str = key(
        Text(max_length=128, min_length=1), default=CREATED_BY, help="program and version"
    )
    name: str = key(MODEL_NAME, help="the <model> of /<model>/predict")
    version: str = key(
        Text(max_length=64, pattern=NAME, says=NAME_IN_WORDS), default="1.0", help="of the model"
    )
    service: str = key(
        Text(max_length=256, problem=_service_problem),
        help='module:Class of a file of the model ("service:Digits"), or a plugin\'s name for one',
    )
    description: str = key(Text(max_length=4096, lines=True), default="", help="for people")
    license: str = key(Text(max_length=256), default="", help="SPDX expression or a name")
    requirements: str | None = key(
        PATH, default=None, help="pip requirements file of the model's own environment"
    )
    signature: Signature | None = key(
        Table(Signature), default=None, help="declared arrays; predict then gets stacked ones"
    )
    batching: Batching = key(Table(Batching), factory=Batching, help="how batches are made")
    worker: Worker = key(Table(Worker), factory=Worker, help="the model's processes")
    examples: tuple[Example, ...] = key(
        ListOf(Table(Example), max_items=100),
        default=(),
        help="requests that the model must answer",
    )
    options: Mapping[str, Any] = key(
        Json(table=True), factory=dict, help="free keys for the service: context.options"
    )
    files: Mapping[str, FileInfo] = key(
        MapOf(PATH, Table(FileInfo), max_items=10_000),
        factory=dict,
        help="every file of the archive but the manifest",
    )

    def _problems(self) -> Iterator[str]:
        names = [name for name in self.files if isinstance(name, str)]
        for one, other in find_clashes(sorted(names)):
            yield f"files: {strictjson.show(one)} and {strictjson.show(other)} clash"

    @classmethod
    def from_mapping(
        cls, table: object, *, exists: Callable[[str], bool] | None = None, source: str = "manifest"
    ) -> Self:
        """Check *table*, whatever it is, and return the manifest it describes.

        :param exists: says whether the model has a file, for the keys that name one.
        :raises ManifestError: with every problem.
        """
        problems: list[str] = []
        manifest = Table(cls).check(table, "", problems)
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
            raise ManifestError([problem], MANIFEST)
        files = table.get("files") if isinstance(table, Mapping) else None
        listed = files if isinstance(files, Mapping) else {}
        return cls.from_mapping(table, exists=lambda name: name in listed, source=MANIFEST)

    def to_json(self) -> bytes:
        """Return the canonical bytes; their SHA-256 is the digest of the archive."""
        return strictjson.dumps(self.to_mapping())


def _foreign_problem(table: object) -> str | None:
    """Return why this is no manifest of ours at all, before its keys are looked at."""
    if not isinstance(table, Mapping):
        return f"{strictjson.show(table)} is not a table"
    if "format" not in table:
        known = "modelServerVersion", "archiverVersion", "runtime", "createdOn"
        peer = next((name for name in known if name in table), None)
        hint = f"; {peer} looks like an archive made for TorchServe" if peer else ""
        return f"format: is missing{hint}"
    found = table["format"]
    if isinstance(found, int) and not isinstance(found, bool) and found > FORMAT:
        return f"format: {found} is newer than {FORMAT}, the newest this reader knows; upgrade it"
    missing = [name for name in ("created_by", "files") if name not in table]
    return f"{missing[0]}: is missing" if missing else None
