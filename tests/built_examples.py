# SPDX-License-Identifier: Apache-2.0
"""The examples as their READMEs say: trained and built."""

import shutil
import subprocess
import sys
from pathlib import Path

from servekit_archiver import build_archive

EXAMPLES = Path(__file__).parents[1] / "examples"
MADE = ("*.joblib", "*.onnx", "weights", "__pycache__")


def build(name: str, directory: Path) -> Path:
    """Copy an example as git holds it to *directory*, train it there, and return its archive."""
    made = shutil.ignore_patterns(*MADE)
    model = Path(shutil.copytree(EXAMPLES / name, directory / name, ignore=made))
    if (model / "train.py").exists():
        command = [sys.executable, str(model / "train.py")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return build_archive(model, directory / f"{name}.mar").path
