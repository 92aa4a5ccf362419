# SPDX-License-Identifier: Apache-2.0
"""Models that take pictures, without code."""

import io
import json
import sys
import warnings
from base64 import b64encode

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from PIL import Image  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from servekit.errors import BootError  # noqa: E402
from servekit.testing import ServiceClient  # noqa: E402

pytestmark = pytest.mark.slow
COLORS = {"red": (250, 20, 20), "green": (20, 250, 20), "blue": (20, 20, 250)}
SIGNATURE = {"inputs": [{"name": "x", "dtype": "float32", "shape": [3, 8, 8]}], "outputs": []}
NET = """
import torch


class Means(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))

    def forward(self, image):
        return image.mean((2, 3)) * self.scale
"""


class Means(torch.nn.Module):
    """Scores each color by its mean."""

    def __init__(self, axes=(2, 3)):
        super().__init__()
        self.axes = axes

    def forward(self, x):
        return x.mean(self.axes)


class Both(Means):
    def forward(self, x):
        return {"scores": x.mean(self.axes), "largest": x.amax(self.axes)}


def picture(color, size=(30, 20)):
    return Image.new("RGB", size, COLORS[color])


def jpeg(color):
    file = io.BytesIO()
    picture(color).save(file, "JPEG", quality=95)
    return file.getvalue()


def form(content):
    head = '--B\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\n'
    return head.encode() + b"Content-Type: image/jpeg\r\n\r\n" + content + b"\r\n--B--\r\n"


@pytest.fixture
def colors(tmp_path):
    (tmp_path / "labels.txt").write_text("red\ngreen\nblue\n")
    return tmp_path


@pytest.fixture
def export(tmp_path):
    def write(module, *shape):
        dynamic = ({0: torch.export.Dim("batch")},)
        program = torch.export.export(module, (torch.ones(2, *shape),), dynamic_shapes=dynamic)
        torch.export.save(program, tmp_path / "model.pt2")

    return write


@pytest.mark.parametrize(
    ("axes", "shape"),
    [
        pytest.param((2, 3), (3, 8, 8), id="channels first"),
        pytest.param((1, 2), (8, 8, 3), id="channels last"),
    ],
)
def test_a_program_and_labels_are_enough(export, load, colors, axes, shape):
    export(Means(axes), *shape)
    service = load()
    answers = service.predict([picture(color) for color in COLORS])

    assert service.signature is None
    assert [each[0].label for each in answers] == list(COLORS)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(lambda file: (file, "image/jpeg"), id="body"),
        pytest.param(lambda file: (form(file), "multipart/form-data; boundary=B"), id="form"),
        pytest.param(
            lambda file: (
                json.dumps({"b64": b64encode(file).decode()}).encode(),
                "application/json",
            ),
            id="base64",
        ),
    ],
)
def test_a_jpeg_gets_its_label_whichever_way_it_is_posted(export, colors, way):
    from servekit_torch.service import TorchService

    export(Means(), 3, 8, 8)
    with ServiceClient(TorchService, colors) as client:
        best, *others = client.post(*way(jpeg("green"))).json()["prediction"]

    assert best["label"] == "green"
    assert sum(each["probability"] for each in (best, *others)) == pytest.approx(1)


def test_a_trace_and_labels_are_enough(load, colors):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated
        torch.jit.save(torch.jit.trace(Means(), torch.ones(2, 3, 8, 8)), colors / "model.pt")

    assert load().predict([picture("blue")])[0][0].label == "blue"


def test_a_class_needs_the_size_of_its_pictures(load, colors, write_code):
    write_code("means", NET)
    save_file({"scale": torch.ones(3)}, colors / "m.safetensors")
    service = load(image={"size": [8, 8]}, **{"class": "means:Means"})

    assert service.predict([picture("green")])[0][0].label == "green"
    with pytest.raises(BootError, match=r"\[options.image\] size: needed"):
        load(image={}, **{"class": "means:Means"})


def test_pictures_without_labels_are_answered_with_the_outputs(export, load):
    export(Both(), 3, 8, 8)
    both, one = load(image={}), load(image={}, outputs=["scores"])
    given = [picture("red"), picture("blue")]

    assert one.predict(given)[0] == pytest.approx(np.array(COLORS["red"]) / 255)
    assert both.predict(given)[1]["largest"] == pytest.approx(np.array(COLORS["blue"]) / 255)


def test_a_signature_keeps_arrays(export, load, colors):
    export(Means(), 3, 8, 8)

    assert load(SIGNATURE).predict({"x": np.ones((2, 3, 8, 8), np.float32)}).shape == (2, 3)


def test_models_of_arrays_do_not_need_pillow(export, load, colors, caplog, monkeypatch):
    caplog.set_level("INFO")
    monkeypatch.setitem(sys.modules, "PIL", None)
    export(Means((1,)), 8)

    assert load().signature["inputs"][0]["name"] == "x"
    assert "labels are not used: " in caplog.text


@pytest.mark.parametrize(
    ("module", "signature", "options", "message"),
    [
        pytest.param(Means(), SIGNATURE, {"image": {}}, "leave out [options.image]", id="declared"),
        pytest.param(Both(), None, {"output": {}}, "needs [options.image]", id="no kind"),
        pytest.param(Both(), None, {"image": {}}, "the classes: scores, largest", id="two outputs"),
        pytest.param(Means(), None, {"image": {"size": [9, 8]}}, "[options.image] size", id="size"),
        pytest.param(Means(), None, {"image": {"sise": 5}}, "sise: unknown option", id="key"),
    ],
)
def test_contradictions_are_refused(export, load, colors, module, signature, options, message):
    export(module, 3, 8, 8)
    with pytest.raises(BootError) as refused:
        load(signature, **options)

    assert message in str(refused.value)
