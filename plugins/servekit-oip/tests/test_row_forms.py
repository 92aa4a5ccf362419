# SPDX-License-Identifier: Apache-2.0
"""Services without a signature that take bytes or files: elements of BYTES are their content."""

import gzip
import json
import struct
import zlib

import pytest

from servekit.testing import ServedModel

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

LENGTH = "Inference-Header-Content-Length"
JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF"  #: neither UTF-8 nor JSON
SERVICES = """
from servekit import Service
from servekit.types import File

class Echo(Service):
    def predict(self, batch: list[bytes]) -> list[bytes]:
        return batch

class SizesOfBytes(Service):
    def predict(self, batch: list[bytes]) -> list[int]:
        return [len(each) for each in batch]

class Sizes(Service):
    def predict(self, batch: list[File]) -> list[int]:
        return [len(file.content) for file in batch]
"""


SERVICE_NAMES = ("echo", "Echo"), ("sizes", "Sizes"), ("sizes_of_bytes", "SizesOfBytes")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    store = tmp_path_factory.mktemp("forms")
    for name, service in SERVICE_NAMES:
        directory = store / name
        directory.mkdir()
        (directory / "service.py").write_text(SERVICES)
        toml = f'name = "{name}"\nversion = "1"\nservice = "service:{service}"\n'
        (directory / "model.toml").write_text(toml)
    with ServedModel(store / "echo", model_store=str(store)) as model:
        yield model.wait_ready()


def listed(served, model, *texts):
    """Return the outputs for rows of texts in JSON."""
    tensor = {"name": "input", "datatype": "BYTES", "shape": [len(texts), 1], "data": texts}
    body = json.dumps({"inputs": [tensor]}).encode()
    response = served.post(f"/v2/models/{model}/infer", body)
    assert response.status == 200, response.body
    return json.loads(response.body)["outputs"][0]["data"]


def binary(served, model, *rows):
    """Return the body behind the JSON for rows of bytes."""
    content = packed(*rows)
    tensor = {"name": "input", "datatype": "BYTES", "shape": [len(rows), 1]}
    tensor["parameters"] = {"binary_data_size": len(content)}
    asked = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    text = json.dumps(asked).encode()
    path, fields = f"/v2/models/{model}/infer", {LENGTH: str(len(text))}
    response = served.post(path, text + content, headers=fields)
    assert response.status == 200, response.body
    return response.body[int(response.headers[LENGTH]) :]


def packed(*rows):
    return b"".join(struct.pack("<I", len(row)) + row for row in rows)


def test_texts_for_a_service_of_bytes_are_not_base64(served):
    assert listed(served, "echo", "test", "hello", "größe", "") == ["test", "hello", "größe", ""]


def test_bytes_come_back_as_they_were(served):
    assert binary(served, "echo", JPEG, b"test", b"") == packed(JPEG, b"test", b"")


@pytest.mark.parametrize("content", [JPEG, b"test"], ids=["a picture", "a text"])
def test_a_raw_body_is_one_input(served, content):
    response = served.post("/v2/models/echo/infer", content, headers={LENGTH: "0"})

    assert response.status == 200, response.body
    assert response.body[int(response.headers[LENGTH]) :] == packed(content)


def test_a_generation_gets_the_text_as_bytes(served):
    response = served.post("/v2/models/sizes_of_bytes/generate", b'{"text_input": "test"}')

    assert json.loads(response.body)["text_output"] == 4


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compressed_requests_need_no_setting(served, coding, pack):
    fields = {LENGTH: "0", "Content-Encoding": coding}
    response = served.post("/v2/models/echo/infer", pack(JPEG), headers=fields)

    assert response.status == 200, response.body
    assert response.body[int(response.headers[LENGTH]) :] == packed(JPEG)


def test_a_file_is_its_content_or_json(served):
    assert listed(served, "sizes", "abc", '{"b64": "AAAA", "name": "a"}') == ["3", "3"]
    assert binary(served, "sizes", JPEG) == packed(b"10")
