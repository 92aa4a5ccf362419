# SPDX-License-Identifier: Apache-2.0
"""Model directories, sound archives, and archives forged record by record."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from servekit_archiver import build_archive

from archiver.tests.forging import Forge

MODEL_TOML = """
name = "digits"
service = "service:Digits"
options = { depth = 3 }
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model directory with one of each kind of file."""
    return write_tree(
        tmp_path / "digits",
        {
            "model.toml": MODEL_TOML,
            "service.py": "class Digits: ...\n" * 20,
            "weights.npy": bytes(range(256)) * 8,
            "data/labels.txt": "zero one two\n" * 9,
            "data/empty": "",
        },
    )


@pytest.fixture
def archive(model: Path, tmp_path: Path) -> Path:
    """A sound archive of ``model``."""
    return build_archive(model, tmp_path / "digits.mar").path


@pytest.fixture
def tree() -> Callable[[Path, Mapping[str, str | bytes]], Path]:
    """Write a directory: name to content."""
    return write_tree


def write_tree(directory: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return directory


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    return Forge(tmp_path / "forged.mar")
