# SPDX-License-Identifier: Apache-2.0
"""The two gRPC services of TorchServe."""

import json

import pytest

grpc = pytest.importorskip("grpc")

from grpc_client import GrpcClient  # noqa: E402
from servekit_torchserve.grpc.compile import compiled  # noqa: E402 - it needs grpc, too
from servekit_torchserve.grpc.messages import (  # noqa: E402
    INFERENCE,
    MANAGEMENT,
    message_class,
)
from torch_archives import write_mar  # noqa: E402
from torchserve_process import TorchServeProcess, write_archive  # noqa: E402

ROWS = """
import json

def handle(data, context):
    if data is None:
        return None
    if any(row.get("data") == b"refuse" for row in data):
        raise ValueError("as asked")
    return [json.dumps({name: bytes(text).decode() for name, text in row.items()}) for row in data]
"""
WORDS = """
from ts.handler_utils.utils import send_intermediate_predict_response

class Words:
    def initialize(self, context):
        pass

    def handle(self, data, context):
        for word in bytes(data[0]["data"]).decode().split():
            send_intermediate_predict_response([word], context.request_ids, "", 200, context)
        return ["end"]
"""


def test_the_compiled_file_is_that_of_the_proto(tmp_path):
    pytest.importorskip("grpc_tools")
    from google.protobuf import descriptor_pb2

    found = descriptor_pb2.FileDescriptorSet.FromString(compiled(tmp_path))
    names = [each.name for each in found.file]
    assert set(names) - {"google/protobuf/empty.proto"} == {
        "inference.proto",
        "management.proto",
        "status.proto",
    }


def test_numbers_of_fields_are_those_of_the_public_interface():
    register = message_class("management.RegisterModelRequest").DESCRIPTOR
    predict = message_class("inference.PredictionsRequest").DESCRIPTOR

    assert {each.name: each.number for each in register.fields}["url"] == 9
    assert [each.name for each in predict.fields] == [
        *("model_name", "model_version", "input", "sequence_id")
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    store = tmp_path_factory.mktemp("torchserve") / "store"
    store.mkdir()
    write_archive(store, "echo.mar", "echo")
    write_archive(store, "other.mar", "other")
    write_mar(store / "rows.mar", ROWS, name="rows")
    write_mar(store / "words.mar", WORDS, name="words")
    arguments = ("--models", "echo.mar", "rows.mar", "words.mar", "--enable-model-api")
    with TorchServeProcess(store, *arguments) as process:
        yield process.wait_ready()


@pytest.fixture
def management(server):
    client = GrpcClient(server.grpc_management, MANAGEMENT, server.keys["management"]["key"])
    yield client
    client.close()


@pytest.mark.e2e
@pytest.mark.slow
def test_models_are_managed_as_over_http(management):
    registered = management.call(
        "RegisterModel", url="other.mar", initial_workers=1, synchronous=True
    )
    described = json.loads(management.call("DescribeModel", model_name="other").msg)
    scaled = management.call("ScaleWorker", model_name="other", min_worker=2, synchronous=True)
    listed = json.loads(management.call("ListModels", limit=1).msg)
    default = management.call("SetDefault", model_name="other", model_version="1.0")
    gone = management.call("UnregisterModel", model_name="other")

    text = 'Model "other" Version: 1.0 registered with 1 initial workers'
    assert registered.msg == text
    assert described[0]["modelName"] == "other"
    assert scaled.msg == 'Model "other" has 2 workers'
    assert [each["modelName"] for each in listed["models"]] == ["echo"]
    assert default.msg
    assert gone.msg == 'Model "other" unregistered'


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "fields", "code"),
    [
        ("RegisterModel", {}, grpc.StatusCode.INVALID_ARGUMENT),
        ("RegisterModel", {"url": "none.mar"}, grpc.StatusCode.NOT_FOUND),
        ("RegisterModel", {"url": "echo.mar"}, grpc.StatusCode.ALREADY_EXISTS),
        ("DescribeModel", {"model_name": "none"}, grpc.StatusCode.NOT_FOUND),
        ("ScaleWorker", {"model_name": "echo", "min_worker": -1}, grpc.StatusCode.INTERNAL),
    ],
)
def test_errors_of_management_are_statuses(management, method, fields, code):
    with pytest.raises(grpc.RpcError) as failed:
        management.call(method, **fields)

    assert failed.value.code() is code
    assert failed.value.details()


@pytest.mark.e2e
@pytest.mark.slow
def test_management_needs_its_token(server):
    client = GrpcClient(server.grpc_management, MANAGEMENT)
    with pytest.raises(grpc.RpcError) as failed:
        client.call("ListModels")
    client.close()

    assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
def inference(server):
    client = GrpcClient(server.grpc_inference, INFERENCE, server.keys["inference"]["key"])
    yield client
    client.close()


@pytest.mark.e2e
@pytest.mark.slow
def test_predictions_come_as_forms_and_parts_as_they_are_sent(inference):
    given = {"data": b"a\r\nb", 'quoted "name"': b""}
    predicted = inference.call("Predictions", model_name="rows", input=given)
    versioned = inference.call(
        "Predictions", model_name="rows", model_version="1.0", input={"data": b"1"}
    )
    parts = inference.call("StreamPredictions", model_name="words", input={"data": b"a b"})

    row = json.loads(predicted.prediction)
    assert row["data"] == "a\r\nb"
    assert len(row) == len(given)
    assert json.loads(versioned.prediction) == {"data": "1"}
    assert [part.prediction for part in parts] == [b"a", b"b", b"end"]


@pytest.mark.e2e
@pytest.mark.slow
def test_a_conversation_is_answered_in_order_and_outlives_an_error(inference):
    asked = [
        {"model_name": "rows", "input": {"data": b"1"}, "sequence_id": "s"},
        {"model_name": "rows", "input": {"data": b"refuse"}, "sequence_id": "s"},
        {"model_name": "none", "input": {}},
        {"model_name": "rows", "input": {"data": b"2"}},
    ]
    answers = list(inference.call("StreamPredictions2", asked))

    assert [each.status.code for each in answers] == [0, 14, 5, 0]
    assert [each.prediction for each in answers[::3]] == [b'{"data": "1"}', b'{"data": "2"}']
    assert [each.sequence_id for each in answers] == ["s", "s", "", ""]


@pytest.mark.e2e
@pytest.mark.slow
def test_ping_and_a_model_that_is_not_there(inference):
    health = inference.call("Ping").health
    with pytest.raises(grpc.RpcError) as failed:
        inference.call("Predictions", model_name="none", input={"data": b"1"})

    assert "ealthy" in health
    assert failed.value.code() is grpc.StatusCode.NOT_FOUND
