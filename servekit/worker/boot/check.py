# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.worker.boot.check PARENT CONTROL``: tries a model instead of serving it.

What ``servekit check`` starts. The service is loaded as in any worker; then its examples
and batches of several sizes are run through it. What is found goes out at once, so that a
service that dies on the way has told what it could.
"""

import socket
import sys
from collections.abc import Callable, Sequence
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
from servekit.errors import StartupError
from servekit.ipc.channel import FrameReader, encode_frame
from servekit.ipc.control import BootFailed
from servekit.system.parent_death import die_with_parent
from servekit.worker.boot.booting import loading_of, reason_of
from servekit.worker.boot.examples import example_item, example_problem
from servekit.worker.boot.loading import Loading, load_service
from servekit.worker.boot.trying import made_input, refusal_of, try_endpoints, why_none
from servekit.worker.boot.warming import batch_of, batch_problem, samples_of
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.predictor import Predictor
from servekit.worker.process.log import report
from servekit.worker.process.process import (
    BOOT_FAILED,
    LEFT,
    become_worker,
    leave,
    limit,
    on_fork,
    own_socket,
)
from servekit.worker.serving.loaded import Loaded

__all__ = ["check", "main"]

Tell = Callable[[msgspec.Struct], None]
TIMED_S = 0.3  #: a size of batch is run again until this has passed
MOST_RUNS = 100


def main() -> int:
    """Answer the one request that comes over the control descriptor."""
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
        check(request, tell)
    except BaseException as error:  # noqa: BLE001 - an author's load may raise anything
        if cause := error.__cause__ if isinstance(error, StartupError) else error:
            report("", cause)
        tell(BootFailed(reason_of(error, request.launch.directory)))
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
    tell(_loaded(loaded, monotonic() - started))
    _run_examples(loaded.predictor, loading, tell)
    samples = _samples(request, loading, loaded, tell)
    for size in request.batch_sizes if samples else ():
        run = _run_batch(loaded.predictor, batch_of(samples, size), tell)
        tell(run)
        if run.problem:  # larger ones would say the same again
            break
    for tried in try_endpoints(loaded.targets):
        tell(tried)
    loaded.close()
    tell(Checked(_kib("status", "VmHWM:")))


def _samples(request: Checkup, loading: Loading, loaded: Loaded, tell: Tell) -> Sequence[OpenItem]:
    """Return inputs to make batches of: examples, zeros, or one made of types; else say why not."""
    manifest, predictor = loading.manifest, loaded.predictor
    if request.examples and not manifest.examples:
        manifest = replace(manifest, examples=tuple(request.examples))
    if samples := samples_of(manifest, loading.directory, loaded.service):
        return samples
    made = made_input(loaded.interface)
    if made is None:
        why = "its inputs come from other stages" if request.is_fed else why_none(loaded.service)
        tell(Tried("", unchecked=f"was not called: {why}"))
    elif refused := refusal_of(predictor, made):
        tell(Tried("", unchecked=f"refuses the input that was made of its types: {refused}"))
    else:
        return [made]
    return []


def _loaded(loaded: Loaded, load_s: float) -> ServiceLoaded:
    kind = type(loaded.service)
    memory = (_kib("smaps_rollup", row) for row in ("Rss:", "Pss:"))
    return ServiceLoaded(loaded.interface, f"{kind.__module__}.{kind.__name__}", load_s, *memory)


def _kib(file: str, row: str) -> int:
    """Return the bytes that a row of a file of ``/proc/self`` gives in kB; 0 if it is not there."""
    try:
        lines = Path("/proc/self", file).read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:  # a kernel without smaps_rollup
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(row)), 0)


def _run_examples(predictor: Predictor, loading: Loading, tell: Tell) -> None:
    for number, example in enumerate(loading.manifest.examples, 1):
        tell(StepStarted(f"example {number}"))
        item, started = example_item(example, loading.directory, number), monotonic()
        answer = predictor.answer([item]).answers[0]
        duration_s = monotonic() - started
        tell(ExampleRun(number, duration_s, example_problem(example, answer)))


def _run_batch(predictor: Predictor, batch: Sequence[OpenItem], tell: Tell) -> BatchRun:
    """Run *batch* once for what is slow the first time, and then until the time is up."""
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


if __name__ == "__main__":
    leave(main())
