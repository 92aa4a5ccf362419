# SPDX-License-Identifier: Apache-2.0
"""The server does what ``/openapi.json`` says of it: schemathesis, with all of its checks."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from .conftest import BIN

MODELS = Path(__file__).parent / "models"
ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_every_answer_is_one_that_is_described(serve, tmp_path):
    server = serve("--models", ROOT / "examples/echo", MODELS / "points", MODELS / "highest")
    arguments = ["--checks", "all", "--phases", "examples,coverage,fuzzing", "--seed", "1"]
    arguments += ["--max-examples", "15", "--generation-database", "none", "--no-color"]
    hooks = {"SCHEMATHESIS_HOOKS": "tests.e2e.schemathesis_hooks", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [BIN / "st", "run", f"{server.url}/openapi.json", *arguments],
        cwd=tmp_path, env=os.environ | hooks, capture_output=True, text=True, timeout=110,
        check=False,
    )  # fmt: skip

    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert int(re.search(r"Selected: (\d+)/\1\b", run.stdout)[1]) >= 12
