# SPDX-License-Identifier: Apache-2.0
"""A model and its paths as plain values, for pages and for ``servekit describe --json``."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from servekit.description.interface import MAX_EXAMPLE_BYTES, ExampleRequest, PathDescription
from servekit.description.routes import describe_model
from servekit.description.samples import FilledArray, SampleValue, sample
from servekit.description.schemas import definitions, input_schema, output_schema
from servekit.ipc.table import ModelRow

__all__ = ["model_facts", "path_facts"]

REFERENCES: Final = "#/$defs/"


def model_facts(row: ModelRow, models: Sequence[ModelRow]) -> dict[str, Any]:
    """Return what is known about the model of *row*, ready for JSON.

    :param models: all models of the server: a pipeline may call them.
    """
    return {
        "name": row.name,
        "version": row.version,
        "description": row.description,
        "versions": [each.version for each in (row, *row.versions)],
        "playground": row.manifest.get("playground", {}),
        "paths": [
            path_facts(each) | {"sample": _sample(each)}
            for each in describe_model(row, models)
            if not each.is_of_versions
        ],
    }


def path_facts(described: PathDescription) -> dict[str, Any]:
    """Return what is known about one path. References in its schemas begin with ``#/$defs/``."""
    facts = {
        "path": described.path,
        "description": described.description,
        "is_imported": described.is_loaded,
        "instances": described.instances,
        "streams": described.streams,
        "stream": msgspec.structs.asdict(described.style.stream),
        "envelope": not described.style.is_bare,
        "get": described.get,
        "signature": described.signature if described.signature.inputs else None,
        "input_schema": input_schema(described, REFERENCES),
        "output_schema": output_schema(described, REFERENCES),
        "definitions": definitions(described, REFERENCES),
        "consumes": described.consumes,
        "produces": described.produces,
        "request_headers": described.request_headers,
        "request_query": described.request_query,
        "examples": [_with_media_type(each) for each in described.examples],
    }
    plain: dict[str, Any] = msgspec.to_builtins(facts)
    return plain


def _with_media_type(example: ExampleRequest) -> ExampleRequest:
    if example.input_file is None:
        return example
    return msgspec.structs.replace(example, content_type=example.media_type)


def _sample(described: PathDescription) -> Any:
    """Return an input made of the schema; ``None`` if it is not known, a file or too long."""
    found = sample(msgspec.structs.replace(described, examples=[]))
    if not isinstance(found, SampleValue):
        return None
    if any(array.size > MAX_EXAMPLE_BYTES for array in found.arrays):
        return None
    value = found.value
    if found.arrays:
        value = {
            name: each.as_lists() if isinstance(each, FilledArray) else each
            for name, each in value.items()
        }
    text = msgspec.json.encode(value)
    return msgspec.json.decode(text) if len(text) <= MAX_EXAMPLE_BYTES else None
