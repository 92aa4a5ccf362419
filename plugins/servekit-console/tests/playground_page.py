# SPDX-License-Identifier: Apache-2.0
"""A person before the page of a model."""

import json
import re
from urllib.parse import quote

from tests.browser.driver import Browser

ANSWER = "document.querySelector('#pg-answer')"
STATUS = "document.querySelector('.pg-status').textContent"
SEND = "document.querySelector('.pg-actions button[type=submit]')"


class PlaygroundPage:
    """The page of one model, and a person before it."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.browser, self.url = browser, url

    def open(self, model: str, **state: object) -> None:
        """Open the page of *model*, by a link that keeps *state*."""
        self.browser.mistakes.clear()
        self.browser.call("Page.navigate", url="about:blank")  # a fragment alone loads no page
        pairs = [f"{name}={quote(str(value), safe='')}" for name, value in state.items()]
        self.browser.open(f"{self.url}/console/playground/{model}#{'&'.join(pairs)}")
        self.browser.wait_for("document.querySelector('#pg-input')?.children.length")

    def click(self, element: str) -> None:
        """Click in the middle of an element, which is a JavaScript expression."""
        self.browser.run(f"{element}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        middle = "(box => [box.x + box.width / 2, box.y + box.height / 2])"
        box = f"{middle}({element}.getBoundingClientRect())"
        x, y = self.browser.run(box)
        for kind in ("mousePressed", "mouseReleased"):
            how = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}
            self.browser.call("Input.dispatchMouseEvent", **how)

    def press(self, text: str) -> None:
        """Click the visible button called *text*."""
        named = f"each.textContent.trim() === {json.dumps(text)} && each.offsetParent"
        self.click(f"[...document.querySelectorAll('button, summary')].find(each => {named})")

    def fill(self, label: str, text: str) -> None:
        """Type *text* in place of what is in the field called *label*."""
        named = f"each.textContent.trim().startsWith({json.dumps(label)})"
        field = f"[...document.querySelectorAll('label')].find(each => {named}).control"
        self.browser.run(f"{field}.focus(); {field}.select?.()")
        self.browser.call("Input.insertText", text=text)

    def choose_file(self, path: object, preview: str = "img") -> None:
        """Choose the file at *path*, and wait for its *preview*, a selector."""
        root = self.browser.call("DOM.getDocument")["root"]["nodeId"]
        found = self.browser.call("DOM.querySelector", nodeId=root, selector="input[type=file]")
        self.browser.call("DOM.setFileInputFiles", files=[str(path)], nodeId=found["nodeId"])
        shown = f"document.querySelector('.pg-preview {preview}')"
        is_there = f"{shown}?.naturalWidth" if preview == "img" else shown
        self.browser.wait_for(
            f"{is_there} !== null && {is_there} !== undefined && {is_there} !== 0"
        )

    def answer(self) -> str:
        """Return the text of the answer, once it is there."""
        self.browser.wait_for(f"{SEND} && !{SEND}.ariaDisabled && !{STATUS}.startsWith('Nothing')")
        return str(self.browser.run(f"{ANSWER}.innerText"))

    def shows(self, pattern: str) -> bool:
        """Whether the answer, once it is there, has *pattern*, and nothing went wrong."""
        text = self.answer()
        assert re.search(pattern, text, re.DOTALL), f"{text}\n{self.browser.run(STATUS)}"
        assert self.browser.run(STATUS).startswith("200")
        assert self.browser.mistakes == []
        return True
