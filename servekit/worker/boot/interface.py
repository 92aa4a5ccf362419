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
from servekit.types.arrays import with_batch_axis
from servekit.worker.boot.media_types import consumes, produces
from servekit.worker.boot.schemas import signed_schema, typed_schemas
from servekit.worker.codecs.table import CodecTable
from servekit.worker.inputs.annotations import BatchTypes
from servekit.worker.outputs.output_type import OutputType

__all__ = ["declared", "describe"]

SECRETS = ("authorization", "proxy-authorization")


def describe(
    service: Service,
    types: BatchTypes,
    table: CodecTable,
    output: OutputType,
    *,
    streams: bool = False,
    has_rows: bool = False,
) -> Interface:
    """Return the interface of *service*, as far as its signature and annotations tell it.

    :param types: of the method that answers.
    :param output: what clients get.
    :param streams: its outputs come one by one, and *output* tells about one of them.
    :param has_rows: a request holds the arrays of its signature with a batch axis.
    :raises BootError: its signature, headers or query parameters are not declared properly.
    """
    signature = declared(service.signature)
    sent = with_batch_axis(signature) if signature is not None and has_rows else signature
    given, got, definitions = _schemas(service, types, sent, output)
    written = produces(service, sent, output, table)
    if streams:
        got = {"type": "array", "items": got}
        together = OutputType(GenericAlias(list, (output.type,)))
        written = [*produces(service, None, together, table), *STREAM_FORMATS]
    return Interface(
        signature=signature,
        input_schema=given,
        output_schema=got,
        schema_definitions=definitions,
        consumes=consumes(service, sent, types.input, table),
        produces=written,
        request_headers=_headers(service.request_headers),
        request_query=_query(service.request_query),
        task=str(service.task),
        rows=has_rows,
    )


def _schemas(
    service: Service, types: BatchTypes, sent: Mapping[str, Any] | None, output: OutputType
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the schemas of one input and of one output, and those that both refer to.

    :param sent: the signature of requests, if there is one.
    """
    takes_all = type(service).preprocess is not Service.preprocess
    gives_all = type(service).postprocess is not Service.postprocess
    given, got, definitions = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    if sent is None or output.media is not None:
        input_ = Any if takes_all or sent is not None else types.input
        given, got, definitions = typed_schemas(
            types._replace(input=input_, output=output.type, place=output.place)
        )
    if sent is not None:
        given = {} if takes_all else signed_schema(sent["inputs"])
        got = got if gives_all or output.media is not None else signed_schema(sent["outputs"])
    return given, got, definitions


def _headers(names: Sequence[str]) -> list[str]:
    """Return *names* in lower case.

    :raises BootError: one is not the name of a header, or its value is a secret of the server.
    """
    if isinstance(names, str):
        raise BootError("request_headers: got str, expected a tuple of names")
    lower = [str(name).lower() for name in names]
    for name in lower:
        if not NAME.fullmatch(name):
            raise BootError(f"request_headers: {name!r} is not a valid header name")
        if name in SECRETS:
            raise BootError(f"request_headers: {name!r} is a secret of the server")
    return lower


def _query(names: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise BootError(f"request_query: got {names!r}, expected a tuple of names")
    return list(names)


def declared(signature: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return *signature* made of strings and numbers, whatever types its author used.

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
