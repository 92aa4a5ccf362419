# SPDX-License-Identifier: Apache-2.0
"""A service that takes its time, dies, or hangs, as it is told."""

import os
import time

from servekit import Service


class Slow(Service):
    def predict(self, batch):
        for item in batch:
            if item.get("exit") is not None:
                os._exit(item["exit"])
            time.sleep(item.get("seconds", 0))
        return [{"pid": os.getpid(), "id": item.get("id")} for item in batch]
