# SPDX-License-Identifier: Apache-2.0
"""Requests at a fixed rate, through the balancer of servekit-client or a proxy."""

import threading
import time
from contextlib import suppress

from servekit_client import Client, ServekitError
from servekit_ray.discovery import RayDiscovery

THREADS = 8


class Load:
    """Calls a model *rate* times a second while it is entered; no call is repeated."""

    def __init__(self, deployment, rate=200, proxy=None):
        self.answers, self.errors = [], []
        servers = proxy or RayDiscovery(deployment.name, every_s=0.5)
        self._client = Client(servers, retries=0, timeout_s=60)
        self._pause_s = THREADS / rate
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(THREADS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        with suppress(ServekitError):
            self._client.close()

    def _run(self):
        at = time.monotonic()
        while not self._stop.wait(max(0.0, at - time.monotonic())):
            at = max(at + self._pause_s, time.monotonic() - 1)
            try:
                self.answers.append(self._client.predict("greet", "Ada"))
            except ServekitError as error:
                self.errors.append((time.monotonic(), str(error)))
