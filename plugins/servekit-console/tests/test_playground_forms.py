# SPDX-License-Identifier: Apache-2.0
"""Every kind of field in the page of one model, in a real browser; a microphone, and a token."""

import json
import wave

import pytest

from servekit.testing import ServedModel
from tests.browser.axe import axe_script, serious_findings
from tests.browser.driver import CHROMIUM

from .playground_page import ANSWER, STATUS, PlaygroundPage

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]
MODEL = """
name = "forms"
service = "service:Forms"

[routes."/forms/several"]
steps = ["predict"]
instances = true

[stages.unused]
service = "service:Unused"
"""
SERVICE = """
from collections.abc import Iterator
from datetime import date
from time import sleep
from typing import Annotated, Literal

from msgspec import Meta, Struct

from servekit import Service, endpoint
from servekit.types import Audio, File, Format


class Point(Struct):
    x: float
    y: float = 0.5


class Form(Struct):
    name: Annotated[str, Meta(max_length=40)]
    born: date
    points: list[Point]
    colour: Literal["red", "blue"]
    numbers: list[float] = []
    tags: list[str] = []
    nick: str | None = None
    sure: bool | None = None
    corner: Point | None = None
    more: dict[str, int] = {}


class Forms(Service):
    def predict(self, batch: list[Form]) -> list[Form]:
        return batch

    @endpoint()
    def quieter(self, batch: list[Audio]) -> list[Annotated[Audio, Format("audio/wav")]]:
        return [Audio(each.samples / 2, each.sample_rate) for each in batch]

    @endpoint()
    def slowly(self, words: int) -> Iterator[str]:
        for number in range(words):
            sleep(0.02)
            yield f"{number} "

    @endpoint()
    def sizes(self, batch: list[list[File]]) -> list[list[int]]:
        return [[len(each.content) for each in files] for files in batch]


class Unused(Service):
    def predict(self, batch: list[int]) -> list[int]:
        return batch
"""
FILLED = {
    "name": "Ada",
    "born": "1815-12-10",
    "points": [{"x": 1.5, "y": 0.5}, {"x": -2, "y": 3}],
    "colour": "blue",
    "numbers": [1, 2.5],
    "tags": ["a", "b"],
    "nick": None,
    "sure": True,
    "corner": {"x": 0, "y": 1},
    "more": {"k": 1},
}
TOKEN = "predict-with-me"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("forms")
    (directory / "model.toml").write_text(MODEL)
    (directory / "service.py").write_text(SERVICE)
    return directory


@pytest.fixture(scope="module")
def server(model):
    with ServedModel(model) as started:
        yield started.wait_ready()


@pytest.fixture
def page(browser, server):
    return PlaygroundPage(browser, server.url)


def outputs(page):
    """Return what the tree of JSON is made of."""
    page.press("Text")
    return json.loads(page.browser.run(f"{ANSWER}.innerText"))


def test_what_is_filled_in_arrives(page):
    page.open("forms")
    page.fill("Name", "Ada")
    page.browser.run("""(date => { date.value = "1815-12-10" })(
        document.querySelector("#pg-input input[type=date]"))""")
    page.fill("X", "1.5")
    page.press("Send")

    page.answer()
    assert outputs(page)["points"] == [{"x": 1.5, "y": 0.5}]
    assert page.browser.mistakes == []


def test_a_link_fills_every_kind_of_field(page):
    page.open("forms", value=json.dumps(FILLED))
    page.press("Send")

    page.answer()
    assert outputs(page) == FILLED


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(FILLED | {"unknown": 1}, id="an unknown member"),
        pytest.param(FILLED | {"name": "two\nlines"}, id="a line break"),
        pytest.param(FILLED | {"numbers": None}, id="null"),
    ],
)
def test_what_a_form_cannot_hold_is_shown_as_json(page, value):
    page.open("forms", value=json.dumps(value))
    shown = page.browser.run("document.querySelector('#pg-input textarea.mono').value")

    assert json.loads(shown) == value


def test_the_form_becomes_json_and_json_the_form(page):
    page.open("forms", value=json.dumps(FILLED))
    page.press("JSON")
    shown = json.loads(page.browser.run("document.querySelector('#pg-input textarea').value"))
    page.press("Form")
    page.press("Send")

    assert shown == {name: each for name, each in FILLED.items() if each is not None}
    page.answer()
    assert outputs(page) == FILLED


