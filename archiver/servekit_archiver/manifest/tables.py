# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF009 - key() declares a field, as dataclasses.field does
"""The tables inside a manifest, key by key, and the rules that they share with it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from servekit_archiver import strictjson
from servekit_archiver.counting import counted
from servekit_archiver.manifest.kinds import (
    Choice,
    Either,
    Json,
    ListOf,
    MapOf,
    Number,
    Switch,
    Text,
)
from servekit_archiver.manifest.record import ManifestTable, TableOf, key
from servekit_archiver.manifest.texts import PATH

__all__ = [
    "DTYPES",
    "MEDIA_TYPE",
    "Batching",
    "Cache",
    "Example",
    "FileInfo",
    "Signature",
    "StreamSettings",
    "Tensor",
    "WarmUp",
    "WorkerSettings",
    "too_large",
]

#: NumPy's names, and that of ml_dtypes; ``str`` is text of any length
DTYPES: Final = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "str"),
)

MEDIA_PART: Final = r"[A-Za-z0-9_!#$&^.+-]+"
MEDIA_TYPE: Final = Text(max_length=127, pattern=rf"{MEDIA_PART}/{MEDIA_PART}", says="a media type")
COST: Final = Text(
    max_length=128,
    pattern=r"[A-Za-z][A-Za-z0-9_]*",
    says='"length" or the name of a public method of the service',
)
SECONDS: Final = Number(low=0.001, high=86_400)
REPLICAS: Final = Number(low=1, high=1024, whole=True)
RANKS: Final = Number(low=1, high=64, whole=True)
AXIS: Final = Number(
    low=-1,
    high=1 << 31,
    whole=True,
    refused=(0,),
    hint="-1 means any size; leave out the batch axis",
)


def _env_problem(name: str) -> str | None:
    return "is reserved for the server" if name.startswith("SERVEKIT_") else None


VARIABLES: Final = MapOf(
    Text(
        max_length=128,
        pattern=r"[A-Za-z_][A-Za-z0-9_]*",
        says="a variable name",
        problem=_env_problem,
    ),
    Text(max_length=32_768, lines=True),
    max_items=256,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor(ManifestTable):
    """One named input or output of a model, without the batch axis."""

    name: str = key(Text(max_length=128, min_length=1), help="the key of this array in a request")
    dtype: str = key(Choice(DTYPES), help="NumPy's name of the element type; str for text")
    shape: tuple[int, ...] = key(
        ListOf(AXIS, max_items=32), help="size of each axis, -1 for any, without the batch axis"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature(ManifestTable):
    """The declared inputs and outputs of a model."""

    inputs: tuple[Tensor, ...] = key(
        ListOf(TableOf(Tensor), max_items=256, min_items=1), help="arrays a request holds"
    )
    outputs: tuple[Tensor, ...] = key(
        ListOf(TableOf(Tensor), max_items=256), default=(), help="arrays an answer holds"
    )

    def _problems(self) -> Iterator[str]:
        for side, tensors in ("inputs", self.inputs), ("outputs", self.outputs):
            if isinstance(tensors, tuple):
                names = Counter(t.name for t in tensors if isinstance(t, Tensor))
                for name in (name for name, count in names.items() if count > 1):
                    yield f"{side}: the name {strictjson.show(name)} is used {names[name]} times"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching(ManifestTable):
    """How waiting inputs become a batch."""

    max_batch_size: int = key(
        Number(low=1, high=65_536, whole=True), default=32, help="inputs per batch at most"
    )
    max_delay_ms: float = key(
        Number(low=0, high=60_000),
        default=0,
        help="how long an idle replica waits for a fuller batch, in milliseconds",
    )
    max_concurrency: int = key(
        Number(low=1, high=65_536, whole=True),
        default=128,
        help="inputs at the same time in each replica, for async services",
    )
    cost: str | None = key(
        COST,
        default=None,
        help='what an input costs: "length", or a method of the service that returns a number',
    )
    max_batch_cost: float | None = key(
        Number(low=1, high=1e15),
        default=None,
        help="of a batch: its number of inputs times the highest cost among them",
    )

    def _problems(self) -> Iterator[str]:
        if self.cost is not None and self.max_batch_cost is None:
            yield "max_batch_cost: is missing; cost requires it"
        if self.cost is None and self.max_batch_cost is not None:
            yield 'cost: is missing; max_batch_cost requires it: "length", or a method'


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache(ManifestTable):
    """Answers that are kept and sent again for equal requests."""

    max_bytes: int = key(
        Number(low=1, high=1 << 40, whole=True),
        default=64 << 20,
        help="memory for the answers, in each front-end",
    )
    ttl_s: float = key(SECONDS, default=300, help="how long an answer is kept, in seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings(ManifestTable):
    """How outputs that are sent one by one are written, and how clients ask for them."""

    end: str | None = key(
        Text(max_length=256),
        default=None,
        help='data of the last event, such as "[DONE]", or "" for no last event; default: an event'
        " of the type end",
    )
    raw: bool = key(
        Switch(), default=False, help="whether an output that is a string is sent without quotes"
    )
    field: str | None = key(
        Text(max_length=128, min_length=1),
        default=None,
        help="member of the body, true or false, that asks for a stream; without it Accept does",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings(ManifestTable):
    """The processes that serve a model."""

    replicas: int = key(REPLICAS, default=1, help="processes that hold the model at once")
    ranks: int = key(RANKS, default=1, help="processes of each replica; rank 0 answers")
    preload: bool = key(
        Switch(),
        default=False,
        help="whether replicas are forked from a process that has imported the service",
    )
    predict_timeout_s: float = key(SECONDS, default=30, help="limit of one predict, in seconds")
    load_timeout_s: float = key(SECONDS, default=120, help="limit of one load, in seconds")
    env: Mapping[str, str] | tuple[Mapping[str, str], ...] = key(
        Either(VARIABLES, ListOf(VARIABLES, max_items=1024, min_items=1)),
        factory=dict,
        help="environment variables of the worker processes; a list has a table for each replica",
    )

    def variables(self, replica: int) -> Mapping[str, str]:
        """Return the variables of the replica at *replica*; a short list is repeated."""
        return self.env if isinstance(self.env, Mapping) else self.env[replica % len(self.env)]

    def _problems(self) -> Iterator[str]:
        if isinstance(self.env, tuple) and self.env and len(self.env) != self.replicas:
            count = counted(len(self.env), "table")
            yield f"env: has {count}, but replicas is {strictjson.show(self.replicas)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp(ManifestTable):
    """Batches that a worker runs after the examples, before it is ready."""

    batch_sizes: tuple[int, ...] = key(
        ListOf(Number(low=1, high=65_536, whole=True), max_items=64),
        default=(),
        help="batches of examples to predict once, for services that compile for each size",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Example(ManifestTable):
    """One request that the model must answer: warm-up, self-test and documentation."""

    input: Any = key(Json(), default=None, help="the input as JSON; or give input_file")
    input_file: str | None = key(PATH, default=None, help="a file of the model to send unchanged")
    content_type: str | None = key(MEDIA_TYPE, default=None, help="media type of input_file")
    output: Any = key(Json(), default=None, help="the answer expected; left out: not compared")
    tolerance: float | None = key(
        Number(low=0, high=1e300), default=None, help="largest difference of a number in output"
    )

    def _problems(self) -> Iterator[str]:
        if (self.input is None) == (self.input_file is None):
            yield "input: give either input or input_file"
        if self.content_type is not None and self.input_file is None:
            yield "content_type: requires input_file"
        if self.tolerance is not None and self.output is None:
            yield "tolerance: requires output"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo(ManifestTable):
    """The size and the digest of a file of the archive."""

    size: int = key(Number(low=0, high=1 << 62, whole=True), help="bytes")
    sha256: str = key(
        Text(max_length=64, pattern=r"[0-9a-f]{64}", says="64 hexadecimal digits in lower case"),
        help="SHA-256 of the content, hexadecimal",
    )


def too_large(warm_up: object, batching: object) -> Iterator[str]:
    """Yield a problem for each batch of *warm_up* that ``predict`` would never get."""
    if isinstance(warm_up, WarmUp) and isinstance(batching, Batching):
        most = batching.max_batch_size
        for index, size in enumerate(warm_up.batch_sizes):
            if size > most:
                yield f"warm_up.batch_sizes[{index}]: {size} is above max_batch_size, {most}"
