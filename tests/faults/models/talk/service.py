# SPDX-License-Identifier: Apache-2.0
"""Says who it is for as long as somebody listens, and counts who does."""

import os
import time
from collections.abc import Iterator

from servekit import Service


class Talk(Service):
    def load(self, context):
        self.listeners = 0
        self.gauge = context.metrics.gauge("listeners", "Generators that are open")

    def stream(self, pause_s: float) -> Iterator[int]:
        self.count(+1)
        try:
            while True:
                time.sleep(pause_s)
                yield os.getpid()
        finally:
            self.count(-1)

    def count(self, step):
        self.listeners += step
        self.gauge.set(self.listeners)
