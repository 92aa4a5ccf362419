# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.micro.batches``: bodies to one stacked batch, in microseconds.

Times what a worker does before ``predict``: decode each body, check it against the signature,
stack. Best of several rounds, so that a busy machine disturbs little; the garbage collector is
off meanwhile. To compare two versions, run this file in a checkout of each, in turns.
"""

import io
import timeit
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from servekit.plugins import create_plugin_manager
from servekit.worker.codecs.table import CodecTable
from servekit.worker.inputs.signed_input import SignedInput
from servekit.worker.prediction.request_reader import BodyReaders, InputReaders

ROUNDS = 15
ROUND_S = 0.01


class Case(NamedTuple):
    """Bodies of one kind that come in one batch."""

    shape: tuple[int, ...]
    count: int
    content_type: bytes
    body: bytes


def cases() -> Iterator[Case]:
    """Yield small and large inputs in each encoding."""
    for shape, count in (((8, 8), 32), ((8, 8), 1), ((3, 224, 224), 8), ((3, 224, 224), 32)):
        array = np.random.default_rng(0).random(shape, dtype=np.float32)
        file = io.BytesIO()
        np.save(file, array)
        yield Case(shape, count, b"application/octet-stream", array.tobytes())
        yield Case(shape, count, b"application/x-npy", file.getvalue())
        if count <= 8 or array.nbytes < 1000:
            body = msgspec.json.encode(array.round(4).tolist())
            yield Case(shape, count, b"application/json", body)


def batching(case: Case) -> Callable[[], None]:
    """Return what decodes and stacks one batch of *case*, as the predictor does."""
    declared = {"name": "x", "dtype": "float32", "shape": list(case.shape)}
    kind = SignedInput({"inputs": [declared]})
    bodies = BodyReaders(CodecTable(create_plugin_manager(discover=False)))
    readers = InputReaders(bodies, kind, has_own_json=False)
    received = [bytes(bytearray(case.body)) for _ in range(case.count)]  # each its own memory

    def batch() -> None:
        read = readers[case.content_type]
        for _, stacked in kind.batches([read(body) for body in received]):
            if stacked["x"].shape != (case.count, *case.shape):
                raise AssertionError(f"{case.content_type!r}: {stacked['x'].shape}")

    return batch


def best_us(work: Callable[[], None]) -> float:
    """Return the shortest time of *work* over all rounds."""
    timer = timeit.Timer(work)
    work()
    number = max(1, int(ROUND_S / max(timer.timeit(1), 1e-6)))
    return min(timer.repeat(ROUNDS, number)) / number * 1e6


def main() -> None:
    """Print one line per case."""
    print(f"{'shape':>14} {'n':>3}  {'content type':<26} {'us/batch':>10} {'us/input':>9}")
    for case in cases():
        us = best_us(batching(case))
        name, shape = case.content_type.decode(), "x".join(map(str, case.shape))
        print(f"{shape:>14} {case.count:>3}  {name:<26} {us:>10.1f} {us / case.count:>9.2f}")


if __name__ == "__main__":
    main()
