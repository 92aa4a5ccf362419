# SPDX-License-Identifier: Apache-2.0
"""``--busy-poll``: whether workers and front-ends sleep while they wait for each other."""

import http.client
import json
import re
import urllib.parse
from pathlib import Path

import pytest

from .conftest import WAIT_S, command_of

MODELS = Path(__file__).parent / "models"
pytestmark = pytest.mark.e2e
REQUESTS = 200


def sleeps_of(pid: int) -> int:
    """Return how often a process has given the core up to wait."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)[1])


def test_processes_sleep_between_requests_if_they_may_not_poll(serve):
    server = serve("--models", MODELS / "slow", "--busy-poll=off")
    (worker,) = server.workers()
    front_end = [pid for pid in server.tree() if b"servekit.frontend" in command_of(pid)][-1]
    client = http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc, timeout=WAIT_S)
    before = sleeps_of(worker), sleeps_of(front_end)
    for number in range(REQUESTS):
        client.request("POST", "/slow/predict", json.dumps({"id": number}))
        assert client.getresponse().read()
    client.close()

    assert sleeps_of(worker) - before[0] > REQUESTS / 2
    assert sleeps_of(front_end) - before[1] > REQUESTS / 2
