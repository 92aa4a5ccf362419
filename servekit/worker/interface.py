# SPDX-License-Identifier: Apache-2.0
"""Describes what a loaded service takes and gives, for the API descriptions."""

from collections.abc import Mapping
from typing import Any

import msgspec

from servekit.errors import BootError
from servekit.messages import Interface
from servekit.service import Service
from servekit.worker.annotations import BatchTypes
from servekit.worker.codecs.form import FORM
from servekit.worker.codecs.table import CodecTable
from servekit.worker.produces import produces

__all__ = ["describe"]

STRUCTURED = (
    "application/json",
    "application/msgpack",
    "application/x-msgpack",
    "application/vnd.msgpack",
    FORM,
)
INTEGERS = {f"{sign}int{bits}": (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}

LARGEST = {"float16": 65504.0, "float32": 3.4028234663852886e38}


def describe(service: Service, types: BatchTypes, table: CodecTable) -> Interface:
    """Return the interface of *service*, as far as its signature and annotations tell it."""
    takes_all = type(service).preprocess is not Service.preprocess
    gives_all = type(service).postprocess is not Service.postprocess
    signature = declared(service.signature)
    if signature is not None:
        given = {} if takes_all else _tensors(signature["inputs"])
        got = {} if gives_all else _tensors(signature["outputs"])
        definitions: dict[str, Any] = {}
    else:
        given_type = Any if takes_all else types.input
        got_type = Any if gives_all else types.output
        given, got, definitions = _schemas(given_type, got_type)
    return Interface(
        signature=signature,
        input_schema=given,
        output_schema=got,
        schema_definitions=definitions,
        consumes=_consumes(service, signature, types, table),
        produces=produces(service, signature, types.output, table),
    )


def declared(signature: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return *signature* in plain texts and numbers, however its author wrote it.

    :raises BootError: an entry lacks its name, dtype or shape.
    """
    if signature is None:
        return None
    sides = {side: signature.get(side) or () for side in ("inputs", "outputs")}
    return {side: [_declared(entry) for entry in entries] for side, entries in sides.items()}


def _declared(entry: Any) -> dict[str, Any]:
    try:
        shape = [int(size) for size in entry["shape"]]
        return {"name": str(entry["name"]), "dtype": str(entry["dtype"]), "shape": shape}
    except (KeyError, TypeError, ValueError) as error:
        raise BootError(f"signature: {entry!r} needs name, dtype, shape") from error


def _consumes(
    service: Service, signature: dict[str, Any] | None, types: BatchTypes, table: CodecTable
) -> list[str]:
    every = [*table.media_types, FORM]
    is_free = signature is None and types.input is Any
    if is_free or type(service).preprocess is not Service.preprocess:
        return every
    taken = set(STRUCTURED)
    if signature is not None and len(signature["inputs"]) == 1:
        is_text = signature["inputs"][0]["dtype"] == "str"
        taken |= {"text/plain"} if is_text else {"application/x-npy", "application/octet-stream"}
        taken |= {name for name in every if name != FORM and not table.is_builtin(name)}
    return [name for name in every if name in taken]


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
    if dtype in LARGEST:
        return {"type": "number", "minimum": -LARGEST[dtype], "maximum": LARGEST[dtype]}
    return {"type": {"bool": "boolean", "str": "string"}.get(dtype, "number")}
