# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.worker.boot.check PARENT CONTROL``: tries a model instead of serving it.

``servekit check`` starts it. The service is loaded as in any worker; then its examples and
batches of several sizes are run. Each finding is sent at once, so that a service that crashes
the process does not take the earlier findings with it.
"""

import math
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import monotonic

import msgspec

from servekit.checkup.messages import (
    BatchRun,
    Checked,
    Checkup,
    ExampleRun,
    ServiceLoaded,
    StepStarted,
    Tried,
)
from servekit.description.sample_values import sample_value
from servekit.errors import RequestError, error_class
from servekit.ipc.batches import Item
from servekit.ipc.channel import FrameReader, encode_frame
from servekit.ipc.table import Interface
from servekit.service.base import Service
from servekit.system.parent_death import die_with_parent
from servekit.worker.boot.loading import Loading, load_service, loading_of
from servekit.worker.boot.proof import (
    batch_of,
    batch_problem,
    example_item,
    example_problem,
    problem_of,
    samples_of,
)
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.predictor import Predictor
from servekit.worker.process.log import boot_failed
from servekit.worker.process.setup import (
    BOOT_FAILED,
    LEFT,
    become_worker,
    forbid_core_dumps,
    leave,
    limit,
    on_fork,
    own_socket,
)
from servekit.worker.serving.loaded import Loaded

__all__ = ["check", "main"]

Tell = Callable[[msgspec.Struct], None]
TIMED_S = 0.3  #: a size of batch is run again until this time has passed
MOST_RUNS = 100
MOST_STEPS = 10  #: for an endpoint that streams


def main() -> int:
    """Answer the one request that arrives on the control descriptor; return the exit status."""
    parent, descriptor = (int(number) for number in sys.argv[1:])
    die_with_parent(parent)
    become_worker()
    control = own_socket(descriptor)
    on_fork(control.close)
    try:
        request = read_request(control)
    except OSError:
        return LEFT

    def tell(message: msgspec.Struct) -> None:
        control.sendall(encode_frame(message))

    try:
        limit(request.launch.memory_bytes, request.launch.files)
        if request.launch.is_secret:
            forbid_core_dumps()
        check(request, tell)
    except BaseException as error:  # noqa: BLE001 - an author's load may raise anything
        tell(boot_failed(error, request.launch.directory))
        return BOOT_FAILED
    return LEFT


def read_request(control: socket.socket) -> Checkup:
    """Wait for the request."""
    reader: FrameReader[Checkup] = FrameReader(control, Checkup)
    while not (requests := reader.read()):
        pass
    return requests[0]


def check(request: Checkup, tell: Tell) -> None:
    """Load the service and run everything. Raises whatever the author's ``load`` raises."""
    tell(StepStarted("loading"))
    loading, started = loading_of(request.launch), monotonic()
    loaded = load_service(loading)
    kind, load_s = type(loaded.service), monotonic() - started
    memory = (_bytes_of("smaps_rollup", row) for row in ("Rss:", "Pss:"))
    tell(ServiceLoaded(loaded.interface, f"{kind.__module__}.{kind.__name__}", load_s, *memory))
    _run_examples(loaded.predictor, loading, tell)
    samples = _samples(request, loading, loaded, tell)
    for size in request.batch_sizes if samples else ():
        run = _run_batch(loaded.predictor, batch_of(samples, size), tell)
        tell(run)
        if run.problem:  # larger ones would fail in the same way
            break
    for tried in _try_endpoints(loaded):
        tell(tried)
    loaded.close()
    tell(Checked(_bytes_of("status", "VmHWM:")))


def _bytes_of(file: str, row: str) -> int:
    """Return what a row of a file in ``/proc/self`` says in kB, as bytes; 0 if it is missing."""
    try:
        lines = Path("/proc/self", file).read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:  # a kernel without smaps_rollup
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(row)), 0)


# ------------------------------------------------------------ examples and batches


