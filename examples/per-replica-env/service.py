# SPDX-License-Identifier: Apache-2.0
"""A device for each replica: what ``env`` of ``model.toml`` says, seen by the service."""

import os

import numpy as np

from servekit import Context, Service


class Product(Service):
    """Multiplies matrices where its replica belongs."""

    def load(self, context: Context) -> None:
        """Keep to our cores, if the machine has them."""
        self._replica = context.replica
        self._device = os.environ["CUDA_VISIBLE_DEVICES"]  # the one device that CUDA will see
        cores = {int(core) for core in os.environ["CORES"].split(",")}
        if cores <= os.sched_getaffinity(0):
            os.sched_setaffinity(0, cores)

    def predict(self, batch: list[int]) -> list[dict[str, object]]:
        """Answer the trace of the product of two matrices of a size, and where it was made."""
        return [self._multiply(size) for size in batch]

    def _multiply(self, size: int) -> dict[str, object]:
        matrix = np.random.default_rng(0).random((size, size))
        trace = round(float(np.trace(matrix @ matrix)), 3)
        return {"trace": trace, "replica": self._replica, "device": self._device}
