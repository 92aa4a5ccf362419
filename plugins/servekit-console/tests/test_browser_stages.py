# SPDX-License-Identifier: Apache-2.0
"""The pages of a pipeline in Chromium: its stages, the slow one, a crash of one."""

import os

import pytest

from servekit.testing import ServedModel

from .console_page import (
    LOOKS,
    MARKS,
    TOKEN,
    check,
    log_in,
    name_of,
    open_page,
    read,
    slowest,
    wait_for,
)

pytestmark = MARKS
MODEL = """
name = "reader"
version = "1.0"
description = "Reads in two steps, of which the second takes longer"
pipeline = ["tidy", "think"]

[stages.tidy]
service = "service:Tidy"
worker = { replicas = 2 }

[stages.think]
service = "service:Think"
"""
SERVICE = """
import os
import time

from servekit import Service


class Tidy(Service):
    def predict(self, batch: list[float]) -> list[float]:
        return batch


class Think(Service):
    def predict(self, batch: list[float]) -> list[float]:
        if min(batch) < 0:
            os.kill(os.getpid(), 11)
        time.sleep(max(batch))
        return batch
"""
CELLS = "[...document.querySelectorAll('{} .cell')].map(cell => cell.getAttribute('aria-label'))"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server whose pipeline has been used, was slow and has crashed."""
    directory = tmp_path_factory.mktemp("stages") / "reader"
    directory.mkdir()
    (directory / "model.toml").write_text(MODEL)
    (directory / "service.py").write_text(SERVICE)
    environment = os.environ | {"SERVEKIT_MANAGE_TOKEN": TOKEN}
    with ServedModel(directory, environment=environment, grace=2) as started:
        started.wait_ready()
        for value in (0.01, 3.0, -1.0):
            started.post("/reader/predict", str(value).encode())
        wait_for(lambda: read(started, "slow.json")["requests"], "trace")
        wait_for(lambda: read(started, "crashes.json")["crashes"], "crash")
        yield started.wait_ready()


@pytest.mark.parametrize("look", LOOKS, ids=name_of)
def test_pages_of_a_pipeline_are_sound(browser, served, axe, look):
    paths = ["", "models/reader", "slow", slowest(served), "crashes", "playground/reader"]
    wrong = {path: check(browser, served, path, axe, look) for path in paths}

    assert {path: found for path, found in wrong.items() if found} == {}


@pytest.mark.parametrize(
    ("path", "place"), [("", "#models"), ("models/reader", "#versions")], ids=["overview", "model"]
)
def test_each_replica_is_shown_with_its_stage(browser, served, path, place):
    open_page(browser, served, path)

    assert sorted(browser.run(CELLS.format(place))) == [
        "think 2: serving", "tidy 0: serving", "tidy 1: serving",
    ]  # fmt: skip


def test_two_clicks_lead_to_the_stage_that_was_slow(browser, served):
    open_page(browser, served, "")
    browser.run("document.querySelector('a[title=\"Why was this slow?\"]').click()")
    browser.wait_for("location.pathname === '/console/slow' && document.readyState === 'complete'")
    assert browser.run("document.querySelector('tbody').innerText.includes('predict of think')")
    browser.run("document.querySelector('tbody th a').click()")
    browser.wait_for("document.querySelector('.waterfall')")

    assert browser.run("document.querySelector('h1').innerText.includes('predict of think')")
    rows = "[...document.querySelectorAll('.waterfall th')]"
    named = browser.run(f"{rows}.map(each => each.firstChild.textContent.trim())")
    assert {"queue of tidy", "queue of think", "predict of tidy"} <= set(named)


def test_a_crash_says_which_stage_it_was(browser, served):
    open_page(browser, served, "crashes")

    assert browser.run("document.querySelector('.crash summary').innerText.includes('· think')")


def test_an_operator_scales_one_stage(browser, served):
    log_in(browser, served, "models/reader")
    field = "document.querySelector('[name=stage][value=think]').form.elements.replicas"
    browser.run(f"{field}.value = 2; {field}.form.requestSubmit()")

    def stages():
        cells = read(served, "models/reader.json")["summary"]["replicas"]
        return sorted(cell["stage"] for cell in cells)

    wait_for(lambda: stages() == ["think", "think", "tidy", "tidy"], "scaling")
    browser.wait_for(f"{CELLS.format('#versions')}.includes('think 3: serving')")
