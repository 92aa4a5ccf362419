# SPDX-License-Identifier: Apache-2.0
"""Measurements with chosen latencies."""

import numpy as np
from servekit_bench.load import LoadFailure, Measurement
from servekit_bench.load.measurement import GeneratorUse, Second, StreamTimes


def measured(latencies_ms=(1.0, 2.0, 3.0), *, duration_s=1.0, **more) -> Measurement:
    latencies_s = np.sort(np.array(latencies_ms, np.float64)) / 1e3
    none = np.array([], np.float64)
    refused = {int(each.kind): each.count for each in more.get("failures", ())}
    fields = {
        "latencies_s": latencies_s,
        "duration_s": duration_s,
        "answered": len(latencies_s),
        "statuses": {200: len(latencies_s), **refused},
        "failures": (),
        "unanswered": 0,
        "sent_bytes": 1000,
        "received_bytes": 2_000_000,
        "streams": StreamTimes(first_outputs_s=none, gaps_s=none, outputs=0),
        "reconnects": 0,
        "seconds": (Second(0.0, 1.0, len(latencies_s), 0.002, 0.003),),
        "generator": used(),
        "was_stopped": False,
    }
    return Measurement(**(fields | more))


def used(*, cpu=0.2, cpu_wait=0.0) -> GeneratorUse:
    return GeneratorUse(processes=1, cpu=cpu, cpu_wait=cpu_wait, late_s=np.array([], np.float64))


BUSY = LoadFailure("429", 3, "queue\n  is full")
