# SPDX-License-Identifier: Apache-2.0
"""A conversation in Chromium whose answer is stopped while it comes."""

import re

import pytest

from servekit.testing import ServedModel

from .console_page import MARKS, wait_for
from .playground_page import STATUS, PlaygroundPage

pytestmark = MARKS
MODEL = 'name = "talker"\nservice = "service:Talker"\n'
SERVICE = """
from collections.abc import Iterator
from time import sleep

from msgspec import Struct

from servekit import Service


class Message(Struct):
    role: str
    content: str


class Chat(Struct):
    messages: list[Message]
    model: str = ""


class Talker(Service):
    def stream(self, chat: Chat) -> Iterator[str]:
        words = 20_000 if chat.messages[-1].content == "talk" else 3
        for number in range(words):
            sleep(0.02)
            yield f"{number} "
"""
REPLY = "[...document.querySelectorAll('.pg-assistant')].at(-1)"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One worker, which has one conversation at a time."""
    directory = tmp_path_factory.mktemp("talker")
    (directory / "model.toml").write_text(MODEL)
    (directory / "service.py").write_text(SERVICE)
    with ServedModel(directory, grace=2) as started:
        yield started.wait_ready()


@pytest.fixture
def page(browser, server):
    """The page of the model, after it has begun to answer for minutes."""
    shown = PlaygroundPage(browser, server.url)
    shown.open("talker")
    shown.fill("Say", "talk")
    shown.press("Say it")
    browser.wait_for(f"{REPLY}?.innerText.includes('0 1 2 3')")
    return shown


def running(server):
    """Return how many tasks the worker has."""
    text = server.get("/metrics").body.decode()
    return sum(map(float, re.findall(r"^servekit_tasks_running\{.*\} (\S+)", text, re.MULTILINE)))


def test_a_chat_that_is_stopped_frees_its_worker_and_says_so(page, server):
    wait_for(lambda: running(server) == 1, "running task")
    page.press("Stop")
    page.browser.wait_for(f"{STATUS}.startsWith('Stopped after')")

    assert "stopped" in page.browser.run(f"{REPLY}.innerText").split("\n")
    wait_for(lambda: running(server) == 0, "free worker")
    page.fill("Say", "hello")
    page.press("Say it")
    page.browser.wait_for(f"{STATUS}.startsWith('200')")
    assert page.browser.run(f"{REPLY}.querySelector('p').textContent") == "0 1 2 "


def test_what_was_said_before_the_stop_belongs_to_the_conversation(page):
    page.press("Stop")
    page.browser.wait_for(f"{STATUS}.startsWith('Stopped after')")
    page.fill("Say", "hello")
    page.browser.wait_for("decodeURIComponent(location.hash).includes('assistant')")

    assert "0 1 2 3" in page.browser.run("decodeURIComponent(location.hash.replaceAll('+', ' '))")


def test_leaving_the_page_frees_the_worker_too(page, server):
    page.browser.call("Page.navigate", url="about:blank")

    wait_for(lambda: running(server) == 0, "free worker")


def test_a_server_that_goes_away_in_mid_stream_is_reported(browser, tmp_path):
    (tmp_path / "model.toml").write_text(MODEL)
    (tmp_path / "service.py").write_text(SERVICE)
    with ServedModel(tmp_path, grace=0) as started:
        shown = PlaygroundPage(browser, started.wait_ready().url)
        shown.open("talker")
        shown.fill("Say", "talk")
        shown.press("Say it")
        browser.wait_for(f"{REPLY}?.innerText.includes('0 1 2 3')")
        started.process.kill()
        browser.wait_for(f"/cannot be reached|refused/.test({STATUS})")

    assert [each for each in browser.mistakes if "Uncaught" in each] == []
    browser.mistakes.clear()  # Chromium logs that the connection is gone
