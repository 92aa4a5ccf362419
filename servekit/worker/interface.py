# SPDX-License-Identifier: Apache-2.0
"""Describes what a loaded service takes and gives, for the API descriptions."""

from typing import Any

import msgspec

from servekit.messages import Interface
from servekit.service import Service
from servekit.worker.annotations import BatchTypes
from servekit.worker.codecs.form import FORM
from servekit.worker.codecs.table import CodecTable

__all__ = ["describe"]

STRUCTURED = (
    "application/json",
    "application/msgpack",
    "application/x-msgpack",
    "application/vnd.msgpack",
    FORM,
)
INTEGERS = {f"{sign}int{bits}": (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}


def describe(service: Service, types: BatchTypes, table: CodecTable) -> Interface:
    """Return the interface of *service*, as far as its signature and annotations tell it."""
    takes_all = type(service).preprocess is not Service.preprocess
    gives_all = type(service).postprocess is not Service.postprocess
    signature = service.signature
    if signature is not None:
        given = {} if takes_all else _tensors(signature.get("inputs") or ())
        got = {} if gives_all else _tensors(signature.get("outputs") or ())
        definitions: dict[str, Any] = {}
    else:
        given_type = Any if takes_all else types.input
        got_type = Any if gives_all else types.output
        given, got, definitions = _schemas(given_type, got_type)
    return Interface(
        signature={key: list(signature[key]) for key in signature} if signature else None,
        input_schema=given,
        output_schema=got,
        schema_definitions=definitions,
        consumes=_consumes(service, types, table),
        # a plugin's codec may only read; to ask it would import it into every worker
        produces=[n for n in table.media_types if table.is_builtin(n) and not n.endswith("/*")],
    )


def _consumes(service: Service, types: BatchTypes, table: CodecTable) -> list[str]:
    every = [*table.media_types, FORM]
    is_free = service.signature is None and types.input is Any
    if is_free or type(service).preprocess is not Service.preprocess:
        return every
    if service.signature is not None and len(service.signature["inputs"]) == 1:
        arrays = {"application/x-npy", "application/octet-stream"}
        arrays |= {name for name in every if not table.is_builtin(name)}
        return [name for name in every if name in STRUCTURED or name in arrays]
    return [name for name in every if name in STRUCTURED]


def _schemas(given: Any, got: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    (input_schema, output_schema), definitions = msgspec.json.schema_components(
        [given, got],
        ref_template="#/$defs/{name}",
        schema_hook=lambda type_: {"description": getattr(type_, "__name__", str(type_))},
    )
    return input_schema, output_schema, definitions


def _tensors(tensors: Any) -> dict[str, Any]:
    """Return the schema of a mapping of arrays; of one array alone, if there is one."""
    if not tensors:
        return {}
    properties = {tensor["name"]: _tensor(tensor) for tensor in tensors}
    mapping = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return mapping if len(properties) > 1 else {"anyOf": [mapping, *properties.values()]}


def _tensor(tensor: Any) -> dict[str, Any]:
    schema = _element(tensor["dtype"])
    for size in reversed(tensor["shape"]):
        bounds = {} if size == -1 else {"minItems": size, "maxItems": size}
        schema = {"type": "array", "items": schema, **bounds}
    return schema


def _element(dtype: str) -> dict[str, Any]:
    if dtype in INTEGERS:
        sign, bits = INTEGERS[dtype]
        low, high = (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return {"type": "integer", "minimum": low, "maximum": high}
    return {"type": {"bool": "boolean", "str": "string"}.get(dtype, "number")}
