# SPDX-License-Identifier: Apache-2.0
"""The plugins of this repository behind a server: a model file is a model."""

import io
import json

import joblib
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from skops import io as skops

JSON = "application/json"
IRIS = DecisionTreeClassifier(max_depth=2, random_state=0).fit(*load_iris(return_X_y=True))
RED = np.full((2, 3, 3), [255, 0, 0], np.uint8)
INVERT = """
from servekit import Service

class Invert(Service):
    def predict(self, batch):
        return [255 - image for image in batch]
"""
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def graph(kind, node, axes):
    info = helper.make_tensor_value_info
    made = helper.make_graph(
        [helper.make_node(node, ["x"], ["y"])],
        "g",
        [info("x", kind, axes)],
        [info("y", kind, axes)],
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(made, opset_imports=[opset], ir_version=9)


def text_model():
    model = make_pipeline(TfidfVectorizer(), DecisionTreeClassifier(random_state=0))
    return model.fit(["good", "fine", "bad"], ["+", "+", "-"])


def png(array):
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


def npy(rows):
    file = io.BytesIO()
    np.save(file, np.array(rows))
    return file.getvalue()


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    """Serve directories: some hold a model file alone, some a model.toml of two lines too."""
    top = tmp_path_factory.mktemp("models")
    names = ("joblib-alone", "skops-two-lines", "text", "onnx-alone", "onnx-two-lines", "invert")
    for name in names:
        (top / name).mkdir()
    joblib.dump(IRIS, top / "joblib-alone/iris.joblib")
    skops.dump(SVC().fit(*load_iris(return_X_y=True)), top / "skops-two-lines/iris.skops")
    joblib.dump(text_model(), top / "text/text.joblib")
    onnx.save(graph(TensorProto.FLOAT, "Neg", ["n", 2]), top / "onnx-alone/a.onnx")
    onnx.save(graph(TensorProto.STRING, "Identity", ["n"]), top / "onnx-two-lines/a.onnx")
    (top / "skops-two-lines/model.toml").write_text('name = "skops"\nservice = "sklearn"\n')
    (top / "onnx-two-lines/model.toml").write_text('name = "strings"\nservice = "onnx"\n')
    (top / "invert/service.py").write_text(INVERT)
    (top / "invert/model.toml").write_text('name = "invert"\nservice = "service:Invert"\n')
    return serve("--models", *(top / name for name in names))


FLOWER = b'{"x": [5.1, 3.5, 1.4, 0.2]}'
SETOSA = {"label": 0, "probabilities": [1.0, 0.0, 0.0]}


@pytest.mark.parametrize(
    ("model", "body", "content_type", "expected"),
    [
        pytest.param("joblib-alone", FLOWER, JSON, SETOSA, id="a joblib file alone"),
        pytest.param("skops", FLOWER, JSON, 0, id="a skops file and two lines"),
        pytest.param(
            "joblib-alone", npy([5.1, 3.5, 1.4, 0.2]), "application/x-npy", SETOSA, id="npy"
        ),
        pytest.param(
            "text", b"bad", "text/plain", {"label": "-", "probabilities": [0.0, 1.0]}, id="text"
        ),
        pytest.param("onnx-alone", b"[1, 2]", JSON, [-1.0, -2.0], id="an ONNX graph alone"),
        pytest.param("strings", b'"a"', JSON, "a", id="an ONNX graph of text and two lines"),
        pytest.param(
            "invert", png(RED), "image/png", (255 - RED).tolist(), id="a picture is an array"
        ),
    ],
)
def test_a_model_file_is_served(server, model, body, content_type, expected):
    status, _, answer = server.post(f"/{model}/predict", body, content_type)

    assert status == 200, answer
    assert json.loads(answer)["prediction"] == expected


@pytest.mark.parametrize(
    ("model", "body", "content_type", "expected", "named"),
    [
        pytest.param("onnx-alone", b"[1]", JSON, 422, "shape [1], expected [2]", id="shape"),
        pytest.param("joblib-alone", b'{"y": 1}', JSON, 422, "unknown input", id="name"),
        pytest.param("text", b"7", JSON, 422, "the model refuses this input", id="no text"),
        pytest.param("invert", b"rubbish", "image/png", 400, "not a readable PNG", id="picture"),
    ],
)
def test_what_does_not_fit_is_explained(server, model, body, content_type, expected, named):
    status, _, answer = server.post(f"/{model}/predict", body, content_type)

    assert status == expected, answer
    assert named in json.loads(answer)["detail"]


def test_an_array_is_answered_as_a_picture_on_request(server):
    status, headers, answer = server.post(
        "/invert/predict", png(RED), "image/png", Accept="image/png"
    )

    assert (status, headers["Content-Type"]) == (200, "image/png")
    with Image.open(io.BytesIO(answer)) as image:
        assert np.array(image).tolist() == (255 - RED).tolist()


def test_signatures_of_model_files_reach_the_description(server):
    status, answer = server.get("/api-description")
    paths = json.loads(answer)["description"]["paths"]
    names = [parameter["name"] for parameter in paths["/onnx-alone/predict"]["post"]["parameters"]]

    assert status == 200
    assert names == ["x"]
