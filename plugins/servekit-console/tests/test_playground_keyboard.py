# SPDX-License-Identifier: Apache-2.0
"""The playground in Chromium without a mouse: all is reached, and the focus is never lost."""

import pytest

from servekit.testing import ServedModel
from tests.browser.driver import CONTROL, SHIFT

from .console_page import MARKS, wait_for
from .playground_page import SEND, STATUS, PlaygroundPage

pytestmark = MARKS
MODEL = """
name = "keys"
service = "service:Keys"

[[examples]]
input = { text = "an example", size = 2 }
"""
SERVICE = """
from typing import Literal

from msgspec import Struct

from servekit import Service


class Input(Struct):
    text: str
    size: int
    kind: Literal["short", "long"] = "short"
    tags: list[str] = []


class Keys(Service):
    def predict(self, batch: list[Input]) -> list[dict[str, str | int | list[str]]]:
        return [{"text": each.text, "size": each.size, "kind": each.kind, "tags": each.tags}
                for each in batch]
"""
MOST_STEPS = 80
FOCUS = "document.activeElement"
NAME = (
    f"({FOCUS}.labels?.[0]?.childNodes[0]?.textContent || {FOCUS}.getAttribute('aria-label') || "
    f"{FOCUS}.textContent || {FOCUS}.value).trim()"
)
#: whether people see where they are
IS_SEEN = f"""(style => style.outlineStyle !== 'none' || style.boxShadow !== 'none')(
    getComputedStyle({FOCUS}))"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("keys")
    (directory / "model.toml").write_text(MODEL)
    (directory / "service.py").write_text(SERVICE)
    with ServedModel(directory, grace=2) as started:
        yield started.wait_ready()


@pytest.fixture
def page(browser, server):
    shown = PlaygroundPage(browser, server.url)
    shown.open("keys")
    return shown


def tab_to(page, name, modifiers=0):
    """Press Tab until the element called *name* has the focus; return what was passed."""
    passed = []
    for _ in range(MOST_STEPS):
        page.browser.press_key("Tab", modifiers)
        passed.append(page.browser.run(NAME))
        wait_for(lambda: page.browser.run(IS_SEEN), f"sign that {passed[-1]} has the focus")
        if passed[-1] == name:
            return passed
    raise AssertionError(f"{name} is not reached: {passed}")


def test_a_form_is_filled_in_and_sent(page):
    tab_to(page, "Text")
    page.browser.call("Input.insertText", text="typed")
    tab_to(page, "Size")
    page.browser.call("Input.insertText", text="7")
    tab_to(page, "Kind")
    page.browser.press_key("ArrowDown")
    tab_to(page, "Add")
    page.browser.press_key("Enter")
    page.browser.call("Input.insertText", text="a tag")
    tab_to(page, "Send")
    page.browser.press_key("Enter")
    text = page.answer()

    assert page.browser.run(f"{FOCUS} === {SEND}")
    for part in ("typed", "7", "a tag"):
        assert part in text


def test_an_example_is_sent_and_the_focus_stays(page):
    tab_to(page, '{"size":2,"text":"an example"}')
    page.browser.press_key("Enter")

    assert "an example" in page.answer()
    assert page.browser.run(NAME).startswith('{"size"')


def test_control_and_enter_send_from_a_field(page):
    tab_to(page, "Text")
    page.browser.call("Input.insertText", text="quick")
    page.browser.press_key("Enter", CONTROL)

    assert "quick" in page.answer()
    assert page.browser.run(NAME) == "Text"


def test_an_item_of_a_list_is_removed_and_the_focus_stays_near(page):
    tab_to(page, "Add")
    page.browser.press_key("Enter")
    tab_to(page, "Remove Tags 1")
    page.browser.press_key(" ")

    assert page.browser.run(NAME) == "Add"


def test_json_is_chosen_and_sent(page):
    tab_to(page, "JSON")
    page.browser.press_key("Enter")
    page.browser.wait_for("document.querySelector('#pg-input textarea.mono')")
    assert page.browser.run(NAME) == "JSON"
    tab_to(page, "Input, as JSON")
    page.browser.press_key("Enter", CONTROL)

    assert "an example" in page.answer()


def test_another_view_and_code_are_chosen_and_copied(page):
    tab_to(page, "Send")
    page.browser.press_key(" ")
    page.answer()
    tab_to(page, "Text")
    page.browser.press_key("Enter")
    assert page.browser.run("document.querySelector('[data-view=text]').ariaPressed") == "true"
    tab_to(page, "Copy as code")
    page.browser.press_key("Enter")
    page.browser.wait_for("document.querySelector('.pg-code pre')")
    assert page.browser.run(NAME) == "Copy as code"
    tab_to(page, "JavaScript")
    page.browser.press_key("Enter")
    assert page.browser.run(NAME) == "JavaScript"
    assert page.browser.run("document.querySelector('.pg-code pre').textContent").startswith("//")
    tab_to(page, "Copy")
    page.browser.press_key("Enter")

    page.browser.wait_for(f"{FOCUS}.textContent === 'Copied'")


def test_a_refusal_leads_to_its_field(page):
    tab_to(page, "Size")
    page.browser.run(f"{FOCUS}.select()")
    page.browser.call("Input.insertText", text="1.5")
    page.browser.press_key("Enter")
    page.browser.wait_for(f"{STATUS}.startsWith('Size')")

    assert page.browser.run(NAME) == "Size"
    assert "Text" in tab_to(page, "Text", SHIFT)
