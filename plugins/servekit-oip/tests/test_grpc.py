# SPDX-License-Identifier: Apache-2.0
"""gRPC, with messages that are made here and with ``tritonclient``, against a running server."""

import queue
import signal
import socket
import struct
from contextlib import closing
from time import time

import numpy as np
import pytest
import trustme

from servekit.testing import ServedModel
from tests.waiting import wait_until

pytest.importorskip("tritonclient.grpc", reason="pip install 'tritonclient[grpc]'")
pytest.importorskip("grpc_health.v1", reason="pip install 'servekit-oip[grpc]'")
pytest.importorskip("grpc_reflection.v1alpha")

import grpc
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from servekit_oip.grpc.messages import SERVICE, message_class
from tritonclient.utils import InferenceServerException

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

WAIT_S = 120.0
SERVICE_PY = """
import time
from pathlib import Path
from servekit import InputError, Service

class Sum(Service):
    def predict(self, batch):
        answers = []
        for a, b in zip(batch["a"], batch["b"]):
            first = int(a[0])
            if first in (-1, -5):
                Path(__file__).with_name("begun").touch()
                time.sleep(-first)
            if first == -2:
                answers.append(InputError("no"))
            elif first == -3:
                raise ValueError("as asked")
            else:
                answers.append({"sum": a + b, "first": a})
        return answers
"""
SUM = """
name = "sum"
version = "1"
service = "service:Sum"
[batching]
max_batch_size = 8
[[signature.inputs]]
name = "a"
dtype = "int32"
shape = [4]
[[signature.inputs]]
name = "b"
dtype = "int32"
shape = [4]
[[signature.outputs]]
name = "sum"
dtype = "int32"
shape = [4]
[[signature.outputs]]
name = "first"
dtype = "int32"
shape = [4]
"""
WORDS_PY = """
import time
from servekit import Service

class Words(Service):
    def stream(self, text: str) -> list[str]:
        for word in text.split():
            if word == "wait":
                time.sleep(0.3)
            if word == "fail":
                raise ValueError("as asked")
            yield word
"""
WORDS = 'name = "words"\nversion = "1"\nservice = "service:Words"\n'
MANAGER = {"authorization": "Bearer manager"}
Request, Response = message_class("ModelInferRequest"), message_class("ModelInferResponse")
StreamResponse = message_class("ModelStreamInferResponse")


def directory_of(top, name, service, toml):
    directory = top / name
    directory.mkdir()
    (directory / "service.py").write_text(service)
    (directory / "model.toml").write_text(toml)
    return directory


class Served:
    """A server with gRPC."""

    def __init__(self, directory, **settings):
        address = settings.pop("address", "127.0.0.1:0")
        self.model = ServedModel(directory, plugin=[f"oip.grpc={address}"], **settings)
        self.model.wait_ready()
        shown = self.model.log.wait_for("output", subject="front-end")["message"]
        self.address = shown.removeprefix("gRPC at ")

    def channel(self, *options):
        return grpc.insecure_channel(self.address, options=options)


@pytest.fixture(scope="module")
def served(tmp_path_factory, token_file):
    directory = directory_of(tmp_path_factory.mktemp("sum"), "sum", SERVICE_PY, SUM)
    found = Served(directory, max_body="1MiB", manage_token_file=token_file)
    yield found
    found.model.stop()


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    found = Served(directory_of(tmp_path_factory.mktemp("words"), "words", WORDS_PY, WORDS))
    yield found
    found.model.stop()


@pytest.fixture
def client(served):
    with triton.InferenceServerClient(served.address) as found:
        yield found


def tensors(a, b=None):
    a = np.asarray(a, np.int32).reshape(-1, 4)
    b = np.ones_like(a) if b is None else np.asarray(b, np.int32).reshape(-1, 4)
    found = []
    for name, array in (("a", a), ("b", b)):
        found.append(triton.InferInput(name, list(array.shape), "INT32"))
        found[-1].set_data_from_numpy(array)
    return found


