# SPDX-License-Identifier: Apache-2.0
"""Graphs that take pictures: what they are served as, and what clients may send."""

import io
import json
import subprocess
import sys
from base64 import b64encode

import numpy as np
import openapi_spec_validator
import pytest
from PIL import Image
from servekit_onnx.service import OnnxService

from servekit.errors import BootError
from servekit.testing import ServiceClient

NCHW, NHWC, CLASSES = "x f n 3 8 8", "x f n 8 8 3", "y f n 3"
MEANS = [("GlobalAveragePool", "x", "p"), ("Flatten", "p", "y")]
MEANS_NHWC = [("Transpose", "x", "t", {"perm": [0, 3, 1, 2]}), ("GlobalAveragePool", "t", "p")]
MEANS_NHWC += [("Flatten", "p", "y")]
BOTH = f"{CLASSES}, p f n 3 1 1"
COLORS = {"red": (250, 20, 20), "green": (20, 250, 20), "blue": (20, 20, 250)}


def picture(color, size=(30, 20)):
    return Image.new("RGB", size, COLORS[color])


def jpeg(color):
    file = io.BytesIO()
    picture(color).save(file, "JPEG", quality=95)
    return file.getvalue()


def form(content, name="data"):
    head = f'--B\r\nContent-Disposition: form-data; name="{name}"; filename="a.jpg"\r\n'
    return head.encode() + b"Content-Type: image/jpeg\r\n\r\n" + content + b"\r\n--B--\r\n"


WAYS = [
    pytest.param(lambda file: (file, "image/jpeg"), id="body"),
    pytest.param(lambda file: (form(file), "multipart/form-data; boundary=B"), id="form"),
    pytest.param(
        lambda file: (json.dumps({"b64": b64encode(file).decode()}).encode(), "application/json"),
        id="base64",
    ),
]


@pytest.fixture
def colors(tmp_path):
    (tmp_path / "labels.txt").write_text("red\ngreen\nblue\n")
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
def test_a_jpeg_gets_its_label_whichever_way_it_is_posted(write_graph, colors, way):
    write_graph(NCHW, CLASSES, *MEANS)
    with ServiceClient(OnnxService, colors) as client:
        best, *others = client.post(*way(jpeg("green"))).json()["prediction"]

    assert best["label"] == "green"
    assert best["probability"] > max(each["probability"] for each in others)
    assert sum(each["probability"] for each in (best, *others)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("inputs", "nodes"),
    [
        pytest.param(NCHW, MEANS, id="channels first"),
        pytest.param(NHWC, MEANS_NHWC, id="channels last"),
        pytest.param("x f 1 3 8 8", MEANS, id="a batch of one"),
    ],
)
def test_a_graph_and_labels_are_enough(write_graph, load, colors, inputs, nodes):
    write_graph(inputs, CLASSES.replace("n", inputs.split()[2]), *nodes)
    answers = load().predict([picture(color) for color in COLORS])

    assert [each[0].label for each in answers] == list(COLORS)


def test_graphs_whose_scores_are_probabilities_are_left_alone(write_graph, load, colors):
    write_graph(NCHW, CLASSES, *MEANS[:1], ("Flatten", "p", "f"), ("Softmax", "f", "y"))
    (answer,) = load().predict([picture("blue")])
    weights = np.exp(np.array([20, 20, 250]) / 255)

    assert answer[0].label == "blue"
    assert answer[0].probability == pytest.approx(weights[2] / weights.sum(), abs=1e-5)


def test_options_change_what_the_graph_gets(write_graph, load, colors):
    write_graph(NCHW, CLASSES, *MEANS)
    image, output = {"color": "bgr", "scale": [0, 255]}, {"top": 1, "activation": "none"}
    (answer,) = load(image=image, output=output).predict([picture("red")])

    assert [(each.label, each.probability) for each in answer] == [("blue", pytest.approx(250))]


def test_pictures_without_labels_are_answered_with_the_outputs(write_graph, load):
    write_graph(NCHW, BOTH, *MEANS)
    both, one = load(image={}), load(image={}, outputs=["y"])
    given = [picture("red"), picture("blue")]

    assert one.predict(given)[0] == pytest.approx(np.array(COLORS["red"]) / 255)
    assert both.predict(given)[1]["p"].shape == (3, 1, 1)
    assert load(image={}, output={}, outputs=["y"]).predict(given)[0][0].label == "0"


def test_bytes_are_not_scaled(write_graph, load, colors):
    nodes = [("Cast", "x", "c", {"to": 1}), ("GlobalAveragePool", "c", "p"), MEANS[1]]
    write_graph("x u n 3 8 8", CLASSES, *nodes)
    (answer,) = load(output={"activation": "none"}).predict([picture("green")])

    assert (answer[0].label, answer[0].probability) == ("green", 250)


