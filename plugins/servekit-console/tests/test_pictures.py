# SPDX-License-Identifier: Apache-2.0
"""The pictures of ``docs/images``. ``CONSOLE_IMAGES=5`` makes them, after five minutes of load."""

import json
import os
from pathlib import Path
from random import Random
from threading import Thread
from time import monotonic

import httpx
import pytest
from PIL import Image

from servekit.testing import ServedModel
from tests.built_examples import build

from .console_page import MARKS, open_page, read, slowest, wait_for, write_model
from .playground_page import PlaygroundPage

MINUTES = os.environ.get("CONSOLE_IMAGES")
pytestmark = [*MARKS, pytest.mark.skipif(not MINUTES, reason="CONSOLE_IMAGES=5 makes pictures")]
IMAGES = Path(__file__).parents[3] / "docs" / "images"
MOST_BYTES = 80_000
#: models, their replicas, the seconds that their requests take, and what they do
PACES = [
    ("digits", 4, 0.004, "Reads handwritten digits"),
    ("embeddings", 2, 0.012, "Turns sentences into vectors"),
    ("ranker", 2, 0.07, "Sorts search results"),
    ("sentiment", 3, 0.02, "Says whether a review is friendly"),
]
#: the paths of this machine are none of the reader's business
RENAME = """(pairs => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    while (walker.nextNode()) for (const [found, shown] of pairs)
        walker.currentNode.data = walker.currentNode.data.replaceAll(found, shown)
})"""
DESK, DARK, PHONE = (1180, 640, "light"), (1180, 760, "dark"), (390, 780, "light")


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A server with some models that are used; a worker of one has crashed."""
    directory = tmp_path_factory.mktemp("pictures")
    models = [
        write_model(directory / name, name, replicas, about=about)
        for name, replicas, _, about in PACES
    ]
    with ServedModel(*models, grace=2, keep_bodies="16KiB") as served:
        wait_for(lambda: served.log.find("serving"), "server")
        end = monotonic() + 60 * float(MINUTES)
        paces = [(name, seconds) for name, _, seconds, _ in PACES] * 2
        users = [Thread(target=use, args=(served, *pace, end)) for pace in paces]
        for user in users:
            user.start()
        for user in users:
            user.join()
        served.post("/ranker/predict", b"-1.0")
        wait_for(lambda: read(served, "crashes.json")["crashes"], "crash")
        users = [Thread(target=use, args=(served, *pace, monotonic() + 90)) for pace in paces]
        for user in users:
            user.start()
        yield served.wait_ready()
        for user in users:
            user.join()


def use(served, model, seconds, end):
    """Send requests to *model*, now and then a slow one, until *end*."""
    random = Random(model)
    with httpx.Client(base_url=served.url, timeout=60) as client:
        while monotonic() < end:
            factor = 8 if random.random() < 0.01 else 0.7 + random.random() / 2
            client.post(f"/{model}/predict", json=seconds * factor)


def keep(browser, name, *, is_whole=False):
    """Make a picture that is small, without loss."""
    path = IMAGES / f"{name}.webp"
    browser.screenshot(path, is_whole=is_whole)
    with Image.open(path) as shot:
        shot.convert("RGB").save(path, lossless=True, quality=100, method=6)
    assert path.stat().st_size < MOST_BYTES, f"{path} is too large"


def test_the_pages_of_the_console(browser, busy, tmp_path_factory):
    names = [[str(IMAGES.parents[1]), "/opt/server"],
             [str(tmp_path_factory.getbasetemp() / "pictures0"), "/srv/models"]]  # fmt: skip
    slow = slowest(busy)
    shots = [
        ("overview", "", DESK), ("model", "models/digits", DESK), ("slow", "slow", DESK),
        ("request", slow, DESK), ("crashes", "crashes", DESK),
        ("dark", "models/embeddings", DARK), ("phone", "", PHONE),
        ("phone-crashes", "crashes", PHONE),
    ]  # fmt: skip
    for name, path, look in shots:
        open_page(browser, busy, path, look)
        if not path:
            browser.wait_for("document.querySelector('[data-live]').textContent !== '0'")
        browser.run(f"{RENAME}({json.dumps(names)})")
        keep(browser, f"console-{name}")


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    directory = tmp_path_factory.mktemp("examples")
    with ServedModel(*(build(name, directory) for name in ("digits", "eliza"))) as started:
        yield started.wait_ready()


def test_the_playground(browser, examples):
    page = PlaygroundPage(browser, examples.url)
    browser.look_like(height=720)
    page.open("digits")
    page.click("document.querySelector('.pg-examples button')")
    page.answer()
    page.press("Copy as code")
    browser.wait_for("document.querySelector('.pg-code pre')?.textContent.startsWith('curl')")
    browser.run("document.activeElement.blur(); scrollTo(0, 0)")
    keep(browser, "playground", is_whole=True)