def call(channel, method, message, **how):
    """Call a unary method with a message, or with bytes; return the response."""
    answer = message_class(f"{method}Response")
    content = message if isinstance(message, bytes) else message.SerializeToString()
    ask = channel.unary_unary(f"/{SERVICE}/{method}")
    return answer.FromString(ask(content, timeout=WAIT_S, **how))


def request_of(a=(1, 2, 3, 4), **members):
    asked = Request(model_name="sum", **members)
    for name in ("a", "b"):
        tensor = asked.inputs.add(name=name, datatype="INT32", shape=[1, 4])
        tensor.contents.int_contents[:] = a
    return asked


def refused(ask):
    with pytest.raises(grpc.RpcError) as caught:
        ask()
    return caught.value.code(), caught.value.details()


# ---------------------------------------------------------------- ModelInfer


def test_rows_are_added(client):
    found = client.infer("sum", tensors([[1, 2, 3, 4], [5, 6, 7, 8]]), request_id="my id")

    assert found.as_numpy("sum").tolist() == [[2, 3, 4, 5], [6, 7, 8, 9]]
    assert found.as_numpy("first").dtype == np.int32
    answer = found.get_response()
    assert (answer.id, answer.model_name, answer.model_version) == ("my id", "sum", "1")


def test_outputs_that_are_asked_for_and_classes(client):
    wanted = [triton.InferRequestedOutput("sum", class_count=2)]
    found = client.infer("sum", tensors([1, 9, 3, 4]), outputs=wanted)

    assert [each.name for each in found.get_response().outputs] == ["sum"]
    assert found.as_numpy("sum").tolist() == [[b"10:1", b"5:3"]]


def test_contents_of_the_datatype(served):
    with served.channel() as channel:
        found = call(channel, "ModelInfer", request_of())

    assert np.frombuffer(found.raw_output_contents[0], np.int32).tolist() == [2, 4, 6, 8]


def raw_and_contents():
    asked = request_of()
    asked.raw_input_contents.extend([bytes(16), bytes(16)])
    return asked


def with_shared_memory():
    asked = request_of()
    asked.inputs[0].parameters["shared_memory_region"].string_param = "r"
    return asked


def one_raw():
    asked = raw_and_contents()
    del asked.raw_input_contents[1]
    return asked


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        pytest.param(b"\xff\xff", "INVALID_ARGUMENT", "body", id="no message"),
        pytest.param(b"", "INVALID_ARGUMENT", "model_name: missing", id="no model"),
        pytest.param(
            Request(model_name="nobody"), "NOT_FOUND", "Request for unknown model", id="no model"
        ),
        pytest.param(
            Request(model_name="sum", model_version="9"), "NOT_FOUND", "version 9", id="no version"
        ),
        pytest.param(Request(model_name="sum"), "INVALID_ARGUMENT", "missing", id="no inputs"),
        pytest.param(
            raw_and_contents(),
            "INVALID_ARGUMENT",
            "contents field must not be specified when using raw_input_contents for 'a' for model"
            " 'sum'",
            id="raw and contents",
        ),
        pytest.param(one_raw(), "INVALID_ARGUMENT", "1 raw_input_contents", id="too few raw ones"),
        pytest.param(with_shared_memory(), "INVALID_ARGUMENT", "shared memory", id="shared memory"),
        pytest.param(request_of((1, 2)), "INVALID_ARGUMENT", "elements", id="too few elements"),
        pytest.param(request_of((-2,) * 4), "INVALID_ARGUMENT", "no", id="the service refuses"),
        pytest.param(request_of((-3,) * 4), "INTERNAL", "", id="the service fails"),
        pytest.param(
            request_of((-3,) * 4, outputs=[{"name": "z"}]),
            *("INVALID_ARGUMENT", "unexpected output"),
            id="unknown output of a prediction that would fail",
        ),
    ],
)
def test_a_bad_request_gets_its_code(served, message, code, text):
    with served.channel() as channel:
        found, details = refused(lambda: call(channel, "ModelInfer", message))

    assert found == getattr(grpc.StatusCode, code)
    assert text in details


