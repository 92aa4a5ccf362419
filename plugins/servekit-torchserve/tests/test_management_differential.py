# SPDX-License-Identifier: Apache-2.0
"""The same requests for management to TorchServe and to servekit: equal statuses and errors.

``TORCHSERVE_BIN`` is as in ``test_differential``.
"""

import os
import shutil
import signal
from contextlib import contextmanager

import pytest
from torch_archives import write_mar
from torchserve_process import TorchServeProcess

BIN = os.environ.get("TORCHSERVE_BIN", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not BIN, reason="TORCHSERVE_BIN names no TorchServe"),
]
CODE = """
    def handle(data, context):
        return None if data is None else ["done" for _ in data]
"""
BROKEN = """
    def handle(data, context):
        raise ValueError("as asked")
"""
REQUESTS = [
    "GET /models",
    "POST /models",
    "POST /models?url=",
    "POST /models?url=none.mar",
    "POST /models?url=../store/one.mar",
    "POST /models?url=one.mar&runtime=python4",
    "POST /models?url=one.mar",
    "POST /models?url=one.mar",
    "GET /models",
    "GET /models?limit=1",
    "GET /models/one",
    "GET /models/one/1.0",
    "GET /models/one/all",
    "GET /models/one/9",
    "GET /models/none",
    "PUT /models/one?min_worker=1&synchronous=true",
    "PUT /models/one/1.0?min_worker=2&synchronous=true",
    "PUT /models/one?min_worker=2&max_worker=1",
    "PUT /models/one?max_worker=-1",
    "PUT /models/one/9?min_worker=1",
    "PUT /models/none?min_worker=1",
    "PUT /models/one/1.0/set-default",
    "PUT /models/one/9/set-default",
    "PUT /models/none/1.0/set-default",
    "POST /models?url=one-2.mar&model_name=one&initial_workers=1",
    "PUT /models/one/2.0/set-default",
    "DELETE /models/one",
    "DELETE /models/one/9",
    "DELETE /models/one/1.0",
    "DELETE /models/one",
    "DELETE /models/one",
    "GET /models/one",
    "POST /models?url=broken.mar&initial_workers=1",
    "GET /nothing",
]
#: members of a description that are equal; others differ with the archives' defaults
EQUAL = (
    "modelName",
    "modelVersion",
    "modelUrl",
    "runtime",
    "minWorkers",
    "maxWorkers",
    "batchSize",
)
EQUAL += ("responseTimeout", "loadedAtStartup")


#: calls of gRPC: service, method, fields
CALLS = [
    ("management", "RegisterModel", {"url": "one.mar", "initial_workers": 1, "synchronous": True}),
    ("management", "RegisterModel", {}),
    ("management", "RegisterModel", {"url": "none.mar"}),
    ("management", "DescribeModel", {"model_name": "none"}),
    ("management", "DescribeModel", {"model_name": "one", "model_version": "9"}),
    ("management", "ScaleWorker", {"model_name": "one", "min_worker": 2, "max_worker": 1}),
    ("management", "ScaleWorker", {"model_name": "one", "min_worker": 2}),
    ("management", "SetDefault", {"model_name": "one", "model_version": "9"}),
    ("inference", "Ping", {}),
    ("inference", "Predictions", {"model_name": "one", "input": {"data": b"1"}}),
    ("management", "UnregisterModel", {"model_name": "one"}),
]


def write_store(directory):
    """Write a model store."""
    directory.mkdir()
    write_mar(directory / "one.mar", CODE, name="one")
    write_mar(directory / "one-2.mar", CODE, name="one", modelVersion="2.0")
    write_mar(directory / "broken.mar", BROKEN, name="broken")
    return directory


class RealTorchServe(TorchServeProcess):
    """TorchServe, with the same properties."""

    def command(self, store, arguments):
        more = ("--ts-config", self.directory / "config.properties")
        program = [f"{BIN}/python", f"{BIN}/torchserve", "--start", "--foreground", "--ncs"]
        return [*program, "--model-store", store, *more, *arguments]

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)  # Java, which the program has started
        self.process.wait()
        self.process.stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextmanager
def running(kind, store):
    arguments = ("--disable-token-auth", "--enable-model-api")
    variables = {"PATH": f"{BIN}:{os.environ['PATH']}"} if kind is RealTorchServe else {}
    with kind(store, *arguments, variables=variables) as server:
        yield server.wait_ready()


def facts(value):
    """Return what of a response is equal: the type of an error, the list, the descriptions."""
    if isinstance(value, list):
        return [{name: each[name] for name in EQUAL} for each in value]
    return value.get("models", value.get("type", ""))


def answers(kind, store):
    """Return status and facts for each request."""
    with running(kind, store) as server:
        found = []
        for request in REQUESTS:
            method, _, path = request.partition(" ")
            status, value = server.ask(method, path)
            found.append((status, facts(value)))
        return found


def test_management_answers_as_torchserve_does(tmp_path):
    theirs = answers(RealTorchServe, write_store(tmp_path / "theirs"))
    ours = answers(TorchServeProcess, write_store(tmp_path / "ours"))

    differing = {
        f"{number} {request}": pair
        for number, (request, *pair) in enumerate(zip(REQUESTS, theirs, ours, strict=True))
        if pair[0] != pair[1]
    }
    assert differing == {}


def grpc_answers(kind, store):
    """Return status and text for each call."""
    grpc = pytest.importorskip("grpc")
    from grpc_client import GrpcClient
    from servekit_torchserve.grpc.messages import INFERENCE, MANAGEMENT

    with running(kind, store) as server:
        clients = {
            "management": GrpcClient(server.grpc_management, MANAGEMENT),
            "inference": GrpcClient(server.grpc_inference, INFERENCE),
        }
        found = []
        for service, method, fields in CALLS:
            try:
                answer = clients[service].call(method, **fields)
                found.append(next(value for _, value in answer.ListFields()))
            except grpc.RpcError as error:
                found.append(error.code())
        for client in clients.values():
            client.close()
        return found


def test_grpc_answers_as_torchserve_does(tmp_path):
    theirs = grpc_answers(RealTorchServe, write_store(tmp_path / "theirs"))
    ours = grpc_answers(TorchServeProcess, write_store(tmp_path / "ours"))

    assert ours == theirs
