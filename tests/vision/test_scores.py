# SPDX-License-Identifier: Apache-2.0
"""Scores, labels, and the answers made of both."""

import json

import numpy as np
import pytest

from servekit.errors import BootError
from servekit.vision import (
    ClassOutput,
    OutputOptions,
    RankedLabel,
    find_labels,
    read_labels,
    sigmoid,
    softmax,
    top_k,
)

SCORES = np.array([[1.0, 3.0, 2.0], [-5.0, 0.0, 700.0]], np.float32)
CERTAIN = np.array([[0.25, 0.5, 0.25], [1.0, 0.0, 0.0]], np.float32)


def test_softmax_sums_to_one_and_does_not_overflow():
    probabilities = softmax(SCORES)

    assert probabilities.sum(axis=1) == pytest.approx([1, 1])
    assert probabilities[0] == pytest.approx([0.0900, 0.6652, 0.2447], abs=1e-4)
    assert softmax(SCORES.astype(np.float16)).dtype == np.float32


def test_sigmoid_does_not_overflow():
    assert sigmoid(np.array([-1e4, 0, 1e4])).tolist() == [0, 0.5, 1]


def test_the_best_come_first_and_equal_ones_in_order():
    best = top_k(CERTAIN, ["a", "b", "c"], 2)

    assert best[0] == [RankedLabel("b", 0.5), RankedLabel("a", 0.25)]
    assert best[1] == [RankedLabel("a", 1.0), RankedLabel("b", 0.0)]


def test_classes_without_labels_have_numbers_and_there_are_no_more_than_all():
    assert [each.label for each in top_k(np.array([[10, 200, 30]], np.uint8))[0]] == ["1", "2", "0"]


# ------------------------------------------------------------ files of labels


@pytest.mark.parametrize(
    ("name", "text", "labels"),
    [
        pytest.param("labels.txt", "cat\nsmall dog\n\n", ["cat", "small dog"], id="lines"),
        pytest.param("labels.txt", "\ufeffcat\r\n\r\ndog", ["cat", "", "dog"], id="of Windows"),
        pytest.param("synset.txt", "n1 cat, tom\nn2 dog", ["n1 cat, tom", "n2 dog"], id="synset"),
        pytest.param(
            "index_to_name.json",
            '{"1": ["n2", "dog"], "0": ["n1", "cat"]}',
            ["cat", "dog"],
            id="ids",
        ),
        pytest.param("index_to_name.json", '{"0": "cat"}', ["cat"], id="names"),
        pytest.param(
            "config.json", '{"id2label": {"0": "no", "1": "yes"}}', ["no", "yes"], id="hf"
        ),
    ],
)
def test_files_of_labels(tmp_path, name, text, labels):
    (tmp_path / name).write_text(text, newline="", encoding="utf-8")

    assert read_labels(tmp_path / name) == labels


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("labels.txt", " \n", id="nothing"),
        pytest.param("a.json", '{"0": "cat", "2": "dog"}', id="a class is missing"),
        pytest.param("a.json", '{"cat": 0}', id="no numbers"),
        pytest.param("a.json", "{}", id="no class"),
        pytest.param("a.json", "[1]", id="no names"),
        pytest.param("a.json", '{"0": []}', id="an empty list"),
        pytest.param("a.json", "5", id="a number"),
        pytest.param("a.json", "{", id="broken JSON"),
    ],
)
def test_other_content_is_refused_with_the_name_of_the_file(tmp_path, name, text):
    (tmp_path / name).write_text(text)

    with pytest.raises(BootError, match=f"^{name}: "):
        read_labels(tmp_path / name)


def test_labels_are_found(tmp_path):
    assert find_labels(tmp_path) is None
    (tmp_path / "index_to_name.json").write_text(json.dumps({"0": "third"}))
    (tmp_path / "synset.txt").write_text("second")

    assert find_labels(tmp_path) == ["second"]
    assert find_labels(tmp_path, "index_to_name.json") == ["third"]
    for missing in ("labels.txt", "../labels.txt", str(tmp_path / "synset.txt")):
        with pytest.raises(BootError, match="is not in the archive"):
            find_labels(tmp_path, missing)


# ------------------------------------------------------------ answers


@pytest.mark.parametrize(
    ("options", "scores", "activation"),
    [
        pytest.param({}, SCORES, "softmax", id="scores"),
        pytest.param({}, CERTAIN, "none", id="probabilities"),
        pytest.param({"activation": "softmax"}, CERTAIN, "softmax", id="the option decides"),
        pytest.param({}, [[-3.0], [4.0]], "sigmoid", id="one score"),
        pytest.param({}, [[0.3], [0.9]], "none", id="one probability"),
    ],
)
def test_what_makes_probabilities_is_found_out(options, scores, activation):
    output = ClassOutput(OutputOptions(**options), None)
    output.settle(scores)

    assert output.activation == activation


def test_answers():
    output = ClassOutput(OutputOptions(top=1), ["a", "b", "c"])
    scores = SCORES.reshape(2, 3, 1, 1)
    output.settle(scores)

    assert [[each.label for each in row] for row in output.answers(scores)] == [["b"], ["c"]]
    assert output.answers(scores)[0][0].probability == pytest.approx(0.6652, abs=1e-4)


def test_another_number_of_labels_is_refused():
    with pytest.raises(BootError, match=r"\[options.output\] labels: 2 labels for 3 classes"):
        ClassOutput(OutputOptions(), ["a", "b"]).settle(SCORES)
