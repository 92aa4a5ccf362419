# SPDX-License-Identifier: Apache-2.0
"""Every example of this repository is tried in the page, by clicking and typing as people do."""

import subprocess
import sys

import pytest

from servekit.testing import ServedModel
from tests.browser.axe import axe_script, serious_findings
from tests.browser.driver import CHROMIUM
from tests.built_examples import EXAMPLES, build

from .playground_page import ANSWER, SEND, STATUS, PlaygroundPage

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]
#: alice-chat, embeddings and torch-digits need packages and weights of hundreds of megabytes
SERVED = (
    *("custom-metrics", "digit-pictures", "digits", "echo", "eliza", "image-to-image", "onnx-mlp"),
    *("per-replica-env", "pipeline", "routes", "sharded-product", "shipping", "textgen"),
    *("typed-text", "word-vectors"),
)
#: those with packaged examples, and what the page shows after each
ANSWERS = [
    ("custom-metrics", ["setosa"]),
    ("digits", [r"^digit: 3\s+3\s+9\d\.\d %"]),
    ("echo", ["hello: .world"]),
    ("eliza", ["Why do you need a holiday"]),
    ("image-to-image", [r"prediction\.jpeg"]),
    ("answers", ["30 days"]),
    ("sharded-product", ["18, 20, 22"]),
    ("shipping", ["price_eur: 12.5"]),
    ("textgen", ["^[a-z ]{5}$"]),
    ("typed-text", [r"The cat saw a dog\.\s+1"]),
    ("word-vectors", [r"\[256\]"]),
]
SAID = """
name = "said"
service = "service:Said"

[playground]
title = "What the author says"
description = "In place of what the page would choose."
inputs.size = { widget = "slider", label = "How large", help = "in parts of the whole" }
inputs.kind = { widget = "hidden", example = "cat" }
inputs.note = { example = "a note" }
output.view = "json"
"""
SAID_SERVICE = """
from typing import Annotated
from msgspec import Meta, Struct
from servekit import Service

class Input(Struct):
    size: Annotated[float, Meta(ge=0, le=1)]
    kind: str
    note: str = ""

class Said(Service):
    def predict(self, batch: list[Input]) -> list[list[dict[str, str | float]]]:
        return [[{"label": each.kind, "score": each.size}, {"label": each.note, "score": 0.0}]
                for each in batch]
"""
THREE = EXAMPLES / "digits/three.png"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("examples")
    said = directory / "said"
    said.mkdir()
    (said / "model.toml").write_text(SAID)
    (said / "service.py").write_text(SAID_SERVICE)
    with ServedModel(said, *(build(name, directory) for name in SERVED)) as started:
        yield started.wait_ready()


@pytest.fixture
def page(browser, server):
    shown = PlaygroundPage(browser, server.url)
    yield shown
    browser.look_like()
    outside = [
        each
        for each in browser.requested
        if not each.startswith((server.url, "blob:", "data:", "about:"))
    ]
    assert outside == []


@pytest.mark.parametrize(("model", "answers"), ANSWERS, ids=[name for name, _ in ANSWERS])
def test_each_packaged_example_is_answered_by_one_click(page, model, answers):
    page.open(model)
    buttons = "document.querySelectorAll('.pg-examples button')"
    assert page.browser.run(f"{buttons}.length") == len(answers)
    for number, pattern in enumerate(answers):
        page.click(f"{buttons}[{number}]")
        assert page.shows(pattern)


def test_the_page_is_what_the_author_says(page):
    page.open("said")
    shown = page.browser.run("document.querySelector('#main').innerText")
    page.press("Send")

    assert "What the author says\n" in shown
    assert "How large" in shown
    assert "Kind" not in shown
    assert page.browser.run("document.querySelector('#pg-input input').type") == "range"
    assert page.shows('label: "cat".*label: "a note"')


def test_a_grid_is_a_form_for_what_the_author_says_of_a_signature(page):
    page.open("digits")
    page.press("Form")
    page.press("Send")

    assert page.shows("^digit: ")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ('"<img src=x onerror=alert(1)>"', "^<img src=x onerror=alert\\(1\\)>$"),
        ("null", "^null$"),
        ('{"a": {"b64": "%%%", "content_type": "image/png"}}', "b64: "),
        ("[[1, 2], [3, 4]]", "3\\s+4"),
    ],
    ids=["HTML", "nothing", "base64 that is none", "a matrix"],
)
def test_any_answer_is_shown_as_what_it_is(page, value, shown):
    page.open("echo", value=value)
    page.press("Send")

    assert page.shows(shown)
    assert page.browser.run(f"{ANSWER}.querySelector('img') === null")


def test_a_chosen_picture_is_previewed_and_classified(page):
    page.open("digit-pictures")
    page.choose_file(THREE)
    page.press("Send")

    assert page.shows(r"^three\s+(9\d|100)\.\d %")


def test_a_picture_is_the_body_of_a_request_to_a_pipeline(page):
    page.open("digit-stages")
    page.press("File")
    page.choose_file(THREE)
    page.press("Send")

    assert page.shows(r"^3 \(")


