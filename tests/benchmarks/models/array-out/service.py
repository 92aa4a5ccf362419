# SPDX-License-Identifier: Apache-2.0
"""The benchmark's model that writes arrays, served by servekit. As in ``peers/models.py``."""

import numpy as np

from servekit import Service

LONGEST = 150_000


class Series(Service):
    """Answers ``[factor, count]`` with so many numbers; a batch asks for the same count."""

    def load(self, context):
        self.series = np.random.default_rng(1).standard_normal(LONGEST, np.float32)

    def predict(self, batch):
        factors, counts = batch["x"].T
        return {"y": factors[:, None] * self.series[: int(counts[0])]}