def _run_examples(predictor: Predictor, loading: Loading, tell: Tell) -> None:
    for number, example in enumerate(loading.manifest.examples, 1):
        tell(StepStarted(f"example {number}"))
        item, started = example_item(example, loading.directory, number), monotonic()
        answer = predictor.answer([item]).answers[0]
        duration_s = monotonic() - started
        tell(ExampleRun(number, duration_s, example_problem(example, answer)))


def _samples(request: Checkup, loading: Loading, loaded: Loaded, tell: Tell) -> Sequence[OpenItem]:
    """Return inputs for batches: examples, zeros, or one made from types; else tell the reason."""
    manifest, predictor = loading.manifest, loaded.predictor
    if request.examples and not manifest.examples:
        manifest = replace(manifest, examples=tuple(request.examples))
    if samples := samples_of(manifest, loading.directory, loaded.service, predictor):
        return samples
    sample = _sample_of(loaded.interface)
    if sample is None:
        why = "no example, signature or type says what an input is"
        if request.is_fed:
            why = "its inputs come from other stages"
        elif type(loaded.service).preprocess is not Service.preprocess:
            why = "only an example can show what its preprocess takes"
        tell(Tried("", unchecked=f"was not called: {why}"))
    elif refused := _refusal_of(predictor, sample):
        tell(Tried("", unchecked=f"refuses the input that was made of its types: {refused}"))
    else:
        return [sample]
    return []


def _run_batch(predictor: Predictor, batch: Sequence[OpenItem], tell: Tell) -> BatchRun:
    """Run *batch* once without timing it, and then until the time is up."""
    durations: list[float] = []
    problem, until = _run(predictor, batch, tell), monotonic() + TIMED_S
    while not problem and len(durations) < MOST_RUNS and (not durations or monotonic() < until):
        started = monotonic()
        problem = _run(predictor, batch, tell)
        durations.append(monotonic() - started)
    return BatchRun(len(batch), median(durations) if durations else 0.0, problem)


def _run(predictor: Predictor, batch: Sequence[OpenItem], tell: Tell) -> str:
    tell(StepStarted(f"batch of {len(batch)}"))
    return batch_problem(predictor, batch)


# ------------------------------------------------------------ inputs made from types


def _sample_of(interface: Interface) -> OpenItem | None:
    """Return a request made from the types of the inputs; ``None`` if they are not known."""
    if not interface.input_schema:
        return None
    value = sample_value(interface.input_schema, interface.schema_definitions)
    return Item(msgspec.json.encode(value), b"application/json", b"", "made", math.inf)


def _refusal_of(predictor: Predictor, item: OpenItem) -> str:
    """Return why the service refuses *item*; "" if it answers it, or fails."""
    (answer,) = predictor.answer([item]).answers
    is_refused = bool(answer[0]) and issubclass(error_class(answer[0]), RequestError)
    return problem_of(answer) if is_refused else ""


def _try_endpoints(loaded: Loaded) -> Iterator[Tried]:
    """Call each endpoint with an input made from its types, and yield the findings."""
    for row in loaded.methods.rows:
        predictor, item = loaded.methods.predictor(row.name), _sample_of(row.interface)
        _limit_steps(loaded, predictor)
        if not isinstance(predictor, Predictor) or item is None:
            yield Tried(row.name, unchecked="was not called: its types do not say what an input is")
        elif refused := _refusal_of(predictor, item):
            yield Tried(row.name, unchecked=f"refuses the input that was made of types: {refused}")
        else:
            yield Tried(row.name, problem_of(predictor.answer([item]).answers[0]))


def _limit_steps(loaded: Loaded, predictor: Predictor | None) -> None:
    """End the streams of *predictor* after some steps: a stream of events may be endless."""
    if predictor is not None and predictor in loaded.steppings:
        loaded.steppings[predictor].most_steps = MOST_STEPS
    if loaded.loop is not None:
        from servekit.worker.coroutines.streamer import AsyncStreamer  # imports asyncio

        if isinstance(predictor, AsyncStreamer):
            predictor.most_steps = MOST_STEPS


if __name__ == "__main__":
    leave(main())
