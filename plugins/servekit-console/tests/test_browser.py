# SPDX-License-Identifier: Apache-2.0
"""Every page in Chromium: light and dark, on a desk and in a hand, with one model and with many."""

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
    read,
    slowest,
    wait_for,
    write_model,
)

pytestmark = MARKS


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A server with one model that has been used, was slow and has crashed."""
    directory = write_model(tmp_path_factory.mktemp("one") / "digits", "digits", replicas=4)
    environment = os.environ | {"SERVEKIT_MANAGE_TOKEN": TOKEN}
    with ServedModel(directory, environment=environment, grace=2) as served:
        served.wait_ready()
        for value in (0.01, 0.02, 0.3, -1.0):
            served.predict(value)
        wait_for(lambda: read(served, "slow.json")["requests"], "trace")
        wait_for(lambda: read(served, "crashes.json")["crashes"], "crash")
        yield served


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A server with a hundred models; most of them sleep until somebody needs them."""
    directory = tmp_path_factory.mktemp("many")
    names = [f"model-{number:03}" for number in range(100)]
    models = [write_model(directory / name, name) for name in names]
    asleep = [f"{name}.replicas=0" for name in names[4:]]
    with ServedModel(*models, set=asleep, grace=2) as served:
        wait_for(lambda: served.log.find("serving"), "server")
        yield served


@pytest.mark.parametrize("look", LOOKS, ids=name_of)
def test_pages_are_sound(browser, one, axe, look):
    paths = ["", "models/digits", "slow", slowest(one), "crashes", "login", "playground/"]
    wrong = {path: check(browser, one, path, axe, look) for path in paths}

    assert {path: found for path, found in wrong.items() if found} == {}


@pytest.mark.parametrize("look", LOOKS[1:3], ids=name_of)
def test_a_hundred_models_are_shown_and_filtered(browser, many, axe, look):
    assert check(browser, many, "", axe, look) == []

    visible = "[...document.querySelectorAll('tbody tr')].filter(row => row.offsetParent).length"
    assert browser.run(visible) == 100
    browser.run("document.querySelector('#filter').focus()")
    browser.call("Input.insertText", text="-04")
    assert browser.run(visible) == 10


def test_numbers_follow_the_server(browser, one):
    browser.open(f"{one.url}/console/")
    shown = "document.querySelector('tr[data-model=digits] [data-live]').textContent"
    before = browser.run(shown)
    browser.run("setInterval(() => fetch('/digits/predict', {method: 'POST', body: '0.001', "
                "headers: {'Content-Type': 'application/json'}}), 50) && 0")  # fmt: skip

    assert browser.wait_for(f"{shown} !== {before!r} && {shown} !== '0'")


def test_a_worker_that_crashes_is_seen_without_loading_the_page_again(browser, one):
    browser.open(f"{one.url}/console/")
    browser.run("document.body.dataset.same = 'yes'")
    count = "+document.querySelector('.tiles a').textContent"
    before = browser.run(count)
    one.predict(-1.0)
    browser.wait_for(f"{count} > {before}")

    assert browser.run("document.body.dataset.same") == "yes"


def test_pages_work_without_a_mouse(browser, one):
    browser.open(f"{one.url}/console/")
    reached = []
    for _ in range(14):
        browser.press_key("Tab")
        reached.append(browser.run("document.activeElement.getAttribute('href') ?? ''"))

    assert reached[0] == "#main"
    assert {"/console/slow", "/console/crashes", "/console/models/digits"} <= set(reached)


def test_an_operator_logs_in_and_scales(browser, one):
    log_in(browser, one, "models/digits")
    browser.wait_for("document.querySelector('[name=replicas]')")
    browser.run("document.querySelector('[name=replicas]').value = 3")
    browser.run("document.querySelector('[name=replicas]').form.requestSubmit()")
    browser.wait_for("document.querySelector('#operations')")
    wait_for(lambda: len(read(one, "models/digits.json")["summary"]["replicas"]) == 3, "scaling")
    browser.wait_for("document.querySelector('.bar-end button')")
    browser.run("document.querySelector('.bar-end button').click()")
    browser.wait_for("document.querySelector('.bar-end a')")


def test_a_swap_shows_the_settings_of_the_new_version(browser, one, tmp_path):
    newer = write_model(tmp_path / "newer", "digits", version="1.1")
    log_in(browser, one, "models/digits")
    shown = "document.querySelector('#about')?.innerText"
    assert '"version": "1.0"' in browser.run(shown)
    browser.run(f"document.querySelector('[name=source]').value = '{newer}'")
    browser.run("document.querySelector('[name=source]').form.requestSubmit()")
    browser.wait_for(f'location.hash && {shown}?.includes(\'"version": "1.1"\')')

    assert "1.1 is the default version" in browser.run(
        "document.querySelector('#operations').innerText"
    )


def test_a_model_that_is_not_there_is_told_on_a_page(browser, one):
    browser.open(f"{one.url}/console/models/nothing")

    assert "no model is called 'nothing'" in browser.run("document.querySelector('main').innerText")
    assert len(browser.mistakes) == 1
    browser.mistakes.clear()  # Chromium logs the status 404
