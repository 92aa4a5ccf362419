# SPDX-License-Identifier: Apache-2.0
"""The benchmark's network 784-256-10, served by servekit. The same as in ``peers/models.py``."""

import numpy as np

from servekit import Service


class Mlp(Service):
    """Answers the class of a row of 784 numbers."""

    def load(self, context):
        random = np.random.default_rng(1)
        self.hidden = random.standard_normal((784, 256), np.float32)
        self.last = random.standard_normal((256, 10), np.float32)

    def predict(self, batch):
        hidden = np.maximum(batch["x"] @ self.hidden, 0)
        return (hidden @ self.last).argmax(axis=1).tolist()
