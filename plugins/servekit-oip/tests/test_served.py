# SPDX-License-Identifier: Apache-2.0
"""Requests as they are on the wire, against a running server."""

import gzip
import json
import threading
import time
import zlib

import numpy as np
import pytest

from servekit.testing import ServedModel
from tests.waiting import wait_until

from .oip_models import MODELS

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

LENGTH = "Inference-Header-Content-Length"
SUM = "/v2/models/sum/infer"


def tensor(name, data, shape=None, datatype="FP32", **more):
    return {
        "name": name,
        "datatype": datatype,
        "shape": shape or [1, len(data)],
        "data": data,
    } | more


def post(served, path, value, **headers):
    """Return status and JSON."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    fields = {name.replace("_", "-"): text for name, text in headers.items()}
    response = served.post(path, body, headers=fields)
    return response.status, json.loads(response.body or b"null")


def infer(served, *inputs, path=SUM, **more):
    return post(served, path, {"inputs": inputs, **more})


# ------------------------------------------------------------ tensors


def test_one_row(served):
    status, found = infer(served, tensor("x", [1.5, 2]))

    assert status == 200
    assert found == {
        "model_name": "sum",
        "model_version": "1",
        "outputs": [{"name": "y", "datatype": "FP64", "shape": [1], "data": [3.5]}],
    }


@pytest.mark.parametrize(
    "data",
    [
        pytest.param([1, 2, 3, 4], id="flat"),
        pytest.param([[1, 2], [3, 4]], id="nested"),
        pytest.param([[[1], 2], [3, [4]]], id="nested in another way"),
    ],
)
def test_rows(served, data):
    _, found = infer(served, tensor("x", data, [2, 2]))

    assert found["outputs"][0]["data"] == [3.0, 7.0]


def test_more_rows_than_a_batch(served):
    _, found = infer(served, tensor("x", list(range(40)), [20, 2]))

    assert found["outputs"][0]["data"] == [4.0 * row + 1 for row in range(20)]


def test_the_id_comes_back_and_parameters_are_taken(served):
    _, found = infer(served, tensor("x", [1]), id="42", parameters={"priority": 1, "a": "b"})

    assert found["id"] == "42"


def test_null_stands_for_what_is_left_out(served):
    one = tensor("x", [1.5, 2], parameters=None)
    wanted = [{"name": "y", "parameters": None}]
    few = infer(served, one, id=None, parameters=None, outputs=None)
    many = infer(served, one, outputs=wanted, parameters={"binary_data_output": None})

    assert few == many == infer(served, tensor("x", [1.5, 2]))
    assert few[0] == 200


def test_json_is_not_asked_for_a_content_type(served):
    body = json.dumps({"inputs": [tensor("x", [1])]}).encode()

    assert served.post(SUM, body, "").status == 200
    assert served.post(SUM, body, "text/odd").status == 200


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compressed_requests(served, coding, pack):
    body = json.dumps({"inputs": [tensor("x", [2, 3])]}).encode()

    status, found = post(served, SUM, pack(body), Content_Encoding=coding)

    assert (status, found["outputs"][0]["data"]) == (200, [5.0])


def test_every_datatype_as_bytes_and_as_json(served):
    names = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
    names += ["float16", "float32", "float64"]
    datatypes = ["BOOL", *(name.upper() for name in names[1:9]), "FP16", "FP32", "FP64"]
    arrays = {name: np.array([[1, 0]], name) for name in names}
    inputs = [
        tensor(name, arrays[name].tolist(), [1, 2], datatype)
        for name, datatype in zip(names, datatypes, strict=True)
    ]
    inputs.append(tensor("str", ["a\0", "ü"], [1, 2], "BYTES"))
    path = "/v2/models/everything/infer"
    _, found = infer(served, *inputs, path=path)
    told = {each["name"]: each["data"] for each in found["outputs"]}
    response = served.post(
        path, json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    )
    rest = response.body[int(response.headers[LENGTH]) :]

    assert told == {f"{n}_out": a.reshape(-1).tolist() for n, a in arrays.items()} | {
        "str_out": ["a\0", "ü"]
    }
    assert rest == b"".join(a.tobytes() for a in arrays.values()) + b"\2\0\0\0a\0\2\0\0\0\xc3\xbc"


@pytest.mark.parametrize("name", ["bfloat16", "fixed_bfloat16"])
def test_bfloat16_as_bytes_and_as_json(served, name):
    path = f"/v2/models/{name}/infer"
    _, found = infer(served, tensor("x", [1.5, -2], [1, 2], "BF16"), path=path)
    sent = b"\xc0?\0\xc0"  # the upper halves of float32
    told = {"name": "x", "datatype": "BF16", "shape": [1, 2], "parameters": {"binary_data_size": 4}}
    response = binary(served, [told], sent, path, parameters={"binary_data_output": True})

    assert found["outputs"][0] == {
        "name": "x_out", "datatype": "BF16", "shape": [1, 2], "data": [1.5, -2],
    }  # fmt: skip
    assert response.body[int(response.headers[LENGTH]) :] == sent


# ------------------------------------------------------------ bytes


def binary(served, inputs, rest, path=SUM, **more):
    text = json.dumps({"inputs": inputs, **more}).encode()
    return served.post(path, text + rest, "application/octet-stream", {LENGTH: str(len(text))})


@pytest.mark.parametrize("count", [4, 150_528], ids=["small", "in shared memory"])
def test_bytes_both_ways(served, count):
    row = np.arange(count, dtype=np.float32) % 7
    told = {"name": "x", "datatype": "FP32", "shape": [1, count]}
    told["parameters"] = {"binary_data_size": row.nbytes}
    wanted = [{"name": "y", "parameters": {"binary_data": True}}]
    response = binary(served, [told], row.tobytes(), outputs=wanted)
    length = int(response.headers[LENGTH])
    (output,) = json.loads(response.body[:length])["outputs"]

    assert response.content_type == "application/octet-stream"
    assert output == {
        "name": "y", "datatype": "FP64", "shape": [1], "parameters": {"binary_data_size": 8},
    }  # fmt: skip
    assert np.frombuffer(response.body[length:]).tolist() == [float(row.sum(dtype=np.float64))]


def test_a_body_of_nothing_but_the_tensor(served):
    row = np.arange(5, dtype=np.float32)
    response = served.post(SUM, row.tobytes(), "application/octet-stream", {LENGTH: "0"})

    assert np.frombuffer(response.body[int(response.headers[LENGTH]) :]).tolist() == [10.0]


def test_the_largest_elements(served):
    inputs = [tensor(f"INPUT{n}", list(range(16)), [1, 16], "INT32") for n in (0, 1)]
    wanted = [{"name": "OUTPUT0", "parameters": {"classification": 2}}]
    wanted.append({"name": "OUTPUT1", "parameters": {"classification": 1}})
    _, found = infer(served, *inputs, path="/v2/models/simple/infer", outputs=wanted)

    assert [each["data"] for each in found["outputs"]] == [["30:15", "28:14"], ["0:0:zero"]]
    assert found["outputs"][0]["datatype"] == "BYTES"


# ------------------------------------------------------------ models without a signature


def test_json_in_bytes(served):
    texts = ['{"a": 1}', "[2]"]
    path = "/v2/models/anything/infer"
    _, found = infer(served, tensor("input", texts, [2, 1], "BYTES"), path=path)

    assert found["outputs"] == [
        {
            "name": "output",
            "datatype": "BYTES",
            "shape": [2, 1],
            "data": ['{"got":{"a":1}}', '{"got":[2]}'],
        }
    ]


def test_texts_are_not_json(served):
    path = "/v2/models/shout/infer"
    _, found = infer(served, tensor("input", ["a", "b"], [2, 1], "BYTES"), path=path)

    assert found["outputs"][0]["data"] == ["A", "B"]


def test_generate(served):
    body = {"text_input": "once upon"}

    assert post(served, "/v2/models/shout/generate", body) == (
        200, {"model_name": "shout", "model_version": "1", "text_output": "ONCE UPON"},
    )  # fmt: skip
    assert post(served, "/v2/models/story/generate", body)[1]["text_output"] == "ONCEUPON"
    status, found = post(served, "/v2/models/sum/generate", {"x": [1, 2]})
    assert (status, found["y"]) == (200, 3.0)


@pytest.mark.parametrize(
    ("model", "body", "name", "value"),
    [
        ("total", {"x": 5}, "y", 5.0),
        ("four", {"x": [1, 2, 3, 4]}, "y", [2.0, 4.0, 6.0, 8.0]),
        ("four", {"x": 5}, "y", None),
        ("complete", {"text_input": "a", "max_tokens": 3}, "text_output", "a!3"),
        ("complete", {"text_input": "a", "parameters": {"max_tokens": 3}}, "text_output", "a!3"),
        (
            "complete",
            {"text_input": "a", "max_tokens": 3, "parameters": {"max_tokens": 4}},
            "",
            None,
        ),
        ("complete", {"text_input": "a", "max_tokens": 3, "parameters": 7}, "", None),
    ],
)
def test_generate_with_a_signature(served, model, body, name, value):
    """``None`` as *value*: it is refused."""
    status, found = post(served, f"/v2/models/{model}/generate", body)

    assert (status, found.get(name)) == (200 if value is not None else 400, value)


def events(response):
    return [json.loads(each.removeprefix(b"data: ")) for each in response.body.split(b"\n\n")[:-1]]


def test_generate_stream(served):
    path = "/v2/models/story/generate_stream"
    response = served.post(path, b'{"text_input": "once upon"}')
    failed = served.post(path, b'{"text_input": "once stop"}')
    whole = served.post("/v2/models/shout/generate_stream", b'{"text_input": "once"}')

    assert response.content_type == whole.content_type == "text/event-stream"
    assert [each["text_output"] for each in events(response)] == ["ONCE", "UPON"]
    assert events(failed)[-1] == {"error": "a story must not stop"}
    assert [each["text_output"] for each in events(whole)] == ["ONCE"]


def test_rows_of_a_model_that_streams(served):
    texts = tensor("input", ["once upon", "", "a"], [3, 1], "BYTES")
    _, found = infer(served, texts, path="/v2/models/story/infer")

    assert [json.loads(each) for each in found["outputs"][0]["data"]] == [
        ["ONCE", "UPON"], [], ["A"],
    ]  # fmt: skip


# ------------------------------------------------------------ pipelines

STAGES = """
from servekit import Service

