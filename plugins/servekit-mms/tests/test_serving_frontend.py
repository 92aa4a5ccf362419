# SPDX-License-Identifier: Apache-2.0
"""``ServingFrontend``: a program written for MMS starts a server."""

import signal
import subprocess
import sys
from contextlib import suppress
from threading import Event
from time import monotonic

import pytest
from servekit_mms import ServingFrontend

from servekit.errors import BootError
from tests.processes import free_port

from .conftest import get, write_legacy

WAIT_S = 240.0

PROGRAM = """
import sys

from servekit_mms import ServingFrontend

if __name__ == "__main__":
    port, directory = int(sys.argv[1]), sys.argv[2]
    frontend = ServingFrontend("a test")
    (kind,) = frontend.register_module(directory + "/service.py")
    frontend.load_models([("lstm", "lstm_ptb", directory, {})], kind)

    def twice(factor):
        service = frontend.get_loaded_modelservices("lstm")["lstm"]
        said = service.inference([[{"input_sentence": frontend.get_query_string("text")}]])
        return frontend.handler.jsonify({"twice": said * factor})

    definition = {"/twice": {"get": {"operationId": "twice", "responses": {"200": {}}}}}
    frontend.add_endpoint(definition, twice, factor=2)
    health = {"/health-of-models": {"get": {"operationId": "health_of_models", "responses": {}}}}
    frontend.add_endpoint(health, frontend.ping_callback)
    frontend.setup_openapi_endpoints("127.0.0.1", port)
    frontend.start_handler("127.0.0.1", port)
"""


@pytest.fixture
def frontend(no_mms):
    return ServingFrontend("a test")


def test_classes_are_registered_by_their_names(frontend, tmp_path):
    (kind,) = frontend.register_module(str(write_legacy(tmp_path) / "service.py"))

    assert frontend.get_registered_modelservices() == {"EchoService": kind}
    assert frontend.get_registered_modelservices("EchoService") == {"EchoService": kind}
    with pytest.raises(KeyError):
        frontend.get_registered_modelservices(["Other"])


def test_a_file_without_a_class_is_refused(frontend, tmp_path):
    (tmp_path / "service.py").write_text("")

    with pytest.raises(AssertionError, match="No valid python class"):
        frontend.register_module(str(tmp_path / "service.py"))


def test_models_that_are_loaded_are_described(frontend, tmp_path):
    (kind,) = frontend.register_module(str(write_legacy(tmp_path) / "service.py"))
    frontend.load_models([("lstm", "lstm_ptb", str(tmp_path), {})], kind)
    described = frontend.setup_openapi_endpoints("127.0.0.1", 8080)

    assert described["host"] == "127.0.0.1:8080"
    (parameter,) = described["paths"]["/lstm/predict"]["post"]["parameters"]
    assert parameter["name"] == "data"
    assert frontend.get_loaded_modelservices()["lstm"].signature["input_type"] == "application/json"


def test_what_is_no_archive_is_refused(frontend, tmp_path):
    (kind,) = frontend.register_module(str(write_legacy(tmp_path / "a") / "service.py"))

    with pytest.raises(BootError, match="is not an archive of MMS"):
        frontend.load_models([("b", "b", str(tmp_path / "b"), {})], kind)


@pytest.mark.slow
def test_a_program_serves_its_models_and_its_endpoints_until_a_signal(tmp_path):
    write_legacy(tmp_path / "lstm_ptb")
    (tmp_path / "program.py").write_text(PROGRAM)
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "program.py", str(port), str(tmp_path / "lstm_ptb")],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        deadline, health = monotonic() + WAIT_S, None
        while health is None and process.poll() is None and monotonic() < deadline:
            with suppress(OSError):
                health = get(f"http://127.0.0.1:{port}/ping")
            Event().wait(0.1)
        found = health and get(f"http://127.0.0.1:{port}/twice?text=you")
        models = health and get(f"http://127.0.0.1:{port}/health-of-models")
        document = health and get(f"http://127.0.0.1:{port}/openapi.json")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            printed, _ = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
            process.wait()

    assert found == {"twice": "hello you" * 2}, printed
    assert models == {"health": "healthy!"}
    assert document["paths"]["/twice"]["get"]["operationId"] == "twice"
    assert process.returncode == 0