@pytest.mark.parametrize(
    ("inputs", "outputs", "nodes"),
    [
        pytest.param(
            "x f n 8 8", "y f n 8 8", [("Neg", "x", "y")], id="not the shape of a picture"
        ),
        pytest.param("x f n 3 h w", CLASSES, MEANS, id="no size"),
        pytest.param(NCHW, BOTH, MEANS, id="two outputs"),
        pytest.param(NCHW, "y f n 3 8 8", [("Neg", "x", "y")], id="no classes"),
    ],
)
def test_other_graphs_take_arrays_and_the_log_says_why(
    write_graph, load, colors, inputs, outputs, nodes, caplog
):
    caplog.set_level("INFO")
    write_graph(inputs, outputs, *nodes)

    assert load().signature["inputs"][0]["name"] == "x"
    assert "labels are not used: " in caplog.text


def test_graphs_of_arrays_do_not_need_pillow():
    code = "import servekit_onnx.service, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert "PIL" not in loaded


def test_a_signature_keeps_arrays(write_graph, load, colors):
    write_graph(NCHW, CLASSES, *MEANS)
    declared = {"inputs": [{"name": "x", "dtype": "float32", "shape": [3, 8, 8]}], "outputs": []}
    service = load(signature=declared)

    assert service.predict({"x": np.ones((2, 3, 8, 8), np.float32)}).shape == (2, 3)


SIGNATURE = {"inputs": [{"name": "x", "dtype": "float32", "shape": [3, 8, 8]}], "outputs": []}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"image": {"sise": [8, 8]}}, "[options.image] sise: unknown option", id="key"),
        pytest.param({"image": {"layout": "chw"}}, "[options.image] layout", id="value"),
        pytest.param({"image": {"layout": "nhwc"}}, "[options.image] layout", id="layout"),
        pytest.param({"image": {"size": [9, 8]}}, "[options.image] size", id="size"),
        pytest.param({"image": {}, "text": {}}, "[options.text]: contradicts", id="two kinds"),
        pytest.param({"image": {}, "signature": SIGNATURE}, "[options.image]", id="signature"),
        pytest.param({"output": {"top": 0}}, "[options.output] top", id="top"),
        pytest.param({"output": {"labels": "a.txt"}}, "'a.txt' is not in", id="no such labels"),
        pytest.param({"text": {}}, "the graph takes x; expected input_ids", id="not a text"),
    ],
)
def test_contradicting_options_are_refused(write_graph, load, colors, options, message):
    write_graph(NCHW, CLASSES, *MEANS)
    with pytest.raises(BootError) as refused:
        load(**options)

    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("labels", "outputs", "options", "message"),
    [
        pytest.param("a\nb", CLASSES, {}, "labels: 2 labels for 3 classes", id="too few labels"),
        pytest.param("a\nb\nc", BOTH, {"image": {}}, "of the classes: y, p", id="two outputs"),
        pytest.param("a\nb\nc", BOTH, {"output": {}}, "needs [options.image]", id="no kind"),
    ],
)
def test_what_does_not_fit_the_graph_is_refused(
    write_graph, load, tmp_path, labels, outputs, options, message
):
    (tmp_path / "labels.txt").write_text(labels)
    write_graph(NCHW, outputs, *MEANS)
    with pytest.raises(BootError) as refused:
        load(**options)

    assert message in str(refused.value)


@pytest.mark.e2e
@pytest.mark.slow
def test_a_directory_without_model_toml_is_served_and_described(write_graph, colors, serve_model):
    write_graph(NCHW, CLASSES, *MEANS)
    served = serve_model(colors)
    path = f"/{served.name}/predict"
    file = jpeg("blue")
    for way in WAYS:
        body, content_type = way.values[0](file)
        assert served.post(path, body, content_type).json()["prediction"][0]["label"] == "blue"
    document = served.get("/openapi.json").json()
    openapi_spec_validator.validate(document)
    found = document["paths"][path]["post"]
    old = served.get("/api-description").json()["description"]["paths"][path]["post"]
    content = found["requestBody"]["content"]

    assert content["multipart/form-data"]["schema"]["properties"]["image"]["format"] == "binary"
    assert {"application/json", "image/*"} <= content.keys()
    assert any(name.endswith("RankedLabel") for name in document["components"]["schemas"])
    assert [(each["in"], each["name"], each["type"]) for each in old["parameters"]] == [
        ("formData", "image", "file")
    ]
