# SPDX-License-Identifier: Apache-2.0
"""Code that is copied from the playground in Chromium makes the request that was filled in."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from servekit.testing import ServedModel

from .console_page import MARKS
from .playground_page import STATUS, PlaygroundPage

pytestmark = MARKS
TOKEN, KEY, ACCESS = "predict-with-me", "key-of-ada", "a+b&c=d"
MODEL = 'name = "seen"\nservice = "service:Seen"\n'
SERVICE = """
import hashlib
from typing import Annotated

from PIL import Image as Picture
from servekit import Service, endpoint
from servekit.types import Format, Image


class Seen(Service):
    request_headers = ("x-user", "x-api-key")
    request_query = ("lang", "access_token")

    def load(self, context):
        self.context = context

    def predict(self, batch: list[str]) -> list[dict[str, str]]:
        return [self.seen(*pair) for pair in zip(batch, self.context.requests, strict=True)]

    def seen(self, text, request):
        secrets = request.headers.get("x-api-key", "") + request.query.get("access_token", "")
        return {
            "text": text, "user": request.headers.get("x-user", ""),
            "lang": request.query.get("lang", ""),
            "secrets": hashlib.sha256(secrets.encode()).hexdigest(),
        }

    @endpoint()
    def picture(self, batch: list[str]) -> list[Annotated[Image, Format("image/png")]]:
        return [Picture.new("RGB", (len(text), 1)) for text in batch]
"""
ANY = 'name = "any"\nservice = "service:Any"\n'
ANY_SERVICE = """
from servekit import Service


class Any(Service):
    request_headers = ("*",)

    def load(self, context):
        self.context = context

    def predict(self, batch: list[str]) -> list[str]:
        shown = ("x-a", "x-secret")
        return [f"{[each.headers.get(name) for name in shown]} {each.query.get('lang')}"
                for each in self.context.requests]
