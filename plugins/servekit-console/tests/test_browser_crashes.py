# SPDX-License-Identifier: Apache-2.0
"""The page of crashes on a phone: everything opened, long lines, and a test that is copied."""

import os

import pytest

from servekit.testing import ServedModel

from .console_page import LOOKS, MARKS, TOKEN, log_in, open_page, problems, read, wait_for

pytestmark = MARKS
PHONES = LOOKS[2:]
MODEL = (
    'name = "a-model-with-quite-a-long-name"\nversion = "2026.11.23"\nservice = "service:Fragile"\n'
)
SERVICE = """
import ctypes
import sys

from servekit import Service


class Fragile(Service):
    def predict(self, batch: list[str]) -> list[str]:
        path = "/a/very/long/path/without/spaces" * 12
        print(f"about to read {path}", file=sys.stderr, flush=True)
        if "poison" in batch:
            ctypes.string_at(0)
        return batch
"""
OPEN = "document.querySelectorAll('details').forEach(each => each.open = true)"
BOXES = """[...document.querySelectorAll(".code")].map(code => {
    const [button, text] = ["button", "pre"].map(
        name => code.querySelector(name).getBoundingClientRect())
    return button.bottom <= text.top || button.left >= text.right
})"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server that keeps bodies; three of its workers have crashed."""
    directory = tmp_path_factory.mktemp("crashes") / "fragile"
    directory.mkdir()
    (directory / "model.toml").write_text(MODEL)
    (directory / "service.py").write_text(SERVICE)
    environment = os.environ | {"SERVEKIT_MANAGE_TOKEN": TOKEN}
    with ServedModel(directory, environment=environment, grace=2, keep_bodies="64KiB") as started:
        for count in (1, 2, 3):
            started.wait_ready()
            started.predict("poison")
            wait_for(lambda wanted=count: len(crashes(started)) == wanted, "crash")
        yield started


def crashes(served):
    return read(served, "crashes.json")["crashes"]


@pytest.mark.parametrize("look", PHONES, ids=lambda look: look[2])
def test_everything_on_the_page_fits_a_phone(browser, served, axe, look):
    open_page(browser, served, "crashes", look)
    browser.run(OPEN)

    assert problems(browser, served, axe) == []
    assert browser.run("document.querySelectorAll('.crash').length") == 3
    assert browser.run(BOXES) == [True] * browser.run("document.querySelectorAll('.code').length")


def test_what_a_crash_was_is_legible_without_opening_it(browser, served):
    open_page(browser, served, "crashes", PHONES[0])
    summaries = browser.run(
        "[...document.querySelectorAll('.crash > summary')].map(s => s.innerText)"
    )

    assert all("a-model-with-quite-a-long-name/0" in each for each in summaries)
    assert all("SIGSEGV" in each for each in summaries)


def test_a_test_is_copied_by_a_touch(browser, served):
    browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite"], origin=served.url)
    width, height, scheme = PHONES[0]
    log_in(browser, served, "crashes")
    browser.look_like(width=width, height=height, scheme=scheme)
    browser.run(OPEN)
    button = "document.querySelector('.code button')"
    browser.run(f"{button}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    x, y = browser.run(f"(box => [box.x + 5, box.y + 5])({button}.getBoundingClientRect())")
    for kind, points in (("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])):
        browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
    browser.wait_for(f"{button}.textContent === 'Copied'")

    assert "def test_the_worker_survives" in browser.run("navigator.clipboard.readText()")
    assert "poison" in browser.run("navigator.clipboard.readText()")
