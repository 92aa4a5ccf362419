# SPDX-License-Identifier: Apache-2.0
"""A management app that commands can ask, with a supervisor that is a list of turns."""

import json
import threading

import pytest
from werkzeug.serving import WSGIRequestHandler, make_server

from servekit.cli import main
from servekit.ipc.crash_reports import CrashReport
from servekit.web import RouteMetrics, create_management
from tests.web.fakes import FakeOperated, model_row

TOKEN = "let-me-in"


class Operated(FakeOperated):
    """A front-end that knows its token, as its listener would."""

    def crashes(self):
        report = {
            "model": "digits", "replica": 0, "generation": 1, "pid": 7, "time": "2026",
            "monotonic_s": 1.0, "exit_code": -9, "signal": "SIGKILL", "cause": "killed",
            "lived_s": 2.0, "served_s": 1.0, "restart_s": 0.0, "has_given_up": False,
            "request_ids": [], "last_lines": [],
        }  # fmt: skip
        return [CrashReport(**report)]

    def ask_reload(self):
        self.operations.append("SIGHUP")


class Quiet(WSGIRequestHandler):
    def log(self, *args):
        """Keep stderr for the command."""


@pytest.fixture
def server():
    return Operated(model_row("digits"), model_row("echo"))


@pytest.fixture
def url(server):
    """Serve the management app of *server*; every request needs the token."""
    app = create_management(server, RouteMetrics(server))

    def guarded(environ, start_response):
        if environ.get("HTTP_AUTHORIZATION") == f"Bearer {TOKEN}":
            return app(environ, start_response)
        problem = {"title": "Unauthorized", "detail": "a bearer token is needed"}
        start_response("401 Unauthorized", [("Content-Type", "application/problem+json")])
        return [json.dumps(problem).encode()]

    listener = make_server("127.0.0.1", 0, guarded, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=listener.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{listener.port}"
    listener.shutdown()
    thread.join()
    listener.server_close()


@pytest.fixture
def ask(url, capsys, monkeypatch):
    """Return ``ask(*words)``: exit status, stdout, stderr."""
    monkeypatch.setenv("SERVEKIT_MANAGE_TOKEN", TOKEN)

    def run(*words, to=url):
        try:
            status = main([*words, "--server", to])
        except SystemExit as ended:
            status = ended.code
        return status, *capsys.readouterr()

    return run
