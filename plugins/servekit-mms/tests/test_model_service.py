# SPDX-License-Identifier: Apache-2.0
"""Service files of 0.x: what they import, which class is taken, and what needs MXNet."""

import logging
import re
from io import BytesIO

import pytest
from PIL import Image
from servekit_mms.modules import import_file, model_service_of
from servekit_mms.services import service_for

from servekit import Context, InputError
from servekit.errors import BootError

from .conftest import ECHO, signature, write_legacy

pytestmark = pytest.mark.usefixtures("no_mms")

IMPORTS = """
from mms.context import Context
from mms.log import get_logger
from mms.metrics.dimension import Dimension
from mms.model_service.gluon_vision_service import GluonVisionService
from mms.model_service.model_service import ModelService, MultiNodesService, SingleNodeService
from mms.model_service.model_service import URL_PREFIX
from mms.model_service.mxnet_model_service import GluonImperativeBaseService, MXNetBaseService
from mms.model_service.mxnet_model_service import check_input_shape
from mms.model_service.mxnet_vision_service import MXNetVisionService
from mms.service import PredictionException
from mms.utils.mxnet import image, ndarray, nlp
"""
OWN = "class {}({}):\n    def _inference(self, data):\n        return data\n"


def load(directory, **options):
    service = service_for(directory)()
    service.load(
        Context(
            model="a", version="1.0", directory=directory, replica=0, max_batch_size=1, threads=1,
            options=options, logger=logging.getLogger("a"),
        )
    )  # fmt: skip
    return service


def answer(service, *values):
    return service.predict([service.reader.type(*values)])[0]


def test_the_names_of_mms_can_be_imported(tmp_path):
    write_legacy(tmp_path, service=IMPORTS + OWN.format("Mine", "MXNetVisionService"))

    assert load(tmp_path)


def test_a_service_class_gets_what_mms_gives_it(tmp_path):
    service = load(write_legacy(tmp_path))

    assert answer(service, "[{'input_sentence': 'on the exchange'}]") == "hello on the exchange"


def test_the_manifest_names_the_model_and_the_path_does_not(tmp_path):
    code = """
from mms.model_service.model_service import SingleNodeService
class Facts(SingleNodeService):
    def inference(self, data):
        return [self.model_name, self.manifest["Model"]["Service"], self.ctx]
"""
    service = load(write_legacy(tmp_path, name="lstm-ptb", service=code), gpu=2)

    assert answer(service, []) == ["lstm-ptb", "service.py", "gpu(2)"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(OWN.format("Only", "SingleNodeService"), "Only", id="one"),
        pytest.param(
            OWN.format("Base", "MXNetBaseService") + OWN.format("Leaf", "Base"), "Leaf", id="a leaf"
        ),
        pytest.param("", "There should be one", id="several of ours"),
        pytest.param(
            OWN.format("A", "SingleNodeService") + OWN.format("B", "ModelService"),
            "There should be one user defined service derived from ModelService; "
            "service.py has A, B",
            id="several",
        ),
    ],
)
def test_which_class_is_taken(tmp_path, code, expected):
    path = write_legacy(tmp_path, service=IMPORTS + code) / "service.py"
    try:
        found = model_service_of(import_file(path), path).__name__
    except BootError as error:
        found = str(error)

    assert found.startswith(expected)


def test_a_file_without_a_class_is_refused_in_the_words_of_mms(tmp_path):
    write_legacy(tmp_path, service="import json\n")

    with pytest.raises(BootError, match="No valid python class derived from Base Model Service"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(
            "from mms.model_service.mxnet_vision_service import MXNetVisionService\n",
            "MXNetVisionService leaves a-symbol.json, a-0000.params to MXNet",
            id="the class of mxnet-model-export",
        ),
        pytest.param(
            "from mms.model_service.gluon_vision_service import GluonVisionService\n"
            "class Mine(GluonVisionService): pass\n",
            "Mine leaves a-symbol.json, a-0000.params to MXNet",
            id="a subclass",
        ),
        pytest.param("import mxnet as mx\n", "service.py imports mxnet", id="an import"),
        pytest.param("from mxnet.gluon import nn\n", "service.py imports mxnet", id="of a part"),
    ],
)
def test_a_network_of_mxnet_is_refused_with_the_way_out(tmp_path, code, reason):
    model = {"Symbol": "a-symbol.json", "Parameters": "a-0000.params"}
    write_legacy(tmp_path, service=code, model=model)
    (tmp_path / "a-symbol.json").write_text("{}")

    with pytest.raises(BootError, match=re.escape(reason)) as caught:
        load(tmp_path)
    assert "convert the network to ONNX" in str(caught.value)
    assert "servekit-onnx" in str(caught.value)


def test_another_missing_module_is_said_as_python_says_it(tmp_path):
    write_legacy(tmp_path, service="import no_such_module\n")

    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        load(tmp_path)


def jpeg(*size):
    file = BytesIO()
    Image.new("RGB", size, (250, 0, 0)).save(file, "JPEG")
    return file.getvalue()


VISION = """
import numpy as np
from mms.model_service.mxnet_vision_service import MXNetVisionService
class Vision(MXNetVisionService):
    def _inference(self, data):
        red = data[0].mean(axis=(2, 3))
        return [np.hstack([red, red / 2])] if red.shape == (1, 3) else [red]
"""


def test_a_vision_service_runs_with_another_engine(tmp_path):
    signed = signature(("data", [0, 3, 4, 6]), input_type="image/jpeg")
    labels = "\n".join("abcdef")
    write_legacy(tmp_path, service=VISION, signed=signed, synset__txt=labels)
    ((best, *others),) = answer(load(tmp_path), images_file(jpeg(30, 20)))

    assert best["class"] == "a"
    assert best["probability"] == pytest.approx(250, abs=5)
    assert len(others) == 4


def images_file(content):
    from servekit.types import File

    return File("kitten.jpg", "image/jpeg", content)


def test_a_file_that_is_no_picture_is_refused(tmp_path):
    signed = signature(("data", [0, 3, 4, 4]), input_type="image/jpeg")
    write_legacy(tmp_path, service=VISION, signed=signed)

    assert isinstance(answer(load(tmp_path), images_file(b"\xff\xd8x")), InputError)


def test_another_service_file_can_be_named(tmp_path):
    write_legacy(tmp_path / "a")
    other = tmp_path / "other.py"
    other.write_text(ECHO.replace('self.greeting + " "', '"other"'))
    two = tmp_path / "two.py"
    two.write_text(
        other.read_text() + "class Second(EchoService): pass\nclass Third(EchoService): pass\n"
    )

    text = "[{'input_sentence': 'x'}]"
    assert answer(load(tmp_path / "a", service=str(other)), text) == "otherx"
    assert answer(load(tmp_path / "a", service=f"{two}:Second"), text) == "otherx"
    with pytest.raises(BootError, match="is not a file"):
        load(tmp_path / "a", service="missing.py")
