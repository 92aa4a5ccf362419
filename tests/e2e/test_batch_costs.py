# SPDX-License-Identifier: Apache-2.0
"""A served model whose inputs have a cost."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.waiting import wait_until

MODEL = """
name = "padded"
service = "service:Padded"

[batching]
max_batch_size = 8
cost = "length"
max_batch_cost = 400
"""
SERVICE = """
import time
from pathlib import Path
from servekit import Service

class Padded(Service):
    def predict(self, batch):
        if batch == ["hold"]:
            Path({held!r}).touch()
            while not Path({go!r}).exists():
                time.sleep(0.01)
        return [[len(text) for text in batch]] * len(batch)
"""
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def padded(tmp_path):
    """Return the directory of a model whose inputs cost what they are long."""
    directory = tmp_path / "padded"
    directory.mkdir()
    (directory / "model.toml").write_text(MODEL)
    places = {"held": str(tmp_path / "held"), "go": str(tmp_path / "go")}
    (directory / "service.py").write_text(SERVICE.format(**places))
    return directory


def company(server, length):
    """Return the lengths of the texts that shared a batch with one of *length*."""
    text = "hold" if length == 4 else "x" * length
    status, _, body = server.post("/padded/predict", json.dumps(text).encode())
    assert status == 200
    return json.loads(body)["prediction"]


def queued(server, *lengths):
    """Return the company of texts of *lengths* that wait together while the worker is busy."""
    held, go = (server.padded.parent / name for name in ("held", "go"))
    with ThreadPoolExecutor(len(lengths) + 1) as pool:
        pool.submit(company, server, 4)
        wait_until(held.exists, "the worker did not get the first batch")
        found = [pool.submit(company, server, length) for length in lengths]
        line = f'servekit_tasks_waiting{{model="padded",version="1.0"}} {len(lengths)}'
        try:
            wait_until(lambda: line in server.get("/metrics")[1].decode(), "they did not wait")
        finally:
            go.touch()
        return [each.result() for each in found]


def test_inputs_of_similar_length_share_a_batch(serve, padded):
    server = serve("--models", padded)
    server.padded = padded
    lengths = [100, 300, 110, 10, 120, 290, 100, 20, 30]
    found = queued(server, *lengths)

    for length, together in zip(lengths, found, strict=True):
        assert length in together
        assert max(together) <= max(50, 2 * min(together)) + 50
        assert len(together) * max(together) <= 400
    assert {10, 20, 30} <= set(found[3])  # one of 100 may be with them: it depends on their order


def test_an_operator_changes_what_a_batch_may_cost(serve, padded):
    server = serve("--models", padded, "--set", "padded.batching.max_batch_cost=120")
    server.padded = padded

    assert all(len(each) == 1 for each in queued(server, 100, 100, 100))


def test_a_limit_for_a_model_whose_inputs_have_no_cost_is_refused(run, padded):
    (padded / "model.toml").write_text(MODEL.partition("\n\n")[0])
    setting = "padded.batching.max_batch_cost=5"
    done = run("servekit", "start", padded, "--port", "0", "--set", setting)

    assert done.returncode == 3
    assert "cost: is missing; max_batch_cost requires it" in done.stderr
