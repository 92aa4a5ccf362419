# SPDX-License-Identifier: Apache-2.0
"""The service ``trees``: both libraries, their objectives, their files, and what does not fit."""

import logging

import numpy as np
import pandas as pd
import pytest

try:
    import lightgbm
    import xgboost
except (ImportError, OSError) as error:  # LightGBM needs libgomp of the system
    pytest.skip(str(error), allow_module_level=True)

from servekit_trees import hooks
from servekit_trees.service import TreesService

from servekit import Context
from servekit.errors import BootError
from servekit.testing import ServiceClient

RANDOM = np.random.default_rng(3)
ROWS = RANDOM.random((200, 4)).astype("float32")
CLASSES = (ROWS[:, 0] * 3).astype(int)
NAMES = ["width", "length", "age", "size"]


def boosted(path, objective, target, names=None, **more):
    """Train and save a model; return what its library predicts for ``ROWS``."""
    target = np.array(target)
    if path.suffix == ".txt":
        settings = {"objective": objective, "verbose": -1, "num_threads": 1, **more}
        data = lightgbm.Dataset(ROWS, target, feature_name=names or "auto")
        model = lightgbm.train(settings, data, 4)
        model.save_model(path)
        return model.predict(ROWS)
    settings = {"objective": objective, "nthread": 1, **more}
    model = xgboost.train(settings, xgboost.DMatrix(ROWS, target, feature_names=names), 4)
    model.save_model(path)
    return model.predict(xgboost.DMatrix(ROWS, feature_names=names))


@pytest.fixture
def load(tmp_path):
    def load(signature=None, **options):
        service = TreesService()
        service.signature = signature
        service.load(
            Context(
                model="m",
                version="1",
                directory=tmp_path,
                replica=0,
                max_batch_size=8,
                threads=1,
                options=options,
                logger=logging.getLogger("m"),
            )
        )
        return service

    return load


@pytest.mark.parametrize(
    ("file", "objective"),
    [
        ("m.ubj", "multi:softprob"),
        ("m.json", "multi:softprob"),
        ("m.txt", "multiclass"),
        ("m.txt", "multiclassova"),
    ],
)
def test_classes(load, tmp_path, file, objective):
    expected = boosted(tmp_path / file, objective, CLASSES, num_class=3)
    outputs = load().predict({"x": ROWS})

    assert outputs["probabilities"] == pytest.approx(expected)
    assert outputs["label"].tolist() == expected.argmax(axis=1).tolist()


def test_a_worker_can_load_it(tmp_path):
    expected = boosted(tmp_path / "m.ubj", "multi:softprob", CLASSES, num_class=3)
    with ServiceClient(TreesService, tmp_path) as client:
        (answer,) = client.predict([{"x": ROWS[0].tolist()}])

    assert answer["probabilities"] == pytest.approx(expected[0].tolist())


@pytest.mark.parametrize(("file", "objective"), [("m.ubj", "binary:logistic"), ("m.txt", "binary")])
def test_two_classes_with_labels(load, tmp_path, file, objective):
    expected = boosted(tmp_path / file, objective, CLASSES > 1)
    service = load(labels=["no", "yes"])
    outputs = service.predict({"x": ROWS})

    assert outputs["probabilities"] == pytest.approx(np.stack([1 - expected, expected], axis=1))
    assert outputs["label"].tolist() == np.where(expected > 0.5, "yes", "no").tolist()
    assert service.signature["outputs"][0]["dtype"] == "str"


def test_softmax_has_probabilities_too(load, tmp_path):
    expected = boosted(tmp_path / "m.ubj", "multi:softmax", CLASSES, num_class=3)
    outputs = load().predict({"x": ROWS})

    assert outputs["label"].tolist() == expected.tolist()
    assert outputs["probabilities"].sum(axis=1) == pytest.approx(np.ones(200))


@pytest.mark.parametrize(
    ("file", "objective"), [("m.ubj", "reg:squarederror"), ("m.txt", "regression")]
)
def test_numbers(load, tmp_path, file, objective):
    expected = boosted(tmp_path / file, objective, ROWS[:, 1])
    service = load()

    assert service.predict({"x": ROWS}) == pytest.approx(expected)
    assert [each["name"] for each in service.signature["outputs"]] == ["prediction"]


