# SPDX-License-Identifier: Apache-2.0
"""The hook module is light to import."""

import subprocess
import sys


def test_importing_the_hook_module_imports_nothing_heavy():
    code = "import servekit_trees.hooks, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not {"numpy", "xgboost", "lightgbm"} & set(loaded)
