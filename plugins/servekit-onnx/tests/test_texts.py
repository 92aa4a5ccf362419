# SPDX-License-Identifier: Apache-2.0
"""Graphs that take token ids: texts become vectors or labels."""

import json

import numpy as np
import pytest
from onnx import numpy_helper
from servekit_onnx.service import OnnxService
from servekit_onnx.texts import TextRequest

from servekit import InputError
from servekit.errors import BootError
from servekit.testing import ServiceClient

tokenizers = pytest.importorskip("tokenizers")

WORDS = ["[PAD]", "[UNK]", "good", "bad", "day"]
#: one vector for each word
TABLE = np.array([[9, 9], [0, 0], [3, 4], [-3, 4], [1, 0]], np.float32)
IDS, MASK = "input_ids i n s", "attention_mask i n s"
TOKENS, VECTORS = "last_hidden_state f n s 2", "y f n 2"
GATHER = ("Gather", "table input_ids", "last_hidden_state")
#: uses the mask as a model would: without it the graph would have no such input
MASKED = [
    ("Gather", "table input_ids", "g"),
    ("Cast", "attention_mask", "c", {"to": 1}),
    ("Unsqueeze", "c last", "u"),
    ("Mul", "g u", "last_hidden_state"),
]
WEIGHTS = [numpy_helper.from_array(TABLE, "table"), numpy_helper.from_array(np.array([2]), "last")]


