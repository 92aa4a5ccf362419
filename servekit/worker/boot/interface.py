# SPDX-License-Identifier: Apache-2.0
"""Describes what a loaded service takes and gives, for the API descriptions."""

from collections.abc import Mapping, Sequence
from types import GenericAlias
from typing import Any

from servekit.errors import BootError
from servekit.ipc.stream_formats import STREAM_FORMATS
from servekit.ipc.table import Interface
from servekit.service.base import Service
from servekit.service.response import NAME
from servekit.worker.boot.media_types import consumes, produces
from servekit.worker.codecs.table import CodecTable
from servekit.worker.inputs.annotations import BatchTypes
from servekit.worker.inputs.schemas import signed_schema, typed_schemas

__all__ = ["describe"]

SECRETS = ("authorization", "proxy-authorization")


def describe(
    service: Service, types: BatchTypes, table: CodecTable, *, streams: bool = False
) -> Interface:
    """Return the interface of *service*, as far as its signature and annotations tell it.

    :param streams: what they tell is one of the outputs that come one by one.
    """
    takes_all = type(service).preprocess is not Service.preprocess
    gives_all = type(service).postprocess is not Service.postprocess
    signature = declared(service.signature)
    if signature is not None:
        given = {} if takes_all else signed_schema(signature["inputs"])
        got = {} if gives_all else signed_schema(signature["outputs"])
        definitions: dict[str, Any] = {}
    else:
        given, got, definitions = typed_schemas(
            types._replace(
                input=Any if takes_all else types.input, output=Any if gives_all else types.output
            )
        )
    written = produces(service, signature, types.output, table)
    if streams:
        got = {"type": "array", "items": got}
        written = [
            *produces(service, None, GenericAlias(list, (types.output,)), table),
            *STREAM_FORMATS,
        ]
    return Interface(
        signature=signature,
        input_schema=given,
        output_schema=got,
        schema_definitions=definitions,
        consumes=consumes(service, signature, types.input, table),
        produces=written,
        request_headers=asked_headers(service.request_headers),
        request_query=asked_query(service.request_query),
    )


def asked_headers(names: Sequence[str]) -> list[str]:
    """Return *names* in lower case.

    :raises BootError: one is no name, or holds what opens the server and not the model.
    """
    if isinstance(names, str):
        raise BootError("request_headers: a text, expected a tuple of names")
    lower = [str(name).lower() for name in names]
    for name in lower:
        if not NAME.fullmatch(name) or name in SECRETS:
            raise BootError(f"request_headers: {name!r} is no name, or a secret of the server's")
    return lower


def asked_query(names: Sequence[str]) -> list[str]:
    """Return *names*.

    :raises BootError: one is no text.
    """
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise BootError(f"request_query: {names!r}, expected a tuple of names")
    return list(names)


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
