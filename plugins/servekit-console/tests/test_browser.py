# SPDX-License-Identifier: Apache-2.0
"""Every page in Chromium: light and dark, on a desk and in a hand, with one model and with many.

The pictures of ``docs/images`` are made here, with ``CONSOLE_IMAGES=1``.
"""

import os
from pathlib import Path
from random import Random
from threading import Thread
from time import monotonic
from urllib.parse import urlsplit

import httpx
import pytest

from servekit.testing import ServedModel
from tests.browser.axe import axe_script, serious_findings
from tests.browser.driver import CHROMIUM, Browser

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]
IMAGES = Path(__file__).parents[3] / "docs" / "images"
MOST_BYTES = 150_000
WAIT_S = 300.0
TOKEN = "manage-me"
IS_DRAWN = "!document.querySelector('[data-series]') || document.querySelector('.uplot')"
EXCESS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
PICTURE_MINUTES = 1  #: of load before the pictures
#: models, and the seconds that their requests take
PACES = [("digits", 0.004), ("embeddings", 0.012), ("sentiment", 0.02), ("ranker", 0.07)]
PICTURES = ("overview", "model", "slow", "request")
LOOKS = [(1280, 900, "light"), (1280, 900, "dark"), (390, 844, "light"), (390, 844, "dark")]
SERVICE = """
import os
import time

from servekit import Service


class Sleepy(Service):
    def predict(self, batch: list[float]) -> list[float]:
        if min(batch) < 0:
            os.kill(os.getpid(), 11)
        time.sleep(max(batch))
        return batch
"""