def test_a_message_above_the_limit_is_refused(served):
    with served.channel() as channel:
        found, _ = refused(lambda: call(channel, "ModelInfer", bytes(2**21)))

    assert found == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_large_message_passes(served):
    rows = 30_000
    with triton.InferenceServerClient(served.address) as client:
        found = client.infer("sum", tensors(np.ones((rows, 4), np.int32)))

    assert found.as_numpy("sum").shape == (rows, 4)


def test_a_compressed_message_passes(client):
    found = client.infer("sum", tensors([1, 2, 3, 4]), compression_algorithm="gzip")

    assert found.as_numpy("sum").tolist() == [[2, 3, 4, 5]]


def test_a_deadline_passes(client, served):
    with pytest.raises(InferenceServerException, match=r"(?i)deadline exceeded"):
        client.infer("sum", tensors([-5] * 4), client_timeout=0.2)
    found = client.infer("sum", tensors([1] * 4), client_timeout=WAIT_S)

    assert found.as_numpy("sum").tolist() == [[2] * 4]


def test_a_request_that_is_cancelled_harms_nobody(client):
    answers = queue.Queue()
    pending = client.async_infer(
        "sum", tensors([-5] * 4), callback=lambda result, error: answers.put((result, error))
    )
    pending.cancel()
    _, error = answers.get(timeout=WAIT_S)

    assert "Cancelled" in str(error) or "CANCELLED" in str(error)
    assert client.infer("sum", tensors([1] * 4)).as_numpy("sum").tolist() == [[2] * 4]


def test_requests_have_their_ids(served):
    with served.channel() as channel:
        ask = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        with pytest.raises(grpc.RpcError) as caught:
            ask(b"\x0a\x01x", metadata=[("x-request-id", "mine")], timeout=WAIT_S)

    assert ("x-request-id", "mine") in [tuple(each) for each in caught.value.trailing_metadata()]


def test_shared_memory_is_refused_with_a_sentence(client):
    with pytest.raises(InferenceServerException, match="shared memory is not supported"):
        client.register_system_shared_memory("r", "/r", 16)


DOUBLED = """
from servekit import Service

class Doubled(Service):
    def preprocess(self, request):
        return {"x": request.input["x"] * 2}

    def predict(self, batch):
        return batch["x"].sum(axis=1)
"""
DOUBLED_TOML = """
name = "doubled"
service = "service:Doubled"
[signature]
inputs = [{ name = "x", dtype = "float32", shape = [-1] }]
outputs = [{ name = "y", dtype = "float64", shape = [] }]
"""


def test_a_request_that_is_known_gets_the_same_answer(tmp_path):
    served = Served(directory_of(tmp_path, "doubled", DOUBLED, DOUBLED_TOML))
    tensor = triton.InferInput("x", [1, 3], "FP32")
    tensor.set_data_from_numpy(np.float32([[1, 2, 3]]))
    try:
        with triton.InferenceServerClient(served.address) as client:
            found = [client.infer("doubled", [tensor], request_id=str(n)) for n in range(3)]
    finally:
        served.model.stop()

    assert [each.as_numpy("y").tolist() for each in found] == [[12.0]] * 3
    assert [each.get_response().id for each in found] == ["0", "1", "2"]


STAGES = """
from servekit import Service

def tensor(name):
    return [{"name": name, "dtype": "float32", "shape": [2]}]

class Double(Service):
    signature = {"inputs": tensor("x"), "outputs": tensor("h")}

    def predict(self, batch):
        return {"h": batch["x"] * 2}

class AddOne(Service):
    signature = {"inputs": tensor("h"), "outputs": tensor("y")}

    def predict(self, batch):
        return {"y": batch["h"] + 1}
"""
STAGES_TOML = """
name = "two"
version = "1"
pipeline = ["double", "add"]
[stages.double]
service = "service:Double"
[stages.add]
service = "service:AddOne"
"""


@pytest.fixture(scope="module", params=["", 'colocated = "double"\n'], ids=["split", "colocated"])
def pipeline(request, tmp_path_factory):
    toml = STAGES_TOML + request.param
    directory = directory_of(tmp_path_factory.mktemp("two"), "two", STAGES, toml)
    found = Served(directory)
    yield found
    found.model.stop()