@pytest.mark.parametrize(("file", "objective"), [("m.ubj", "binary:logistic"), ("m.txt", "binary")])
def test_raw_scores_are_before_the_objective(load, tmp_path, file, objective):
    expected = boosted(tmp_path / file, objective, CLASSES > 1)

    assert 1 / (1 + np.exp(-load(raw=True).predict({"x": ROWS}))) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("file", "objective"), [("m.ubj", "reg:squarederror"), ("m.txt", "regression")]
)
def test_named_columns_are_inputs_in_any_order(load, tmp_path, file, objective):
    expected = boosted(tmp_path / file, objective, ROWS[:, 1], NAMES)
    service = load()
    batch = {name: ROWS[:, place] for place, name in reversed([*enumerate(NAMES)])}

    assert [each["name"] for each in service.signature["inputs"]] == NAMES
    assert service.predict(batch) == pytest.approx(expected)


def test_the_best_iteration_predicts(load, tmp_path):
    train, rest = xgboost.DMatrix(ROWS, CLASSES), xgboost.DMatrix(ROWS, RANDOM.random(200))
    model = xgboost.train(
        {"nthread": 1}, train, 30, evals=[(rest, "r")], early_stopping_rounds=2, verbose_eval=False
    )
    model.save_model(tmp_path / "m.ubj")
    best = model.predict(train, iteration_range=(0, model.best_iteration + 1))

    assert model.best_iteration < model.num_boosted_rounds() - 1
    assert load().predict({"x": ROWS}) == pytest.approx(best)


def test_missing_values_are_predicted(load, tmp_path):
    boosted(tmp_path / "m.ubj", "reg:squarederror", ROWS[:, 1])

    assert np.isfinite(load().predict({"x": np.full((2, 4), np.nan, "float32")})).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": ["a"]}, "labels: 1, but the model has 3 classes"),
        ({"file": "n.ubj"}, "'n.ubj' is not in the archive"),
        ({"rwa": True}, "rwa: unknown option, did you mean raw?"),
    ],
)
def test_options_that_do_not_fit_are_named(load, tmp_path, options, message):
    boosted(tmp_path / "m.ubj", "multi:softprob", CLASSES, num_class=3)

    with pytest.raises(BootError, match=message.replace("?", r"\?")):
        load(**options)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([("x", [3])], "has 3 numbers, the model takes 4"),
        ([("width", []), ("length", [])], "lacks age, size"),
    ],
)
def test_a_signature_that_does_not_fit_is_refused(load, tmp_path, inputs, message):
    boosted(tmp_path / "m.ubj", "reg:squarederror", ROWS[:, 1], NAMES)
    declared = [{"name": name, "dtype": "float32", "shape": shape} for name, shape in inputs]

    with pytest.raises(BootError, match=message):
        load({"inputs": declared, "outputs": []})


def test_categories_of_pandas_are_refused(load, tmp_path):
    frame = pd.DataFrame({"a": ROWS[:, 0], "c": pd.Categorical(["u", "v"] * 100)})
    data = lightgbm.Dataset(frame, CLASSES)
    model = lightgbm.train({"objective": "regression", "verbose": -1}, data, 2)
    model.save_model(tmp_path / "m.txt")

    with pytest.raises(BootError, match="categories of pandas"):
        load()


@pytest.mark.parametrize("file", ["m.ubj", "m.txt"])
def test_a_damaged_file_is_refused(load, tmp_path, file):
    objective = "regression" if file == "m.txt" else "reg:squarederror"
    boosted(tmp_path / file, objective, ROWS[:, 1])
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[: len(content) // 2])

    with pytest.raises(BootError, match=f"{file}: (xgboost cannot read it|the end of the file)"):
        load()


def test_directories_are_recognised_by_content(tmp_path):
    (tmp_path / "labels.txt").write_text("a\nb\n")
    (tmp_path / "config.json").write_text('{"learning": 1}')
    assert hooks.recognise_model(tmp_path) is None

    boosted(tmp_path / "m.txt", "regression", ROWS[:, 1])
    assert hooks.recognise_model(tmp_path) == {"service": "trees"}

    boosted(tmp_path / "m.json", "reg:squarederror", ROWS[:, 1])
    assert hooks.recognise_model(tmp_path) is None  # two models
