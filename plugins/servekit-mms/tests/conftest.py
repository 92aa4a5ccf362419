# SPDX-License-Identifier: Apache-2.0
"""Archives as MMS writes them: by ``mxnet-model-export`` of 0.4, ``model-archiver`` of 1.1."""

import json
import sys
import tarfile
import urllib.request
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

BIN = Path(sys.executable).parent
JPEG = bytes.fromhex("ffd8ffe000104a46494600")

#: a service class that needs nothing; a copy of the example lstm_ptb has the same input
ECHO = """
from mms.log import get_logger
from mms.model_service.model_service import SingleNodeService

logger = get_logger()


class EchoService(SingleNodeService):
    def __init__(self, model_name, model_dir, manifest, gpu=None):
        super(EchoService, self).__init__(model_name, model_dir, manifest, gpu)
        with open(model_dir + "/greeting.txt") as file:
            self.greeting = file.read().strip()

    def _preprocess(self, data):
        return data[0][0]["input_sentence"].split(" ")

    def _inference(self, data):
        if data == ["fail"]:
            raise RuntimeError("with a secret")
        return data

    def _postprocess(self, data):
        return self.greeting + " " + " ".join(data)

    def ping(self):
        return "0.4"
"""


def signature(*inputs, input_type="application/json", output_type="application/json"):
    """Return ``signature.json`` with *inputs*: names, or (name, shape)."""
    named = [each if isinstance(each, tuple) else (each, [0, 10]) for each in inputs or ["data"]]
    return {
        "inputs": [{"data_name": name, "data_shape": shape} for name, shape in named],
        "input_type": input_type,
        "outputs": [{"data_name": "softmax", "data_shape": [0, 10]}],
        "output_type": output_type,
    }


def write_legacy(directory, name="lstm_ptb", service=ECHO, signed=None, model=(), **files):
    """Write the files of an archive of 0.x as ``mxnet-model-export`` does; return *directory*."""
    directory.mkdir(parents=True, exist_ok=True)
    manifest = {
        "Model-Archive-Version": 0.2,
        "Model-Archive-Description": name,
        "License": "Apache 2.0",
        "Model-Server": "0.4",
        "Model": {
            "Service": "service.py",
            "Signature": "signature.json",
            "Description": name,
            "Model-Name": name,
            "Model-Format": "MXNet-Symbolic",
            **dict(model),
        },
        "Engine": {"MXNet": 1.2},
    }
    (directory / "MANIFEST.json").write_text(json.dumps(manifest, indent=4))
    (directory / "signature.json").write_text(json.dumps(signed or signature()))
    (directory / "service.py").write_text(service)
    (directory / "greeting.txt").write_text("hello\n")
    for file, content in files.items():
        (directory / file.replace("__", ".")).write_text(content)
    return directory


def write_handler(directory, code, name="noop", handler="service:handle", **model):
    """Write the files of an archive of 1.x, as ``model-archiver`` does, and return *directory*."""
    (directory / "MAR-INF").mkdir(parents=True)
    manifest = {
        "specificationVersion": "1.0",
        "implementationVersion": "1.0",
        "description": "noop v1.0",
        "modelServerVersion": "1.0",
        "license": "Apache 2.0",
        "runtime": "python",
        "model": {"modelName": name, "handler": handler, **model},
    }
    (directory / "MAR-INF" / "MANIFEST.json").write_text(json.dumps(manifest))
    (directory / "service.py").write_text(code)
    return directory


def pack(directory, path):
    """Pack the files of *directory* as the suffix of *path* says; 0.x does not compress them."""
    if path.suffix == ".gz":
        with tarfile.open(path, "w:gz") as archive:
            archive.add(directory, directory.name)
        return path
    kind = ZIP_STORED if path.suffix == ".model" else ZIP_DEFLATED
    with ZipFile(path, "w", kind) as archive:
        for file in sorted(directory.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(directory).as_posix())
    return path


@pytest.fixture
def no_mms(monkeypatch):
    """Leave ``sys.path`` and the modules of an archive as they were."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if name.partition(".")[0] in ("mms", "service"):
            del sys.modules[name]


def get(url):
    with urllib.request.urlopen(url, timeout=60) as response:
        return json.load(response)
