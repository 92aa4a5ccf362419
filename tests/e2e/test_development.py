# SPDX-License-Identifier: Apache-2.0
"""``servekit start --reload``: what is saved is served, what is broken is told with its line."""

import pytest

from servekit.testing import ServedModel
from tests.waiting import wait_until

SERVICE = """
from servekit import Service

class Toy(Service):
    def load(self, context):
        {load}

    def predict(self, batch):
        return ["{answer}" for _ in batch]
"""
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def save(tmp_path):
    """Save the service of a model directory, and return the directory."""
    (tmp_path / "model.toml").write_text('name = "toy"\nservice = "service:Toy"\n')

    def write(answer="one", load="pass"):
        text = SERVICE.replace("{answer}", answer).replace("{load}", load)
        (tmp_path / "service.py").write_text(text)
        return tmp_path

    return write


def serve(directory) -> ServedModel:
    return ServedModel(directory, reload=True)


def test_what_is_saved_is_served(save):
    with serve(save("one")) as served:
        first = served.wait_ready().predict(0).prediction
        served.log.wait_for("watching")
        save("two")
        wait_until(lambda: served.predict(0).prediction == "two", "the save is served")

    assert first == "one"


def test_a_broken_save_is_told_with_its_line_and_the_old_one_goes_on(save):
    with serve(save("one")) as served:
        served.wait_ready()
        served.log.wait_for("watching")
        save("two", load="1 / 0")
        told = served.log.wait_for("reload_failed")["reason"]
        meanwhile = served.predict(0).prediction
        save("three")
        wait_until(lambda: served.predict(0).prediction == "three", "the save is served")

    assert "ZeroDivisionError: division by zero (service.py:6)" in told
    assert meanwhile == "one"


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"load": "1 / 0"}, id="a service that does not load"),
        pytest.param({"load": "(("}, id="a service that is no Python"),
    ],
)
def test_a_start_with_what_is_broken_waits_for_the_save_that_mends_it(save, broken):
    with serve(save(**broken)) as served:
        line = served.log.wait_for("serving")["message"]
        served.log.wait_for("watching")
        save("mended")
        served.log.wait_for("model_reloaded")
        answer = served.wait_ready().post("/toy/predict", b"0")

    assert "serving nothing yet at http://" in line
    assert answer.prediction == "mended"


def test_a_model_toml_that_is_wrong_at_the_start_can_be_mended(save, tmp_path):
    directory = save("mended")
    (tmp_path / "model.toml").write_text('name = "toy"\nservice = "service:Toy"\nsize = 3\n')
    with serve(directory) as served:
        served.log.wait_for("model_failed")
        served.log.wait_for("watching")
        save("mended")
        (tmp_path / "model.toml").write_text('name = "toy"\nservice = "service:Toy"\n')
        answer = served.wait_ready().predict(0)

    assert answer.prediction == "mended"


def test_nothing_is_left_of_it(save):
    with serve(save("one")) as served:
        served.wait_ready()
        served.log.wait_for("watching")
        status = served.stop()

    assert status == 0


FAILING = """
from msgspec import Struct
from servekit import Service, endpoint

class Toy(Service):
    def predict(self, batch):
        return [self.half(each) for each in batch]

    def half(self, value):
        return 1 / value

    @endpoint()
    def short(self, batch):
        return []
"""


def test_answers_of_failed_predictions_hold_their_tracebacks_for_developers_alone(tmp_path):
    (tmp_path / "model.toml").write_text('name = "toy"\nservice = "service:Toy"\n')
    (tmp_path / "service.py").write_text(FAILING)
    with ServedModel(tmp_path, dev=True) as served:
        served.wait_ready()
        raised, short = served.predict(0), served.post("/toy/short", b"1", "application/json")
    with ServedModel(tmp_path) as served:
        served.wait_ready()
        silent = served.predict(0)

    assert (raised.status, raised.json()["detail"]) == (500, "predict failed")
    assert raised.json()["traceback"].endswith("ZeroDivisionError: division by zero\n")
    assert "in half\n    return 1 / value" in raised.json()["traceback"]
    assert short.json()["detail"] == "Toy.short returned 0 outputs for 1 input (service.py:12)"
    assert silent.status == 500
    assert silent.json().keys() == {"type", "title", "status", "request_id"}