def tensors(*each):
    return [{"name": n, "dtype": "float32", "shape": s} for n, s in each]

class Double(Service):
    signature = {"inputs": tensors(("x", [2])), "outputs": tensors(("h", [2]))}

    def predict(self, batch):
        return {"h": batch["x"] * 2}

class Add(Service):
    signature = {"inputs": tensors(("h", [2])), "outputs": tensors(("y", []))}

    def predict(self, batch):
        return {"y": batch["h"].sum(axis=1)}
"""


@pytest.fixture(scope="module", params=["", 'colocated = "double"\n'], ids=["split", "colocated"])
def pipeline(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("pipeline")
    toml = 'name = "two"\nversion = "1"\npipeline = ["double", "add"]\n'
    toml += '[stages.double]\nservice = "service:Double"\n[stages.add]\nservice = "service:Add"\n'
    toml += request.param
    (directory / "model.toml").write_text(toml)
    (directory / "service.py").write_text(STAGES)
    with ServedModel(directory) as model:
        yield model.wait_ready()


@pytest.mark.parametrize(
    ("shape", "data", "found"), [([1, 2], [1, 2], [6.0]), ([2, 2], [1, 2, 3, 4], [6.0, 14.0])]
)
@pytest.mark.parametrize("outputs", [[], [{"name": "y"}]])
def test_stages(pipeline, shape, data, found, outputs):
    path = "/v2/models/two/infer"
    status, answer = infer(pipeline, tensor("x", data, shape), path=path, outputs=outputs)

    assert (status, answer["outputs"][0]["data"]) == (200, found)


def test_a_pipeline_has_the_inputs_of_its_first_stage_and_the_outputs_of_its_last(pipeline):
    _, told = get(pipeline, "/v2/models/two")
    refused = infer(
        pipeline, tensor("x", [1, 2]), path="/v2/models/two/infer", outputs=[{"name": "h"}]
    )

    assert [each["name"] for each in (*told["inputs"], *told["outputs"])] == ["x", "y"]
    assert refused[0] == 400


THREE = """
name = "three"
pipeline = ["double", "add", "half"]
[stages.double]
service = "service:Double"
colocated = "add"
[stages.add]
service = "service:Add"
[stages.half]
service = "service:Half"
"""
HALF = """
class Half(Service):
    signature = {"inputs": tensors(("y", [])), "outputs": tensors(("z", []))}

    def predict(self, batch):
        return {"z": batch["y"] / 2}
