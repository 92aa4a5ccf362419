# SPDX-License-Identifier: Apache-2.0
"""Archives of 0.x behind a real server, called as MMS's documents call them."""

import json
import shutil
import subprocess
from base64 import b64decode, b64encode
from io import BytesIO

import pytest
from PIL import Image

from servekit.testing import ServedModel

from .conftest import pack, signature, write_legacy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("curl"), reason="MMS's documents use curl"),
]

#: what stands for the network of the example: the colour that is strongest, with labels
VISION = """
from mms.model_service.mxnet_vision_service import MXNetVisionService


class ColourService(MXNetVisionService):
    def _inference(self, data):
        means = data[0].mean(axis=(2, 3))
        return [means / means.sum()]
"""
#: from the examples of MMS: a picture that becomes another picture
PIXELS = """
from mms.model_service.mxnet_model_service import MXNetBaseService
from mms.utils.mxnet import image


class Pixel2PixelService(MXNetBaseService):
    def _preprocess(self, data):
        return image.read(data[0])

    def _inference(self, data):
        return 255 - data

    def _postprocess(self, data):
        return image.write(data, dim_order="HWC")
"""
JPEG = {"input_type": "image/jpeg"}
SENTENCE = (
    "on the exchange floor as soon as ual stopped trading we <unk> for a panic said one top floor "
    "trader"
)


def picture(colour):
    file = BytesIO()
    Image.new("RGB", (20, 10), colour).save(file, "JPEG")
    return file.getvalue()


@pytest.fixture(scope="module")
def mms(tmp_path_factory):
    """Return a server of three archives, started in a directory with pictures."""
    top = tmp_path_factory.mktemp("mms")
    write_legacy(top / "lstm_ptb")
    signed = signature(("data", [0, 3, 4, 4]), **JPEG)
    write_legacy(top / "resnet-18", "resnet-18", VISION, signed, synset__txt="red\ngreen\nblue\n")
    signed = signature(("input_image", [0, 3, 4, 4]), **JPEG, output_type="image/jpeg")
    write_legacy(top / "pixels", "pixels", PIXELS, signed)
    (top / "kitten.jpg").write_bytes(picture("blue"))
    (top / "kitten.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    names = ("lstm_ptb", "resnet-18", "pixels")
    models = [pack(top / name, top / f"{name}.model") for name in names]
    with ServedModel(*models, plugin="mms.root=true") as served:
        served.directory = top
        served.wait_ready()
        yield served


def run_curl(served, *arguments):
    """Return what ``curl`` prints, with the port of the server in place of 8080."""
    port = served.url.rpartition(":")[2]
    given = [each.replace("127.0.0.1:8080", f"127.0.0.1:{port}") for each in arguments]
    done = subprocess.run(
        ["curl", "-s", "-w", "\n%{http_code}", *given],
        cwd=served.directory, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


def curl(served, *arguments):
    """Return the status and the JSON of a response."""
    body, _, status = run_curl(served, *arguments).rpartition("\n")
    return int(status), json.loads(body)


# ------------------------------------------------------------ the lines of MMS's documents


def test_the_line_for_lstm_ptb(mms):
    answer = curl(
        mms, "-X", "POST", "http://127.0.0.1:8080/lstm_ptb/predict",
        "-F", f"data=[{{'input_sentence': '{SENTENCE}'}}]",
    )  # fmt: skip

    assert answer == (200, {"prediction": f"hello {SENTENCE}"})


def test_the_line_for_an_image(mms):
    status, said = curl(
        mms, "-X", "POST", "http://127.0.0.1:8080/resnet-18/predict", "-F", "data=@kitten.jpg"
    )
    ((best, second, third),) = said["prediction"]

    assert status == 200
    assert best["class"] == "blue"
    assert best["probability"] > second["probability"] >= third["probability"]


def test_the_lines_for_health_and_the_description(mms):
    assert curl(mms, "-X", "GET", "http://127.0.0.1:8080/ping") == (200, {"health": "healthy!"})
    assert curl(mms, "http://127.0.0.1:8080/") == (200, {"health": "healthy!"})

    status, said = curl(mms, "-X", "GET", "http://127.0.0.1:8080/api-description")
    assert status == 200
    assert said["description"]["swagger"] == "2.0"


# ------------------------------------------------------------ and what else they may send


def test_base64_as_text(mms):
    text = b64encode(picture("red")).decode()
    _, said = curl(mms, "http://127.0.0.1:8080/resnet-18/predict", "-F", f"data={text}")

    assert said["prediction"][0][0]["class"] == "red"


def test_json_with_its_own_constants_and_as_a_body(mms):
    form = curl(
        mms, "http://127.0.0.1:8080/lstm_ptb/predict",
        "-F", 'data=[{"input_sentence": "a", "is_true": true, "nothing": null}]',
    )  # fmt: skip
    body = mms.post("/lstm_ptb/predict", b'{"data": [{"input_sentence": "a"}]}')

    assert form == (200, {"prediction": "hello a"})
    assert json.loads(body.body) == {"prediction": "hello a"}


@pytest.mark.parametrize(
    ("arguments", "status", "detail"),
    [
        (["lstm_ptb/predict", "-F", "other=[]"], 422, "data: missing"),
        (["lstm_ptb/predict", "-F", "data='a'"], 422, "data: a list or an object is expected"),
        (["lstm_ptb/predict", "-F", "data=[1"], 422, "data: neither JSON nor a Python literal"),
        (["resnet-18/predict", "-F", "data=@kitten.png"], 422, "but image/png is given"),
        (["lstm_ptb/predict", "-d", "data=[]"], 415, "Content-Type"),
        (["unknown/predict", "-F", "data=[]"], 404, "unknown"),
        (["lstm_ptb/predict"], 405, "Method"),
    ],
)
def test_errors_are_json_and_name_the_input(mms, arguments, status, detail):
    path, *others = arguments
    found, said = curl(mms, f"http://127.0.0.1:8080/{path}", *others)

    assert (found, said["status"]) == (status, status)
    assert detail in said["title"] + said.get("detail", "")


def test_a_service_class_that_fails_is_a_500_without_its_words(mms):
    status, said = curl(
        mms, "http://127.0.0.1:8080/lstm_ptb/predict", "-F", "data=[{'input_sentence': 'fail'}]"
    )

    assert (status, said["title"]) == (500, "Prediction failed")
    assert "secret" not in json.dumps(said)


# ------------------------------------------------------------ pictures as predictions


def colour_of(content):
    return Image.open(BytesIO(content)).convert("RGB").getpixel((2, 2))


def test_a_picture_is_base64_in_json_and_a_file_if_that_is_asked_for(mms):
    line = ["http://127.0.0.1:8080/pixels/predict", "-F", "input_image=@kitten.jpg"]
    status, said = curl(mms, *line)
    curl_file = ["-H", "Accept: image/jpeg", "-o", "out.jpg"]
    run_curl(mms, *curl_file, *line)

    assert status == 200
    for content in (b64decode(said["prediction"]), (mms.directory / "out.jpg").read_bytes()):
        red, green, blue = colour_of(content)
        assert min(red, green) > 200
        assert blue < 60


# ------------------------------------------------------------ the paths of 1.x


@pytest.mark.parametrize(
    "path", ["predictions/lstm_ptb", "models/lstm_ptb/invoke", "invocations?model_name=lstm_ptb"]
)
def test_the_paths_of_1x_answer_bare(mms, path):
    line = [f"http://127.0.0.1:8080/{path}", "-F", "data=[{'input_sentence': 'a'}]"]

    assert curl(mms, *line) == (200, "hello a")


def test_the_line_of_1x_for_an_image(mms):
    line = ["-X", "POST", "http://127.0.0.1:8080/predictions/resnet-18", "-T", "kitten.jpg"]
    status, ((best, *_),) = curl(mms, *line)

    assert (status, best["class"]) == (200, "blue")


def test_a_body_that_is_the_input(mms):
    text = b"[{'input_sentence': 'a'}]"
    found = mms.post("/predictions/lstm_ptb", text, "application/octet-stream")
    picture_ = mms.post(
        "/predictions/pixels", picture("blue"), "image/jpeg", headers={"Accept": "image/jpeg"}
    )
    wrong = mms.post("/predictions/resnet-18", b"\x89PNG", "image/png")

    assert (found.status, found.body) == (200, b'"hello a"')
    assert (picture_.status, picture_.content_type) == (200, "image/jpeg")
    assert min(colour_of(picture_.body)[:2]) > 200
    assert (wrong.status, json.loads(wrong.body)["code"]) == (422, 422)


def test_a_picture_in_json(mms):
    body = json.dumps({"data": {"b64": b64encode(picture("red")).decode()}}).encode()
    answer = json.loads(mms.post("/resnet-18/predict", body).body)

    assert answer["prediction"][0][0]["class"] == "red"


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("invocations", 404, "ModelNotFound"),
        ("predictions/lstm_ptb/9.9", 404, "ModelNotFound"),
    ],
)
def test_errors_there_have_the_shape_of_1x(mms, path, status, kind):
    found, said = curl(mms, f"http://127.0.0.1:8080/{path}", "-F", "data=[]")

    assert (found, said["code"], said["type"]) == (status, status, kind)
    assert said["message"]


