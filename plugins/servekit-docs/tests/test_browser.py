# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: an input is sent, and the picture that comes back is shown."""

from pathlib import Path

import pytest

from tests.browser.driver import CHROMIUM, Browser

MODEL = Path(__file__).parents[3] / "examples" / "image-to-image"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]
EXAMPLE = "document.querySelector('.opblock.is-open textarea')"
EXECUTE = "document.querySelector('.opblock.is-open button.execute')"
SHOWN = "[...document.querySelectorAll('.responses-inner img')].find(each => each.naturalWidth)"


@pytest.fixture
def browser(tmp_path):
    started = Browser(tmp_path / "profile")
    yield started
    started.close()


@pytest.mark.timeout(900)
def test_a_picture_is_shown_in_the_page(browser, serve_model, tmp_path):
    operation = "image-to-image/image-to-image_predict"
    browser.call("Page.navigate", url=f"{serve_model(MODEL).url}/docs#/{operation}")
    browser.wait_for(f"{EXAMPLE}?.value.includes('b64')")
    browser.run(f"{EXECUTE}.click()")
    size = browser.wait_for(
        f"(shown => shown && [shown.naturalWidth, shown.naturalHeight])({SHOWN})"
    )
    browser.run(f"{SHOWN}?.scrollIntoView({{block: 'center'}})")
    browser.screenshot(tmp_path / "docs.png")  # for people

    assert size == [120, 90]
