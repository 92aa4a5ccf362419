# SPDX-License-Identifier: Apache-2.0
"""Readiness of one version, while its worker is gone and loads again, beside one that serves."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from servekit.testing import ServedModel

pytest.importorskip("tritonclient.grpc", reason="pip install 'tritonclient[grpc]'")
pytest.importorskip("grpc_health.v1", reason="pip install 'servekit-oip[grpc]'")

import tritonclient.grpc as triton

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

WAIT_S, POLL_S = 180.0, 0.02
SERVICE = """
import time
from pathlib import Path
from servekit import Service

class Gated(Service):
    def load(self, context):
        while context.version == "2" and not Path({gate!r}).exists():
            time.sleep(0.01)

    def predict(self, batch):
        return batch
"""


def write_version(directory, version, gate):
    directory.mkdir()
    (directory / "service.py").write_text(SERVICE.format(gate=str(gate)))
    toml = f'name = "gated"\nversion = "{version}"\nservice = "service:Gated"\n'
    (directory / "model.toml").write_text(toml)
    return directory


@pytest.fixture
def gate(tmp_path):
    """Return the file without which version 2 does not load."""
    path = tmp_path / "gate"
    path.touch()
    return path


@pytest.fixture
def served(tmp_path, tmp_path_factory, gate):
    """Serve two versions; the second one is not the default one."""
    run_dir = tmp_path_factory.mktemp("r")  # the path of a socket is short
    first, second = (write_version(tmp_path / each, each, gate) for each in ("1", "2"))
    settings = {"run_dir": run_dir, "plugin": ["oip.grpc=127.0.0.1:0", "oip.open_repository=true"]}
    with ServedModel(first, **settings) as model:
        model.wait_ready()
        command = [Path(sys.executable).with_name("servekit"), "load", second, "--name", "gated"]
        subprocess.run([*command, "--run-dir", run_dir], check=True, timeout=WAIT_S)
        yield model


@pytest.fixture
def client(served):
    shown = served.log.wait_for("output", subject="front-end")["message"]
    with triton.InferenceServerClient(shown.removeprefix("gRPC at ")) as found:
        yield found


def is_ready(served, version):
    path = f"/v2/models/gated/versions/{version}/ready"
    status = served.get(path).status
    assert status in (200, 503), path
    return status == 200


def wait_for(condition, what):
    deadline, pause = monotonic() + WAIT_S, Event()
    while not condition():
        assert monotonic() < deadline, f"{what} takes more than {WAIT_S:.0f} s"
        pause.wait(POLL_S)


def states(served):
    """Return the state of each version in the index of the repository."""
    rows = json.loads(served.post("/v2/repository/index", b"{}").body)
    return {row["version"]: row["state"] for row in rows}


def test_a_version_is_not_ready_until_its_worker_has_loaded_again(served, client, gate):
    wait_for(lambda: is_ready(served, "2"), "the second version")
    assert states(served) == {"1": "READY", "2": "READY"}

    gate.unlink()
    os.kill(served.log.wait_for("worker_ready", count=2)["pid"], signal.SIGKILL)
    wait_for(lambda: not is_ready(served, "2"), "the end of its worker")

    assert not client.is_model_ready("gated", "2")
    assert states(served) == {"1": "READY", "2": "UNAVAILABLE"}
    assert is_ready(served, "1")
    assert client.is_model_ready("gated", "1")
    assert client.is_model_ready("gated")  # that is the default version
    assert client.is_server_ready()

    gate.touch()
    wait_for(lambda: is_ready(served, "2"), "loading it again")

    assert client.is_model_ready("gated", "2")
    assert states(served) == {"1": "READY", "2": "READY"}
