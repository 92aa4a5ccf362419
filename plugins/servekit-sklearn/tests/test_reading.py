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

pytestmark = pytest.mark.slow

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


def saved(path, compress=0):
    """Return the bytes of a fitted estimator, as *path* would hold it."""
    model = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    if path.suffix == ".skops":
        io.dump(model, path)
    else:
        joblib.dump(model, path, compress=compress)
    return path.read_bytes()


def wrongly(body):
    """Yield *body* cut short, followed by more, and with a byte of it changed."""
    yield from (b"", b"\x80", b"\x80\x04", b"\x80\x09.", b"PK\x03\x04", b"no model", b"\0" * 64)
    yield from (body[:end] for end in range(1, len(body), max(1, len(body) // 40)))
    for place in range(0, len(body), max(1, len(body) // 40)):
        yield body[:place] + bytes([body[place] ^ 0x40]) + body[place + 1 :]


def refused(path, bodies):
    """Return why some of *bodies* were refused; the others are models."""
    reasons = []
    for body in bodies:
        path.write_bytes(body)
        try:
            read_model(path, [], LOGGER)
        except BootError as error:
            reasons.append(error)
    for error in reasons:
        assert str(error).startswith(path.name)
        assert "\n" not in str(error)
        assert error.__suppress_context__ or error.__context__ is None
    return len(reasons)


@pytest.mark.parametrize("compress", [0, 3, ("gzip", 3), ("bz2", 3), ("xz", 3)], ids=str)
def test_a_broken_joblib_file_is_refused_in_one_line(tmp_path, compress):
    path = tmp_path / "model.joblib"
    body = saved(path, compress)
    cut = [each for each in wrongly(body) if compress or body.startswith(each)]

    assert refused(path, cut) > len(cut) // 2


def test_a_broken_skops_file_is_refused_in_one_line(tmp_path):
    path = tmp_path / "model.skops"
    broken = list(wrongly(saved(path)))

    assert refused(path, broken) > len(broken) // 2


def test_a_model_whose_module_is_missing_names_it(tmp_path):
    path = tmp_path / "model.joblib"
    path.write_bytes(b"\x80\x04cnobody.wrote.this\nModel\n.")

    with pytest.raises(BootError, match=r"model.joblib: joblib cannot read it \(Mod.*'nobody'"):
        read_model(path, [], LOGGER)
