# SPDX-License-Identifier: Apache-2.0
"""Limits of a worker."""

import subprocess
import sys
from pathlib import Path

CODE = """
import ctypes, resource
from servekit.worker.process.setup import forbid_core_dumps
resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
forbid_core_dumps()
ctypes.string_at(0)
"""


def test_a_worker_with_a_secret_leaves_no_core_dump(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, check=False
    )

    assert done.returncode == -11
    assert list(Path(tmp_path).iterdir()) == []
