# SPDX-License-Identifier: Apache-2.0
"""An environment with KServe's SDK."""

import os
import subprocess
import venv
from pathlib import Path

import pytest

SDK = "kserve==0.21.0"  # its packages conflict with ours, so it has an environment to itself
PLACE = Path(__file__).parents[3] / "build" / SDK.replace("==", "-")


@pytest.fixture(scope="session")
def sdk():
    """Return the interpreter of an environment with the SDK: KSERVE_PYTHON, or one made here."""
    given = os.environ.get("KSERVE_PYTHON")
    python = Path(given) if given else PLACE / "bin" / "python"
    if not python.exists():
        venv.create(PLACE, with_pip=True)
    ask = [python, "-c", "import kserve"]
    if subprocess.run(ask, capture_output=True, check=False).returncode:
        pip = [python, "-m", "pip", "install", "--quiet", SDK]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{SDK} cannot be installed: {done.stderr.strip()[-300:]}")
    return str(python)
