# SPDX-License-Identifier: Apache-2.0
"""The same requests to ``mlflow models serve`` and to servekit: equal answers, or a reason.

``MLFLOW_PYTHON`` names a Python with MLflow and its server in place of the running one.
"""

import json
import math
import os
import runpy
import subprocess
import sys
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from servekit import serve
from tests.processes import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
CASES = runpy.run_path(str(Path(__file__).with_name("differential_cases.py")))["CASES"]
PYTHON = os.environ.get("MLFLOW_PYTHON", sys.executable)
START_S = 120

#: status of MLflow and of servekit where they differ; ``docs/mlflow.md`` says why
DIFFERENT = {
    ("iris", "not UTF-8"): (400, 400),
    ("iris", "no content type"): (500, 415),
    ("odd", "an object"): (500, 500),
}


@contextmanager
def mlflow_server(directory):
    """Serve *directory* with MLflow; yield the address."""
    port = free_port()
    command = [PYTHON, "-m", "mlflow", "models", "serve", "-m", str(directory), "-p", str(port),
               "--env-manager", "local"]  # fmt: skip
    quiet = subprocess.DEVNULL
    beside = f"{Path(PYTHON).parent}:{os.environ['PATH']}"  # it looks for uvicorn
    environment = {**os.environ, "PATH": beside, "MLFLOW_DISABLE_TELEMETRY": "true"}
    process = subprocess.Popen(
        command,
        cwd=directory.parent,  # MLflow may write its tracking store there
        stdout=quiet,
        stderr=quiet,
        env=environment,
        start_new_session=True,
    )
    try:
        address = f"127.0.0.1:{port}"
        wait_for(address, process)
        yield address
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 15)
        process.wait(30)


def wait_for(address, process):
    deadline, pause = monotonic() + START_S, Event()
    while monotonic() < deadline and process.poll() is None:
        try:
            if ask(address, "/ping", None, "", "GET")[0] == 200:
                return
        except (OSError, HTTPException):
            pause.wait(0.1)
    raise AssertionError(f"nothing answers at {address}")


def ask(address, path, body, content_type, method="POST"):
    connection = HTTPConnection(address, timeout=60)
    try:
        connection.request(
            method, path, body, {"Content-Type": content_type} if content_type else {}
        )
        response = connection.getresponse()
        return response.status, response.headers.get_content_type(), response.read()
    finally:
        connection.close()


def comparable(answer):
    """Return what should be equal: status, type, predictions; of an error, its code and members."""
    status, media_type, body = answer
    if media_type != "application/json":
        return status, media_type
    said = json.loads(body)
    if isinstance(said, dict) and "error_code" in said:
        return status, media_type, said["error_code"], sorted({*said} - {"stack_trace"})
    return status, media_type, rounded(said)


def rounded(value):
    """Return *value* with numbers of 12 digits: rows may be added up in another order."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.12g}")
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return value


@pytest.fixture(scope="module", autouse=True)
def _installed():
    code = "import mlflow, uvicorn, fastapi"
    if subprocess.run([PYTHON, "-c", code], check=False, capture_output=True).returncode:
        pytest.skip("MLflow's server is not installed")


def test_there_are_enough_cases():
    assert len({case[:2] for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("model", list(dict.fromkeys(case[0] for case in CASES)))
def test_answers_are_those_of_mlflow(models, model):
    wrong, statuses = [], {}
    with (
        mlflow_server(models / model) as anchor,
        serve({model: str(models / model)}, block=False, port=0) as server,
    ):
        for _, name, body, content_type in (case for case in CASES if case[0] == model):
            theirs = ask(anchor, "/invocations", body, content_type)
            ours = ask(server.url.partition("://")[2], "/invocations", body, content_type)
            if (model, name) in DIFFERENT:
                statuses[model, name] = theirs[0], ours[0]
            elif comparable(theirs) != comparable(ours):
                wrong.append(f"{name}\n  MLflow   {theirs}\n  servekit {ours}")

    assert not wrong, "\n".join(wrong)
    assert statuses == {case: each for case, each in DIFFERENT.items() if case[0] == model}
