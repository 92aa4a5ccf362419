# SPDX-License-Identifier: Apache-2.0
"""More models than fit into the memory that they may take together."""

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import numpy as np
import pytest

from servekit.system.processes import proportional_bytes
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MIB = 2**20
CLIENTS = 4
SERVICE = """\
import numpy as np
from servekit import Service

class Model(Service):
    def load(self, context):
        self.weights = np.fromfile("weights", dtype="uint8")

    def predict(self, batch):
        return [int(self.weights[each]) for each in batch]
"""


@pytest.fixture
def serve_many(serve, tmp_path):
    """Serve *count* models of 20 MB that are loaded on demand, and others."""
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "model.toml").write_text('service = "service:Model"\n')
    (directory / "service.py").write_text(SERVICE)
    np.full(20_000_000, 7, "uint8").tofile(directory / "weights")

    def start(count, budget_bytes, others="", **flags):
        settings = tmp_path / "servekit.toml"
        tables = [f'[models.m{i}]\npath = "{directory}"\nreplicas = 0\n' for i in range(count)]
        settings.write_text("".join(tables) + others.replace("MODEL", str(directory)))
        arguments = [text for flag, value in flags.items() for text in (f"--{flag}", value)]
        budget = ["--models-memory", budget_bytes]
        return serve("--config", settings, *budget, *arguments, ready=False)

    return start


class Sampler:
    """Measures the memory of all workers until it is stopped."""

    def __init__(self, server):
        self._server, self._end = server, threading.Event()
        self.largest = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()

    def _run(self):
        while not self._end.wait(0.1):
            total = sum(map(proportional_bytes, self._server.workers()))
            self.largest = max(self.largest, total)


def ask(server, model):
    """Return the status, and how long the answer took."""
    began = monotonic()
    status, _, content = server.post(f"/m{model}/predict", b"3")
    assert status != 200 or json.loads(content)["prediction"] == 7
    return status, monotonic() - began


def zipf(models, requests):
    """Return the models that are asked for: the first ones often, the last ones rarely."""
    weights = [1 / (rank + 1) ** 1.1 for rank in range(models)]
    return random.Random(12).choices(range(models), weights, k=requests)


def measure(server, models, requests):
    """Return statuses, and the durations by model."""
    durations = {}
    with ThreadPoolExecutor(CLIENTS) as pool:
        asked = zipf(models, requests)
        answers = list(pool.map(lambda model: (model, *ask(server, model)), asked))
    for model, _, duration_s in answers:
        durations.setdefault(model, []).append(duration_s)
    return {status for _, status, _ in answers}, durations


def p99_ms(durations):
    """Return the 99th percentile of the five models that are asked for most."""
    hot = sorted(duration for model in range(5) for duration in durations[model])
    return hot[int(0.99 * len(hot))] * 1000


def test_more_models_than_fit_are_all_answered_within_the_budget(serve_many):
    budget = 8 * 55 * MIB
    server = serve_many(30, budget, **{"wake-timeout": 60})
    server.wait_for("serving", 120)
    server.wait_ready()

    with Sampler(server) as sampler:
        statuses, _ = measure(server, 30, 60)

    assert statuses == {200}
    assert sampler.largest <= budget
    server.wait_for("to make room for")


def test_a_model_without_room_is_refused_only_if_nothing_can_be_unloaded(serve_many):
    others = '[models.always]\npath = "MODEL"\n'
    server = serve_many(1, 50 * MIB, others).wait_ready()

    for _ in range(2):  # the second time for the same reason
        status, headers, content = server.post("/m0/predict", b"3")

        assert (status, headers["Retry-After"]) == (507, "5")
        assert json.loads(content)["title"] == "No memory for the model"
    server.wait_for("of 50 MiB for models; models that stay loaded take")
    assert server.post("/always/predict", b"3")[0] == 200


def test_models_that_may_sleep_do_so_at_the_start_if_there_is_no_room(serve_many):
    table = '[models.{}]\npath = "MODEL"\nidle_s = 600\n'
    others = table.format("other") + table.format("more")
    server = serve_many(1, 60 * MIB, others).wait_ready()
    wait_until(lambda: len(server.workers()) == 1, "one of the two is loaded")

    wait_until(lambda: server.get("/ping")[0] == 200, "the server is ready")
    assert [server.post(f"/{name}/predict", b"3")[0] for name in ("other", "more")] == [200] * 2
    assert len(server.workers()) <= 2


@pytest.mark.timeout(1200)  # many starts on a busy machine
def test_200_models_of_20_mb_fit_into_2_gb(serve_many):
    budget = 2000 * MIB
    server = serve_many(200, budget)
    server.wait_for("serving", 600)
    server.wait_ready()
    measure(server, 5, 100)
    with Sampler(server) as sampler:
        _, alone = measure(server, 5, 1000)
        statuses, durations = measure(server, 200, 1000)

    cold = sorted(durations[model][0] for model in durations if model >= 5)
    print(f"hot models: p99 {p99_ms(alone):.1f} ms alone, {p99_ms(durations):.1f} ms; cold hits")
    print(f"{cold[len(cold) // 2]:.2f} s median, {cold[-1]:.2f} s longest;")
    print(f"{sampler.largest / MIB:.0f} MiB of {budget / MIB:.0f}")
    assert statuses == {200}
    assert sampler.largest <= budget
