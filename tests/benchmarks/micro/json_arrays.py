# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.micro.json_arrays``: float32 from JSON and to JSON, in milliseconds.

Each way is timed beside the one that lists of Python's floats would take, in turns, and the best
of several rounds counts, so that a busy machine disturbs little. A worker keeps the memory that it
frees; so does this program.
"""

import timeit
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import numpy as np

from servekit.types import Array
from servekit.worker.codecs.json import codec, decode_json, plain
from servekit.worker.inputs.conversion import convert
from servekit.worker.inputs.signed_input import SignedInput
from servekit.worker.inputs.typed_input import TypedInput
from servekit.worker.process.heap import Heap

ROUNDS = 15
ROUND_S = 0.01
SHAPES = [64], [25_000], [150_000], [224, 224, 3]

Ways = tuple[Callable[[], Any], Callable[[], Any]]


def reading(shape: list[int], array: np.ndarray[Any, Any]) -> dict[str, Ways]:
    """Return the fast and the slow way of each kind of input."""
    signed = SignedInput({"inputs": [{"name": "x", "dtype": "float32", "shape": shape}]})
    annotated = Annotated[np.ndarray, Array("float32", tuple(shape))]  # type: ignore[valid-type]
    alone = TypedInput(annotated)
    fields = msgspec.defstruct("Fields", [("x", annotated)])
    within = TypedInput(fields)
    body = codec.encode(array)
    in_object = b'{"x":%b}' % body
    return {
        "signature": (
            lambda: signed.decode_json(in_object),
            lambda: np.array(decode_json(in_object)["x"], np.float32),
        ),
        "annotated array": (
            lambda: alone.decode_json(body),
            lambda: np.array(decode_json(body), np.float32),
        ),
        "array in a Struct": (
            lambda: within.decode_json(in_object),
            lambda: convert(decode_json(in_object), fields),
        ),
    }


def writing(array: np.ndarray[Any, Any]) -> dict[str, Ways]:
    """Return both ways of an output."""
    encode = msgspec.json.Encoder(enc_hook=plain).encode
    return {"output": (lambda: codec.encode({"y": array}), lambda: encode({"y": array}))}


def best_ms(ways: Ways) -> list[float]:
    """Return the shortest time of each over all rounds, taken in turns."""
    timers = [timeit.Timer(way) for way in ways]
    numbers = [max(1, int(ROUND_S / max(timer.timeit(1), 1e-6))) for timer in timers]
    rounds = [
        [timer.timeit(n) / n for timer, n in zip(timers, numbers, strict=True)]
        for _ in range(ROUNDS)
    ]
    return [min(times) * 1e3 for times in zip(*rounds, strict=True)]


def main() -> None:
    """Print one line per case."""
    Heap()
    print(f"{'shape':>14}  {'what':<18} {'ms':>8} {'by lists':>9}")
    for shape in SHAPES:
        array = np.random.default_rng(0).standard_normal(shape, np.float32)
        for what, ways in (reading(shape, array) | writing(array)).items():
            fast, slow = best_ms(ways)
            print(f"{'x'.join(map(str, shape)):>14}  {what:<18} {fast:>8.3f} {slow:>9.3f}")


if __name__ == "__main__":
    main()
