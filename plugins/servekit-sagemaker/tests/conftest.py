# SPDX-License-Identifier: Apache-2.0
"""The processes that SageMaker starts in a container: ``serve``, with what is in ``/opt/ml``."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.processes import free_port

from .endpoint import Endpoint

WAIT_S = 120.0
BIN = Path(sys.executable).parent
#: the console script as pip writes it: Ray Serve, in the same environment, has one of this name
SCRIPT = f"""#!{sys.executable}
import sys
from importlib.metadata import distribution

(serve,) = distribution("servekit-sagemaker").entry_points.select(name="serve")
sys.exit(serve.load()())
"""
SERVICE = """
import time
from pathlib import Path
from servekit import InputError, Response, Service

CUSTOM = "x-amzn-sagemaker-custom-attributes"

class Echo(Service):
    request_headers = (CUSTOM,)

    def load(self, context):
        self.context = context

    def predict(self, batch):
        pairs = zip(batch, self.context.requests, strict=True)
        return [self.answer(value, request) for value, request in pairs]

    def answer(self, value, request):
        if value == "sleep":
            Path(__file__).with_name("asleep").touch()
            time.sleep(3)
        if value == "refuse":
            return InputError("no")
        if value == "fail":
            raise ValueError("as asked")
        if value == "picture":
            return Response(b"PNG", content_type="image/png")
        if value == "attributes":
            return Response(request.headers[CUSTOM], headers={CUSTOM: "seen"})
        return value

class Sum(Service):
    def predict(self, batch):
        if (batch["x"][:, 0] < 0).any():
            raise ValueError("as asked")
        return {"y": batch["x"].sum(axis=1)}

class Words(Service):
    def stream(self, text):
        for word in text.split():
            if word == "fail":
                raise ValueError("as asked")
            yield word
"""
TOML = {
    "Echo": 'name = "echo"\nservice = "service:Echo"\n',
    "Words": 'name = "words"\nservice = "service:Words"\n',
    "Sum": 'name = "sum"\nservice = "service:Sum"\n[signature]\n'
    'inputs = [{ name = "x", dtype = "float32", shape = [3] }]\n'
    'outputs = [{ name = "y", dtype = "float32", shape = [] }]\n',
}


def write_model(directory, kind="Echo"):
    """Write a model directory, as model.tar.gz has it."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "service.py").write_text(SERVICE)
    (directory / "model.toml").write_text(TOML[kind])
    return directory


class Container(Endpoint):
    """``docker run IMAGE serve``, without the image, which may have an entry point."""

    def __init__(self, base, *entry_point, **variables):
        self.port = free_port()
        self._scratch = mkdtemp()  # not below base, whose path is too long for sockets
        own = {
            "SAGEMAKER_BASE_DIR": str(base),
            "SAGEMAKER_BIND_TO_PORT": str(self.port),
            "TMPDIR": self._scratch,
        }
        self.process = subprocess.Popen(
            [*entry_point, "serve"] if entry_point else [self._script()],
            env=os.environ | own | variables,
            cwd=base,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _script(self):
        path = Path(self._scratch, "serve")
        path.write_text(SCRIPT)
        path.chmod(0o755)
        return path

    def _read(self):
        self.lines.extend(self.process.stdout)

    @property
    def output(self):
        return "".join(self.lines)

    def invoke(self, value, path="/invocations", **headers):
        """Send JSON; return status and JSON."""
        status, _, body = self.send("POST", path, json.dumps(value), "application/json", **headers)
        return status, json.loads(body)

    def wait(self):
        """Return the exit status of a process that ends by itself."""
        return self._ended()

    def stop(self):
        """Stop as SageMaker does, and return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def _ended(self):
        try:
            return self.process.wait(WAIT_S)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join(WAIT_S)
            self.process.stdout.close()
            shutil.rmtree(self._scratch, ignore_errors=True)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Start containers, which end with the module."""
    started = []

    def run(base, *entry_point, **variables):
        started.append(Container(base, *entry_point, **variables))
        return started[-1]

    yield run
    for container in started:
        container.stop()
