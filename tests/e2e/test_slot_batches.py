# SPDX-License-Identifier: Apache-2.0
"""A service that also streams: its predictions are batches like those of any other."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MODEL = """
name = "mixed"
service = "service:Mixed"
[batching]
max_batch_size = 8
"""
SERVICE = """
from time import sleep

from servekit import Service, endpoint

class Mixed(Service):
    def predict(self, batch: list[int]) -> list[int]:
        sleep(0.05)  # the next ones arrive meanwhile
        return [len(batch) for _ in batch]

    @endpoint()
    def count(self, value: int):
        yield from range(value)
"""


def series(server):
    text = server.get("/metrics")[1].decode()
    found = re.findall(r'servekit_batch_size_(count|sum){model="mixed"[^}]*} ([\d.]+)', text)
    return {name: float(value) for name, value in found}


def test_the_size_of_a_batch_is_told_and_counted(serve, tmp_path):
    (tmp_path / "model.toml").write_text(MODEL)
    (tmp_path / "service.py").write_text(SERVICE)
    server = serve("--models", tmp_path)

    def ask(value):
        _, headers, body = server.post("/mixed/predict", b"%d" % value)
        told = re.search(r"batch;dur=[\d.]+;desc=(\d+)", headers["Server-Timing"])
        return int(told[1]), json.loads(body)["prediction"]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(40)))

    assert all(told == size for told, size in found)
    assert max(size for _, size in found) > 1
    batches = sum(1 / size for _, size in found)
    assert series(server) == {"count": pytest.approx(batches), "sum": 40}