def test_several_inputs_are_sent_together(page):
    page.open("forms", path="/forms/several", value=json.dumps({"instances": [FILLED, FILLED]}))
    page.press("Send")

    page.answer()
    assert outputs(page) == [FILLED, FILLED]


def test_every_mistake_is_told_at_its_field(page):
    wrong = {**FILLED, "colour": "green", "points": [{"x": "far"}]}
    page.open("forms", value=json.dumps(wrong), mode="json")
    page.press("Send")
    text = page.answer()

    assert "colour" in text
    assert "points" in text
    page.browser.mistakes.clear()  # Chromium logs the status 422


def test_a_sound_is_chosen_and_the_answer_is_played(page, tmp_path):
    with wave.open(str(tmp_path / "a.wav"), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(16000))
    page.open("forms", path="/forms/quieter")
    page.choose_file(tmp_path / "a.wav", preview="audio[controls]")
    page.press("Send")

    page.answer()
    page.browser.wait_for(f"{ANSWER}.querySelector('audio').duration === 1")
    assert page.browser.run(STATUS).startswith("200 · ")


def test_a_sound_is_recorded_as_wav(page):
    page.browser.call("Browser.grantPermissions", permissions=["audioCapture"], origin=page.url)
    page.open("forms", path="/forms/quieter")
    page.press("Record")
    buttons = "[...document.querySelectorAll('button')]"
    page.browser.wait_for(f"{buttons}.some(each => each.textContent === 'Stop recording')")
    page.browser.run("new Promise(done => setTimeout(done, 2000))")  # the length of the sound
    page.press("Stop recording")
    page.browser.wait_for(
        "document.querySelector('.pg-preview')?.textContent.includes('recording.wav')"
    )
    page.press("Send")

    page.answer()
    page.browser.wait_for(f"{ANSWER}.querySelector('audio').duration > 0.1")
    assert page.browser.mistakes == []


def test_a_stream_is_stopped(page):
    page.open("forms", path="/forms/slowly", value="2000")
    page.press("Send")
    page.browser.wait_for(f"{ANSWER}.innerText.includes('3')")
    page.press("Stop")
    page.browser.wait_for(f"{STATUS}.startsWith('Stopped after')")

    assert page.browser.run(f"{ANSWER}.innerText.includes('1 2 3')")
    assert page.browser.mistakes == []


def test_several_files_are_sent(page, tmp_path):
    (tmp_path / "a.bin").write_bytes(bytes(3))
    page.open("forms", path="/forms/sizes")
    page.choose_file(tmp_path / "a.bin", preview="span")
    page.press("Send")

    page.answer()
    assert outputs(page) == [3]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/forms/predict", "/forms/several", "/forms/quieter", ""])
def test_every_field_is_accessible_and_fits_a_phone(page, tmp_path_factory, scheme, path):
    page.browser.look_like(width=390, scheme=scheme)
    if path:
        page.open("forms", path=path)
    else:
        page.browser.open(f"{page.url}/console/playground/")
    page.browser.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    wide = page.browser.run("document.documentElement.scrollWidth")
    found = serious_findings(page.browser, axe_script(tmp_path_factory.getbasetemp()))
    name = f"{path.replace('/', '-')}-{scheme}.png"
    page.browser.screenshot(tmp_path_factory.getbasetemp() / name, is_whole=True)  # for people
    page.browser.look_like()

    assert wide <= 390
    assert found == []


def test_a_token_is_asked_for_and_stays_in_the_tab(browser, model, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{TOKEN}\n")
    tokens.chmod(0o600)
    with ServedModel(model, predict_token_file=tokens) as started:
        page = PlaygroundPage(browser, started.wait_ready().url)
        page.open("forms", value=json.dumps(FILLED))
        page.press("Send")
        assert "Give a token" in page.answer()
        page.fill("Token for predictions", TOKEN)
        page.press("Send")
        page.browser.wait_for(f"{STATUS}.startsWith('200')")

        assert TOKEN not in page.browser.run("location.href")
        page.browser.call("Page.reload")
        page.browser.wait_for(f"document.querySelector('#pg-token')?.value === '{TOKEN}'")
        page.browser.mistakes.clear()  # Chromium logs the status 401
