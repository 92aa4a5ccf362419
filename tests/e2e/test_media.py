# SPDX-License-Identifier: Apache-2.0
"""Pictures, sound and files as answers of a real server, and between its stages."""

import io
import json
import re
import shutil
from base64 import b64decode
from pathlib import Path

import PIL.Image
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

MODEL = Path(__file__).parent / "models" / "pictures"
RED = b'{"colour": "red"}'
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def apart(serve):
    return serve("--models", MODEL)


@pytest.fixture(scope="module")
def colocated(serve, tmp_path_factory):
    model = shutil.copytree(MODEL, tmp_path_factory.mktemp("colocated") / "pictures")
    text = (model / "model.toml").read_text()
    joined = re.sub(r"^(\[stages\.(?:paint|split)\])$", r'\1\ncolocated = "turn"', text, flags=re.M)
    (model / "model.toml").write_text(joined)
    return serve("--models", model)


@pytest.fixture(params=["apart", "colocated"])
def server(request):
    return request.getfixturevalue(request.param)


def seen(content, media_type):
    """Return size and colour of a picture of that media type."""
    with PIL.Image.open(io.BytesIO(content)) as image:
        assert image.get_format_mimetype() == media_type
        return image.size, tuple(
            round(value, -1) for value in image.convert("RGB").getpixel((0, 0))
        )


def in_json(value):
    return seen(b64decode(value["b64"]), value["content_type"]), value["content_type"]


@pytest.mark.parametrize(
    ("path", "accept", "media_type", "size"),
    [
        ("/pictures/predict", "*/*", "image/jpeg", (4, 6)),
        ("/pictures/predict", "image/png", "image/png", (4, 6)),
        ("/v1/painted", "*/*", "image/png", (6, 4)),
        ("/v1/painted", "image/webp", "image/webp", (6, 4)),
    ],
)
def test_the_last_stage_answers_with_a_picture(server, path, accept, media_type, size):
    status, headers, content = server.post(path, RED, Accept=accept)

    assert (status, headers["Content-Type"]) == (200, media_type)
    assert seen(content, media_type)[0] == size


def test_each_element_of_a_list_has_its_format(server):
    status, _, content = server.post("/v1/each", RED)
    found = [in_json(value) for value in json.loads(content)["prediction"]]

    assert status == 200
    assert [(size, kind) for (size, _), kind in found] == [
        ((4, 6), "image/jpeg"), ((4, 8), "image/jpeg"),
    ]  # fmt: skip
    assert server.post("/v1/each", RED, Accept="image/jpeg")[0] == 406


def test_instances_are_base64(server):
    body = b'{"instances": [{"colour": "red"}, {"colour": "blue", "width": 5}, {"colour": 1}]}'
    status, _, content = server.post("/v1/instances", body)
    *found, refused = json.loads(content)["predictions"]

    assert status == 207
    assert [in_json(each["prediction"])[0][0] for each in found] == [(4, 6), (4, 5)]
    assert refused["error"]["detail"] == "colour: expected str, got int"


def test_endpoints_answer_with_sound_and_files(server):
    status, headers, content = server.post("/pictures/tone", RED)
    assert (status, headers["Content-Type"], content[:4]) == (200, "audio/wav", b"RIFF")

    status, headers, content = server.post("/pictures/note", RED)
    assert (status, headers["Content-Type"], content) == (200, "text/csv", b"red")
    _, _, content = server.post("/pictures/note", RED, Accept="application/json")
    assert json.loads(content)["prediction"] == {
        "b64": "cmVk", "content_type": "text/csv", "name": "note.csv",
    }  # fmt: skip
    assert server.post("/pictures/note", RED, Accept="image/png")[0] == 406


@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson"])
def test_pictures_come_one_by_one(apart, accept):
    _, headers, content = apart.post("/pictures/watch", RED, Accept=accept)
    lines = [line for line in content.splitlines() if b"b64" in line]
    found = [json.loads(line.removeprefix(b"data: ")) for line in lines]

    assert headers["Content-Type"] == accept
    sizes = [in_json(each.get("output", each))[0][0] for each in found]
    assert sizes == [(width, 4) for width in range(1, 7)]


def test_openapi_is_valid_and_the_answers_agree_with_it(server):
    document = json.loads(server.get("/openapi.json")[1])
    OpenAPIV31SpecValidator(document).validate()

    for path, body in {
        "/pictures/predict": RED,
        "/v1/painted": RED,
        "/v1/each": RED,
        "/v1/instances": b'{"instances": [{"colour": "red"}]}',
        "/pictures/tone": RED,
        "/pictures/note": RED,
        "/pictures/watch": RED,
    }.items():
        content = document["paths"][path]["post"]["responses"]["200"]["content"]
        for media_type in content:
            status, headers, answer = server.post(path, body, Accept=media_type)
            sent = headers["Content-Type"]
            assert (status, sent in content or "*/*" in content) == (200, True), (path, media_type)
            assert sent == media_type or media_type == "*/*"
            if sent == "application/json":
                schema = content[sent]["schema"] | {"components": document["components"]}
                Draft202012Validator(schema).validate(json.loads(answer))


def test_the_open_inference_protocol_gives_their_json(server):
    tensor = {"name": "input", "datatype": "BYTES", "shape": [1, 1], "data": [RED.decode()]}
    status, _, content = server.post(
        "/v2/models/pictures/infer", json.dumps({"inputs": [tensor]}).encode()
    )

    assert status == 200, content
    (text,) = json.loads(content)["outputs"][0]["data"]
    size_and_colour, media_type = in_json(json.loads(text))
    assert (size_and_colour[0], media_type) == ((4, 6), "image/jpeg")
