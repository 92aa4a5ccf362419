# SPDX-License-Identifier: Apache-2.0
"""The pages of models that are not well: one cannot be loaded, and one raises an error."""

import pytest

from servekit.testing import ServedModel

from .console_page import LOOKS, MARKS, check, name_of, read, wait_for

pytestmark = MARKS
SERVICE = """
from servekit import Service


class {name}(Service):
    def load(self, context):
        {load}

    def predict(self, batch: list[float]) -> list[float]:
        return [self.divide(value) for value in batch]

    def divide(self, value):
        return 1 / value
"""


def write_model(directory, load):
    directory.mkdir()
    name = directory.name
    (directory / "model.toml").write_text(f'name = "{name}"\nservice = "service:{name.title()}"\n')
    (directory / "service.py").write_text(SERVICE.format(name=name.title(), load=load))
    return directory


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server with both models; the second one has been asked for what it cannot do."""
    directory = tmp_path_factory.mktemp("trouble")
    broken = write_model(directory / "broken", "raise RuntimeError('no weights')")
    divider = write_model(directory / "divider", "pass")
    with ServedModel(broken, divider, grace=2) as started:
        started.log.wait_for("serving")
        started.post("/divider/predict", b"0.0")
        wait_for(lambda: "division by zero" in str(read(started, "models/divider.json")), "error")
        yield started


@pytest.mark.parametrize("look", LOOKS, ids=name_of)
def test_pages_of_models_that_are_not_well_are_sound(browser, served, axe, look):
    paths = ["", "models/broken", "models/divider", "crashes", "playground/broken"]
    wrong = {path: check(browser, served, path, axe, look) for path in paths}

    assert {path: found for path, found in wrong.items() if found} == {}


def test_the_reason_of_a_model_that_is_down_is_announced(browser, served):
    browser.open(f"{served.url}/console/models/broken")

    assert "no weights (service.py:7)" in browser.run(
        "document.querySelector('.problems[role=status]').innerText"
    )


def test_the_log_of_a_model_has_the_whole_traceback(browser, served):
    browser.open(f"{served.url}/console/models/divider")
    log = browser.run("document.querySelector('#tail').innerText")

    assert 'service.py", line 13, in divide\n    return 1 / value' in log
    assert "ZeroDivisionError" in log
