# SPDX-License-Identifier: Apache-2.0
"""``wait_ready`` after ``kill_worker``, while ``/ping`` does not know that the worker is gone."""

import sys

import pytest

from servekit.testing import ServedModel, server
from servekit.testing.response import Response

#: a server whose worker is not replaced, as far as its log says
UNREPLACED = """
import json, subprocess

def say(event, **members):
    print(json.dumps({"event": event, "message": "", **members}), flush=True)

worker = subprocess.Popen(["sleep", "600"])
say("worker_ready", model="m", replica=0, pid=worker.pid)
say("serving", url="http://127.0.0.1:1")
say("worker_exited", replica=0, exit_code=worker.wait())
"""


def test_the_replacement_is_waited_for(monkeypatch):
    monkeypatch.setattr(server, "start_command", lambda *_: [sys.executable, "-c", UNREPLACED])
    monkeypatch.setattr(ServedModel, "get", lambda *_: Response(200, "application/json", b"", {}))
    with ServedModel("m") as served:
        served.wait_ready()
        served.kill_worker()

        with pytest.raises(AssertionError, match=r"worker_ready .*: not logged and the server has"):
            served.wait_ready()
