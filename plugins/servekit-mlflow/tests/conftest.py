# SPDX-License-Identifier: Apache-2.0
"""MLflow models, written once by a process of their own: MLflow warns of much that is not ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Return a directory with a model directory for each kind: ``iris``, ``odd`` ..."""
    pytest.importorskip("mlflow")
    top = tmp_path_factory.mktemp("mlflow")
    command = [sys.executable, str(Path(__file__).with_name("save_models.py")), str(top)]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    done = subprocess.run(
        command,
        cwd=top,  # MLflow may write its tracking store, mlruns, to the working directory
        env=environment,
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return top
