# SPDX-License-Identifier: Apache-2.0
"""The benchmark's model of plain bytes, served by servekit."""

import numpy as np

from servekit import Service


class Copies(Service):
    """Answers the sum of the float32 that a body holds, which it takes as ``bytes``."""

    def predict(self, batch: list[bytes]) -> list[float]:
        return [float(np.frombuffer(body, np.float32).sum()) for body in batch]
