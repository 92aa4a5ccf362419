# SPDX-License-Identifier: Apache-2.0
"""Labels and vectors: those of transformers' own pipelines, in batches of texts of any length."""

import numpy as np
import pytest

pytest.importorskip("torch")

from servekit_huggingface.embedding import HuggingFaceEmbedding, TextToEmbed
from servekit_huggingface.entities import HuggingFaceEntities
from servekit_huggingface.images import HuggingFaceImages
from servekit_huggingface.library import torch, transformers
from servekit_huggingface.texts import HuggingFaceTexts, TextPair

from servekit import InputError
from servekit.errors import BootError

pytestmark = pytest.mark.slow  # torch takes two seconds to import
TEXTS = ["once upon a time", "a", "the lazy dog jumps over the quick brown fox", "東京 🙂"]
THREE = {"id2label": {0: "bad", 1: "fair", 2: "good"}, "label2id": {"bad": 0, "fair": 1, "good": 2}}


def labels_of(found):
    return [
        [(each.label, pytest.approx(each.probability, abs=1e-5)) for each in row] for row in found
    ]


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(THREE, id="one of several"),
        pytest.param({**THREE, "problem_type": "multi_label_classification"}, id="any of several"),
        pytest.param({**THREE, "problem_type": "regression"}, id="values"),
        pytest.param({"num_labels": 1}, id="one class"),
    ],
)
def test_labels_of_texts_are_those_of_the_pipeline(tiny, tmp_path, load, config):
    tiny.save_bert(tmp_path, "BertForSequenceClassification", **config)
    service = load(HuggingFaceTexts, tmp_path)
    pipeline = transformers.pipeline("text-classification", str(tmp_path), top_k=None)

    wanted = [pipeline(text)[0] for text in TEXTS]
    assert labels_of(service.predict(TEXTS)) == [
        [(each["label"], each["score"]) for each in row] for row in wanted
    ]


def test_pairs_and_the_best_label_only(tiny, tmp_path, load):
    tiny.save_bert(tmp_path, "BertForSequenceClassification", **THREE)
    service = load(HuggingFaceTexts, tmp_path, output={"top": 1})
    pipeline = transformers.pipeline("text-classification", str(tmp_path))

    found = service.predict([TextPair(TEXTS[0], TEXTS[1]), TEXTS[2]])
    wanted = pipeline({"text": TEXTS[0], "text_pair": TEXTS[1]})
    assert labels_of(found)[0] == [(wanted["label"], wanted["score"])]
    assert len(found[1]) == 1


def test_a_long_text_is_cut(tiny, tmp_path, load):
    tiny.save_bert(tmp_path, "BertForSequenceClassification", **THREE)
    service = load(HuggingFaceTexts, tmp_path)
    long = " ".join(TEXTS * 20)

    assert labels_of(service.predict([long])) == labels_of(service.predict([long + "more"]))


def test_a_decoder_classifies_texts_of_any_length(tiny, tmp_path, load):
    config = transformers.GPT2Config(**tiny.GPT2, **THREE)
    transformers.GPT2ForSequenceClassification(config).save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    service = load(HuggingFaceTexts, tmp_path)

    alone = [service.predict([text])[0] for text in TEXTS]
    assert labels_of(service.predict(TEXTS)) == labels_of(alone)


def test_images_are_prepared_as_transformers_does(tiny, tmp_path, load):
    image = pytest.importorskip("PIL.Image")
    service = load(HuggingFaceImages, tiny.save_vit(tmp_path))
    rows = torch.arange(20 * 30 * 3, dtype=torch.uint8).reshape(20, 30, 3).numpy()
    pictures = [image.fromarray(rows), image.fromarray(rows[:, :, 0])]
    model = transformers.AutoModelForImageClassification.from_pretrained(tmp_path).eval()
    resized = pictures[0].resize((16, 16), image.Resampling.BILINEAR)
    pixels = torch.tensor(np.asarray(resized)) / 255
    pixels = (pixels - torch.tensor([0.5, 0.4, 0.3])) / torch.tensor([0.2, 0.3, 0.4])

    with torch.inference_mode():
        wanted = model(pixels.permute(2, 0, 1).unsqueeze(0)).logits.softmax(-1)[0]
    found = {each.label: each.probability for each in service.predict(pictures)[0]}
    assert found == pytest.approx(dict(zip(["cat", "dog", "fox"], wanted.tolist(), strict=True)))


NAMES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
ENTITIES = {"id2label": dict(enumerate(NAMES)), "label2id": {n: i for i, n in enumerate(NAMES)}}


def test_entities_are_those_of_the_pipeline(tiny, tmp_path, load):
    tiny.save_bert(tmp_path, "BertForTokenClassification", **ENTITIES)
    service = load(HuggingFaceEntities, tmp_path)
    pipeline = transformers.pipeline(
        "token-classification", str(tmp_path), aggregation_strategy="simple"
    )

    for text, found in zip(TEXTS, service.predict(TEXTS), strict=True):
        wanted = [(e["entity_group"], e["start"], e["end"], e["score"]) for e in pipeline(text)]
        assert wanted == [
            (each.label, each.start, each.end, pytest.approx(each.probability, abs=1e-5))
            for each in found
        ]
        assert all(text[each.start : each.end] == each.text for each in found)