def test_a_grid_of_numbers_is_filled_by_pasting(page):
    page.open("onnx-mlp")
    three = "0 0 6 14 16 16 2 0\\n0 5 16 13 11 16 0 0\\n0 0 7 2 15 12 0 0\\n0 0 0 7 16 13 1 0\\n"
    three += "0 0 0 0 6 15 10 0\\n0 0 0 0 0 15 9 0\\n0 0 3 11 8 16 6 0\\n0 0 7 16 16 8 0 0"
    page.browser.run(f"""(data => {{
        data.setData("text", "{three}")
        document.querySelector(".pg-grid input").dispatchEvent(
            new ClipboardEvent("paste", {{clipboardData: data, bubbles: true, cancelable: true}}))
    }})(new DataTransfer())""")
    page.press("Send")

    assert page.shows(r"digit: 3")


def test_a_number_is_typed(page):
    page.open("per-replica-env")
    page.fill("Input", "3")
    page.press("Send")

    assert page.shows(r"trace: [\d.]+")


def test_an_endpoint_is_chosen_and_its_pictures_are_shown_as_they_come(page):
    page.open("image-to-image", path="/image-to-image/steps")
    page.choose_file(EXAMPLES / "image-to-image/house.png")
    page.press("Send")

    assert page.answer().count("prediction.jpeg") == 4
    assert "4 outputs" in page.browser.run(STATUS)


def test_a_route_takes_a_list_of_texts(page):
    page.open("answers", path="/v1/embeddings")
    page.fill("Input 1", "do I get money back")
    page.press("Send")

    assert page.shows("")


def test_words_are_said_to_a_model_that_talks(page):
    page.open("eliza")
    page.fill("Say", "I am tired")
    page.press("Say it")
    said = "document.querySelector('.pg-assistant')?.innerText"
    page.browser.wait_for(
        f"{said}?.includes('tired') && document.querySelector('#pg-say').value === ''"
    )
    page.fill("Say", "My mother says so")
    page.press("Say it")
    page.browser.wait_for("document.querySelectorAll('.pg-said').length === 4")

    assert page.browser.mistakes == []


@pytest.mark.parametrize(
    "accept", ["application/x-ndjson", "text/event-stream", "application/json"]
)
def test_a_stream_comes_as_it_is_asked_for(page, accept):
    page.open(
        "textgen",
        value='{"text": "Alice was ", "letters": 4}',
        accept=accept,
        stream="0" if accept.endswith("json") and "x-" not in accept else "",
    )
    page.press("Send")

    assert page.shows(".")


def test_a_refusal_leads_to_the_field_that_is_wrong(page):
    page.open("shipping", value='{"weight_kg": 99, "to": "FR"}')
    page.press("Send")

    page.browser.wait_for("document.activeElement.getAttribute('aria-invalid') === 'true'")
    assert "at most 30" in page.browser.run(STATUS)


def test_the_words_of_the_service_are_shown_with_what_to_do(page):
    page.open("shipping", value='{"weight_kg": 1, "to": "US", "express": true}')
    page.press("Send")
    text = page.answer()

    assert "express: not offered to US" in text
    assert "Correct the input" in text
    assert page.browser.run(f"{ANSWER}.querySelector('[role=alert]') !== null")
    page.browser.mistakes.clear()  # Chromium logs the status 422


def test_a_link_keeps_what_was_filled_in(page):
    page.open("shipping")
    page.fill("Weight", "7.5")
    page.browser.wait_for("location.hash.includes('7.5')")
    link = page.browser.run("location.href")
    page.browser.call("Page.navigate", url="about:blank")
    page.browser.open(link)
    page.browser.wait_for("document.querySelector('#pg-input input')?.value === '7.5'")


def test_the_call_is_copied_as_a_test_that_passes(page, tmp_path):
    page.open("shipping")
    page.click("document.querySelector('.pg-examples button')")
    page.answer()
    page.press("Copy as code")
    page.browser.wait_for("document.querySelector('.pg-code pre')?.textContent.startsWith('curl')")
    page.press("pytest")

    shown = "document.querySelector('.pg-code pre').textContent"
    page.browser.wait_for(f"{shown}.includes('def test_')")
    code = page.browser.run(shown)
    test = tmp_path / "test_copied.py"
    test.write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert "1 passed" in done.stdout, done.stdout
    assert "client.predict('shipping', item)" in code
    assert "pytest.approx({'price_eur': 12.5, 'days': 4})" in code


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("model", ["digits", "image-to-image", "eliza", "onnx-mlp", "textgen"])
def test_a_page_is_accessible_and_fits(page, tmp_path_factory, model, width, scheme):
    page.browser.look_like(width=width, scheme=scheme)
    page.open(model)
    page.browser.run("document.querySelector('.pg-examples button')?.click()")
    page.browser.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.browser.wait_for(f"!{SEND}.ariaDisabled")
    shots = tmp_path_factory.getbasetemp()  # for people
    page.browser.screenshot(shots / f"{model}-{width}-{scheme}.png", is_whole=True)

    assert page.browser.run("document.documentElement.scrollWidth") <= width
    assert serious_findings(page.browser, axe_script(tmp_path_factory.getbasetemp())) == []
