# SPDX-License-Identifier: Apache-2.0
"""The hook module, and what it reads of a directory: nothing of torch."""

import json
import re
import subprocess
import sys

import pytest
from servekit_archiver import ArchiveError, load_directory
from servekit_huggingface import hooks
from servekit_huggingface.checkpoint import check_weights
from servekit_huggingface.options import EmbeddingOptions
from servekit_huggingface.sentence import read_sentence_settings

from servekit.errors import BootError

PICKLE, SAFE = "pytorch_model.bin", "model.safetensors"


def write(directory, architecture="BertForSequenceClassification", weights=SAFE, **files):
    """Write a directory as far as it is looked at."""
    (directory / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    (directory / weights).touch()
    for name, content in files.items():
        (directory / f"{name}.json").write_text(json.dumps(content))


def test_importing_the_hook_module_imports_nothing_heavy():
    code = "import servekit_huggingface.hooks, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not {"torch", "transformers", "numpy"} & set(loaded)


@pytest.mark.parametrize(
    ("architecture", "files", "service"),
    [
        pytest.param("BertForSequenceClassification", {}, "text-classification", id="texts"),
        pytest.param("BertForTokenClassification", {}, "token-classification", id="tokens"),
        pytest.param("ViTForImageClassification", {}, "image-classification", id="images"),
        pytest.param("XLMRobertaModel", {}, "embedding", id="a bare model"),
        pytest.param(
            "BertForMaskedLM", {"modules": []}, "embedding", id="saved by sentence-transformers"
        ),
        pytest.param("GPT2LMHeadModel", {}, "completion", id="without a chat template"),
        pytest.param(
            "LlamaForCausalLM", {"tokenizer_config": {"chat_template": "x"}}, "chat", id="with one"
        ),
    ],
)
def test_a_directory_is_recognised_by_its_architecture(tmp_path, architecture, files, service):
    write(tmp_path, architecture, **files)

    assert hooks.recognise_model(tmp_path)["service"] == f"huggingface-{service}"


def test_a_chat_template_can_be_a_file(tmp_path):
    write(tmp_path, "LlamaForCausalLM")
    (tmp_path / "chat_template.jinja").touch()

    assert load_directory(tmp_path).service == "huggingface-chat"


@pytest.mark.parametrize("missing", ["config.json", SAFE])
def test_other_directories_are_for_other_plugins(tmp_path, missing):
    write(tmp_path)
    (tmp_path / missing).unlink()

    assert hooks.recognise_model(tmp_path) is None


def test_an_mlflow_model_stays_one(tmp_path):
    pytest.importorskip("servekit_mlflow")
    write(tmp_path)
    (tmp_path / "MLmodel").write_text("flavors: {python_function: {loader_module: x}}\n")

    assert load_directory(tmp_path).service == "mlflow"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param('{"architectures": ["T5ForConditionalGeneration"]}', "T5For", id="unknown"),
        pytest.param("[]", "expected an object", id="not an object"),
        pytest.param("{", "is not JSON", id="not JSON"),
    ],
)
def test_a_model_that_cannot_be_served_is_named(tmp_path, content, reason):
    write(tmp_path)
    (tmp_path / "config.json").write_text(content)

    with pytest.raises(ArchiveError, match=re.escape(reason)):
        load_directory(tmp_path)


def test_pickled_weights_are_refused_with_the_way_out(tmp_path):
    write(tmp_path, weights=PICKLE)

    with pytest.raises(BootError, match=r"save_pretrained.*allow_pickle = true"):
        check_weights(tmp_path, allow_pickle=False)
    assert check_weights(tmp_path, allow_pickle=True) is False
    (tmp_path / SAFE).touch()
    assert check_weights(tmp_path, allow_pickle=False) is True


def test_a_directory_without_weights(tmp_path):
    with pytest.raises(BootError, match="no weights"):
        check_weights(tmp_path, allow_pickle=True)


MODULES = [{"type": "sentence_transformers.models.Transformer", "path": ""},
           {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]  # fmt: skip
NORMALIZE = {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"}


def write_modules(directory, modules, pooling):
    (directory / "modules.json").write_text(json.dumps(modules))
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


@pytest.mark.parametrize(
    ("modules", "pooling", "expected"),
    [
        pytest.param(MODULES, {"pooling_mode_cls_token": True}, ("cls", False), id="first"),
        pytest.param(
            [*MODULES, NORMALIZE],
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False},
            ("mean", True),
            id="mean",
        ),
        pytest.param(MODULES, {"pooling_mode": "lasttoken"}, ("last", False), id="newer"),
    ],
)
def test_sentence_transformers_says_how_to_pool(tmp_path, modules, pooling, expected):
    write_modules(tmp_path, modules, pooling)
    settings = read_sentence_settings(tmp_path, EmbeddingOptions())

    assert (settings.pooling, settings.normalize) == expected


@pytest.mark.parametrize(
    ("modules", "pooling", "reason"),
    [
        pytest.param([*MODULES, {"type": "x.Dense"}], {}, "Dense is not supported", id="a module"),
        pytest.param(MODULES, {"pooling_mode_max_tokens": True}, "max_tokens is not", id="a kind"),
        pytest.param(
            MODULES,
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            "2 kinds",
            id="two kinds",
        ),
    ],
)
def test_vectors_that_are_made_otherwise_are_refused(tmp_path, modules, pooling, reason):
    write_modules(tmp_path, modules, pooling)

    with pytest.raises(BootError, match=reason):
        read_sentence_settings(tmp_path, EmbeddingOptions())


def test_options_win_over_what_was_saved(tmp_path):
    write_modules(tmp_path, MODULES, {"pooling_mode_cls_token": True})
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 128}')
    (tmp_path / "config_sentence_transformers.json").write_text(
        '{"prompts": {"query": "query: "}, "default_prompt_name": "query"}'
    )
    options = EmbeddingOptions(pooling="last", normalize=True)

    assert read_sentence_settings(tmp_path, options) == ("last", True, 128, "query: ")