@pytest.fixture
def directory(tmp_path):
    model = tokenizers.models.WordLevel({word: at for at, word in enumerate(WORDS)}, "[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def vectors_of(answers):
    return np.array([each["vector"] for each in answers])


@pytest.fixture
def embed(write_graph, directory, load):
    """Return ``embed(texts, **options)``, which gives the vectors of a graph of tokens."""
    write_graph(f"{IDS}, {MASK}", TOKENS, *MASKED, weights=WEIGHTS)
    return lambda texts, **options: vectors_of(load(text=options).predict(texts))


@pytest.mark.parametrize(
    ("options", "vectors"),
    [
        pytest.param({}, [[0.7071, 0.7071], [-0.6, 0.8]], id="the mean, of length 1"),
        pytest.param({"normalize": False}, [[2, 2], [-3, 4]], id="the mean"),
        pytest.param({"pooling": "cls", "normalize": False}, [[3, 4], [-3, 4]], id="the first"),
        pytest.param({"pooling": "max", "normalize": False}, [[3, 4], [-3, 4]], id="the largest"),
        pytest.param({"max_length": 1, "normalize": False}, [[3, 4], [-3, 4]], id="cut off"),
    ],
)
def test_vectors_of_tokens_are_pooled_without_padding(embed, options, vectors):
    found = embed(["good day", "bad"], **options)

    assert found == pytest.approx(np.array(vectors), abs=1e-4)


def test_texts_ids_and_objects_are_taken(embed):
    texts = ["good day", [2, 4], TextRequest("good day"), TextRequest([2, 4])]
    found = embed(texts)

    assert (found == found[0]).all()


def test_an_empty_text_is_zero(embed):
    assert embed(["", "good"]).tolist() == [[0, 0], pytest.approx([0.6, 0.8])]


def test_a_graph_and_a_tokenizer_are_enough(write_graph, directory):
    write_graph(IDS, TOKENS, GATHER, weights=WEIGHTS[:1])
    with ServiceClient(OnnxService, directory) as client:
        one = client.post(b'"good"').json()
        plain = client.post(b"good", "text/plain").json()
        named = client.post(json.dumps({"input": "good", "model": "m"}).encode()).json()

        assert client.service.task == "embedding"
    assert one == plain == named
    assert one["prediction"] == {"vector": pytest.approx([0.6, 0.8]), "tokens": 1}


def test_a_graph_may_pool_by_itself_or_have_several_outputs(write_graph, directory, load):
    outputs = f"{TOKENS}, sentence_embedding f n 2"
    pool = ("ReduceMean", "last_hidden_state", "sentence_embedding", {"axes": [1], "keepdims": 0})
    write_graph(IDS, outputs, GATHER, pool, weights=WEIGHTS[:1])

    for options in ({}, {"outputs": ["last_hidden_state"]}):
        (vector,) = vectors_of(load(**options).predict(["bad"]))
        assert vector == pytest.approx([-0.6, 0.8])


@pytest.mark.parametrize("value", [[2**63], [-1], {"input": [1, 2**31]}])
def test_ids_that_are_no_ids_are_refused_by_name(write_graph, directory, value):
    write_graph(IDS, TOKENS, GATHER, weights=WEIGHTS[:1])
    with ServiceClient(OnnxService, directory) as client:
        good, refused = client.predict(["good", value])

    assert good["tokens"] == 1
    assert isinstance(refused, InputError)
    assert refused.errors[0]["field"] in ("[0]", "input[1]")


def test_ids_that_the_graph_does_not_know_are_refused_alone(embed, load, caplog):
    first, refused = load().predict(["good", [99]])

    assert first["vector"] == pytest.approx([0.6, 0.8])
    assert isinstance(refused, InputError)


def test_a_length_that_the_graph_fixes_is_kept(write_graph, directory, load):
    write_graph("input_ids i n 3", "last_hidden_state f n 3 2", GATHER, weights=WEIGHTS[:1])
    service = load(text={"normalize": False})

    long, short = service.predict(["day day day day", "good"])

    assert (long["vector"].tolist(), long["tokens"]) == ([1, 0], 3)
    assert (short["vector"].tolist(), short["tokens"]) == ([3, 4], 1)


def test_classes_of_texts(write_graph, directory, load):
    (directory / "config.json").write_text('{"id2label": {"0": "x", "1": "y"}}')
    pool = ("ReduceMean", "last_hidden_state", "logits", {"axes": [1], "keepdims": 0})
    write_graph(IDS, "logits f n 2", GATHER, pool, weights=WEIGHTS[:1])
    service = load(output={"top": 1, "activation": "none"})

    assert [(each.label, each.probability) for (each,) in service.predict(["good", "day"])] == [
        ("y", 4), ("x", 1),
    ]  # fmt: skip
    assert service.task == ""


@pytest.mark.parametrize(
    ("inputs", "outputs", "options", "message"),
    [
        pytest.param(IDS, TOKENS, {"tokenizer": "a.json"}, "'a.json' is not in", id="no tokenizer"),
        pytest.param(IDS, TOKENS, {"poling": "cls"}, "poling: unknown option", id="unknown"),
        pytest.param("input_ids i n 3", "last_hidden_state f n 3 2", {"max_length": 4},
                     "max_length: 4 is above the 3", id="longer than the graph"),
    ],
)  # fmt: skip
def test_contradicting_options_are_refused(
    write_graph, directory, load, inputs, outputs, options, message
):
    write_graph(inputs, outputs, GATHER, weights=WEIGHTS[:1])
    with pytest.raises(BootError) as refused:
        load(text=options)

    assert message in str(refused.value)


def test_pooling_of_what_is_one_vector_is_refused(write_graph, directory, load):
    pool = ("ReduceMean", "h", "y", {"axes": [1], "keepdims": 0})
    write_graph(IDS, VECTORS, ("Gather", "table input_ids", "h"), pool, weights=WEIGHTS[:1])

    with pytest.raises(BootError, match="pooling: the output has one vector"):
        load(text={"pooling": "mean"})


def test_a_broken_tokenizer_is_refused(write_graph, directory, load):
    write_graph(IDS, TOKENS, GATHER, weights=WEIGHTS[:1])
    (directory / "tokenizer.json").write_text("{")

    with pytest.raises(BootError, match=r"tokenizer.json: tokenizers cannot read it"):
        load()


@pytest.mark.e2e
@pytest.mark.slow
def test_clients_of_openai_get_embeddings(write_graph, directory, serve_model):
    openai = pytest.importorskip("openai")
    write_graph(f"{IDS}, {MASK}", TOKENS, *MASKED, weights=WEIGHTS)
    served = serve_model(directory)
    client = openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", timeout=60)
    found = client.embeddings.create(model=served.name, input=["good", "bad day"])

    assert [each.embedding for each in found.data] == [
        pytest.approx([0.6, 0.8]), pytest.approx([-0.4472, 0.8944], abs=1e-4),
    ]  # fmt: skip
    assert found.usage.prompt_tokens == 3
