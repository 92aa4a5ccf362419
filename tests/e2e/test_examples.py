# SPDX-License-Identifier: Apache-2.0
"""Every example, as its README says: trained, built, served and asked."""

import json
import re
import shutil
import subprocess
import sys
from base64 import b64decode, b64encode
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from servekit_archiver import build_archive

from tests.built_examples import EXAMPLES, build

SERVED = (
    *("digits", "digit-pictures", "onnx-mlp", "echo", "pipeline", "routes", "shipping"),
    *("image-to-image", "textgen", "typed-text"),
)
JSON = "application/json"
CATS = {"text": "The cat sat. The cat saw a dog. Rain fell.", "sentences": 1}
FORM = (
    b'--B\r\nContent-Disposition: form-data; name="text"; filename="a.txt"\r\n\r\n'
    b"12. Cats are cats.\r\n--B--\r\n"
)
THREE = [
    [0, 0, 6, 14, 16, 16, 2, 0],
    [0, 5, 16, 13, 11, 16, 0, 0],
    [0, 0, 7, 2, 15, 12, 0, 0],
    [0, 0, 0, 7, 16, 13, 1, 0],
    [0, 0, 0, 0, 6, 15, 10, 0],
    [0, 0, 0, 0, 0, 15, 9, 0],
    [0, 0, 3, 11, 8, 16, 6, 0],
    [0, 0, 7, 16, 16, 8, 0, 0],
]
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="module")
def server(serve, directory):
    return serve("--models", *(build(name, directory) for name in SERVED))


def digit_is_3(prediction):
    return prediction["digit"] == 3 and prediction["probabilities"][3] > 0.9


@pytest.mark.parametrize(
    ("model", "body", "content_type", "is_right"),
    [
        pytest.param("digits", {"image": THREE}, JSON, digit_is_3, id="digits reads an array"),
        pytest.param(
            "digits", EXAMPLES / "digits/three.png", "image/png", digit_is_3,
            id="digits reads a picture",
        ),
        pytest.param("onnx-mlp", {"image": THREE}, JSON, digit_is_3, id="onnx-mlp reads an array"),
        pytest.param(
            "digit-pictures", EXAMPLES / "digits/three.png", "image/png",
            lambda got: got[0]["label"] == "three" and got[0]["probability"] > 0.9,
            id="digit-pictures reads a picture",
        ),
        pytest.param("echo", [1, "a"], JSON, lambda got: got == [1, "a"], id="echo gives it back"),
        pytest.param(
            "shipping", {"weight_kg": 2.5, "to": "FR"}, JSON,
            lambda got: got == {"price_eur": 12.5, "days": 4}, id="shipping quotes",
        ),
        pytest.param(
            "textgen", {"text": "Alice was ", "letters": 12, "temperature": 0.01}, JSON,
            lambda got: "".join(got) == "beginning to", id="textgen goes on",
        ),
        pytest.param(
            "typed-text", CATS, JSON,
            lambda got: got["summary"][0]["sentence"] == "The cat saw a dog.",
            id="typed-text picks",
        ),
        pytest.param(
            "typed-text", FORM, "multipart/form-data; boundary=B",
            lambda got: [each["sentence"] for each in got["summary"]] == ["12.", "Cats are cats."],
            id="typed-text reads a file",
        ),
        pytest.param(
            "digit-stages", EXAMPLES / "digits/three.png", "image/png",
            lambda got: got.startswith("3 ("), id="pipeline reads a picture",
        ),
        pytest.param(
            "answers", "do I get money back", JSON,
            lambda got: "30 days" in got["answer"], id="routes answers",
        ),
    ],
)  # fmt: skip
def test_an_example_predicts(server, model, body, content_type, is_right):
    sent = body.read_bytes() if isinstance(body, Path) else body
    sent = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    status, _, answer = server.post(f"/{model}/predict", sent, content_type)

    assert status == 200, answer
    assert is_right(json.loads(answer)["prediction"])


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [("*/*", "image/jpeg"), ("image/png", "image/png"), ("image/webp", "image/webp")],
)
def test_a_picture_comes_back_in_the_format_that_the_client_wants(server, accept, media_type):
    body = (EXAMPLES / "image-to-image/house.png").read_bytes()
    form = b'--B\r\nContent-Disposition: form-data; name="image"\r\n\r\n%b\r\n--B--\r\n' % body
    path, kind = "/image-to-image/predict", "multipart/form-data; boundary=B"

    status, headers, content = server.post(path, form, kind, Accept=accept)

    assert (status, headers["Content-Type"]) == (200, media_type)
    with Image.open(BytesIO(content)) as image:
        assert (image.size, image.get_format_mimetype()) == ((320, 240), media_type)