def write_model(directory, name, replicas=1):
    directory.mkdir()
    text = f'name = "{name}"\nversion = "1.0"\nservice = "service:Sleepy"\n'
    text += 'description = "Sleeps for a while"\n'
    examples = "[[examples]]\ninput = 0.01\noutput = 0.01\n"
    (directory / "model.toml").write_text(f"{text}[worker]\nreplicas = {replicas}\n{examples}")
    (directory / "service.py").write_text(SERVICE)
    return directory


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    return axe_script(tmp_path_factory.mktemp("axe"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


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


def read(served, path):
    return httpx.get(f"{served.url}/console/{path}", timeout=WAIT_S).json()


def wait_for(ask, what):
    deadline = monotonic() + WAIT_S
    while not (found := ask()):
        assert monotonic() < deadline, f"no {what} in time"
    return found


def paths_of(served):
    request_id = read(served, "slow.json")["requests"][0]["request_id"]
    return ["", "models/digits", "slow", f"slow/{request_id}", "crashes", "login"]


def check(browser, served, path, axe, look):
    """Open a page, and return all that is wrong with it."""
    width, height, scheme = look
    browser.look_like(width=width, height=height, scheme=scheme)
    browser.mistakes.clear()
    browser.requested.clear()
    browser.open(f"{served.url}/console/{path}")
    browser.wait_for(IS_DRAWN)
    wide = browser.run(EXCESS)
    home = urlsplit(served.url).netloc
    strangers = [url for url in browser.requested if urlsplit(url).netloc not in (home, "")]
    findings = serious_findings(browser, axe)
    too_wide = [f"{path} is {wide} px too wide"] if wide > 0 else []
    return [*browser.mistakes, *strangers, *findings, *too_wide]


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: f"{look[0]}-{look[2]}")
def test_pages_are_sound(browser, one, axe, look):
    wrong = {path: check(browser, one, path, axe, look) for path in paths_of(one)}

    assert {path: found for path, found in wrong.items() if found} == {}


@pytest.mark.parametrize("look", LOOKS[1:3], ids=lambda look: f"{look[0]}-{look[2]}")
def test_a_hundred_models_are_shown_and_filtered(browser, many, axe, look):
    assert check(browser, many, "", axe, look) == []

    visible = "[...document.querySelectorAll('tbody tr')].filter(row => row.offsetParent).length"
    assert browser.run(visible) == 100
    browser.run("document.querySelector('#filter').focus()")
    browser.call("Input.insertText", text="-04")
    assert browser.run(visible) == 10


def test_numbers_follow_the_server(browser, one):
    browser.look_like()
    browser.open(f"{one.url}/console/")
    shown = "document.querySelector('tr[data-model=digits] [data-live]').textContent"
    before = browser.run(shown)
    browser.run("setInterval(() => fetch('/digits/predict', {method: 'POST', body: '0.001', "
                "headers: {'Content-Type': 'application/json'}}), 50) && 0")  # fmt: skip
    browser.wait_for(f"{shown} !== {before!r} && {shown} !== '0'")

    assert browser.run(shown) != before


def test_a_worker_that_crashes_is_seen_without_loading_the_page_again(browser, one):
    browser.look_like()
    browser.open(f"{one.url}/console/")
    browser.run("document.body.dataset.same = 'yes'")
    count = "+document.querySelector('.tiles a').textContent"
    before = browser.run(count)
    one.predict(-1.0)
    browser.wait_for(f"{count} > {before}")

    assert browser.run("document.body.dataset.same") == "yes"


def test_pages_work_without_a_mouse(browser, one):
    browser.look_like()
    browser.open(f"{one.url}/console/")
    reached = []
    for _ in range(14):
        for kind in ("keyDown", "keyUp"):
            key = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
            browser.call("Input.dispatchKeyEvent", type=kind, **key)
        reached.append(browser.run("document.activeElement.getAttribute('href') ?? ''"))

    assert reached[0] == "#main"
    assert {"/console/slow", "/console/crashes", "/console/models/digits"} <= set(reached)


def test_an_operator_logs_in_and_scales(browser, one):
    browser.look_like()
    browser.open(f"{one.url}/console/login?next=/console/models/digits")
    browser.run("document.querySelector('[name=token]').focus()")
    browser.call("Input.insertText", text=TOKEN)
    browser.run("document.querySelector('main button').click()")
    browser.wait_for("document.querySelector('[name=replicas]')")
    browser.run("document.querySelector('[name=replicas]').value = 3")
    browser.run("document.querySelector('[name=replicas]').form.requestSubmit()")
    browser.wait_for("document.querySelector('#operations')")
    wait_for(lambda: len(read(one, "models/digits.json")["summary"]["replicas"]) == 3, "scaling")
    browser.run("document.querySelector('.bar-end button').click()")
    browser.wait_for("document.querySelector('.bar-end a')")


@pytest.fixture
def busy(tmp_path):
    """A server with some models that are used; a worker of one has crashed."""
    names = {"digits": 4, "embeddings": 2, "ranker": 2, "sentiment": 3}
    models = [write_model(tmp_path / name, name, replicas) for name, replicas in names.items()]
    with ServedModel(*models, grace=2) as served:
        wait_for(lambda: served.log.find("serving"), "server")
        end = monotonic() + 60 * PICTURE_MINUTES
        paces = [
            ("digits", 0.004),
            ("embeddings", 0.012),
            ("sentiment", 0.02),
            ("ranker", 0.07),
        ] * 2
        users = [Thread(target=use, args=(served, *pace, end)) for pace in paces]
        for user in users:
            user.start()
        users[-1].join()
        served.post("/ranker/predict", b"-1.0", "application/json")
        wait_for(lambda: read(served, "crashes.json?model=ranker")["crashes"], "crash")
        yield served
        for user in users:
            user.join()


def use(served, model, seconds, end):
    """Send requests to *model*, now and then a slow one, until *end*."""
    random = Random(model)
    with httpx.Client(base_url=served.url) as client:
        while monotonic() < end:
            factor = 8 if random.random() < 0.01 else 0.7 + random.random() / 2
            client.post(f"/{model}/predict", json=seconds * factor)


@pytest.mark.skipif("CONSOLE_IMAGES" not in os.environ, reason="CONSOLE_IMAGES=1 makes pictures")
def test_pictures_of_the_documentation(browser, busy):
    IMAGES.mkdir(exist_ok=True)
    for name, path in zip(PICTURES, paths_of(busy), strict=False):
        browser.look_like(width=1180, height=640)
        browser.open(f"{busy.url}/console/{path}")
        browser.wait_for(IS_DRAWN)
        browser.screenshot(IMAGES / f"console-{name}.png")

    assert all(path.stat().st_size < MOST_BYTES for path in IMAGES.glob("console-*.png"))
