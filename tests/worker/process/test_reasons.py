# SPDX-License-Identifier: Apache-2.0
"""The one line that says why a service could not be loaded."""

import importlib.util

import pytest

from servekit.worker.process.tracebacks import reason_of


def test_a_failed_import_names_the_line_that_imports_and_not_the_import_system(tmp_path):
    module = tmp_path / "plugin.py"
    module.write_text("import os\nimport absent_module\n")
    spec = importlib.util.spec_from_file_location("plugin", module)
    with pytest.raises(ModuleNotFoundError) as raised:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))

    reason = reason_of(raised.value, str(tmp_path / "model"))

    assert reason == f"ModuleNotFoundError: No module named 'absent_module' ({module}:2)"