"""
#: format to its button, the file and the program
PROGRAMS = {
    "curl": ("curl", "copied.sh", ["sh"]),
    "python": ("Python", "copied.py", [sys.executable]),
    "requests": ("Python, requests", "asked.py", [sys.executable]),
    "javascript": ("JavaScript", "copied.mjs", ["node"]),
    "pytest": ("pytest", "copied_test.py",
               [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]),
}  # fmt: skip
SECRETS = {"SERVEKIT_PREDICT_TOKEN": TOKEN, "X_API_KEY": KEY, "ACCESS_TOKEN": ACCESS}
DIGEST = hashlib.sha256(f"{KEY}{ACCESS}".encode()).hexdigest()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    top = tmp_path_factory.mktemp("code")
    for name, model, service in (("seen", MODEL, SERVICE), ("any", ANY, ANY_SERVICE)):
        (top / name).mkdir()
        (top / name / "model.toml").write_text(model)
        (top / name / "service.py").write_text(service)
    tokens = top / "tokens"
    tokens.write_text(f"{TOKEN}\n")
    tokens.chmod(0o600)
    with ServedModel(top / "seen", top / "any", predict_token_file=tokens, grace=2) as started:
        yield started.wait_ready()


@pytest.fixture
def page(browser, server):
    browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite"], origin=server.url)
    return PlaygroundPage(browser, server.url)


def fill_in(page):
    page.open("seen", value='"hello"')
    page.browser.run("document.querySelector('.pg-options').open = true")
    page.fill("Token for predictions", TOKEN)
    page.fill("x-user (header)", "it's Ada")
    page.fill("x-api-key (header)", KEY)
    page.fill("lang (query)", "de & fr")
    page.fill("access_token (query)", ACCESS)


def copied(page, button):
    """Return what the button Copy leaves in the clipboard."""
    if not page.browser.run("document.querySelector('.pg-code').open"):
        page.press("Copy as code")
    page.browser.wait_for("document.querySelector('.pg-code pre')")
    page.press(button)
    page.press("Copy")
    page.browser.wait_for("document.querySelector('[data-part=copy]').textContent === 'Copied'")
    return page.browser.run("navigator.clipboard.readText()")


def follow(code, format_name, directory, variables):
    """Run copied code as its reader would, with *variables* in the environment."""
    _, name, program = PROGRAMS[format_name]
    (directory / name).write_text(code)
    return subprocess.run(
        [*program, name], cwd=directory, env=os.environ | variables,
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("format_name", PROGRAMS)
def test_copied_code_sends_the_headers_that_were_typed(page, tmp_path, format_name):
    fill_in(page)
    page.press("Send")
    assert DIGEST in page.answer()
    code = copied(page, PROGRAMS[format_name][0])
    done = follow(code, format_name, tmp_path, SECRETS)

    assert [secret for secret in SECRETS.values() if secret in code] == []
    assert all(f"Set {name} in the environment" in code for name in SECRETS)
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    wanted = ["1 passed"] if format_name == "pytest" else ["hello", "it's Ada", "de & fr", DIGEST]
    assert [part for part in wanted if part not in done.stdout] == []
    assert DIGEST in code or format_name != "pytest"  # it expects the answer that was seen


@pytest.mark.parametrize("format_name", PROGRAMS)
def test_a_picture_that_was_chosen_is_what_copied_code_gets(page, tmp_path, format_name):
    page.open("seen", path="/seen/picture", value='"hello"', accept="image/png")
    page.fill("Token for predictions", TOKEN)
    code = copied(page, PROGRAMS[format_name][0])
    done = follow(code, format_name, tmp_path, SECRETS)

    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    if format_name != "pytest":
        assert (tmp_path / "prediction.png").read_bytes().startswith(b"\x89PNG")


def test_a_variable_that_is_not_set_is_named(page, tmp_path):
    fill_in(page)
    code = copied(page, "curl")
    done = follow(code, "curl", tmp_path, {})

    assert done.returncode != 0
    assert "SERVEKIT_PREDICT_TOKEN" in done.stderr


def test_a_test_does_not_expect_the_answer_to_other_headers(page):
    fill_in(page)
    page.press("Send")
    page.answer()
    assert "it's Ada" in copied(page, "pytest").partition("assert")[2]
    page.fill("x-user (header)", "Charles")
    page.browser.wait_for("document.querySelector('.pg-code pre').textContent.includes('Charles')")

    assert "assert output is not None" in copied(page, "pytest")


def test_a_link_keeps_parameters_but_no_secrets(page):
    fill_in(page)
    page.browser.wait_for("location.hash.includes('lang')")
    link = page.browser.run("decodeURIComponent(location.hash)")

    assert "query.lang=de" in link
    assert [each for each in (TOKEN, KEY, ACCESS, "Ada", "access_token") if each in link] == []


def test_a_service_that_takes_any_header_gets_those_that_are_named(page, tmp_path):
    page.open("any", value='"x"')
    page.browser.run("document.querySelector('.pg-options').open = true")
    page.fill("Token for predictions", TOKEN)
    page.fill("Headers", "x-a: 1: 2\nx-secret: hush")
    page.fill("Query parameters", "lang=de")
    page.press("Send")
    assert "['1: 2', 'hush'] de" in page.answer()
    code = copied(page, "Python")
    done = follow(code, "python", tmp_path, SECRETS | {"X_SECRET": "hush"})

    assert "hush" not in code
    assert "['1: 2', 'hush'] de" in done.stdout


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("no colon", "no colon is not name:value"),
        ("x-a: é", "only ASCII"),
        ("Accept: text/plain", "the page sets Accept itself"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_at_its_field(page, typed, problem):
    page.open("any", value='"x"')
    page.browser.run("document.querySelector('.pg-options').open = true")
    page.fill("Token for predictions", TOKEN)
    page.fill("Headers", typed)
    page.press("Send")

    page.browser.wait_for(f"{STATUS}.includes({json.dumps(problem)})")
    assert page.browser.run("document.activeElement.tagName") == "TEXTAREA"
