# SPDX-License-Identifier: Apache-2.0
"""Reading model files: mapped, trusted, and honest about versions."""

import logging

import joblib
import numpy as np
import pytest
import sklearn
from servekit_sklearn.reading import read_model
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from skops import io

from servekit.errors import BootError

LOGGER = logging.getLogger("m")


class Doubler(TransformerMixin, BaseEstimator):
    """A step of the author's own, unknown to skops."""

    def transform(self, rows):
        return rows * 2


@pytest.mark.parametrize(
    ("compress", "kind"),
    [
        pytest.param(0, np.memmap, id="an uncompressed file is mapped"),
        pytest.param(3, np.ndarray, id="a compressed file is read"),
    ],
)
def test_joblib_files_are_mapped_where_they_can_be(tmp_path, caplog, compress, kind):
    path = tmp_path / "model.joblib"
    joblib.dump({"weights": np.ones((512, 8))}, path, compress=compress)
    weights = read_model(path, [], LOGGER)["weights"]

    assert type(weights) is kind
    assert not caplog.records


def test_untrusted_types_of_a_skops_file_are_named(tmp_path):
    path = tmp_path / "model.skops"
    io.dump(make_pipeline(Doubler(), LogisticRegression()), path)
    name = f"{Doubler.__module__}.Doubler"

    with pytest.raises(BootError, match=f"not trusted: {name}; name those"):
        read_model(path, ["another.Type"], LOGGER)
    assert isinstance(read_model(path, [name], LOGGER)[0], Doubler)


def test_another_version_of_sklearn_is_told_once(tmp_path, caplog, monkeypatch):
    path = tmp_path / "model.joblib"
    monkeypatch.setattr(sklearn.base, "__version__", "1.0")
    joblib.dump(make_pipeline(Doubler(), LogisticRegression()), path)
    monkeypatch.undo()
    read_model(path, [], LOGGER)
    told = f"saved by scikit-learn 1.0 and is served by {sklearn.__version__}: answers may differ"

    assert caplog.messages == [f"model.joblib was {told}"]