def test_embeddings_do_not_depend_on_the_batch(tiny, tmp_path, load):
    service = load(HuggingFaceEmbedding, tiny.save_bert(tmp_path, "BertModel"))
    together = service.predict(TEXTS)
    model = transformers.AutoModel.from_pretrained(tmp_path).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)

    for text, found in zip(TEXTS, together, strict=True):
        tokens = tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            mean = model(**tokens).last_hidden_state[0].mean(dim=0)
        wanted = (mean / mean.norm()).tolist()
        assert found["vector"].tolist() == pytest.approx(wanted, abs=1e-5)
        assert found["tokens"] == tokens["input_ids"].shape[1]


@pytest.mark.parametrize(("pooling", "place"), [("cls", 0), ("last", -1)])
def test_one_token_can_stand_for_the_text(tiny, tmp_path, load, pooling, place):
    directory = tiny.save_bert(tmp_path, "BertModel")
    service = load(HuggingFaceEmbedding, directory, pooling=pooling, normalize=False)
    model = transformers.AutoModel.from_pretrained(tmp_path).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)

    for text, found in zip(TEXTS, service.predict(TEXTS), strict=True):
        with torch.inference_mode():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        assert found["vector"].tolist() == pytest.approx(states[place].tolist(), abs=1e-5)


def test_token_ids_are_embedded_and_unknown_ones_refused(tiny, tmp_path, load):
    service = load(HuggingFaceEmbedding, tiny.save_bert(tmp_path, "BertModel"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer(TEXTS[0])["input_ids"]
    given = [TextToEmbed(TEXTS[0]), [400], ids, []]
    first, refused, second, empty = service.predict(given)

    assert first["vector"].tolist() == pytest.approx(second["vector"].tolist())
    assert isinstance(refused, InputError)
    assert isinstance(empty, InputError)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param({"trust_remote_code": True}, "nobody has reviewed them", id="code"),
        pytest.param({"device": "cuda:7"}, "'cuda:7' cannot be used", id="no such device"),
        pytest.param({"dtype": "int4"}, "dtype", id="no such type"),
        pytest.param({"threshold": 1}, "threshold: unknown option", id="no such option"),
    ],
)
def test_options_that_are_refused(tiny, tmp_path, load, options, reason):
    with pytest.raises(BootError, match=reason):
        load(HuggingFaceTexts, tmp_path, **options)


def test_positions_may_begin_after_that_of_padding(tiny, tmp_path, load):
    config = transformers.RobertaConfig(**{**tiny.SMALL, "pad_token_id": 1})
    transformers.RobertaModel(config).save_pretrained(tmp_path)
    tokenizer = tiny.sentence_tokenizer()
    tokenizer.model_max_length = 10**30
    tokenizer.save_pretrained(tmp_path)
    (found,) = load(HuggingFaceEmbedding, tmp_path).predict(["once " * 100])

    assert found["tokens"] == tiny.WINDOW - 2


def test_a_model_that_was_saved_for_another_task(tiny, tmp_path, load):
    with pytest.raises(BootError, match=r"lack classifier.* saved for another task"):
        load(HuggingFaceTexts, tiny.save_bert(tmp_path, "BertModel"))


def test_a_model_that_needs_python_files_of_its_own(tiny, tmp_path, load):
    tiny.save_bert(tmp_path, "BertForSequenceClassification")
    path = tmp_path / "config.json"
    text = path.read_text().replace('"model_type": "bert"', '"model_type": "novel"')
    path.write_text(text.replace("{", '{"auto_map": {"AutoConfig": "code.NovelConfig"},', 1))
    (tmp_path / "code.py").write_text("raise SystemExit('run')\n")

    with pytest.raises(
        BootError, match=r"^config\.json: auto_map: .* Python files of the checkpoint"
    ):
        load(HuggingFaceTexts, tmp_path)


def test_a_model_without_its_tokenizer(tiny, tmp_path, load):
    tiny.save_bert(tmp_path, "BertForSequenceClassification")
    for path in tmp_path.glob("token*"):
        path.unlink()

    with pytest.raises(BootError, match="there is no tokenizer"):
        load(HuggingFaceTexts, tmp_path)


def test_weights_of_another_type(tiny, tmp_path, load):
    tiny.save_bert(tmp_path, "BertForSequenceClassification", **THREE)
    service = load(HuggingFaceTexts, tmp_path, dtype="bfloat16")

    assert service._model.dtype == torch.bfloat16
    assert len(service.predict(TEXTS)) == len(TEXTS)


def test_pickled_weights_are_read_if_they_are_allowed(tiny, tmp_path, load):
    tiny.save_bert(tmp_path, "BertForSequenceClassification", **THREE)
    wanted = labels_of(load(HuggingFaceTexts, tmp_path).predict(TEXTS))
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    del model
    (tmp_path / "model.safetensors").unlink()

    assert labels_of(load(HuggingFaceTexts, tmp_path, allow_pickle=True).predict(TEXTS)) == wanted
    with pytest.raises(BootError, match=r"pytorch_model\.bin"):
        load(HuggingFaceTexts, tmp_path)
