# SPDX-License-Identifier: Apache-2.0
"""A service that some requests kill, and that can be stopped early."""

import os
import time

from servekit import Service


class Fragile(Service):
    def load(self, context):
        self.context = context

    def predict(self, batch):
        requests = self.context.requests
        return [self.answer(*pair) for pair in zip(batch, requests, strict=True)]

    def answer(self, item, request):
        if item.get("die"):
            os._exit(1)
        until = time.monotonic() + item.get("seconds", 0)
        while time.monotonic() < until and not request.is_cancelled:
            time.sleep(0.005)
        if item.get("log"):
            os.write(1, f"{item['log']} stopped {request.is_cancelled}\n".encode())
        return {"id": item.get("id"), "pid": os.getpid()}
