# SPDX-License-Identifier: Apache-2.0
"""TorchServe's own collections of requests, run by newman.

``TORCHSERVE_POSTMAN`` is the folder with its collections (``test/postman``), and ``NEWMAN`` the
program, if it is not on the path. Archives made here stand for those on the network.
"""

import json
import os
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from torch_archives import write_mar
from torchserve_process import TorchServeProcess

SUITE = Path(os.environ.get("TORCHSERVE_POSTMAN", ""))
NEWMAN = os.environ.get("NEWMAN") or shutil.which("newman")
WAIT_S = 600.0
METRICS_PORT = 8082  # it is written in a collection
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("TORCHSERVE_POSTMAN") or not NEWMAN, reason="needs TORCHSERVE_POSTMAN"
    ),
]
HANDLER = """
    import json

    EXPECTED = json.loads({expected!r})

    def handle(data, context):
        return None if data is None else [EXPECTED for _ in data]
"""
METRICS = "Model Zoo - Model Metrics"  #: expects a comma after the last label
#: requests of management whose status differs: name, status there, status here, and why
DIFFERENT = {
    "Model Re-Registration Densenet161": (500, 400),  # a URL, and no plugin opens https
}


@pytest.fixture
def store(tmp_path):
    """An archive for each name in the environment of the collections."""
    store = tmp_path / "store"
    store.mkdir()
    environment = json.loads((SUITE / "environment.json").read_text())
    for each in environment["values"]:
        if each["key"].startswith("mar_path_"):
            name = each["value"].removesuffix(".mar")
            write_mar(store / each["value"], HANDLER.format(expected="{}"), name=name)
    return store


def run(collection, data, server, directory):
    """Run a collection with *data*; return the executions."""
    output = directory / "newman.json"
    variables = {"mgmt-port": server.management, "pred-port": server.inference}
    subprocess.run(
        [
            *(NEWMAN, "run", SUITE / collection, "-d", data, "-e", SUITE / "environment.json"),
            *("--reporters", "json", "--reporter-json-export", output, "--working-dir", directory),
            *(word for name in variables for word in ("--env-var", f"{name}={variables[name]}")),
        ],
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    return json.loads(output.read_text())["run"]["executions"]


def problems(execution):
    """Return what the assertions of a request say."""
    return [each["error"]["message"] for each in execution.get("assertions", []) if "error" in each]


def test_management_answers_its_collection(store, tmp_path):
    asked = json.loads((SUITE / "management_data.json").read_text())
    with TorchServeProcess(store, "--disable-token-auth", "--enable-model-api") as server:
        server.wait_ready()
        data = SUITE / "management_data.json"
        executions = run("management_api_test_collection.json", data, server, tmp_path)

    assert len(executions) == len(asked)
    wrong = {
        f"{number} {each['test']}": (each.get("status_code", 200), found["response"]["code"])
        for number, (each, found) in enumerate(zip(asked, executions, strict=True))
        if problems(found)
    }
    assert {name.partition(" ")[2]: codes for name, codes in wrong.items()} == DIFFERENT, wrong


def test_inference_answers_its_collection(store, tmp_path):
    with suppress(OSError), socket.create_connection(("127.0.0.1", METRICS_PORT), 1):
        pytest.skip(f"something listens on port {METRICS_PORT}")
    asked = json.loads((SUITE / "inference_data.json").read_text())
    for each in asked:
        each["url"], each["file"] = f"{each['model_name']}-own.mar", str(tmp_path / "input.bin")
        expected = json.dumps(each.get("expected", "done"))
        write_mar(store / each["url"], HANDLER.format(expected=expected), name=each["model_name"])
    (tmp_path / "input.bin").write_bytes(b"\xff\xd8 not a picture")
    (tmp_path / "data.json").write_text(json.dumps(asked))
    arguments = ("--disable-token-auth", "--enable-model-api")
    metrics = f"metrics_address=http://127.0.0.1:{METRICS_PORT}\n"
    with TorchServeProcess(store, *arguments, properties=metrics) as server:
        server.wait_ready()
        collection = "inference_api_test_collection.json"
        executions = run(collection, tmp_path / "data.json", server, tmp_path)

    assert len(executions) == 4 * len(asked)
    wrong = {each["item"]["name"] for each in executions if problems(each)}
    assert wrong <= {METRICS}, [text for each in executions for text in problems(each)]
