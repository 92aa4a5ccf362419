# SPDX-License-Identifier: Apache-2.0
"""The hook module: light to import, and exact about what it claims."""

import subprocess
import sys

import pytest
from servekit_sklearn import hooks

PICKLE = {"service": "sklearn", "options": {"file": "model.pkl"}}


def test_importing_the_hook_module_imports_nothing_heavy():
    code = "import servekit_sklearn.hooks, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not {"numpy", "sklearn", "joblib", "skops", "scipy"} & set(loaded)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(["a.joblib"], {"service": "sklearn"}, id="one joblib file is claimed"),
        pytest.param(["model.pkl", "b.pkl"], PICKLE, id="a pickle that is called model"),
        pytest.param(["vocabulary.pkl"], None, id="a pickle may hold anything"),
        pytest.param(["a.skops", "README.md"], {"service": "sklearn"}, id="others may lie beside"),
        pytest.param(["a.joblib", "b.skops"], None, id="two are ambiguous"),
        pytest.param(["a.onnx"], None, id="another format is left alone"),
        pytest.param([], None, id="an empty directory is left alone"),
    ],
)
def test_recognise_model(tmp_path, files, expected):
    for name in files:
        (tmp_path / name).touch()

    assert hooks.recognise_model(tmp_path) == expected
