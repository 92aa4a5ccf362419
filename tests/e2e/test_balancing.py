# SPDX-License-Identifier: Apache-2.0
"""One client in front of two real servers, one of which is killed and comes back."""

import threading
from collections import Counter
from pathlib import Path
from time import monotonic

import pytest
from servekit_client import Client, FileDiscovery, ServekitError, Unreachable

from servekit.testing import ServedModel

from .conftest import WAIT_S

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MODEL = Path(__file__).parents[1] / "benchmarks" / "models" / "sum"


class Load:
    """Calls the model from several threads, and counts by server, or by error."""

    def __init__(self, client, threads=4):
        self.found = Counter()
        self._client, self._is_over = client, threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self):
        body = b'{"x": [1, 2]}'
        while not self._is_over.is_set():
            try:
                key = self._client.raw("sum", body, "application/json").server
            except ServekitError as error:
                key = type(error)
            with self._lock:
                self.found[key] += 1

    def wait_for(self, key, more=50):
        """Wait until *key* has been counted *more* times than now."""
        goal, deadline = self.found[key] + more, monotonic() + WAIT_S
        while self.found[key] < goal:
            assert monotonic() < deadline, f"{key}: {self.found}"
            self._is_over.wait(0.01)

    def end(self):
        self._is_over.set()
        for thread in self._threads:
            thread.join(WAIT_S)


def test_only_what_a_killed_server_had_is_lost(tmp_path):
    addresses = tmp_path / "servers.json"
    with ServedModel(MODEL) as one, ServedModel(MODEL) as two:
        urls = [each.wait_ready().url for each in (one, two)]
        addresses.write_text(f'["{urls[0]}", "{urls[1]}"]')
        with Client(FileDiscovery(addresses, every_s=0.2)) as client:
            load = Load(client)
            try:
                for url in urls:
                    load.wait_for(url)
                one.process.kill()
                one.process.wait(WAIT_S)
                load.wait_for(urls[1], 500)
                with ServedModel(MODEL) as three:
                    back = three.wait_ready().url
                    addresses.write_text(f'["{urls[1]}", "{back}"]')
                    load.wait_for(back)
                    load.end()
            finally:
                load.end()

    lost = sum(count for key, count in load.found.items() if not isinstance(key, str))
    assert set(load.found) <= {*urls, back, Unreachable}, load.found
    assert lost <= 4  # one for each thread