# ------------------------------------------------------------ the descriptions


def test_the_description_is_that_of_mms_and_valid(mms):
    validator = pytest.importorskip("openapi_spec_validator")
    described = json.loads(mms.get("/api-description").body)["description"]
    post = described["paths"]["/resnet-18/predict"]["post"]

    assert described["info"] == {"version": "1.0.0", "title": "Model Serving Apis"}
    assert described["host"] == mms.url.removeprefix("http://")
    assert post["operationId"] == "resnet-18_predict"
    assert post["consumes"] == ["multipart/form-data"]
    assert post["parameters"] == [
        {
            "in": "formData",
            "name": "data",
            "description": "data should be image which will be resized to: [3, 4, 4]",
            "required": True,
            "type": "file",
        }
    ]
    assert set(described["paths"]) == {
        "/", "/ping", "/api-description",
        "/lstm_ptb/predict", "/resnet-18/predict", "/pixels/predict",
    }  # fmt: skip
    validator.OpenAPIV2SpecValidator(described).validate()


def test_the_document_of_servekit_has_the_paths_too(mms):
    paths = json.loads(mms.get("/openapi.json").body)["paths"]
    form = paths["/pixels/predict"]["post"]["requestBody"]["content"]["multipart/form-data"]

    assert form["schema"]["required"] == ["input_image"]
    assert {"/predictions/pixels", "/models/pixels/invoke"} <= set(paths)


def test_the_steps_of_service_classes_are_measured(mms):
    text = mms.get("/metrics").body.decode()

    for step in ("preprocess", "inference", "postprocess"):
        assert (
            f'servekit_model_mms_step_seconds_count{{model="lstm_ptb",replica="0",step="{step}"'
            in text
        )
