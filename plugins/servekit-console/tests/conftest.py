# SPDX-License-Identifier: Apache-2.0
"""The console around a server that does not run."""

from hashlib import sha256
from types import SimpleNamespace

import pytest
from flask import Flask
from servekit_console.blueprint import create_blueprint
from servekit_console.hooks import ConsoleSettings

from servekit.errors import Forbidden, ServekitError, Unauthorized
from servekit.web.errors import add_error_pages

TOKEN, OTHER_TOKEN = "manage-me", "predict-only"


class StandIn:
    """What the console asks of a ``Server``."""

    def __init__(self, run_directory, bind=("127.0.0.1:8080",)) -> None:
        self.settings = SimpleNamespace(bind=bind, host="127.0.0.1")
        self.run_directory = run_directory
        self.models, self.is_draining = {}, False

    def plugin_settings(self, _plugin):
        return ConsoleSettings()

    def read_management(self, path):
        return {"/models": {"models": []}, "/crashes": {"crashes": []}}.get(path, {"lines": []})

    def why_not_ready(self, _model=""):
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
