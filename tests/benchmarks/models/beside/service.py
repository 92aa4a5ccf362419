# SPDX-License-Identifier: Apache-2.0
"""The benchmark's pipeline, served by servekit. The same as in ``peers/mosec_server.py``."""

import numpy as np

from servekit import Service


class Decode(Service):
    """An object to an array."""

    def predict(self, batch):
        return [np.array(item["x"], np.float32) for item in batch]


class Infer(Service):
    """The sums of a batch of arrays."""

    def predict(self, batch):
        return np.stack(batch).sum(axis=1)


class Format(Service):
    """A number of numpy's to one of Python's."""

    def predict(self, batch):
        return [float(item) for item in batch]
