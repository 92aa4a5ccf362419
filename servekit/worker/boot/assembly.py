# SPDX-License-Identifier: Apache-2.0
"""Assembles what answers batches with a service: its inputs, codecs, interface and methods."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from servekit.errors import BootError
from servekit.ipc.table import Interface
from servekit.service.base import Service
from servekit.types.arrays import with_batch_axis
from servekit.worker.boot.input_cost import input_cost
from servekit.worker.boot.interface import declared, describe
from servekit.worker.codecs.table import CodecTable
from servekit.worker.inputs.annotations import (
    BatchTypes,
    service_types,
    streaming_method,
)
from servekit.worker.inputs.async_methods import is_async, is_async_method
from servekit.worker.inputs.form_rules import signed_rules, typed_rules
from servekit.worker.inputs.input_kind import AnyInput, InputKind
from servekit.worker.inputs.type_hints import MAPPING, batch_of
from servekit.worker.inputs.typed_input import TypedInput
from servekit.worker.outputs.output_type import OutputType, output_type_of
from servekit.worker.prediction.cost_calls import CostPredictor, InputCost
from servekit.worker.prediction.media_plans import MediaPlans
from servekit.worker.prediction.methods import Methods
from servekit.worker.prediction.negotiation import Plans
from servekit.worker.prediction.predictor import Predictor
from servekit.worker.prediction.request_reader import BodyReaders, InputReaders
from servekit.worker.serving.loaded import Loaded
from servekit.worker.streaming.stepping import CurrentMembers, Stepping

if TYPE_CHECKING:
    from servekit.worker.coroutines.loop import WorkerLoop
    from servekit.worker.inputs.signed_input import SignedInput
    from servekit.worker.prediction.row_calls import MakeRowCalls

__all__ = ["assemble", "current_of", "loop_of"]


class CallLimits(NamedTuple):
    """The limits of one call of ``predict``, and of one answer."""

    batch_size: int
    answer_bytes: int
    batch_cost: float = 0.0  #: 0: inputs have no cost


def assemble(
    service: Service,
    table: CodecTable,
    current: CurrentMembers | None = None,
    loop: "WorkerLoop | None" = None,
    *,
    has_rows: bool = False,
    max_batch_size: int = 1 << 16,
    max_answer_bytes: int = 1 << 30,
    cost: str = "",
    max_batch_cost: float = 0.0,
    is_dev: bool = False,
    is_loaded: bool = True,
) -> Loaded:
    """Return *service*, whose ``load`` is done, with a ``Predictor`` made for it.

    :param current: what its ``Context`` shows of the current batch, if it has one; then *loop* is
        the event loop that it runs on, if it is async.
    :param has_rows: a request holds the arrays of its signature with a batch axis.
    :param cost: "length", or the method of *service* that says what an input of ``predict`` costs;
        a call then costs at most *max_batch_cost*. "": inputs have no cost.
    :param is_dev: answers of failed predictions hold their tracebacks.
    :param is_loaded: otherwise its ``load`` may still set a signature.
    :raises BootError: its signature and its annotations contradict each other, or it cannot have
        rows or costs.
    """
    if current is None:
        loop = loop_of(service)
        current = current_of(service, table, loop, has_rows=has_rows)
    else:  # ``load`` may have set the types
        current.bodies = body_readers(service, table, has_rows=has_rows)
    if has_rows:
        _check_rows(service, is_loaded=is_loaded, is_async=loop is not None)
    steppings: dict[Predictor, Stepping] = {}
    limits = CallLimits(max_batch_size, max_answer_bytes, max_batch_cost)
    wrap = partial(_wrap, table, current, loop, limits, is_dev, steppings)
    measure = input_cost(service, cost, is_async=loop is not None)
    predictor, interface = wrap(service, is_loaded=is_loaded, has_rows=has_rows, cost=measure)
    methods = Methods(service, predictor, wrap)
    interface.endpoints, interface.is_async = methods.rows, loop is not None
    return Loaded(service, predictor, interface, methods, table, steppings, loop)


def loop_of(service: Service) -> "WorkerLoop | None":
    """Return an event loop for *service*; ``None`` if it is not async.

    :raises BootError: only some of its methods are async.
    """
    if not is_async(service):
        return None
    from servekit.worker.coroutines.loop import WorkerLoop  # imports asyncio

    return WorkerLoop()


def current_of(
    service: Service, table: CodecTable, loop: "WorkerLoop | None", *, has_rows: bool = False
) -> CurrentMembers:
    """Return what the ``Context`` of *service* shows of the requests that it has."""
    readers = body_readers(service, table, has_rows=has_rows)
    if loop is None:
        return CurrentMembers(readers)
    from servekit.worker.coroutines.current import CurrentRequest  # imports asyncio

    return CurrentRequest(readers)


def _check_rows(service: Service, *, is_loaded: bool, is_async: bool) -> None:
    kind = type(service)
    if is_async or streaming_method(service):
        what = "is async" if is_async else "streams"
        raise BootError(f"rows: {kind.__name__} {what}, and takes one input at a time")
    for name in ("preprocess", "postprocess"):
        if getattr(kind, name) is not getattr(Service, name):
            raise BootError(
                f"rows: {kind.__name__}.{name} is for single inputs; do its work in predict"
            )
    if is_loaded and service.signature is None:
        raise BootError("rows: the model has no signature; declare [signature] in model.toml")


def _check_mapping(service: Service, types: BatchTypes) -> None:
    if types.mapping and service.signature is None:
        raise BootError(
            f"{types.name}: {types.mapping}, and without a signature a batch is a list; "
            f"declare [signature] in model.toml, or write list[T]{types.place}"
        )


def _wrap(
    table: CodecTable,
    current: CurrentMembers,
    loop: "WorkerLoop | None",
    limits: CallLimits,
    is_dev: bool,
    steppings: dict[Predictor, Stepping],
    service: Service,
    *,
    is_loaded: bool = True,
    has_rows: bool = False,
    cost: InputCost | None = None,
) -> tuple[Predictor, Interface]:
    types = _types_of(service)
    if is_loaded:
        _check_mapping(service, types)
    signed = None if service.signature is None else _signed(service.signature, types)
    kind = signed or _unsigned(types)
    first = streaming_method(service)
    output = output_type_of(service, types, has_rows=has_rows)
    streams = first is not None
    interface = describe(service, types, table, output, streams=streams, has_rows=has_rows)
    plans = _plans(table, interface, output, streams=streams)
    readers = partial(
        InputReaders,
        body_readers(service, table, has_rows=has_rows),
        has_own_json=not table.is_builtin("application/json"),
        taken=interface.consumes,
    )
    options: dict[str, Any] = {"max_answer_bytes": limits.answer_bytes, "is_dev": is_dev}
    if signed is not None:
        options["rows"] = _row_calls(signed, current, _outputs(interface), limits)
        options["native"] = readers(signed.rows) if has_rows else None
    make = _async_maker(service, first, current, loop)
    stepping = Stepping(service, current) if first and make is None else None
    if stepping is not None:
        options["predict"] = stepping.predict
    if cost is not None:
        make = partial(CostPredictor, cost=cost, max_batch_cost=limits.batch_cost)
    predictor = (make or Predictor)(service, kind, plans, current, readers(kind), **options)
    if stepping is not None:
        steppings[predictor] = stepping
    return predictor, interface


def _plans(table: CodecTable, interface: Interface, output: OutputType, *, streams: bool) -> Plans:
    """Return what decides how the outputs of *interface* are written."""
    media = output.media
    if media is None:
        outputs = _outputs(interface)
        lone = outputs[0]["name"] if len(outputs) == 1 else ""
        return Plans(table, interface.produces, lone=lone)
    if streams:
        return MediaPlans(table, interface.produces, media.of_lists(), media)
    return MediaPlans(table, interface.produces, media)


def _outputs(interface: Interface) -> Sequence[Mapping[str, Any]]:
    return interface.signature["outputs"] if interface.signature is not None else ()


def _types_of(service: Service) -> BatchTypes:
    """Return the types of *service*; a coroutine may annotate what it gets by a signature."""
    types = service_types(service)
    is_mapping = is_async_method(type(service).predict) and batch_of(types.input) is MAPPING
    return types._replace(input=Any) if is_mapping and service.signature is not None else types


def _async_maker(
    service: Service, first: str | None, current: CurrentMembers, loop: "WorkerLoop | None"
) -> Callable[..., Predictor] | None:
    """Return what makes the predictor of *service*; ``None`` if it is not async.

    :param first: the method that gets one input, if its outputs come one by one.
    """
    if loop is None or not (first or is_async_method(type(service).predict)):
        return None
    if first is None:
        from servekit.worker.coroutines.predictor import AsyncPredictor  # imports asyncio

        return partial(AsyncPredictor, loop)
    from servekit.worker.coroutines.slots import AsyncSlots
    from servekit.worker.coroutines.streamer import AsyncStreamer

    is_stepped = first == "admit"
    start = AsyncSlots(service, current).stream if is_stepped else getattr(service, first)
    return partial(AsyncStreamer, start, loop, is_stepped=is_stepped)


def body_readers(service: Service, table: CodecTable, *, has_rows: bool = False) -> BodyReaders:
    """Return readers of bodies, forms and files for the inputs of *service*."""
    if (signature := declared(service.signature)) is not None:
        sent = with_batch_axis(signature) if has_rows else signature
        return BodyReaders(table, signed_rules(sent["inputs"]))
    return BodyReaders(table, typed_rules(service_types(service).input))


def _unsigned(types: BatchTypes) -> InputKind:
    return AnyInput() if types.input is Any else TypedInput(types.input, types.place)


def _signed(signature: Mapping[str, Any], types: BatchTypes) -> "SignedInput":
    if types.input is not Any:
        raise BootError(
            "predict: annotated as a list though there is a signature, with which the batch is "
            "a mapping of names to arrays; keep one of the two"
        )
    from servekit.worker.inputs.signed_input import SignedInput  # imports numpy

    return SignedInput(signature)


def _row_calls(
    kind: "SignedInput",
    current: CurrentMembers,
    outputs: Sequence[Mapping[str, Any]],
    limits: CallLimits,
) -> "MakeRowCalls":
    from servekit.worker.prediction.row_calls import RowCalls  # imports numpy

    return partial(RowCalls, kind, current, outputs, limits.batch_size)
