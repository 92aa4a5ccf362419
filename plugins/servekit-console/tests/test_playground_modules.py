# SPDX-License-Identifier: Apache-2.0
"""The scripts of the playground that need no page, run by Node."""

import shutil
import subprocess
from pathlib import Path

import pytest

NODE = shutil.which("node")
TESTS = Path(__file__).with_name("playground_test.mjs")


@pytest.mark.skipif(NODE is None, reason="needs Node")
def test_what_the_scripts_compute():
    done = subprocess.run(
        [NODE, "--test", TESTS], capture_output=True, text=True, timeout=240, check=False
    )

    assert done.returncode == 0, done.stdout
