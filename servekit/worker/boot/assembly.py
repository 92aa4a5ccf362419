# SPDX-License-Identifier: Apache-2.0
"""Assembles what answers batches with a service: its inputs, codecs, interface and methods."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from servekit.errors import BootError
from servekit.ipc.table import Interface
from servekit.service.base import Service
from servekit.worker.boot.interface import declared, describe
from servekit.worker.codecs.table import CodecTable
from servekit.worker.inputs.annotations import (
    BatchTypes,
    refuse_media,
    service_types,
    streaming_method,
)
from servekit.worker.inputs.form_rules import signed_rules, typed_rules
from servekit.worker.inputs.input_kind import AnyInput, InputKind
from servekit.worker.inputs.typed_input import TypedInput
from servekit.worker.prediction.methods import Methods
from servekit.worker.prediction.negotiation import Plans
from servekit.worker.prediction.predictor import Predictor
from servekit.worker.prediction.request_reader import BodyReaders
from servekit.worker.serving.loaded import Loaded
from servekit.worker.streaming.stepping import CurrentMembers, Stepping

__all__ = ["assemble", "body_readers"]


def assemble(
    service: Service,
    table: CodecTable,
    current: CurrentMembers | None = None,
    *,
    max_answer_bytes: int = 1 << 30,
    is_dev: bool = False,
    is_loaded: bool = True,
    is_handed_on: bool = False,
) -> Loaded:
    """Return *service*, whose ``load`` is done, with a ``Predictor`` made for it.

    :param current: what its ``Context`` shows of the current batch, if it has one.
    :param is_dev: answers of failed predictions hold their tracebacks.
    :param is_loaded: otherwise its ``load`` may still set a signature.
    :param is_handed_on: its outputs are objects for another service, not answers.
    :raises BootError: its signature and its annotations contradict each other.
    """
    current = current or CurrentMembers(body_readers(service, table))
    steppings: dict[Predictor, Stepping] = {}
    wrap = partial(_wrap, table, current, max_answer_bytes, is_dev, steppings)
    predictor, interface = wrap(service, is_loaded=is_loaded, is_handed_on=is_handed_on)
    methods = Methods(service, predictor, wrap)
    interface.endpoints = methods.rows
    return Loaded(service, predictor, interface, methods, table, steppings)


def _wrap(
    table: CodecTable,
    current: CurrentMembers,
    max_answer_bytes: int,
    is_dev: bool,
    steppings: dict[Predictor, Stepping],
    service: Service,
    *,
    is_loaded: bool = True,
    is_handed_on: bool = False,
) -> tuple[Predictor, Interface]:
    types = service_types(service)
    if is_loaded and types.mapping and service.signature is None:
        raise BootError(
            f"{types.name}: {types.mapping}, and without a signature a batch is a list; "
            f"declare [signature] in model.toml, or write list[T]{types.place}"
        )
    if not is_handed_on:
        refuse_media(service, types)
    kind = _input_kind(service.signature, types)
    stepping = Stepping(service, current) if streaming_method(service) else None
    interface = describe(service, types, table, streams=stepping is not None)
    outputs = [each["name"] for each in (interface.signature or {}).get("outputs", ())]
    plans = Plans(table, interface.produces, lone=outputs[0] if len(outputs) == 1 else "")
    predictor = Predictor(
        service,
        kind,
        plans,
        current,
        body_readers(service, table),
        predict=stepping.predict if stepping else None,
        taken=interface.consumes,
        has_own_json=not table.is_builtin("application/json"),
        max_answer_bytes=max_answer_bytes,
        is_dev=is_dev,
    )
    if stepping is not None:
        steppings[predictor] = stepping
    return predictor, interface


def body_readers(service: Service, table: CodecTable) -> BodyReaders:
    """Return readers of bodies, forms and files for the inputs of *service*."""
    if (signature := declared(service.signature)) is not None:
        return BodyReaders(table, signed_rules(signature["inputs"]))
    return BodyReaders(table, typed_rules(service_types(service).input))


def _input_kind(signature: Mapping[str, Any] | None, types: BatchTypes) -> InputKind:
    if signature is None:
        return AnyInput() if types.input is Any else TypedInput(types.input, types.place)
    if types.input is not Any:
        raise BootError(
            "predict: annotated as a list though there is a signature, with which the batch is "
            "a mapping of names to arrays; keep one of the two"
        )
    from servekit.worker.inputs.signed_input import SignedInput  # imports numpy

    return SignedInput(signature)
