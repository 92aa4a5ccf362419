# SPDX-License-Identifier: Apache-2.0
"""The pages of a console in Chromium, and models for them."""

from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from servekit.testing import ServedModel
from tests.browser.axe import serious_findings
from tests.browser.driver import CHROMIUM, Browser
from tests.waiting import wait_until

WAIT_S = 300.0
TOKEN = "manage-me"
MARKS = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]
IS_DRAWN = "!document.querySelector('[data-series]') || document.querySelector('.uplot')"
EXCESS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
#: width and height in CSS pixels, and the colours
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


def name_of(look: tuple[int, int, str]) -> str:
    """Return the name of a look, for the id of a test."""
    return f"{look[0]}-{look[2]}"


def write_model(
    directory: Path,
    name: str,
    replicas: int = 1,
    version: str = "1.0",
    about: str = "Sleeps for a while",
) -> Path:
    """Write a model that sleeps for as long as its input says, and crashes at one below zero."""
    directory.mkdir()
    text = f'name = "{name}"\nversion = "{version}"\nservice = "service:Sleepy"\n'
    text += f'description = "{about}"\n'
    examples = "[[examples]]\ninput = 0.01\noutput = 0.01\n"
    (directory / "model.toml").write_text(f"{text}[worker]\nreplicas = {replicas}\n{examples}")
    (directory / "service.py").write_text(SERVICE)
    return directory


def read(served: ServedModel, path: str) -> dict:
    """Return the twin of a page, as JSON."""
    found: dict = httpx.get(f"{served.url}/console/{path}", timeout=WAIT_S).json()
    return found


def wait_for(ask, what: str):
    """Return what *ask* returns as soon as that is true."""
    return wait_until(ask, f"no {what} in time", WAIT_S, every_s=0.1)


def slowest(served: ServedModel) -> str:
    """Return the path of the slowest request."""
    return f"slow/{read(served, 'slow.json')['requests'][0]['request_id']}"


def open_page(browser: Browser, served: ServedModel, path: str, look=LOOKS[0]) -> None:
    """Open a page of the console, and wait for its charts."""
    width, height, scheme = look
    browser.look_like(width=width, height=height, scheme=scheme)
    browser.open(f"{served.url}/console/{path}")
    browser.wait_for(IS_DRAWN)


def problems(browser: Browser, served: ServedModel, axe: str) -> list[str]:
    """Return all that is wrong with the page that *browser* shows."""
    wide = browser.run(EXCESS)
    home = urlsplit(served.url).netloc
    strangers = [url for url in browser.requested if urlsplit(url).netloc not in (home, "")]
    too_wide = [f"it is {wide} px too wide"] if wide > 0 else []
    return [*browser.mistakes, *strangers, *serious_findings(browser, axe), *too_wide]


def check(browser: Browser, served: ServedModel, path: str, axe: str, look) -> list[str]:
    """Open a page, and return all that is wrong with it."""
    browser.mistakes.clear()
    browser.requested.clear()
    open_page(browser, served, path, look)
    return problems(browser, served, axe)


def log_in(browser: Browser, served: ServedModel, path: str) -> None:
    """Give the token for management, and go on to a page."""
    browser.open(f"{served.url}/console/login?next=/console/{path}")
    browser.run("document.querySelector('[name=token]').focus()")
    browser.call("Input.insertText", text=TOKEN)
    browser.run("document.querySelector('main button').click()")
    browser.wait_for(
        f"location.pathname === '/console/{path}' && document.readyState === 'complete'"
    )
