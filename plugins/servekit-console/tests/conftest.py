# SPDX-License-Identifier: Apache-2.0
"""The console around a server that does not run, and the browser for servers that do."""

from hashlib import sha256
from types import SimpleNamespace

import pytest
from flask import Flask
from servekit_console.blueprint import create_blueprint
from servekit_console.hooks import ConsoleSettings

from servekit.errors import Forbidden, ServekitError, Unauthorized
from servekit.web.errors import add_error_pages
from tests.browser.axe import axe_script
from tests.browser.driver import Browser

TOKEN, OTHER_TOKEN = "manage-me", "predict-only"


class StandIn:
    """What the console asks of a ``Server``."""

    def __init__(self, run_directory, bind=("127.0.0.1:8080",)) -> None:
        self.settings = SimpleNamespace(bind=bind, host="127.0.0.1")
        self.run_directory = run_directory
        self.models, self.is_draining = {}, False
        self.predictions_are_open = True

    def plugin_settings(self, _plugin):
        return ConsoleSettings()

    def read_management(self, path):
        line = {"level": "info", "time": "", "subject": "m", "event": "", "message": "what it said"}
        found = {"/models": {"models": []}, "/crashes": {"crashes": []}}
        return found.get(path, {"lines": [line]})

    def crashes(self):
        return []

    def why_not_ready(self, _model="", _version=""):
        return []

    def all_statistics(self):
        return {}

    def judge_manager(self, authorization: bytes | None) -> ServekitError | None:
        digest = sha256((authorization or b"").removeprefix(b"Bearer ")).digest()
        if digest == sha256(TOKEN.encode()).digest():
            return None
        is_other = digest == sha256(OTHER_TOKEN.encode()).digest()
        return Forbidden("for predictions") if is_other else Unauthorized("not known")


def client_of(server):
    """Return a client of the console of *server*."""
    app = Flask("test", static_folder=None)
    add_error_pages(app)
    app.register_blueprint(create_blueprint(server))
    return app.test_client()


@pytest.fixture
def local(tmp_path):
    """A client on the machine of a server that listens on loopback."""
    return client_of(StandIn(tmp_path))


@pytest.fixture
def remote(tmp_path):
    """A client of a server that listens on all addresses."""
    return client_of(StandIn(tmp_path, ("0.0.0.0:8080",)))


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The script that finds what is not accessible on a page."""
    return axe_script(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """One browser for the tests of a file."""
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture
def browser(chromium):
    """The browser. A mistake of a page, or an error in its console, fails the test."""
    chromium.call("Page.navigate", url="about:blank")
    chromium.mistakes.clear()
    chromium.requested.clear()
    chromium.look_like()
    yield chromium
    chromium.call("Page.navigate", url="about:blank")  # the end of what the page had begun
    assert chromium.mistakes == []
