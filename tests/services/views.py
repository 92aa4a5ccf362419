# SPDX-License-Identifier: Apache-2.0
"""Services that look at large bodies in shared memory, and one that does not let go."""

import numpy as np

from servekit import Service


class Sums(Service):
    """Adds up raw float32 by its signature."""

    signature = {"inputs": [{"name": "x", "dtype": "float32", "shape": [-1]}]}  # noqa: RUF012

    def predict(self, batch):
        return batch["x"].sum(axis=1)


class Holder(Service):
    """Keeps its first input until it is told to let go."""

    kept = None

    def preprocess(self, request):
        return np.frombuffer(request.buffer, np.float32)

    def predict(self, batch):
        if self.kept is None:
            self.kept = batch[0]
        elif batch[0][0] < 0:
            self.kept = None
            return [0.0]
        return [float(self.kept.sum())]


class Buffers(Service):
    """Looks at the request's own buffer, and says of what kind it is."""

    def preprocess(self, request):
        array = np.frombuffer(request.buffer, np.float32)
        return [type(request.buffer).__name__, float(array.sum()), len(request.body)]

    def predict(self, batch):
        return batch


class Large(Service):
    """Answers as many bytes as it is asked for."""

    def predict(self, batch):
        return [bytes(item) for item in batch]


class Copies(Service):
    """Takes bytes of its own, and says how many."""

    def predict(self, batch: list[bytes]) -> list[int]:
        return [len(body) for body in batch]


class Temporaries(Service):
    """Makes arrays on its way that it does not keep."""

    def predict(self, batch: list[bytes]) -> list[float]:
        rows = np.stack([np.frombuffer(body, np.float32) for body in batch])
        scaled = rows.astype(np.float64) / 2 - 0.5
        return (np.abs(scaled) * 2 + scaled).sum(axis=1).tolist()