@pytest.mark.parametrize("wanted", [None, ["y"]])
@pytest.mark.parametrize("rows", [1, 2])
def test_stages(pipeline, wanted, rows):
    outputs = [triton.InferRequestedOutput(each) for each in wanted] if wanted else None
    tensor = triton.InferInput("x", [rows, 2], "FP32")
    tensor.set_data_from_numpy(np.ones((rows, 2), np.float32))
    with triton.InferenceServerClient(pipeline.address) as client:
        found = [client.infer("two", [tensor], outputs=outputs) for _ in range(2)]

    assert [each.as_numpy("y").tolist() for each in found] == [[[3.0, 3.0]] * rows] * 2


def test_an_output_of_a_stage_is_not_one_of_the_model(pipeline):
    tensor = triton.InferInput("x", [1, 2], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 2), np.float32))
    with (
        triton.InferenceServerClient(pipeline.address) as client,
        pytest.raises(InferenceServerException, match="unexpected output 'h'") as caught,
    ):
        client.infer("two", [tensor], outputs=[triton.InferRequestedOutput("h")])

    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"


# ---------------------------------------------------------------- questions


def test_questions_about_server_and_model(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("sum")
    assert client.is_model_ready("sum", "1")
    assert not client.is_model_ready("nobody")
    assert client.get_server_metadata().name
    metadata = client.get_model_metadata("sum")
    assert (metadata.name, list(metadata.versions)) == ("sum", ["1"])
    assert [(each.name, each.datatype, list(each.shape)) for each in metadata.inputs] == [
        ("a", "INT32", [-1, 4]),
        ("b", "INT32", [-1, 4]),
    ]
    config = client.get_model_config("sum").config
    assert (config.name, config.max_batch_size) == ("sum", 8)
    assert [tensor.name for tensor in config.output] == ["sum", "first"]


def test_statistics_count_inferences(client):
    def counted():
        (found,) = client.get_inference_statistics("sum").model_stats
        return found

    before, started = counted(), int(time() * 1000) - 1
    client.infer("sum", tensors([1] * 4))
    after = counted()

    assert after.inference_count > before.inference_count
    assert started <= after.last_inference <= time() * 1000 + 1


def test_a_question_about_an_unknown_model(client):
    with pytest.raises(InferenceServerException, match="Request for unknown model") as caught:
        client.get_model_metadata("nobody")

    assert caught.value.status() == "StatusCode.NOT_FOUND"


def test_the_index_of_the_repository(client):
    (found,) = client.get_model_repository_index(headers=MANAGER).models

    assert (found.name, found.version, found.state) == ("sum", "1", "READY")


def test_a_model_is_unloaded_and_loaded_again(client):
    client.unload_model("sum", headers=MANAGER)
    assert not client.is_model_ready("sum")
    client.load_model("sum", headers=MANAGER)

    assert client.is_model_ready("sum")


@pytest.mark.parametrize("verb", ["load_model", "unload_model"])
def test_a_model_without_a_name_is_refused(client, verb):
    with pytest.raises(InferenceServerException, match="a model has a name"):
        getattr(client, verb)("", headers=MANAGER)


def test_loading_needs_the_token_for_management(client):
    with pytest.raises(InferenceServerException) as caught:
        client.load_model("sum")

    assert caught.value.status() in ("StatusCode.UNAUTHENTICATED", "StatusCode.PERMISSION_DENIED")


# ---------------------------------------------------------------- streams


def stream(client, *texts, **how):
    """Return what comes for each text on one stream: results and errors, in order."""
    answers = queue.Queue()
    client.start_stream(callback=lambda result, error: answers.put(result or error))
    for number, text in enumerate(texts):
        tensor = triton.InferInput("input", [1, 1], "BYTES")
        tensor.set_data_from_numpy(np.array([[text]], object))
        client.async_stream_infer("words", [tensor], request_id=str(number), **how)
    client.stop_stream()
    return list(answers.queue)


def words_of(answers):
    return [
        (each.get_response().id, each.as_numpy("output").item().decode())
        for each in answers
        if each.get_response().outputs
    ]


def test_outputs_come_one_by_one_in_the_order_of_requests(words):
    with triton.InferenceServerClient(words.address) as client:
        found = stream(client, "one wait two", "three")

    assert words_of(found) == [("0", "one"), ("0", "wait"), ("0", "two"), ("1", "three")]


def test_a_last_empty_response_for_who_asks(words):
    with triton.InferenceServerClient(words.address) as client:
        found = stream(client, "one two", enable_empty_final_response=True)

    assert finals_of(found) == [False, False, True]
    assert not found[-1].get_response().outputs


def finals_of(answers):
    return [each.get_response().parameters["triton_final_response"].bool_param for each in answers]


def test_responses_on_a_stream_say_whether_they_are_the_last_one(words, client):
    answers = queue.Queue()
    client.start_stream(callback=lambda result, error: answers.put(result or error))
    client.async_stream_infer("sum", tensors([1] * 4))
    client.stop_stream()
    with triton.InferenceServerClient(words.address) as other:
        assert finals_of(stream(other, "one two")) == [False, False]

    (found,) = answers.queue
    assert finals_of([found]) == [True]
    assert "triton_final_response" in found.get_response().parameters
    assert not client.infer("sum", tensors([1] * 4)).get_response().parameters


def test_an_error_does_not_end_the_stream(words):
    with triton.InferenceServerClient(words.address) as client:
        found = stream(client, "one fail", "two")

    assert isinstance(found[1], InferenceServerException)
    assert words_of([found[0], found[2]]) == [("0", "one"), ("1", "two")]


def test_errors_on_a_stream_have_the_ids_of_their_requests(words):
    asked = []
    for id_, (model, text) in enumerate(
        (
            ("none", b"x"),
            ("words", b"one fail"),
            ("words", b"two"),
            ("words", b"x" * 200_000),
            ("", b""),
        )
    ):
        message = Request(model_name=model, id=str(id_))
        shape = [2, 1] if len(text) > 10 else [1, 1]
        message.inputs.add(name="input", datatype="BYTES", shape=shape)
        message.raw_input_contents.append(struct.pack("<I", len(text)) + text)
        asked.append(message.SerializeToString())
    with words.channel() as channel:
        ask = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")
        pieces = [StreamResponse.FromString(each) for each in ask(iter(asked), timeout=WAIT_S)]

    failed = [each.infer_response.id for each in pieces if each.error_message]
    assert failed == ["0", "1", "3", "4"]


def test_a_model_that_does_not_stream_answers_on_a_stream(client):
    answers = queue.Queue()
    client.start_stream(callback=lambda result, error: answers.put(result or error))
    for first in range(100):
        client.async_stream_infer("sum", tensors([first] * 4))
    client.stop_stream()

    found = [each.as_numpy("first")[0, 0] for each in answers.queue]
    assert found == list(range(100))


def test_a_client_that_leaves_a_stream_frees_its_place(words):
    with triton.InferenceServerClient(words.address) as client:
        client.start_stream(callback=lambda result, error: None)
        tensor = triton.InferInput("input", [1, 1], "BYTES")
        tensor.set_data_from_numpy(np.array([["wait " * 200]], object))
        client.async_stream_infer("words", [tensor])
        client.stop_stream(cancel_requests=True)
        found = stream(client, "one")

    assert words_of(found) == [("0", "one")]


# ---------------------------------------------------------------- health, reflection


def test_the_health_service(served):
    with served.channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", SERVICE):
            asked = health_pb2.HealthCheckRequest(service=service)
            assert stub.Check(asked, timeout=WAIT_S).status == 1
            watch = stub.Watch(asked, timeout=WAIT_S)
            assert next(watch).status == 1
            watch.cancel()
        asked = health_pb2.HealthCheckRequest(service="nobody")
        assert refused(lambda: stub.Check(asked, timeout=WAIT_S))[0] == grpc.StatusCode.NOT_FOUND


def test_reflection_lists_services_and_messages(served):
    with served.channel() as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        kind = reflection_pb2.ServerReflectionRequest
        asked = [kind(list_services=""), kind(file_containing_symbol=SERVICE)]
        services, file = stub.ServerReflectionInfo(iter(asked), timeout=WAIT_S)

    names = {each.name for each in services.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health"} <= names
    assert b"ModelStreamInfer" in file.file_descriptor_response.file_descriptor_proto[0]


# ---------------------------------------------------------------- the front-end


def test_after_a_reload_new_front_ends_answer_at_the_same_address(tmp_path):
    served = Served(directory_of(tmp_path, "sum", SERVICE_PY, SUM))
    answers = queue.Queue()
    try:
        with triton.InferenceServerClient(served.address) as client:
            client.infer("sum", tensors([1] * 4))
            for _ in range(3):
                client.async_infer(
                    "sum",
                    tensors([-1] * 4),
                    callback=lambda result, error: answers.put((result, error)),
                )
            served.model.process.send_signal(signal.SIGHUP)
            found = [answers.get(timeout=WAIT_S) for _ in range(3)]
            assert [error for _, error in found] == [None] * 3
            assert client.infer("sum", tensors([1] * 4)).as_numpy("sum").tolist() == [[2] * 4]
    finally:
        served.model.stop()


def test_an_address_that_is_taken_is_an_error_of_the_start(tmp_path):
    directory = directory_of(tmp_path, "sum", SERVICE_PY, SUM)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        served = ServedModel(directory, plugin=[f"oip.grpc={address}"])
        try:
            with pytest.raises(AssertionError, match=f"oip: grpc = {address}: cannot listen"):
                served.wait_ready()
        finally:
            served.stop()


def test_requests_in_flight_are_answered_when_the_server_stops(tmp_path):
    directory = directory_of(tmp_path, "sum", SERVICE_PY, SUM)
    served = Served(directory)
    answers = queue.Queue()
    with triton.InferenceServerClient(served.address) as client:
        client.infer("sum", tensors([1] * 4))
        client.async_infer(
            "sum", tensors([-1] * 4), callback=lambda result, error: answers.put((result, error))
        )
        wait_until((directory / "begun").exists, "the worker does not get the request")
        status = served.model.stop()
        result, error = answers.get(timeout=WAIT_S)

    assert (status, error) == (0, None)
    assert result.as_numpy("sum").tolist() == [[0] * 4]


def test_idle_streams_do_not_delay_the_end(tmp_path):
    served = Served(directory_of(tmp_path, "sum", SERVICE_PY, SUM), grace=600)
    answers = queue.Queue()
    with served.channel() as channel, triton.InferenceServerClient(served.address) as client:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == 1
        client.start_stream(callback=lambda result, error: answers.put(result or error))
        client.async_stream_infer("sum", tensors([1] * 4))
        assert answers.get(timeout=WAIT_S).as_numpy("sum").tolist() == [[2] * 4]
        assert served.model.stop() == 0  # which waits less than the grace period
        with pytest.raises(grpc.RpcError) as caught:
            next(watch)

    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


def test_predictions_need_the_token(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret-token\n")
    served = Served(directory_of(tmp_path, "sum", SERVICE_PY, SUM), predict_token_file=token)
    try:
        with triton.InferenceServerClient(served.address) as client:
            with pytest.raises(InferenceServerException) as caught:
                client.infer("sum", tensors([1] * 4))
            assert caught.value.status() == "StatusCode.UNAUTHENTICATED"
            headers = {"authorization": "Bearer secret-token"}
            client.infer("sum", tensors([1] * 4), headers=headers)
    finally:
        served.model.stop()


def test_tls_is_that_of_the_server(tmp_path):
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    key.chmod(0o600)
    directory = directory_of(tmp_path, "sum", SERVICE_PY, SUM)
    settings = {"tls_certificate": certificate, "tls_key": key, "plugin": ["oip.grpc=127.0.0.1:0"]}
    with ServedModel(directory, **settings) as model:
        shown = model.log.wait_for("output", subject="front-end")["message"]
        model.log.wait_for("serving")
        credentials = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
        address = f"localhost:{shown.rpartition(':')[2]}"
        with grpc.secure_channel(address, credentials) as channel:
            found = call(channel, "ModelInfer", request_of())

    assert np.frombuffer(found.raw_output_contents[0], np.int32).tolist() == [2, 4, 6, 8]
