# SPDX-License-Identifier: Apache-2.0
"""The hook module: light to import, and exact about what it claims."""

import subprocess
import sys

import pytest
from servekit_onnx import hooks


def test_importing_the_hook_module_imports_nothing_heavy():
    code = "import servekit_onnx.hooks, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not {"numpy", "onnxruntime", "onnx"} & set(loaded)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(["a.onnx"], {"service": "onnx"}, id="one graph is claimed"),
        pytest.param(["a.onnx", "a.data"], {"service": "onnx"}, id="its data may lie beside"),
        pytest.param(["a.onnx", "b.onnx"], None, id="two are ambiguous"),
        pytest.param(["a.joblib"], None, id="another format is left alone"),
        pytest.param([], None, id="an empty directory is left alone"),
    ],
)
def test_recognise_model(tmp_path, files, expected):
    for name in files:
        (tmp_path / name).touch()

    assert hooks.recognise_model(tmp_path) == expected
