# SPDX-License-Identifier: Apache-2.0
"""Service envelopes: handlers get what is inside a request, and return what is put into another.

TorchServe chooses one for all models of a server; here it is an option of the model.
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final

from servekit_torchserve.refusals import PredictionException

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servekit_torchserve.context import HandlerContext
    from servekit_torchserve.entry import Handle

__all__ = ["with_envelope"]

PLACES: Final = ("body", "data")  #: where clients put what they send
DATATYPES: Final = {bool: "BOOL", int: "INT64", float: "FP64", str: "BYTES"}


def with_envelope(name: str, handle: Handle) -> Handle:
    """Return *handle* inside of the envelope *name*; "" adds nothing."""
    return ENVELOPES[name](handle) if name else handle


def _content(row: dict[str, Any]) -> Any:
    """Return what the client sent, without the member that holds it."""
    return next((row[place] for place in PLACES if row.get(place) is not None), None)


def _body(handle: Handle) -> Handle:
    return lambda data, context: handle([_content(row) for row in data], context)


def _json(handle: Handle) -> Handle:
    """Wrap *handle*: ``{"instances": [...]}`` in, ``{"predictions": [...]}`` out."""
    return _instances(handle, lambda _context: "predictions", _decoded)


def _kserve(handle: Handle) -> Handle:
    """Wrap *handle*: the same, with ``explanations`` for requests that ask for them."""

    def member(context: HandlerContext) -> str:
        return "explanations" if _is_explanation(context) else "predictions"

    return _instances(handle, member, lambda instance: instance)


def _instances(
    handle: Handle, name: Callable[[HandlerContext], str], read: Callable[[Any], Any]
) -> Handle:
    def call(data: Sequence[dict[str, Any]], context: HandlerContext) -> Any:
        requests = [[*map(read, _read_instances(row))] for row in data]
        outputs = handle([each for request in requests for each in request], context)
        if not isinstance(outputs, list) or len(outputs) != sum(map(len, requests)):
            return outputs
        left, member = iter(outputs), name(context)
        return [{member: [next(left) for _ in request]} for request in requests]

    return call


def _read_instances(row: dict[str, Any]) -> list[Any]:
    content = _content(row)
    instances = content.get("instances") if isinstance(content, dict) else None
    if not isinstance(instances, list):
        raise PredictionException('the body has no list "instances"', 400)
    return instances


def _decoded(instance: Any) -> Any:
    """Return *instance* with the bytes that ``{"b64": ...}`` stands for in ``data`` or ``body``."""
    if not isinstance(instance, dict):
        return instance
    return {
        name: b64decode(value["b64"]) if name in PLACES and _is_base64(value) else value
        for name, value in instance.items()
    }


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"}


def _kserve_v2(handle: Handle) -> Handle:
    """Wrap *handle*: the inputs of one request in, outputs with shape and type out."""

    def call(data: Sequence[dict[str, Any]], context: HandlerContext) -> Any:
        answers = []
        for row in data:
            content = _content(row)
            if not isinstance(content, dict) or not isinstance(content.get("inputs"), list):
                raise PredictionException('the body has no list "inputs"', 400)
            outputs = handle(content["inputs"], context)
            if not isinstance(outputs, list):
                return outputs
            answers.append(_v2_response(content, outputs, context))
        return answers

    return call


def _v2_response(content: Any, outputs: list[Any], context: HandlerContext) -> dict[str, Any]:
    names = [each.get("name") for each in content["inputs"] if isinstance(each, dict)]
    model = context.manifest.get("model", {})
    return {
        "id": content.get("id") or context.get_request_id(0),
        "model_name": model.get("modelName"),
        "model_version": model.get("modelVersion"),
        "outputs": [
            _v2_output(names[place] if place < len(names) else f"output-{place}", each)
            for place, each in enumerate(outputs)
        ],
    }


def _v2_output(name: Any, output: Any) -> dict[str, Any]:
    values, shape = output if isinstance(output, list) else [output], []
    inner: Any = values
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    datatype = DATATYPES.get(type(inner), "BYTES")
    return {"name": name, "datatype": datatype, "data": values, "shape": shape}


def _is_explanation(context: HandlerContext) -> bool:
    return bool(context.request_processor) and context.get_request_header(0, "explain") == "True"


ENVELOPES: Final[dict[str, Callable[[Handle], Handle]]] = {
    "body": _body,
    "json": _json,
    "kserve": _kserve,
    "kservev2": _kserve_v2,
}
