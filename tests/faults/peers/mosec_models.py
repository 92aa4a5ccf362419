# SPDX-License-Identifier: Apache-2.0
"""Model directories of the fault rows, served by mosec. Runs in mosec's own environment.

The same ``service.py`` as servekit serves: here ``Service`` is a class of straw, and a worker of
mosec leads each batch through ``predict``.
"""

import importlib
import json
import os
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace

from mosec import Server, Worker

MODEL = "FAULTS_MODEL"  #: the directory, in a worker's environment
REPLICAS = "FAULTS_REPLICAS"
MAX_WAIT_MS = 1  #: the shortest


class Service:
    """What a service of servekit inherits."""

    def load(self, context):
        """Have nothing to load."""


def read(directory):
    """Return ``model.toml``."""
    return tomllib.loads((Path(directory) / "model.toml").read_text())


class Model(Worker):
    """The service of one model directory."""

    def __init__(self):
        super().__init__()
        directory = os.environ[MODEL]
        sys.modules["servekit"] = ModuleType("servekit")
        sys.modules["servekit"].Service = Service
        sys.path.insert(0, directory)
        toml = read(directory)
        module, _, name = toml["service"].partition(":")
        self.service = getattr(importlib.import_module(module), name)()
        version, options = toml.get("version", "1.0"), toml.get("options", {})
        self.service.load(SimpleNamespace(version=version, options=options))

    def deserialize(self, data):
        return super().deserialize(data) if data[:1] in b"{[" else bytes(data)

    def forward(self, data):
        outputs = self.service.predict(data if isinstance(data, list) else [data])
        answers = [{"prediction": output} for output in outputs]
        return answers if isinstance(data, list) else answers[0]

    def serialize(self, data):
        return json.dumps(data, separators=(",", ":")).encode()


def main():
    """Serve the directories of the arguments, ``NAME=PATH`` or ``PATH``."""
    server = Server()
    for argument in (each for each in sys.argv[1:] if not each.startswith("--")):
        path = argument.rpartition("=")[2]
        toml = read(path)
        name = argument.partition("=")[0] if "=" in argument else toml["name"]
        size = toml.get("batching", {}).get("max_batch_size", 1)
        replicas = int(os.environ.get(REPLICAS, "0")) or toml.get("worker", {}).get("replicas", 1)
        server.append_worker(
            Model,
            num=replicas,
            max_batch_size=size,
            max_wait_time=MAX_WAIT_MS if size > 1 else 0,
            env=[{MODEL: path}] * replicas,
            route=f"/{name}/predict",
        )
    server.run()


if __name__ == "__main__":
    main()
