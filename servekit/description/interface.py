# SPDX-License-Identifier: Apache-2.0
"""What a model takes and gives, as far as is known: from its worker, else from its manifest."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from servekit.ipc.stream_formats import STREAM_FORMATS
from servekit.ipc.table import Interface
from servekit.types.file_types import media_type_of

__all__ = [
    "JSON",
    "LONGEST_EXAMPLE_BYTES",
    "MULTIPART",
    "Described",
    "Example",
    "Signature",
    "Tensor",
    "describe",
]

JSON: Final = "application/json"
MULTIPART: Final = "multipart/form-data"
T = TypeVar("T")
LONGEST_EXAMPLE_BYTES: Final = 16_384  # a page with a longer one is no fun to read


class Tensor(Struct, frozen=True):
    """One input or output of a signature; the shape has no batch axis, -1 is any size."""

    name: str
    dtype: str = ""
    shape: list[int] = []


class Signature(Struct, frozen=True):
    """The ``[signature]`` of ``model.toml``."""

    inputs: list[Tensor] = []
    outputs: list[Tensor] = []


class Example(Struct, frozen=True):
    """One of the ``[[examples]]`` of ``model.toml``: an input as JSON, or a file."""

    input: Any = None
    output: Any = None
    input_file: str | None = None  #: relative to the model directory
    content_type: str | None = None

    @property
    def media_type(self) -> str:
        """What the input is sent as."""
        if self.input_file is None:
            return JSON
        return self.content_type or media_type_of(self.input_file)


class Described(Struct, frozen=True):
    """One model at one path, ready to be described in any format."""

    name: str
    version: str
    description: str
    signature: Signature
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    definitions: dict[str, Any]
    is_loaded: bool  #: the schemas are the worker's own: ``{}`` means that it takes anything
    consumes: list[str]
    produces: list[str]
    examples: list[Example]
    path: str  #: where it answers
    request_headers: list[str]  #: in lower case: those that its services look at
    request_query: list[str]  #: parameters of the query, as well
    instances: bool = False  #: takes several inputs, each answered by itself
    slug: str = ""  #: tells it from what else the model answers; "" is its own ``/predict``

    @property
    def operation(self) -> str:
        """The name of its operation in descriptions."""
        return f"{self.name}_{self.slug or 'predict'}"

    @property
    def streams(self) -> bool:
        """Whether its outputs may come one by one."""
        return any(each in STREAM_FORMATS for each in self.produces)

    @property
    def takes_files(self) -> bool:
        """Whether an input is a file, an image say, before it is anything else."""
        sent_as = [each.media_type for each in self.examples]
        return _is_binary([*sent_as, *self.consumes][0])


def describe(manifest: Mapping[str, Any], known: Interface | None = None) -> Described:
    """Return what is known of a model.

    :param known: what its worker says; without it, or without media types, only the manifest
        counts.
    """
    known = known if known and known.consumes else None
    declared = known.signature if known else manifest.get("signature")
    signature = _convert(declared or {}, Signature) or Signature()
    forms = [MULTIPART] if signature.inputs else []
    return Described(
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


def _examples(manifest: Mapping[str, Any]) -> list[Example]:
    examples = _convert(manifest.get("examples") or [], list[Example]) or []
    return [each for each in examples if _is_short(each)]


def _is_short(example: Example) -> bool:
    return len(msgspec.json.encode(example)) <= LONGEST_EXAMPLE_BYTES


def _is_binary(media_type: str) -> bool:
    kind = media_type.partition("/")[0]
    return kind in ("image", "audio", "video") or media_type == "application/octet-stream"


def _convert(value: Any, to: type[T]) -> T | None:
    """Return *value* as *to*, or ``None``: one odd model must not cost all their description."""
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError:
        return None