def test_pictures_are_streamed_as_base64(server):
    picture = b64encode((EXAMPLES / "image-to-image/house.png").read_bytes()).decode()
    body = json.dumps({"image": {"b64": picture}, "style": "relief"}).encode()

    path, accept = "/image-to-image/steps", "application/x-ndjson"
    status, _, content = server.post(path, body, JSON, Accept=accept)
    found = [json.loads(line)["output"] for line in content.splitlines()]
    images = [Image.open(BytesIO(b64decode(each["b64"]))) for each in found]

    assert status == 200
    assert [image.get_format_mimetype() for image in images] == ["image/jpeg"] * 4


def test_the_pipeline_reads_the_digits_that_it_was_not_trained_with(server):
    address = f"127.0.0.1:{server.port}"
    done = subprocess.run(
        [sys.executable, EXAMPLES / "pipeline/read_all.py", address],
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    right, of = re.match(r"(\d+) of (\d+) digits read right", done.stdout).groups()
    assert int(of) == 450
    assert int(right) > 420
    assert re.findall(r"^ +(\w+): +[0-9.]+ ms", done.stdout, re.MULTILINE) == [
        "prepare", "classify", "describe",
    ]  # fmt: skip


def test_textgen_streams_and_compares_two_kinds_of_batching(server, directory):
    body = b'{"text": "Alice was ", "letters": 3, "temperature": 0.01}'
    _, headers, answer = server.post("/textgen/predict", body, Accept="application/x-ndjson")
    assert headers["Content-Type"] == "application/x-ndjson"
    assert answer == b'{"output":"b"}\n{"output":"e"}\n{"output":"g"}\n'
    shutil.copy(EXAMPLES / "local_server.py", directory)
    done = subprocess.run(
        [sys.executable, directory / "textgen/compare.py", "--seconds", "0.5"],
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip

    assert re.search(r"continuous batching writes \d+\.\d times as much", done.stdout)


@pytest.mark.parametrize(
    ("model", "body", "content_type", "named"),
    [
        pytest.param("digit-stages", b"no picture", "image/png", "picture", id="first stage"),
        pytest.param("answers", b"[1]", JSON, "expected str", id="no text"),
        pytest.param("digits", b"no picture", "image/png", "image", id="no picture"),
        pytest.param("digits", b'{"image": [[1]]}', JSON, "[8, 8]", id="another shape"),
        pytest.param("onnx-mlp", b'{"picture": 1}', JSON, "picture", id="another name"),
        pytest.param("shipping", b'{"weight_kg": 99, "to": "FR"}', JSON, "weight_kg", id="range"),
        pytest.param(
            "shipping", b'{"weight_kg": 1, "to": "US", "express": true}', JSON, "express",
            id="refused by predict",
        ),
        pytest.param(
            "typed-text", b'{"text": "", "sentences": 99, "order": "size"}', JSON,
            "sentences: expected int <= 10; order", id="every field",
        ),
        pytest.param("typed-text", b'{"text": "1 2 3"}', JSON, "no words", id="in its place"),
    ],
)  # fmt: skip
def test_a_refused_input_is_explained(server, model, body, content_type, named):
    status, _, answer = server.post(f"/{model}/predict", body, content_type)

    assert status == 422
    assert named in json.loads(answer)["detail"]


def test_a_stage_has_a_route_of_its_own(server):
    status, _, answer = server.post("/v1/embeddings", b'["one text", "another"]')

    assert status == 200
    assert [len(vector) for vector in json.loads(answer)["prediction"]] == [512, 512]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_sentences_that_mean_alike_lie_close(serve, tmp_path):
    archive = build_embeddings(tmp_path)
    options = () if find_spec("tokenizers") else ("--install-requirements",)
    server = serve("--models", archive, *options, ready=False)
    server.wait_for("serving", timeout_s=120)
    server.wait_ready()
    refund, policy, cat = (
        embed(server, text)
        for text in (
            "How do I get my money back?",
            "What is your refund policy?",
            "The cat sleeps.",
        )
    )

    assert dot(refund, refund) == pytest.approx(1, abs=1e-5)
    assert dot(refund, policy) == pytest.approx(0.55097, abs=1e-4)  # what PyTorch computes
    assert dot(refund, cat) < 0.2


def build_embeddings(directory):
    example = EXAMPLES / "embeddings"
    fetched = subprocess.run(
        [sys.executable, example / "fetch.py"], capture_output=True, text=True, check=False
    )
    if fetched.returncode:
        pytest.skip(f"embeddings: {fetched.stderr.strip().splitlines()[-1]}")
    return build_archive(example, directory / "embeddings.mar").path


def embed(server, text):
    status, _, answer = server.post("/embeddings/predict", text.encode(), "text/plain")
    assert status == 200, answer
    return json.loads(answer)["prediction"]


def dot(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))
