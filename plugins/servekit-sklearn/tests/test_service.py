# SPDX-License-Identifier: Apache-2.0
"""The service ``sklearn``, driven as a worker drives it."""

import re

import joblib
import numpy as np
import pytest
from servekit_sklearn.service import _limit_jobs
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from servekit import InputError
from servekit.errors import BootError

pytestmark = pytest.mark.slow

ROWS, LABELS = load_iris(return_X_y=True)
ROWS = StandardScaler().fit_transform(ROWS)
X = {"name": "x", "dtype": "float64", "shape": [4]}


def classifier():
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(ROWS, LABELS)


@pytest.mark.parametrize("suffix", [".joblib", ".skops"])
def test_a_classifier_answers_label_and_probabilities(load, suffix):
    model = classifier()
    outputs = load(model, suffix=suffix).predict({"x": ROWS[:5]})

    assert outputs["label"].tolist() == model.predict(ROWS[:5]).tolist()
    assert outputs["probabilities"] == pytest.approx(model.predict_proba(ROWS[:5]))


@pytest.mark.parametrize(
    ("model", "method", "outputs"),
    [
        pytest.param(
            classifier(), "auto", [("label", "int64", []), ("probabilities", "float64", [3])],
            id="a classifier gives label and probabilities",
        ),
        pytest.param(
            LinearSVC().fit(ROWS, LABELS), "auto", [("label", "int64", [])],
            id="a classifier without probabilities gives the label",
        ),
        pytest.param(
            classifier(), "decision_function", [("decision", "float64", [3])],
            id="a method that is asked for is the only output",
        ),
        pytest.param(
            LinearRegression().fit(ROWS, ROWS[:, :2]), "auto", [("prediction", "float64", [2])],
            id="a regressor gives its prediction",
        ),
        pytest.param(
            KMeans(3, n_init=1).fit(ROWS), "auto", [("prediction", "int32", [])],
            id="what can predict and transform predicts",
        ),
        pytest.param(
            StandardScaler().fit(ROWS), "auto", [("features", "float64", [4])],
            id="a transformer gives features",
        ),
        pytest.param(
            MultiOutputClassifier(LogisticRegression()).fit(ROWS, np.c_[LABELS, LABELS]), "auto",
            [("label", "int64", [2])],
            id="a classifier of several labels gives the labels",
        ),
        pytest.param(
            LogisticRegression().fit(ROWS, np.array(["a", "b", "c"])[LABELS]), "predict",
            [("label", "str", [])],
            id="labels may be text",
        ),
    ],
)  # fmt: skip
def test_the_signature_is_read_from_the_estimator(load, model, method, outputs):
    service = load(model, method=method)
    described = [tuple(tensor.values()) for tensor in service.signature["outputs"]]

    assert service.signature["inputs"] == [X]
    assert described == outputs


def test_an_input_with_a_nan_is_refused_and_its_neighbours_are_answered(load):
    rows = ROWS[[0, 60, 120]].copy()
    rows[1, 2] = np.nan
    first, refused, last = load(classifier()).predict({"x": rows})

    assert isinstance(refused, InputError)
    assert (first["label"], last["label"]) == (0, 2)


def test_a_text_pipeline_takes_text_and_refuses_what_is_not(load):
    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    service = load(model.fit(["good", "fine", "bad", "poor"], ["+", "+", "-", "-"]))
    good, number, bad = service.predict(["good", 7, "bad"])

    assert service.signature is None
    assert (good["label"], bad["label"]) == ("+", "-")
    assert isinstance(number, InputError)


def test_named_columns_become_inputs_in_the_order_of_training(load):
    model = LinearRegression().fit(ROWS[:, :2], LABELS)
    model.feature_names_in_ = np.array(["width", "length"], dtype=object)
    service = load(model)
    columns = {"length": ROWS[:3, 1], "width": ROWS[:3, 0]}

    assert [tensor["name"] for tensor in service.signature["inputs"]] == ["width", "length"]
    assert service.predict(columns) == pytest.approx(model.predict(ROWS[:3, :2]))


def test_a_declared_signature_is_kept_and_its_shape_flattened(load):
    image = {"name": "image", "dtype": "float32", "shape": [2, 2]}
    declared = {"inputs": [image], "outputs": []}
    service = load(classifier(), method="predict", signature=declared)

    assert service.signature["inputs"] == [image]
    assert service.predict({"image": ROWS[:3].reshape(3, 2, 2)}).tolist() == [0, 0, 0]


def test_nested_estimators_get_the_threads_of_the_worker():
    model = make_pipeline(StandardScaler(), RandomForestClassifier(5, n_jobs=-1))
    _limit_jobs(model, threads=3)

    assert model.get_params()["randomforestclassifier__n_jobs"] == 3


def test_a_signature_without_a_trained_column_is_refused_by_name(load):
    model = LinearRegression().fit(ROWS[:, :2], LABELS)
    model.feature_names_in_ = np.array(["width", "length"], dtype=object)

    with pytest.raises(BootError, match="trained with: length, width"):
        load(model, signature={"inputs": [X, X | {"name": "y"}], "outputs": []})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"file": "b.joblib"}, "'b.joblib' is not in the archive", id="missing file"),
        pytest.param(
            {"fiel": "x"}, "fiel: unknown option, did you mean file?", id="unknown option"
        ),
        pytest.param({"method": "guess"}, "Invalid enum value 'guess'", id="unknown method"),
        pytest.param({"method": "transform"}, "Pipeline has no transform()", id="lacking method"),
    ],
)
def test_wrong_options_are_named(load, options, message):
    with pytest.raises(BootError, match=re.escape(message)):
        load(classifier(), **options)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"weights": [1.0]}, "holds an object of type dict, expected a fitted estimator"),
        (np.ones(3), "holds an object of type memmap"),
        (None, "holds an object of type NoneType"),
        (LogisticRegression, "holds the class LogisticRegression"),
    ],
    ids=["mapping", "array", "nothing", "class"],
)
def test_a_file_without_an_estimator_is_refused(load, tmp_path, held, said):
    joblib.dump(held, tmp_path / "model.joblib")

    with pytest.raises(BootError, match=f"model.joblib: {said}"):
        load()
