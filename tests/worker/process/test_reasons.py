# SPDX-License-Identifier: Apache-2.0
"""The one line that says why a service could not be loaded."""

import importlib.util

import pytest

from servekit.worker.process.tracebacks import reason_of


def test_a_failed_import_names_the_line_that_imports(tmp_path, monkeypatch):
    model = tmp_path / "model"
    model.mkdir()
    monkeypatch.chdir(model)  # as a worker does: <frozen importlib> looks like a file in it
    module = tmp_path / "plugin.py"
    module.write_text("import os\nimport absent_module\n")
    spec = importlib.util.spec_from_file_location("plugin", module)
    with pytest.raises(ModuleNotFoundError) as raised:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))

    reason = reason_of(raised.value, str(model))

    assert reason == f"ModuleNotFoundError: No module named 'absent_module' ({module}:2)"
