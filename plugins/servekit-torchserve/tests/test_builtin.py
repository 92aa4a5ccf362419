# SPDX-License-Identifier: Apache-2.0
"""The handlers that an archive names without a file."""

import base64
import io
import json
import logging

import pytest
from servekit_torchserve.context import HandlerContext
from servekit_torchserve.handler_metrics import HandlerMetrics

from servekit.service.metrics import Metrics

torch = pytest.importorskip("torch")
image = pytest.importorskip("PIL.Image")

from servekit_torchserve.builtin.base_handler import BaseHandler  # noqa: E402 - after torch
from servekit_torchserve.builtin.text import TextClassifier  # noqa: E402
from servekit_torchserve.builtin.vision import (  # noqa: E402
    ImageClassifier,
    ImageSegmenter,
    ObjectDetector,
    VisionHandler,
)

pytestmark = [
    pytest.mark.slow,  # torch takes long to import
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
]
LOG = logging.getLogger("test")


def context_of(directory, config=None, **model):
    return HandlerContext(
        "m",
        {"model": model},
        {"model_dir": str(directory), "gpu_id": None, "limit_max_image_pixels": True},
        HandlerMetrics(Metrics()),
        config or {},
    )


def picture(size=(300, 260)):
    file = io.BytesIO()
    image.radial_gradient("L").resize(size).convert("RGB").save(file, "PNG")
    return file.getvalue()


def test_torchscript_is_loaded_and_predicts(tmp_path):
    net = torch.nn.Linear(2, 1)
    torch.jit.trace(net, torch.zeros(1, 2)).save(str(tmp_path / "m.pt"))
    context = context_of(tmp_path, serializedFile="m.pt")
    handler = BaseHandler()
    handler.initialize(context)
    found = handler.handle([[1.0, 2.0]], context)

    assert found == net(torch.tensor([[1.0, 2.0]])).tolist()
    assert handler.initialized


def test_an_exported_model_is_loaded(tmp_path):
    net = torch.nn.Linear(2, 1).eval()
    torch.export.save(torch.export.export(net, (torch.zeros(1, 2),)), tmp_path / "m.pt2")
    handler = BaseHandler()
    handler.initialize(context_of(tmp_path, serializedFile="m.pt2"))

    assert handler.inference(torch.ones(1, 2)).tolist() == net(torch.ones(1, 2)).tolist()


def test_an_archive_without_a_model_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="no serialized file and no model file"):
        BaseHandler().initialize(context_of(tmp_path))
    with pytest.raises(RuntimeError, match=r"\.pt, \.pt2, \.so or \.onnx is needed"):
        BaseHandler().initialize(context_of(tmp_path, serializedFile="m.bin"))


def test_explanations_and_descriptions_are_asked_for_by_headers(tmp_path):
    class Explained(BaseHandler):
        def preprocess(self, data):
            return data

        def get_insights(self, tensor_data, raw_data, target):
            return {"inputs": raw_data, "target": target}

    handler, context = Explained(), context_of(tmp_path)
    context.begin(["1"], [{"explain": "True"}])
    assert handler.handle([{"data": "x", "target": 3}], context) == [{"inputs": "x", "target": 3}]
    context.begin(["1"], [{"describe": "True"}])
    assert handler.handle([{}], context)[0]["handler"] == "Explained"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({"data": picture()}, id="bytes"),
        pytest.param({"body": bytearray(picture())}, id="body"),
        pytest.param({"data": base64.b64encode(picture()).decode()}, id="base64"),
    ],
)
def test_a_picture_is_read_however_it_is_sent(content):
    handler = ImageClassifier()
    handler.device = torch.device("cpu")

    assert handler.preprocess([content, content]).shape == (2, 3, 224, 224)


def test_numbers_in_place_of_a_picture_are_a_tensor():
    handler = VisionHandler()
    handler.device = torch.device("cpu")

    assert handler.preprocess([{"data": [[1, 2]]}]).tolist() == [[[1, 2]]]


def test_the_most_probable_classes_come_first():
    handler = ImageClassifier()
    handler.mapping = {"0": "a", "1": "b", "2": "c"}
    handler.set_max_result_classes(2)
    (found,) = handler.postprocess(torch.tensor([[1.0, 3.0, 2.0]]))

    assert [*found] == ["b", "c"]
    assert sum(found.values()) < 1


def test_objects_above_the_threshold_are_returned():
    handler = ObjectDetector()
    handler.mapping = {"1": "dog"}
    found = {
        "boxes": torch.tensor([[0.0, 1, 2, 3], [4, 5, 6, 7]]),
        "labels": torch.tensor([1, 1]),
        "scores": torch.tensor([0.75, 0.25]),
    }

    assert handler.postprocess([found]) == [[{"dog": [0, 1, 2, 3], "score": 0.75}]]


def test_each_pixel_has_a_class_and_its_probability():
    scores = torch.tensor([[[[5.0, 0.0]], [[0.0, 5.0]]]])
    ((row,),) = ImageSegmenter().postprocess({"out": scores})

    assert [pair[0] for pair in row] == [0, 1]
    assert all(pair[1] > 0.9 for pair in row)


def test_a_text_is_classified(tmp_path):
    class Bag(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bag = torch.nn.EmbeddingBag(8, 2)

        def forward(self, text, offsets):
            return self.bag(text, offsets)

    tokens = ["a", "good", "film", "a good", "good film"]
    torch.save({token: index for index, token in enumerate(tokens)}, tmp_path / "source_vocab.pt")
    torch.jit.script(Bag()).save(str(tmp_path / "m.pt"))
    (tmp_path / "index_to_name.json").write_text(json.dumps({"0": "bad", "1": "good"}))
    context = context_of(tmp_path, serializedFile="m.pt")
    handler = TextClassifier()
    handler.initialize(context)
    (found,) = handler.handle([{"body": "<b>A good film!</b>"}], context)

    assert found.keys() == {"bad", "good"}
    assert sum(found.values()) == pytest.approx(1)
    with pytest.raises(ValueError, match="2 inputs in a batch, limit 1"):
        handler.preprocess([{}, {}])