"""


@pytest.mark.parametrize("outputs", [[], [{"name": "z"}]])
def test_a_stage_that_runs_in_the_worker_of_the_next_one(tmp_path, outputs):
    (tmp_path / "model.toml").write_text(THREE)
    (tmp_path / "service.py").write_text(STAGES + HALF)
    with ServedModel(tmp_path) as model:
        model.wait_ready()
        path = "/v2/models/three/infer"
        status, found = infer(model, tensor("x", [1, 2]), path=path, outputs=outputs)
        refused = infer(model, tensor("h", [1, 2]), path=path)

    assert (status, found["outputs"][0]["data"]) == (200, [3.0])
    assert (refused[0], refused[1]["error"]) == (
        400, "unexpected input 'h'; the model has x",
    )  # fmt: skip


# ------------------------------------------------------------ errors

ONE = tensor("x", [1.0])


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        pytest.param(b"", 400, "request", id="empty"),
        pytest.param(b"[1", 400, "request", id="not JSON"),
        pytest.param({}, 400, "inputs", id="no inputs"),
        pytest.param({"inputs": []}, 400, "missing", id="an input is missing"),
        pytest.param({"inputs": [ONE, ONE]}, 400, "twice", id="an input is there twice"),
        pytest.param({"inputs": [tensor("z", [1])]}, 400, "unexpected", id="unknown input"),
        pytest.param({"inputs": [ONE], "outputs": [{"name": "z"}]}, 400, "z", id="unknown output"),
        pytest.param(
            {"inputs": [tensor("x", [-1])], "outputs": [{"name": "z"}]},
            *(400, "unexpected output"),
            id="unknown output of a prediction that would fail",
        ),
        pytest.param({"inputs": [tensor("x", [1], [1])]}, 400, "shape", id="too few axes"),
        pytest.param({"inputs": [tensor("x", [], [0, 1])]}, 400, "no rows", id="no rows"),
        pytest.param({"inputs": [tensor("x", [1], [-1, 1])]}, 400, "shape", id="negative"),
        pytest.param({"inputs": [tensor("x", [1], [1, 2])]}, 400, "elements", id="too few"),
        pytest.param(
            {"inputs": [tensor("x", [1], [2**62, 2**62])]}, 400, "elements", id="overflowing"
        ),
        pytest.param({"inputs": [tensor("x", [1], [1, 2**64])]}, 400, "", id="above 64 bits"),
        pytest.param({"inputs": [tensor("x", [1], None, "INT32")]}, 400, "INT32", id="datatype"),
        pytest.param({"inputs": [tensor("x", [1], None, "BF16")]}, 400, "BF16", id="BF16"),
        pytest.param(
            {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1]}]}, 400, "data", id="none"
        ),
        pytest.param(
            {"inputs": [ONE | {"parameters": {"binary_data_size": 4}}]}, 400, "both", id="twice"
        ),
        pytest.param(
            {"inputs": [{**ONE, "parameters": {"shared_memory_region": "a"}, "data": None}]},
            *(400, "shared memory"),
            id="shared memory",
        ),
        pytest.param({"inputs": [tensor("x", [-2000])]}, 400, "too small", id="refused"),
        pytest.param({"inputs": [tensor("x", [-1])]}, 500, "Prediction failed", id="fails"),
    ],
)
def test_errors(served, body, status, text):
    found, said = post(served, SUM, body)

    assert (found, list(said)) == (status, ["error"])
    assert text in said["error"]


@pytest.mark.parametrize("length", ["1000", "-1", "x", "9" * 30])
def test_lengths_that_cannot_be(served, length):
    status, said = post(served, SUM, {"inputs": [ONE]}, **{LENGTH.replace("-", "_"): length})

    assert (status, list(said)) == (400, ["error"])


def test_shared_memory_besides_bytes_is_refused(served):
    parameters = {"binary_data_size": 4, "shared_memory_region": "a"}
    asked = {"name": "x", "datatype": "FP32", "shape": [1, 1], "parameters": parameters}
    response = binary(served, [asked], bytes(4))

    assert response.status == 400
    assert b"shared memory" in response.body


def test_bytes_that_belong_to_nobody(served):
    assert binary(served, [ONE], b"1234").status == 400


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/v2/models/none/infer", 404, "Request for unknown model"),
        ("/v2/models/sum/versions/7/infer", 404, "Request for unknown model"),
        ("/v2/models/sum/versions/latest/infer", 404, "Request for unknown model"),
        ("/v2/models/sum/explain", 404, "no route"),
        ("/v2/none", 404, "no route"),
        ("/v2", 405, "GET"),
        ("/v2/models/sum", 405, "GET"),
    ],
)
def test_paths_that_nobody_answers(served, path, status, text):
    found, said = post(served, path, {"inputs": [ONE]})

    assert (found, list(said)) == (status, ["error"])
    assert text in said["error"]


def test_a_full_queue(store):
    with ServedModel(store / "slow", queue=1) as model:
        model.wait_ready()
        found = []

        def ask():
            answer = infer(
                model, tensor("input", ["1"], [1, 1], "BYTES"), path="/v2/models/slow/infer"
            )
            found.append((answer[0], "error" in answer[1]))

        threads = [threading.Thread(target=ask) for _ in range(20)]
        with model.paused_worker():
            for thread in threads:
                thread.start()
            wait_until(lambda: found, "no request is refused")
        for thread in threads:
            thread.join()

    assert set(found) == {(200, False), (503, True)}


# ------------------------------------------------------------ what is told


def get(served, path):
    response = served.get(path)
    return response.status, json.loads(response.body)


def test_health(served):
    assert get(served, "/v2/health/live") == (200, {"live": True})
    assert get(served, "/v2/health/ready") == (200, {"ready": True})
    assert get(served, "/v2/models/sum/ready") == (200, {"name": "sum", "ready": True})
    assert get(served, "/v2/models/none/ready")[0] == 404


def test_metadata(served):
    told = {
        "name": "sum",
        "versions": ["1"],
        "platform": "servekit",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, -1]}],
        "outputs": [{"name": "y", "datatype": "FP64", "shape": [-1]}],
    }

    assert "binary_tensor_data" in get(served, "/v2")[1]["extensions"]
    assert get(served, "/v2/models/sum") == (200, told)
    assert get(served, "/v2/models/sum/versions/1") == (200, told)


def test_configuration(served):
    _, found = get(served, "/v2/models/sum/config")

    assert (found["name"], found["max_batch_size"]) == ("sum", 8)
    assert found["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1]}]
    assert found["output"][0]["reshape"] == {"shape": []}
    assert found["instance_group"] == [{"name": "sum_0", "kind": "KIND_CPU", "count": 1}]
    assert get(served, "/v2/models/story/config")[1]["model_transaction_policy"] == {
        "decoupled": True
    }


def test_statistics(served):
    (before,) = get(served, "/v2/models/sum/stats")[1]["model_stats"]
    infer(served, tensor("x", [1, 2], [2, 1]))
    infer(served, tensor("z", [1]))
    infer(served, tensor("x", [1]), outputs=[{"name": "z"}])
    (after,) = get(served, "/v2/models/sum/versions/1/stats")[1]["model_stats"]

    assert (after["name"], after["version"]) == ("sum", "1")
    for kind, more in (("success", 1), ("fail", 2)):
        first, last = (each["inference_stats"][kind] for each in (before, after))
        assert last["count"] == first["count"] + more
        assert last["ns"] > first["ns"]
    for kind in ("compute_input", "compute_infer", "compute_output"):
        assert after["inference_stats"][kind]["ns"] > 0
    assert len(get(served, "/v2/models/stats")[1]["model_stats"]) == len(MODELS)


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        pytest.param(SUM, {"inputs": [tensor("x", [1])]}, id="a response"),
        pytest.param("/v2/models/story/generate_stream", {"text_input": "once"}, id="a stream"),
    ],
)
def test_statistics_tell_when_the_last_inference_was(served, path, request_):
    def last_inference():
        page = path.rpartition("/")[0] + "/stats"
        return get(served, page)[1]["model_stats"][0]["last_inference"]

    started = int(time.time() * 1000) - 1  # clocks are read twice, so one may be ahead
    served.post(path, json.dumps(request_).encode())
    found = last_inference()

    assert started <= found <= time.time() * 1000 + 1
    assert last_inference() == found


def test_without_an_inference_there_was_no_last_one(served):
    (found,) = get(served, "/v2/models/simple_string/stats")[1]["model_stats"]

    assert (found["last_inference"], found["execution_count"]) == (0, 0)


def test_the_protocol_is_described(served):
    paths = get(served, "/openapi.json")[1]["paths"]

    assert {"/v2", "/v2/models/sum", "/v2/models/sum/infer"} <= paths.keys()


# ------------------------------------------------------------ the repository


@pytest.mark.parametrize("token", ["", "Bearer other"])
def test_the_repository_needs_the_token_for_management(served, token):
    fields = {"Authorization": token} if token else {}
    for path in ("index", "models/sum/unload"):
        status, said = post(served, f"/v2/repository/{path}", {}, **fields)
        assert (status, list(said)) == (401, ["error"])


def test_models_are_unloaded_and_loaded_again(store):
    token = store.parent / "second-token"
    token.write_text("manager\n")
    token.chmod(0o600)
    fields = {"Authorization": "Bearer manager"}
    options = {"manage_token_file": str(token), "predict_token_file": str(token)}
    predict = store.parent / "predict-token"
    predict.write_text("client\n")
    predict.chmod(0o600)
    options["predict_token_file"] = str(predict)
    with ServedModel(store / "sum", **options) as model:
        model.wait_ready()
        index = post(model, "/v2/repository/index", {}, **fields)
        forbidden = post(model, "/v2/repository/index", {}, Authorization="Bearer client")[0]
        unloaded = post(model, "/v2/repository/models/sum/unload", {}, **fields)
        gone = get(model, "/v2/models/sum/ready")[0]
        rest = post(model, "/v2/repository/index", {}, **fields)
        none = post(model, "/v2/repository/index", {"ready": True}, **fields)
        config = {"parameters": {"config": '{"max_batch_size": "3"}'}}
        loaded = post(model, "/v2/repository/models/sum/load", config, **fields)
        ready = get(model, "/v2/models/sum/ready")[0]
        size = get(model, "/v2/models/sum/config")[1]["max_batch_size"]
        again = post(model, "/v2/repository/models/sum/load", {}, **fields)
        odd = post(
            model, "/v2/repository/models/sum/load", {"parameters": {"config": "{"}}, **fields
        )
        unknown = post(model, "/v2/repository/models/none/load", {}, **fields)

    row = {"name": "sum", "version": "1", "state": "READY", "reason": ""}
    assert index == (200, [row])
    assert forbidden == 403
    assert (unloaded, gone) == ((200, None), 404)
    assert rest == (200, [{"name": "sum", "state": "UNAVAILABLE", "reason": "unloaded"}])
    assert none == (200, [])
    assert (loaded, ready, size) == ((200, None), 200, 3)
    assert again == (200, None)
    for status, said in (odd, unknown):
        assert 400 <= status < 500
        assert said["error"].startswith("failed to load")
