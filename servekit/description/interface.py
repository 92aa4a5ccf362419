# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of a model, as far as its worker or else its manifest declares them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, structs

from servekit.ipc.response_style import ResponseStyle, style_of
from servekit.ipc.stream_formats import STREAM_FORMATS
from servekit.ipc.table import Interface
from servekit.types.arrays import with_batch_axis
from servekit.types.file_types import media_type_of

__all__ = [
    "JSON",
    "MAX_EXAMPLE_BYTES",
    "MULTIPART",
    "VERSION",
    "ExampleRequest",
    "PathDescription",
    "TensorSignature",
    "TensorType",
    "describe",
    "with_style",
]

JSON: Final = "application/json"
MULTIPART: Final = "multipart/form-data"
#: described with every operation, or by its media types and its security
DESCRIBED_HEADERS: Final = frozenset(
    ["accept", "authorization", "content-type", "x-request-id", "x-request-timeout-ms"]
)
VERSION: Final = "{version}"  #: stands for a version in a path
T = TypeVar("T")
MAX_EXAMPLE_BYTES: Final = 16_384  # longer ones make a page hard to read


class TensorType(Struct, frozen=True):
    """One input or output of a signature; -1 is any size.

    The shape has a batch axis if requests have rows.
    """

    name: str
    dtype: str = ""
    shape: list[int] = []


class TensorSignature(Struct, frozen=True):
    """The ``[signature]`` of ``model.toml``."""

    inputs: list[TensorType] = []
    outputs: list[TensorType] = []


class ExampleRequest(Struct, frozen=True):
    """One of the ``[[examples]]`` of ``model.toml``: an input as JSON, or a file."""

    input: Any = None
    output: Any = None
    input_file: str | None = None  #: relative to the model directory
    content_type: str | None = None

    @property
    def media_type(self) -> str:
        """The media type that the input is sent as."""
        if self.input_file is None:
            return JSON
        return self.content_type or media_type_of(self.input_file)


class PathDescription(Struct, frozen=True):
    """One model at one path, ready to be described in any format."""

    name: str
    version: str
    description: str
    signature: TensorSignature
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    definitions: dict[str, Any]
    is_loaded: bool  #: the schemas come from the worker: ``{}`` accepts anything
    consumes: list[str]
    produces: list[str]
    examples: list[ExampleRequest]
    path: str  #: where it answers
    request_headers: list[str]  #: in lower case: those that its services read
    request_query: list[str]  #: the parameters of the query that they read
    instances: bool = False  #: takes several inputs, and answers each separately
    slug: str = ""  #: a name for the path, unique in the model; "" is ``/predict``
    style: ResponseStyle = ResponseStyle()  #: of its responses
    get: bool = False  #: it answers GET too: the parameters of the query are the input

    @property
    def is_of_versions(self) -> bool:
        """Whether the path names the version that answers."""
        return VERSION in self.path

    @property
    def summary(self) -> str:
        """One line for people."""
        if self.is_of_versions:
            return f"Predict with one version of {self.name}"
        return f"Predict with {self.name} {self.version}"

    @property
    def operation(self) -> str:
        """The name of its operation in descriptions."""
        end = "_of_version" if self.is_of_versions else ""
        return f"{self.name}_{self.slug or 'predict'}{end}"

    @property
    def parameters(self) -> Iterator[dict[str, Any]]:
        """The parameters of the path, the headers and the query, without their types."""
        if self.is_of_versions:
            about = (
                "A loaded version, or an alias; bodies may differ from those of the default one."
            )
            yield {"name": "version", "in": "path", "required": True, "description": about}
        about = "The service reads it."
        for name in self.request_headers:
            if name not in DESCRIBED_HEADERS:
                yield {"name": name, "in": "header", "description": about}
        for name in self.request_query:
            yield {"name": name, "in": "query", "description": about}

    @property
    def streams(self) -> bool:
        """Whether its outputs may come one by one."""
        return any(each in STREAM_FORMATS for each in self.produces)

    @property
    def takes_files(self) -> bool:
        """Whether the first way to send an input is a file, such as an image."""
        sent_as = [each.media_type for each in self.examples]
        return _is_binary([*sent_as, *self.consumes][0])

    @property
    def answer_file(self) -> str:
        """A name of a file for an answer that is a picture or a sound; "" if it is JSON."""
        kind, _, suffix = self.produces[0].partition("/")
        return f"prediction.{suffix}" if kind in ("image", "audio") else ""


def describe(manifest: Mapping[str, Any], known: Interface | None = None) -> PathDescription:
    """Return what is known about a model.

    :param known: what its worker reports; if it is missing, or has no media types, only the
        manifest is used.
    """
    known = known if known and known.consumes else None
    declared = known.signature if known else manifest.get("signature")
    has_rows = known.rows if known else bool(manifest.get("rows"))
    signature = _convert(declared or {}, TensorSignature) or TensorSignature()
    if has_rows:
        signature = _with_rows(signature)
    forms = [MULTIPART] if signature.inputs else []
    described = PathDescription(
        name=manifest["name"],
        version=manifest.get("version", "1.0"),
        description=manifest.get("description", ""),
        signature=signature,
        input_schema=known.input_schema if known else {},
        output_schema=known.output_schema if known else {},
        definitions=known.schema_definitions if known else {},
        is_loaded=known is not None,
        consumes=known.consumes if known else [JSON, *forms],
        produces=(known.produces if known else []) or [JSON],
        request_headers=known.request_headers if known else [],
        request_query=known.request_query if known else [],
        examples=_examples(manifest),
        path=f"/{manifest['name']}/predict",
    )
    return with_style(described, style_of(manifest))


def with_style(described: PathDescription, style: ResponseStyle | None) -> PathDescription:
    """Return *described* with *style*, whose media type comes first."""
    style = style or ResponseStyle()
    consumes = _first(style.media_type, described.consumes)
    produces = _first(style.media_type, described.produces)
    return structs.replace(described, style=style, consumes=consumes, produces=produces)


def _first(media_type: str, media_types: list[str]) -> list[str]:
    """Return *media_types* with *media_type* as the first one, if it is among them."""
    return sorted(media_types, key=lambda each: each != media_type)


def _with_rows(signature: TensorSignature) -> TensorSignature:
    """Return the signature of whole requests, whose arrays have a batch axis."""
    sides = with_batch_axis(msgspec.to_builtins(signature))
    return msgspec.convert(sides, TensorSignature)


def _examples(manifest: Mapping[str, Any]) -> list[ExampleRequest]:
    examples = _convert(manifest.get("examples") or [], list[ExampleRequest]) or []
    return [each for each in examples if _is_short(each)]


def _is_short(example: ExampleRequest) -> bool:
    return len(msgspec.json.encode(example)) <= MAX_EXAMPLE_BYTES


def _is_binary(media_type: str) -> bool:
    kind = media_type.partition("/")[0]
    return kind in ("image", "audio", "video") or media_type == "application/octet-stream"


def _convert(value: Any, to: type[T]) -> T | None:
    """Return *value* as *to*, or ``None``: one wrong model must not break the whole description."""
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError:
        return None
