# SPDX-License-Identifier: Apache-2.0
"""The system calls of the hot path, from traces of the real processes."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.guard.traced import ask, traced_server
from tests.guard.traces import Call, between, is_receipt, read_trace, turns, typical

REQUESTS = 200
CLIENTS = 8


def typical_turns(directory: Path) -> dict[str, dict[str, int]]:
    """Return the calls of one turn of each process, one request at a time."""
    with traced_server(directory) as port:
        ask(port, REQUESTS)
    front_end, worker = processes(directory)
    return {
        "front_end": typical(list(turns(front_end, is_request))),
        "worker": typical(list(turns(worker, is_batch))),
    }


def batched_calls(directory: Path) -> tuple[float, Counter[str], Counter[str]]:
    """Return the number of batches, and the calls of either process over all of them."""
    with traced_server(directory) as port:
        batches = ask(port, REQUESTS, CLIENTS)
    front_end, worker = processes(directory)
    return batches, count(front_end, is_request), count(worker, is_batch)


def processes(directory: Path) -> tuple[list[Call], list[Call]]:
    """Return the traces of the front-end and of the worker."""
    traces = [read_trace(path) for path in sorted(directory.glob("trace.*"))]
    front_end = next(trace for trace in traces if any(map(is_request, trace)))
    worker = next(t for t in traces if t is not front_end and any(map(is_batch, t)))
    return front_end, worker


def is_request(call: Call) -> bool:
    """Whether a request came in."""
    return is_receipt(call, '"POST /sum/predict')


def is_batch(call: Call) -> bool:
    """Whether a batch came in."""
    return is_receipt(call, "guard-") and not is_request(call)


def count(calls: list[Call], begins: Callable[[Call], bool]) -> Counter[str]:
    """Count the calls that move bytes of requests and batches."""
    moves = [call for call in between(calls, begins) if "guard-" in call.text or is_answer(call)]
    return Counter(call.name for call in moves)


def is_answer(call: Call) -> bool:
    """Whether a batch's answers came in or went out."""
    return '{\\"prediction\\"' in call.text
