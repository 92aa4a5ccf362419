# SPDX-License-Identifier: Apache-2.0
import json

import msgpack
import numpy as np
import pytest

from tests.benchmarks.answers import Request, read_v2
from tests.benchmarks.cases import ARRAYS, COPIES, MLP, PHOTO, SUM, TENSORS, Case
from tests.benchmarks.encoding import to_v2
from tests.benchmarks.optional import Flask, MLServer
from tests.benchmarks.peers import models
from tests.benchmarks.servers import Mosec, Nginx, Servekit
from tests.benchmarks.torchserve import TorchServe
from tests.benchmarks.triton import Triton

SMALL_TENSORS = [case for case in TENSORS if case.size == 1_000]


def test_the_small_request_is_the_documented_one():
    request = Servekit().request(SUM)

    assert request.body == b'{"x":[1.5,2.5,3.5,4.5]}'
    assert (request.path, request.content_type) == ("/sum/predict", "application/json")
    assert request.expected == 12.0


def test_the_raw_photo_has_as_many_bytes_as_it_says():
    assert len(PHOTO.body(PHOTO.values())) == 602_112


def test_json_is_only_asked_up_to_100_kb():
    assert {case.size for case in TENSORS if case.form == "json"} == {1_000, 100_000}
    assert {case.size for case in TENSORS if case.form == "raw"} >= {602_112, 10_000_000}


@pytest.mark.parametrize("case", [SUM, COPIES, MLP, *SMALL_TENSORS], ids=lambda case: case.key)
def test_a_seed_names_an_input_and_another_seed_another(case):
    assert np.array_equal(case.values(3), case.values(3))
    assert not np.array_equal(case.values(3), case.values(4))


@pytest.mark.parametrize("case", TENSORS, ids=lambda case: case.key)
def test_float32_adds_up_an_input_exactly(case):
    values = case.values()

    assert float(values.sum()) == case.expected(values) == float(values[::-1].cumsum()[-1])


@pytest.mark.parametrize("case", [COPIES, MLP, *SMALL_TENSORS], ids=lambda case: case.key)
def test_the_peers_read_every_form_and_predict_the_same(case):
    model, values = models.MODELS[case.model](), case.values(5)
    body = case.body(values)
    is_json = case.form == "json"
    one = model.from_json(json.loads(body)) if is_json else model.from_bytes(body, case.form)

    assert model.predict([one, one]) == [case.expected(values)] * 2


@pytest.mark.parametrize("case", ARRAYS, ids=lambda case: case.key)
def test_the_peers_read_and_write_long_arrays(case):
    model, values = models.MODELS[case.model](), case.values(5)
    one = model.from_json(json.loads(case.body(values)))
    (answer,) = model.predict([one])
    request = Servekit().request(case, 5)

    assert request.is_right(json.dumps({"prediction": answer}).encode())
    assert not Servekit().request(case, 4).is_right(json.dumps({"prediction": answer}).encode())


@pytest.mark.parametrize(
    ("answer", "is_right"),
    [
        pytest.param(b'{"prediction":{"y":[0.1,2]}}', True, id="shortest float32"),
        pytest.param(b'{"prediction":{"y":[0.10000000149011612,2.0]}}', True, id="as float64"),
        pytest.param(b'{"prediction":{"y":[0.1,2.5]}}', False, id="another element"),
        pytest.param(b'{"prediction":{"y":[0.1]}}', False, id="one too few"),
        pytest.param(b'{"prediction":12.0}', False, id="a number"),
    ],
)
def test_an_array_is_compared_as_float32(answer, is_right):
    expected = np.array([0.1, 2], np.float32).tolist()

    assert (
        Request(path="/", content_type="", body=b"", expected=expected).is_right(answer) is is_right
    )


def test_an_array_in_msgpack_is_extension_78():
    body = Case("tensors", "msgpack", 8).body(np.array([1, 2], np.float32))
    extension = msgpack.unpackb(body)["x"]

    assert extension.code == 78
    assert msgpack.unpackb(extension.data)[:2] == ["float32", [2]]


@pytest.mark.parametrize(
    ("answer", "is_right"),
    [
        pytest.param(b'{"prediction": 12.0}', True, id="right"),
        pytest.param(b'{"prediction": 12}', True, id="a whole number"),
        pytest.param(b'{"prediction": 12.5}', False, id="another sum"),
        pytest.param(b'{"other": 12.0}', False, id="another key"),
        pytest.param(b"[12.0]", False, id="another shape"),
        pytest.param(b"12.0 or so", False, id="no JSON"),
    ],
)
def test_an_answer_is_compared(answer, is_right):
    request = Request(path="/", content_type="", body=b"", expected=12.0)

    assert request.is_right(answer) is is_right


def test_the_open_inference_protocol_is_spoken():
    request = MLServer(1).request(SUM)
    tensor = json.loads(to_v2(SUM.values()))["inputs"][0]

    assert request.path == "/v2/models/sum/infer"
    assert (tensor["shape"], tensor["datatype"]) == ([1, 4], "FP32")
    assert request.read is read_v2
    assert request.is_right(b'{"outputs":[{"data":[12.0]}]}')


@pytest.mark.parametrize(("size", "batches"), [(1, False), (32, True)])
def test_tritons_model_is_written_for_each_start(tmp_path, size, batches):
    for _ in range(2):  # start-up is measured twice in one directory
        Triton(size)._write_model(tmp_path / "sum", SUM)
    text = (tmp_path / "sum" / "config.pbtxt").read_text()

    assert f"max_batch_size: {size}\n" in text
    assert ("dynamic_batching" in text) is batches
    assert (tmp_path / "sum" / "1" / "model.py").exists()


def test_triton_is_asked_in_json_and_in_raw_tensors():
    raw, json_ = Triton(32).request(PHOTO), Triton(32).request(SUM)
    answer = (
        b'{"outputs":[{"parameters":{"binary_data_size":8}}]}' + np.float64(raw.expected).tobytes()
    )

    assert raw.headers == (("Inference-Header-Content-Length", "0"),)
    assert raw.is_right(answer)
    assert not raw.is_right(b"12")
    assert (json_.headers, json_.path) == ((), "/v2/models/sum/infer")
    assert json_.is_right(b'{"outputs":[{"data":[12.0]}]}')


@pytest.mark.parametrize(
    ("server", "case", "refuses"),
    [
        pytest.param(MLServer(1), SUM, False, id="MLServer takes small JSON"),
        pytest.param(MLServer(1), PHOTO, True, id="MLServer takes no raw arrays"),
        pytest.param(Flask(), PHOTO, False, id="Flask takes bytes"),
        pytest.param(Triton(1), PHOTO, False, id="Triton takes raw tensors"),
        pytest.param(Triton(1), Case("tensors", "npy", 1_000), True, id="Triton takes no npy"),
        pytest.param(MLServer(1), ARRAYS[1], False, id="MLServer takes long arrays of JSON"),
        pytest.param(TorchServe(1), ARRAYS[-1], True, id="TorchServe writes no long arrays"),
        pytest.param(Nginx(), ARRAYS[-1], True, id="nginx has a short constant only"),
        pytest.param(Mosec(32), PHOTO, False, id="mosec takes bytes"),
    ],
)
def test_what_a_server_cannot_do_has_a_reason(server, case, refuses):
    assert bool(server.refuses(case)) is refuses


def test_nginx_is_not_asked_for_another_answer_than_its_own():
    assert Nginx().request(PHOTO, seed=3).expected == 12.0
