# SPDX-License-Identifier: Apache-2.0
"""Networks exported by PyTorch, without code: the answers are those of their own libraries."""

import io
import json

import numpy as np
import pytest
from PIL import Image
from servekit_onnx.service import OnnxService

from servekit.testing import ServiceClient

torch = pytest.importorskip("torch")
tokenizers = pytest.importorskip("tokenizers")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

NAMES = ["the", "cat", "sat", "on", "a", "mat", "and", "slept"]
WORDS = {word: at for at, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *NAMES])}
TEXTS = ["the cat", "a mat sat on the cat and slept", "unknown words", ""]
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


@pytest.fixture(scope="module")
def transformers(torchvision):  # imports it
    return pytest.importorskip("transformers")


def export(network, given, path, inputs, output, axes):
    named = dict.fromkeys((*inputs, output), axes)
    torch.onnx.export(
        network.eval(), given, str(path / "model.onnx"), input_names=list(inputs),
        output_names=[output], dynamic_axes=named, dynamo=False,
    )  # fmt: skip


@pytest.fixture
def tokenizer(tmp_path):
    model = tokenizers.models.WordPiece(
        {word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tokenizer


@pytest.fixture
def bert(transformers):
    torch.manual_seed(0)
    return transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=32, num_labels=2,
        id2label={0: "bad", 1: "good"},
    )  # fmt: skip


class Only(torch.nn.Module):
    """Gives one member of what a network of transformers returns."""

    def __init__(self, network, member):
        super().__init__()
        self.network, self.member = network, member

    def forward(self, *given):
        return self.network(**dict(zip(INPUTS, given, strict=True)))[self.member]


def alone(network, tokenizer, text):
    """Return what *network* gives for *text*, in a batch of one."""
    ids = torch.tensor([tokenizer.encode(text).ids])
    with torch.no_grad():
        return network(ids, torch.ones_like(ids), torch.zeros_like(ids))[0]


def test_vectors_are_those_of_transformers(transformers, bert, tokenizer, tmp_path):
    network = Only(transformers.BertModel(bert, add_pooling_layer=False), "last_hidden_state")
    ones = torch.ones(2, 5, dtype=torch.long)
    export(network, (ones, ones, ones), tmp_path, INPUTS, "last_hidden_state", {0: "n", 1: "s"})
    wanted = [alone(network, tokenizer, text).mean(dim=0).numpy() for text in TEXTS]
    with ServiceClient(OnnxService, tmp_path) as client:
        found = client.predict(TEXTS)

    for answer, mean in zip(found, wanted, strict=True):
        assert answer["vector"] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)


def test_labels_of_texts_are_those_of_transformers(transformers, bert, tokenizer, tmp_path):
    network = Only(transformers.BertForSequenceClassification(bert), "logits")
    ones = torch.ones(2, 5, dtype=torch.long)
    export(network, (ones, ones, ones), tmp_path, INPUTS, "logits", {0: "n", 1: "s"})
    (tmp_path / "config.json").write_text(json.dumps(bert.to_dict()))
    wanted = [alone(network, tokenizer, text).softmax(dim=0).tolist() for text in TEXTS]
    with ServiceClient(OnnxService, tmp_path) as client:
        found = client.predict(TEXTS)

    named = [{each["label"]: each["probability"] for each in row} for row in found]
    assert named == [pytest.approx({"bad": row[0], "good": row[1]}, abs=1e-5) for row in wanted]


def test_labels_of_a_photo_are_those_of_torchvision(torchvision, tmp_path):
    from torchvision.transforms import v2

    torch.manual_seed(0)
    network = torchvision.models.squeezenet1_1(num_classes=7)
    export(network, (torch.zeros(1, 3, 224, 224),), tmp_path, ("x",), "scores", {0: "n"})
    x, y = np.meshgrid(np.linspace(0, 255, 640), np.linspace(0, 255, 427))
    file = io.BytesIO()
    Image.fromarray(np.stack([x, y, 255 - x], -1).astype(np.uint8)).save(file, "JPEG")
    steps = [v2.Resize(256), v2.CenterCrop(224), v2.PILToTensor()]
    steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(**IMAGENET)]
    with torch.no_grad():
        given = v2.Compose(steps)(Image.open(file))[None]
        wanted = network(given).softmax(dim=1)[0].numpy()
    options = {"image": {"resize": 256, **IMAGENET}, "output": {"top": 7}}
    with ServiceClient(OnnxService, tmp_path, options=options) as client:
        answer = client.post(file.getvalue(), "image/jpeg").json()["prediction"]

    assert [int(each["label"]) for each in answer] == np.argsort(-wanted, kind="stable").tolist()
    assert [each["probability"] for each in answer] == pytest.approx(sorted(wanted)[::-1], abs=1e-5)
