# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.micro.rows``: a request of n rows beside n inputs, microseconds.

Both are answered by the same predictor without sockets, from bodies or decoded arrays to answers:
the time of ``predict`` itself is that of one sum over the batch. The best of several rounds counts,
taken in turns, so that a busy machine disturbs little.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from servekit import Service
from servekit.extension import Rows
from servekit.ipc.batches import Item
from servekit.plugins import create_plugin_manager
from servekit.worker.boot.assembly import assemble
from servekit.worker.codecs.table import CodecTable
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.objects import OBJECT, DecodedInput
from servekit.worker.process.heap import Heap
from tests.benchmarks.micro.json_arrays import best_ms

WIDTH = 16
COUNTS = 1, 8, 64, 1000
JSON = b"application/json"


class Sum(Service):
    """Adds up each row."""

    signature: ClassVar = {
        "inputs": [{"name": "x", "dtype": "float32", "shape": [WIDTH]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": []}],
    }

    def predict(self, batch: Any) -> Any:
        """Return the sums."""
        return {"y": batch["x"].sum(axis=1)}


def answering(*, has_rows: bool, items: Sequence[OpenItem]) -> Callable[[], Any]:
    """Return what answers *items* as one batch."""
    table = CodecTable(create_plugin_manager(discover=False))
    predictor = assemble(Sum(), table, has_rows=has_rows).predictor
    if any(error for error, _, _ in predictor.answer(items).answers):
        raise AssertionError("an item was refused")
    return lambda: predictor.answer(items)


def opened(value: Any) -> OpenItem:
    """Return *value* as the input that an envelope has decoded."""
    return Item(DecodedInput(value, b""), OBJECT, OBJECT, "r", math.inf)


def native(value: Any) -> OpenItem:
    """Return *value* as a request in JSON."""
    return Item(msgspec.json.encode(value), JSON, b"", "r", math.inf)


def main() -> None:
    """Print one line per case."""
    Heap()  # as in a worker
    print(f"{'rows':>5}  {'what':<10} {'us as rows':>11} {'us one by one':>14}")
    for count in COUNTS:
        array = np.random.default_rng(0).random((count, WIDTH), dtype=np.float32).round(4)
        ways = {
            "protocol": (opened(Rows({"x": array}, count)), [opened({"x": row}) for row in array]),
            "JSON": (native({"x": array.tolist()}), [native({"x": row.tolist()}) for row in array]),
        }
        for what, (whole, singles) in ways.items():
            as_rows, one_by_one = best_ms(
                (
                    answering(has_rows=what == "JSON", items=[whole]),
                    answering(has_rows=False, items=singles),
                )
            )
            print(f"{count:>5}  {what:<10} {as_rows * 1e3:>11.1f} {one_by_one * 1e3:>14.1f}")


if __name__ == "__main__":
    main()
