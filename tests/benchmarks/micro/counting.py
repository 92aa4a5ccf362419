# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.micro.counting``: what it takes to count a batch, in microseconds.

Six histograms and the reason why the batch left, as a front-end counts them: batches are noted, and
so many of them are counted at a time. In turns with it, one after another. Best of several rounds.
"""

import os
import timeit
from functools import partial

from servekit.frontend.metrics.counters import ModelMetrics
from servekit.ipc.counters import Counters, create_memory
from servekit.ipc.model_counters import Label

ROUNDS = 15
BATCHES = 2000
TIMES = (0.0012, 0.0001, 0.003, 0.0002, 0.0004)  #: queue, decode, predict, encode, ipc


def together(metrics: ModelMetrics, count: int) -> None:
    """Note batches, and count each *count* of them at a time."""
    for _ in range(BATCHES // count):
        for _ in range(count):
            metrics.left.append("worker_idle")
            metrics.batches += (4, *TIMES)
        metrics.settle()


def alone(metrics: ModelMetrics) -> None:
    """Count each batch at once."""
    queue_s, decode_s, predict_s, encode_s, ipc_s = TIMES
    for _ in range(BATCHES):
        metrics.observe_queue(queue_s)
        metrics.observe_step(4, predict_s)
        metrics.observe_overhead(decode_s, encode_s, ipc_s)


def main() -> None:
    """Print the time for one batch of each way."""
    counters = Counters(create_memory())
    metrics = ModelMetrics(counters.share(counters.give()), Label("a", "1"))
    ways = {
        f"{count} at a time": lambda count=count: together(metrics, count) for count in (1, 10, 100)
    }
    ways["at once"] = partial(alone, metrics)
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, way in ways.items():
            best[name] = min(best[name], timeit.timeit(way, number=1))
    for name, seconds in best.items():
        print(f"{name:16} {seconds / BATCHES * 1e6:6.2f} us")
    os.close(counters.descriptor)


if __name__ == "__main__":
    main()
