# SPDX-License-Identifier: Apache-2.0
"""Metrics and logs of services, in a real server."""

import shutil
from pathlib import Path

import pytest

from servekit.testing import ServedModel

pytestmark = pytest.mark.slow

SERVICES = Path(__file__).parents[1] / "services"


@pytest.fixture
def serve(tmp_path):
    """Serve a class of ``tests/services/context.py``."""
    started = []

    def start(name, **settings):
        shutil.copy(SERVICES / "context.py", tmp_path)
        (tmp_path / "model.toml").write_text(f'name = "words"\nservice = "context:{name}"\n')
        started.append(ServedModel(tmp_path, **settings))
        return started[-1].wait_ready()

    yield start
    for served in started:
        served.stop()


def own_series(served):
    text = served.get("/metrics").body.decode()
    lines = [line.rpartition(" ") for line in text.splitlines()]
    found = [(name, value) for name, _, value in lines if name.startswith("servekit_model_")]
    return {name.replace(',version="1.0"', ""): float(value) for name, value in found}


def test_metrics_of_a_service_are_scraped_at_any_front_end_and_begin_anew_with_a_worker(serve):
    served = serve("Measured", front_ends=2)
    for word in ("apple", "axe", "it"):
        assert served.predict(word).prediction == word

    series = own_series(served)
    assert own_series(served) == series
    assert series['servekit_model_words_total{letter="a",model="words",replica="0"}'] == 2
    assert series['servekit_model_letters_bucket{le="4.0",model="words",replica="0"}'] == 2
    assert series['servekit_model_longest{model="words",replica="0"}'] == 2

    served.kill_worker()
    served.wait_ready()
    served.predict("axe")
    series = own_series(served)
    assert series['servekit_model_words_total{letter="a",model="words",replica="0"}'] == 1


def test_a_service_logs_in_the_servers_format_and_as_nobody_else(serve):
    served = serve("Talkative")
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    headers = {"X-Request-Id": "ours", "traceparent": f"00-{trace_id}-b7ad6b7169203331-00"}
    served.post("/words/predict", b"1", headers=headers)

    loaded = served.log.wait_for("log", message="loaded words")
    assert (loaded["subject"], loaded["level"]) == ("words/0", "info")
    got = served.log.wait_for("log", message="got 1")
    assert (got["model"], got["replica"], got["level"]) == ("words", 0, "warning")
    assert (got["request_ids"], got["size"]) == (["ours"], 1)
    assert got["trace_ids"] == [trace_id]
    failed = served.log.wait_for("log", message="failed")
    assert failed["traceback"].endswith("KeyError: 'lost'\n")
    assert "not shown" not in served.log.text
