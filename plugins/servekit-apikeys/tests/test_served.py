# SPDX-License-Identifier: Apache-2.0
"""Behind a real server: refusals come before the body, and a broken file lets nobody in."""

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
WAIT_S = 60
SERVICE = """
from servekit import Service

class Same(Service):
    def load(self, context):
        self.context = context

    def predict(self, batch):
        return [request.identity.name for request in self.context.requests]
"""


@pytest.fixture
def serve(tmp_path):
    """Start a server of the models ``a`` and ``b`` with a file of keys."""
    models = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "service.py").write_text(SERVICE)
        (tmp_path / name / "model.toml").write_text(f'name = "{name}"\nservice = "service:Same"\n')
        models.append(str(tmp_path / name))
    processes = []

    def start(keys):
        command = [sys.executable, "-m", "servekit.cli", "start", "--port", "0", *models]
        environment = os.environ | {"APIKEYS_FILE": str(keys)}
        process = subprocess.Popen(
            [*command, "--require-plugins", "apikeys"], stdout=subprocess.PIPE, text=True,
            env=environment, cwd=tmp_path,
        )  # fmt: skip
        processes.append(process)
        line = process.stdout.readline()
        return re.search(r"http://\S+", line)[0]

    yield start
    for process in processes:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=WAIT_S)


def ask(url, key=None):
    request = urllib.request.Request(url, data=b"1")
    request.add_header("Content-Type", "application/json")
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def test_keys_open_what_they_are_for(serve, tmp_path):
    keys = tmp_path / "keys.toml"
    command = [Path(sys.executable).parent / "servekit-apikeys", "new", "ada", "--file", keys]
    key = subprocess.check_output(
        [*command, "--models", "a", "--rate", "0.001", "--burst", "2"], text=True
    ).strip()
    url = serve(keys)
    seen = [ask(f"{url}/a/predict", key) for _ in range(3)]

    assert [status for status, _, _ in seen] == [200, 200, 429]
    assert seen[0][2] == b'{"prediction":"ada"}'
    assert 900 <= int(seen[2][1]["Retry-After"]) <= 1000
    assert ask(f"{url}/b/predict", key)[0] == 403
    assert ask(f"{url}/a/predict")[0] == 401
    assert ask(f"{url}/a/predict", "wrong")[1]["WWW-Authenticate"].endswith('"invalid_token"')


def test_broken_file_lets_nobody_in(serve, tmp_path):
    url = serve(tmp_path / "nothing.toml")

    assert ask(f"{url}/a/predict", "any")[0] == 500
