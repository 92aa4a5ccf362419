# SPDX-License-Identifier: Apache-2.0
"""A server that ``servekit torchserve`` has started, and model stores for it."""

import json
import os
import shutil
import subprocess
import sys
import threading
from http.client import HTTPConnection
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic

from servekit_archiver import build_archive

from tests.processes import free_ports

WAIT_S = 240.0
BIN = Path(sys.executable).parent
SERVICE = """
from servekit import Service

class Echo(Service):
    def load(self, context):
        if context.options.get("handler"):
            raise ValueError("no such handler")
        self.version = context.version

    def predict(self, batch):
        return [[self.version, value] for value in batch]
"""


def write_archive(store, file, name, version="1.0"):
    """Write an archive into a model store; it echoes its version and its input."""
    directory = Path(mkdtemp(dir=store.parent))
    (directory / "service.py").write_text(SERVICE)
    (directory / "model.toml").write_text(
        f'name = "{name}"\nversion = "{version}"\nservice = "service:Echo"\n'
    )
    build_archive(directory, store / file)
    shutil.rmtree(directory)


class TorchServeProcess:
    """A server with the addresses of TorchServe, at free ports."""

    def __init__(self, store, *arguments, properties="", variables=None):
        self.inference, self.management, self.metrics, *grpc = free_ports(5)
        self.grpc_inference, self.grpc_management = grpc
        self.directory = Path(mkdtemp())
        config = self.directory / "config.properties"
        text = (
            f"inference_address=http://127.0.0.1:{self.inference}\n"
            f"management_address=http://127.0.0.1:{self.management}\n"
            f"metrics_address=http://127.0.0.1:{self.metrics}\n"
            f"grpc_inference_port={grpc[0]}\ngrpc_management_port={grpc[1]}\n{properties}"
        )
        config.write_text(self.configure(text))
        self.process = subprocess.Popen(
            list(map(str, self.command(store, arguments))),
            cwd=self.directory,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(self.directory), **(variables or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def configure(self, text):
        """Return the content of ``config.properties``."""
        return text

    def connect(self, port):
        """Return a connection to *port*."""
        return HTTPConnection("127.0.0.1", port, timeout=WAIT_S)

    def command(self, store, arguments):
        """Return the command line."""
        return [BIN / "servekit", "torchserve", "--model-store", store, "--ncs", *arguments]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _read(self):
        self.lines.extend(self.process.stdout)

    @property
    def output(self):
        return "".join(self.lines)

    @property
    def keys(self):
        """Return ``key_file.json``."""
        return json.loads((self.directory / "key_file.json").read_text())

    def wait_ready(self):
        """Wait until both addresses answer and the models are ready."""
        deadline, pause = monotonic() + WAIT_S, threading.Event()
        while not self._is_ready():
            assert self.process.poll() is None, self.output
            assert monotonic() < deadline, self.output
            pause.wait(0.05)
        return self

    def _is_ready(self):
        try:
            return (
                self.ask("GET", "/ping", port=self.inference)[0] == 200
                and self.ask("OPTIONS", "/")[0] == 200
            )
        except OSError:
            return False

    def ask(self, method, path, body=None, port=None, **headers):
        """Ask the management API, or another *port*; return the status and the decoded JSON."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            fields["Content-Type"] = "application/json"
            body = json.dumps(body)
        connection = self.connect(port or self.management)
        try:
            connection.request(method, path, body, fields)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        is_json = "json" in response.headers.get("Content-Type", "")
        return response.status, json.loads(content) if is_json else content.decode()

    def stop(self):
        """Stop by SIGTERM, and return the exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(WAIT_S)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join(WAIT_S)
            self.process.stdout.close()
            shutil.rmtree(self.directory, ignore_errors=True)
