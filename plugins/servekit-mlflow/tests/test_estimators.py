# SPDX-License-Identifier: Apache-2.0
"""Which estimators get an array in place of a data frame."""

import numpy as np
import pytest
from servekit_mlflow.estimators import takes_array
from servekit_mlflow.layout import Layout
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

pytestmark = pytest.mark.slow

pd = pytest.importorskip("pandas")
ROWS = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [3.0, 1.0, 2.0, 0.0]})
LABELS = [0, 1, 0, 1]


def layout(*columns):
    inputs = [{"name": name, "dtype": dtype, "shape": []} for name, dtype in columns]
    return Layout(inputs, [], is_table=True, is_bare=False)


SAME = layout(("a", "float64"), ("b", "float64"))


class Own(LogisticRegression):
    """Not of scikit-learn."""


def by_name():
    return ColumnTransformer([("a", StandardScaler(), ["a"])])


@pytest.mark.parametrize(
    ("model", "columns", "expected"),
    [
        pytest.param(LogisticRegression(), SAME, True, id="an estimator"),
        pytest.param(RandomForestClassifier(5), SAME, True, id="a forest"),
        pytest.param(make_pipeline(StandardScaler(), LogisticRegression()), SAME, True, id="steps"),
        pytest.param(make_pipeline(by_name(), LogisticRegression()), SAME, False, id="by name"),
        pytest.param(
            make_pipeline(FunctionTransformer(np.abs), LogisticRegression()), SAME, False,
            id="a function",
        ),
        pytest.param(
            VotingClassifier([("a", LogisticRegression())]), SAME, False, id="nested estimators"
        ),
        pytest.param(Own(), SAME, False, id="a class of one's own"),
        pytest.param(
            LogisticRegression(), layout(("b", "float64"), ("a", "float64")), False, id="order"
        ),
        pytest.param(
            LogisticRegression(), layout(("a", "float64"), ("b", "bool")), False, id="a boolean"
        ),
    ],
)  # fmt: skip
def test_what_takes_an_array(model, columns, expected):
    model.fit(ROWS, LABELS)

    assert takes_array(model, columns) == expected


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_an_array_gives_what_a_data_frame_gives():
    model = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0))
    model.fit(ROWS, LABELS)

    assert model.predict_proba(ROWS.to_numpy()).tolist() == model.predict_proba(ROWS).tolist()
